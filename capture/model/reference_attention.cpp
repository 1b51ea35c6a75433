#include "capture/reference_attention.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <tuple>

#include "model/torch_runtime.h"

namespace headscope::capture {
namespace {

void Check(const ReferenceAttentionProblem& problem, const ReferenceAttentionOptions& options) {
  const bool sizes = problem.num_qo_heads > 0 && problem.num_kv_heads > 0 &&
                     problem.num_qo_heads % problem.num_kv_heads == 0 && problem.head_dim > 0 && problem.seq_len > 0;
  if (!sizes)
    throw std::invalid_argument("num_qo_heads, num_kv_heads (a divisor of it), head_dim and seq_len must be positive");
  if (problem.q == nullptr || problem.k == nullptr || problem.v == nullptr)
    throw std::invalid_argument("q, k and v must be given");
  if (options.repeats < 1 || options.warm_up < 0)
    throw std::invalid_argument("repeats must be at least 1 and warm_up at least 0");
}

}  // namespace

std::vector<double> RunReferenceAttention(const ReferenceAttentionProblem& problem,
                                          const ReferenceAttentionOptions& options, float* output, float* lse) {
  Check(problem, options);
  const c10::Device device = OpenDevice(options.device);
  if (device.is_cuda() && !problem.is_bf16)
    throw std::invalid_argument("cuDNN's attention takes bf16 only; convert the tensors or use device cpu");
  SetTorchThreads(options.num_threads);
  const c10::InferenceMode no_gradients;
  const int64_t kv_heads = problem.num_kv_heads;
  const int64_t group = problem.num_qo_heads / kv_heads;
  // As in model/attention.cpp: a KV head is a batch entry, whose query heads see one copy of its keys.
  const auto wrap = [&](const void* data, int64_t heads_per_kv) {
    const auto type = problem.is_bf16 ? at::kBFloat16 : at::kFloat;
    const at::Tensor host =
        at::from_blob(const_cast<void*>(data), {kv_heads, heads_per_kv, problem.seq_len, problem.head_dim}, type);
    return host.to(device);
  };
  const at::Tensor q = wrap(problem.q, group);
  const at::Tensor k = wrap(problem.k, 1).expand({kv_heads, group, problem.seq_len, problem.head_dim});
  const at::Tensor v = wrap(problem.v, 1).expand({kv_heads, group, problem.seq_len, problem.head_dim});
  const double scale = problem.scale > 0 ? problem.scale : 1 / std::sqrt(static_cast<double>(problem.head_dim));
  at::Tensor o;
  at::Tensor l;
  const auto run = [&] {
    if (device.is_cuda()) {
      const auto result = at::_scaled_dot_product_cudnn_attention(q, k, v, {}, /*compute_log_sumexp=*/true, 0.0,
                                                                  /*is_causal=*/true, false, scale);
      o = std::get<0>(result);
      l = std::get<1>(result);
      const c10::impl::VirtualGuardImpl guard(device.type());
      guard.synchronizeDevice(device.index());
    } else {
      std::tie(o, l) = at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, /*is_causal=*/true, {}, scale);
    }
  };
  std::vector<double> seconds;
  try {
    for (int32_t i = 0; i < options.warm_up; ++i) run();
    for (int32_t i = 0; i < options.repeats; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      run();
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
  } catch (...) {
    RethrowTorchError("LibTorch's attention over " + std::to_string(problem.seq_len) + " tokens");
  }
  const auto copy = [](const at::Tensor& from, float* to) {
    if (to == nullptr) return;
    const at::Tensor host = from.to(at::kCPU, at::kFloat).contiguous();
    std::memcpy(to, host.const_data_ptr(), static_cast<size_t>(host.numel()) * sizeof(float));
  };
  copy(o, output);
  copy(l, lse);
  return seconds;
}

}  // namespace headscope::capture
