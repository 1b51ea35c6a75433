#include "capture/reference_attention.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <tuple>

#include "model/torch_runtime.h"

namespace headscope::capture {
namespace {

constexpr std::string_view kFewerTokens = "choose shorter --lengths, fewer --heads or a smaller --batch";

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
  if (problem.q == nullptr || problem.k == nullptr || problem.v == nullptr)
    throw std::invalid_argument("q, k and v must be given");
}

}  // namespace

struct ReferenceAttention::Tensors {
  at::Tensor q, k, v;
  at::Tensor o, lse;
  c10::Device device = c10::kCPU;
  double scale = 0;
  bool causal = true;
};

ReferenceAttention::ReferenceAttention(const ReferenceAttentionProblem& problem, const std::string& device,
                                       int32_t num_threads)
    : tensors_(std::make_unique<Tensors>()) {
  Check(problem);
  tensors_->device = OpenDevice(device);
  const bool cuda = tensors_->device.is_cuda();
  if (cuda && problem.dtype == "fp32")
    throw std::invalid_argument("cuDNN's attention takes bf16 and fp16 only; convert the tensors or use device cpu");
  SetTorchThreads(num_threads);
  const at::ScalarType type = ParseScalarType(problem.dtype);
  const int64_t seq_q = problem.seq_q == 0 ? problem.seq_len : problem.seq_q;
  tensors_->causal = seq_q > 1;
  tensors_->scale = problem.scale > 0 ? problem.scale : 1 / std::sqrt(static_cast<double>(problem.head_dim));

  const int64_t kv_heads = problem.num_kv_heads;
  const int64_t group = problem.num_qo_heads / kv_heads;
  const int64_t d = problem.head_dim;
  const auto wrap = [&](const void* data, const std::vector<int64_t>& sizes) {
    const c10::Device where = problem.on_device ? tensors_->device : c10::Device(c10::kCPU);
    return at::from_blob(const_cast<void*>(data), sizes, at::TensorOptions(type).device(where)).to(tensors_->device);
  };
  try {
    if (cuda) {
      tensors_->q = wrap(problem.q, {problem.batch, problem.num_qo_heads, seq_q, d});
      tensors_->k = wrap(problem.k, {problem.batch, kv_heads, problem.seq_len, d});
      tensors_->v = wrap(problem.v, {problem.batch, kv_heads, problem.seq_len, d});
    } else {
      // As in model/attention.cpp: a KV head is a batch entry, whose query heads see one copy of its keys.
      const int64_t entries = problem.batch * kv_heads;
      const std::vector<int64_t> shared = {entries, group, problem.seq_len, d};
      tensors_->q = wrap(problem.q, {entries, group, seq_q, d});
      tensors_->k = wrap(problem.k, {entries, 1, problem.seq_len, d}).expand(shared);
      tensors_->v = wrap(problem.v, {entries, 1, problem.seq_len, d}).expand(shared);
    }
  } catch (...) {
    RethrowTorchError("copying Q, K and V of " + std::to_string(problem.seq_len) + " tokens", kFewerTokens);
  }
}

ReferenceAttention::~ReferenceAttention() = default;

void ReferenceAttention::Run(bool with_lse) {
  Tensors& t = *tensors_;
  const c10::InferenceMode no_gradients;
  try {
    if (t.device.is_cuda()) {
      const auto result =
          at::_scaled_dot_product_cudnn_attention(t.q, t.k, t.v, {}, with_lse, 0.0, t.causal, false, t.scale);
      t.o = std::get<0>(result);
      t.lse = std::get<1>(result);
    } else {
      std::tie(t.o, t.lse) = at::_scaled_dot_product_flash_attention_for_cpu(t.q, t.k, t.v, 0.0, t.causal, {}, t.scale);
    }
  } catch (...) {
    RethrowTorchError("LibTorch's attention over " + std::to_string(t.k.size(2)) + " tokens", kFewerTokens);
  }
}

namespace {

void CopyToHost(const at::Tensor& from, float* to) {
  try {
    const at::Tensor host = from.to(at::kCPU, at::kFloat).contiguous();
    std::memcpy(to, host.const_data_ptr(), static_cast<size_t>(host.numel()) * sizeof(float));
  } catch (...) {
    RethrowTorchError("reading what LibTorch's attention made", kFewerTokens);
  }
}

}  // namespace

void ReferenceAttention::ReadOutput(int64_t num_rows, float* output) const {
  if (!tensors_->o.defined()) throw std::invalid_argument("there is no output before the first Run");
  // The layout of O is LibTorch's choice: reshape gives rows in the order of Q's.
  CopyToHost(tensors_->o.reshape({-1, tensors_->o.size(-1)}).slice(0, 0, num_rows), output);
}

void ReferenceAttention::ReadLse(float* lse) const {
  if (!tensors_->lse.defined()) throw std::invalid_argument("there is no log-sum-exp before a Run that makes one");
  CopyToHost(tensors_->lse, lse);
}

void ReferenceAttention::Synchronize() const {
  if (!tensors_->device.is_cuda()) return;
  try {
    const c10::impl::VirtualGuardImpl guard(tensors_->device.type());
    guard.synchronizeDevice(tensors_->device.index());
  } catch (...) {
    RethrowTorchError("waiting for LibTorch's attention", kFewerTokens);
  }
}

}  // namespace headscope::capture
