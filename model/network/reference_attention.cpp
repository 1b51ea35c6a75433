// SPDX-License-Identifier: Apache-2.0
#include "model/reference_attention.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>

#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <tuple>

#include "base/device.h"
#include "network/torch_library.h"
#include "network/torch_runtime.h"

namespace headscope::model {
namespace {

constexpr std::string_view kFewerTokens = "choose shorter lengths, fewer heads or a smaller batch";

void Check(const ReferenceAttentionProblem& problem) {
  const bool sizes = problem.batch > 0 && problem.num_qo_heads > 0 && problem.num_kv_heads > 0 &&
                     problem.num_qo_heads % problem.num_kv_heads == 0 && problem.head_dim > 0 && problem.seq_len > 0;
  if (!sizes) {
    throw std::invalid_argument(
        "batch, num_qo_heads, num_kv_heads (a divisor of it), head_dim and seq_len must be positive");
  }
  if (problem.seq_q != 0 && problem.seq_q != 1 && problem.seq_q != problem.seq_len) {
    throw std::invalid_argument("seq_q " + std::to_string(problem.seq_q) + ": it must be seq_len (a prompt) or 1");
  }
  if ((problem.q_head_stride != 0 || problem.kv_head_stride != 0) && problem.batch != 1)
    throw std::invalid_argument("batch " + std::to_string(problem.batch) + ": it must be 1 where heads have a stride");
  if (problem.q == nullptr || problem.k == nullptr || problem.v == nullptr)
    throw std::invalid_argument("q, k and v must be given");
}

class TorchAttention final : public ReferenceAttention {
 public:
  TorchAttention(const ReferenceAttentionProblem& problem, const Device& device, int32_t num_threads);

  void Run(bool with_lse) override;
  void ReadOutput(int64_t num_rows, float* output) const override;
  void ReadLse(float* lse) const override;

 private:
  at::Tensor q_, k_, v_;
  at::Tensor o_, lse_;
  c10::Device device_ = c10::kCPU;
  double scale_ = 0;
  bool causal_ = true;
};

TorchAttention::TorchAttention(const ReferenceAttentionProblem& problem, const Device& device, int32_t num_threads) {
  Check(problem);
  device_ = OpenDevice(device);
  const bool cuda = device_.is_cuda();
  if (cuda && (problem.q_head_stride != 0 || problem.kv_head_stride != 0))
    throw std::invalid_argument("on a GPU heads lie without gaps: leave the head strides 0");
  if (cuda && problem.dtype == ElementType::kFloat32)
    throw std::invalid_argument("cuDNN's attention takes bf16 and fp16 only; convert the tensors or use device cpu");
  SetTorchThreads(num_threads);
  const at::ScalarType type = ScalarTypeOf(problem.dtype);
  const int64_t seq_q = problem.seq_q == 0 ? problem.seq_len : problem.seq_q;
  causal_ = seq_q > 1;
  scale_ = problem.scale > 0 ? problem.scale : 1 / std::sqrt(static_cast<double>(problem.head_dim));

  const int64_t kv_heads = problem.num_kv_heads;
  const int64_t group = problem.num_qo_heads / kv_heads;
  const int64_t d = problem.head_dim;
  const auto wrap = [&](const void* data, const std::vector<int64_t>& sizes) {
    const c10::Device where = problem.on_device ? device_ : c10::Device(c10::kCPU);
    return at::from_blob(const_cast<void*>(data), sizes, at::TensorOptions(type).device(where)).to(device_);
  };
  try {
    if (cuda) {
      q_ = wrap(problem.q, {problem.batch, problem.num_qo_heads, seq_q, d});
      k_ = wrap(problem.k, {problem.batch, kv_heads, problem.seq_len, d});
      v_ = wrap(problem.v, {problem.batch, kv_heads, problem.seq_len, d});
    } else {
      // As in model/attention.cpp: a KV head is a batch entry, whose query heads see one copy of its keys.
      const int64_t entries = problem.batch * kv_heads;
      const std::vector<int64_t> shared = {entries, group, problem.seq_len, d};
      const int64_t q_stride = problem.q_head_stride != 0 ? problem.q_head_stride : seq_q * d;
      const int64_t kv_stride = problem.kv_head_stride != 0 ? problem.kv_head_stride : problem.seq_len * d;
      const auto heads = [&](const void* data, int64_t count, int64_t rows, int64_t entry_stride, int64_t stride) {
        return at::from_blob(const_cast<void*>(data), {entries, count, rows, d}, {entry_stride, stride, d, 1},
                             at::TensorOptions(type).device(at::kCPU));
      };
      q_ = heads(problem.q, group, seq_q, group * q_stride, q_stride);
      k_ = heads(problem.k, 1, problem.seq_len, kv_stride, kv_stride).expand(shared);
      v_ = heads(problem.v, 1, problem.seq_len, kv_stride, kv_stride).expand(shared);
    }
  } catch (...) {
    RethrowTorchError("copying Q, K and V of " + std::to_string(problem.seq_len) + " tokens", kFewerTokens);
  }
}

void TorchAttention::Run(bool with_lse) {
  const c10::InferenceMode no_gradients;
  try {
    if (device_.is_cuda()) {
      const auto result =
          at::_scaled_dot_product_cudnn_attention(q_, k_, v_, {}, with_lse, 0.0, causal_, false, scale_);
      o_ = std::get<0>(result);
      lse_ = std::get<1>(result);
    } else {
      std::tie(o_, lse_) = at::_scaled_dot_product_flash_attention_for_cpu(q_, k_, v_, 0.0, causal_, {}, scale_);
    }
  } catch (...) {
    RethrowTorchError("LibTorch's attention over " + std::to_string(k_.size(2)) + " tokens", kFewerTokens);
  }
}

void CopyToHost(const at::Tensor& from, float* to) {
  try {
    const at::Tensor host = from.to(at::kCPU, at::kFloat).contiguous();
    std::memcpy(to, host.const_data_ptr(), static_cast<size_t>(host.numel()) * sizeof(float));
  } catch (...) {
    RethrowTorchError("reading what LibTorch's attention made", kFewerTokens);
  }
}

void TorchAttention::ReadOutput(int64_t num_rows, float* output) const {
  if (!o_.defined()) throw std::invalid_argument("there is no output before the first Run");
  // The layout of O is LibTorch's choice: reshape gives rows in the order of Q's.
  CopyToHost(o_.reshape({-1, o_.size(-1)}).slice(0, 0, num_rows), output);
}

void TorchAttention::ReadLse(float* lse) const {
  if (!lse_.defined()) throw std::invalid_argument("there is no log-sum-exp before a Run that makes one");
  CopyToHost(lse_, lse);
}

}  // namespace

std::unique_ptr<ReferenceAttention> on_torch::MakeReferenceAttention(const ReferenceAttentionProblem& problem,
                                                                     const Device& device, int32_t num_threads) {
  return std::make_unique<TorchAttention>(problem, device, num_threads);
}

}  // namespace headscope::model
