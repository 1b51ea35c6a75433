// LibTorch's own dense attention on the CPU, as the figure to compare with. No LibTorch type is visible here.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace headscope::benchmarks {

// Causal scaled_dot_product_attention on fp32 [1, num_qo_heads, seq_len, head_dim]. K and V are repeated for the query
// heads of their group before any timing, which favours LibTorch: a grouped call would have to do it inside.
class LibTorchAttention {
 public:
  // q [num_qo_heads, seq_len, head_dim]; k and v [num_kv_heads, seq_len, head_dim], all contiguous. Copies them.
  LibTorchAttention(const float* q, const float* k, const float* v, int64_t num_qo_heads, int64_t num_kv_heads,
                    int64_t seq_len, int64_t head_dim, int num_threads);
  ~LibTorchAttention();
  // One forward pass; the result is kept for Output().
  void Run();
  // [num_qo_heads, seq_len, head_dim] of the last Run().
  std::vector<float> Output() const;

 private:
  struct Tensors;
  std::unique_ptr<Tensors> tensors_;
};

}  // namespace headscope::benchmarks
