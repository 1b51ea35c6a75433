#include "libtorch_attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

namespace headscope::benchmarks {

struct LibTorchAttention::Tensors {
  at::Tensor q, k, v, output;
};

LibTorchAttention::LibTorchAttention(const float* q, const float* k, const float* v, int64_t num_qo_heads,
                                     int64_t num_kv_heads, int64_t seq_len, int64_t head_dim, int num_threads)
    : tensors_(std::make_unique<Tensors>()) {
  at::set_num_threads(num_threads);
  const auto copy = [&](const float* data, int64_t heads) {
    // from_blob takes a mutable pointer; the clone is all that is kept.
    at::Tensor tensor = at::from_blob(const_cast<float*>(data), {1, heads, seq_len, head_dim}, at::kFloat).clone();
    return heads == num_qo_heads ? tensor : tensor.repeat_interleave(num_qo_heads / heads, 1).contiguous();
  };
  tensors_->q = copy(q, num_qo_heads);
  tensors_->k = copy(k, num_kv_heads);
  tensors_->v = copy(v, num_kv_heads);
}

LibTorchAttention::~LibTorchAttention() = default;

void LibTorchAttention::Run() {
  const c10::InferenceMode no_gradients(true);
  tensors_->output = at::scaled_dot_product_attention(tensors_->q, tensors_->k, tensors_->v, /*attn_mask=*/{},
                                                      /*dropout_p=*/0.0, /*is_causal=*/true);
}

std::vector<float> LibTorchAttention::Output() const {
  const at::Tensor output = tensors_->output.contiguous();
  const float* const data = output.const_data_ptr<float>();
  return {data, data + output.numel()};
}

}  // namespace headscope::benchmarks
