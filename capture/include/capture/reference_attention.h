// LibTorch's own dense attention on given tensors: the yardstick that our executors are compared with in one run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "capture/errors.h"

namespace headscope::capture {

// One causal prompt in host memory, contiguous.
struct ReferenceAttentionProblem {
  const void* q = nullptr;  // [num_qo_heads, seq_len, head_dim]
  const void* k = nullptr;  // [num_kv_heads, seq_len, head_dim]
  const void* v = nullptr;  // [num_kv_heads, seq_len, head_dim]
  bool is_bf16 = false;     // else fp32
  int32_t num_qo_heads = 0;
  int32_t num_kv_heads = 0;  // divides num_qo_heads
  int32_t head_dim = 0;
  int64_t seq_len = 0;
  double scale = 0;  // 0: head_dim^-0.5
};

struct ReferenceAttentionOptions {
  std::string device = "cpu";  // cpu: LibTorch's fused CPU kernel. cuda, cuda:N: cuDNN's (bf16 only), on copies made
                               // before the clock starts
  int32_t num_threads = 0;     // 0: all cores; a setting of the process
  int32_t repeats = 5;
  int32_t warm_up = 1;
};

// Seconds of each repeat. When not null, `output` takes O [num_qo_heads, seq_len, head_dim] as fp32 and `lse`
// [num_qo_heads, seq_len] the natural-log log-sum-exp, of the last run. Throws DeviceError, std::invalid_argument.
std::vector<double> RunReferenceAttention(const ReferenceAttentionProblem& problem,
                                          const ReferenceAttentionOptions& options, float* output, float* lse);

}  // namespace headscope::capture
