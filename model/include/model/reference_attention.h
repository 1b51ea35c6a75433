// SPDX-License-Identifier: Apache-2.0
// LibTorch's own dense attention on given tensors: the yardstick that our executors are compared with in one run.
#pragma once

#include <cstdint>
#include <memory>

#include "base/device.h"
#include "base/element_type.h"
#include "base/errors.h"

namespace headscope::model {

// Tensors whose rows are contiguous. A prompt attends causally (seq_q == seq_len); a decode step has one query row, the
// newest token.
struct ReferenceAttentionProblem {
  const void* q = nullptr;  // [batch, num_qo_heads, seq_q, head_dim]
  const void* k = nullptr;  // [batch, num_kv_heads, seq_len, head_dim]
  const void* v = nullptr;  // [batch, num_kv_heads, seq_len, head_dim]
  bool on_device = false;   // q, k and v lie in the memory of the device that attends; else in host memory
  ElementType dtype = ElementType::kFloat32;
  int32_t batch = 1;
  int32_t num_qo_heads = 0;
  int32_t num_kv_heads = 0;  // divides num_qo_heads
  int32_t head_dim = 0;
  int64_t seq_len = 0;
  int64_t seq_q = 0;  // seq_len or 1; 0: seq_len
  double scale = 0;   // 0: head_dim^-0.5
  // Elements from one head to the next, of batch 1 on a CPU; 0: heads without gaps between them.
  int64_t q_head_stride = 0, kv_head_stride = 0;
};

// One problem, ready to be attended any number of times: by LibTorch's fused CPU kernel, or on a GPU by cuDNN's (bf16
// and fp16 only), called by name, so that no other implementation can step in unseen.
class ReferenceAttention {
 public:
  virtual ~ReferenceAttention() = default;

  // On a GPU the work is enqueued on the default stream. with_lse: makes the log-sum-exp too (the CPU always does).
  // Throws DeviceError.
  virtual void Run(bool with_lse = false) = 0;
  // Of the last run, as fp32 in host memory; waits for it. output: O of the first `num_rows` rows of [batch *
  // num_qo_heads * seq_q, head_dim]. lse: all, natural log, of a run with_lse.
  virtual void ReadOutput(int64_t num_rows, float* output) const = 0;
  virtual void ReadLse(float* lse) const = 0;
};

// device: cpu, cuda or cuda:N. num_threads: 0 for all cores; a setting of the process. Host tensors are copied to a GPU
// here; tensors that lie where they are used must outlive the result. Throws DeviceError, std::invalid_argument.
std::unique_ptr<ReferenceAttention> MakeReferenceAttention(const ReferenceAttentionProblem& problem,
                                                           const Device& device, int32_t num_threads);

}  // namespace headscope::model
