// What one decode step attends to.
#pragma once

#include <cstdint>
#include <vector>

namespace headscope::kernels {

// What a decode method keeps for one query token per sequence: a sorted token list per (batch, KV head), and SparQ's
// mean-value term.
struct DecodeSelection {
  int32_t batch = 1;
  int32_t num_qo_heads = 0;
  int32_t num_kv_heads = 0;
  std::vector<int64_t> token_begin;  // [batch * num_kv_heads + 1], CSR
  std::vector<int32_t> tokens;       // strictly increasing inside a list
  // y = alpha * attention over the tokens + (1 - alpha) * mean_value. Empty: alpha is 1 and there is no mean-value
  // term.
  std::vector<float> alpha;       // [batch, num_qo_heads], in [0, 1]
  std::vector<float> mean_value;  // [batch, num_kv_heads, head_dim]
  // Elements of K, V and the mean moved per KV head by selection and attention (SparQ, equation 11, and its
  // equivalents), for the cost columns.
  int64_t elements_moved = 0;
};

}  // namespace headscope::kernels
