// SPDX-License-Identifier: Apache-2.0
#include "network/delta_rule.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <vector>

#include "base/stop.h"
#include "network/activations.h"
#include "network/short_convolution.h"

namespace headscope::model {
namespace {

// A projection's parts, which stand key head by key head.
struct Parts {
  at::Tensor qkv;   // [rows, channels]: all heads' q, all k, all v
  at::Tensor gate;  // [rows, num_value_heads, value_dim]
};

Parts Split(const at::Tensor& x, const MixerWeights& w, const MixerRules& rules) {
  const int64_t rows = x.size(0), heads = rules.num_key_heads;
  const int64_t values = int64_t{rules.num_value_heads} / heads * rules.value_dim;
  const at::Tensor all = Apply(w.qkvz, x).view({rows, heads, -1});
  const auto part = [&](int64_t first, int64_t size) { return all.narrow(2, first, size).reshape({rows, -1}); };
  const int64_t key = rules.key_dim;
  return {at::cat({part(0, key), part(key, key), part(2 * key, values)}, 1),
          part(2 * key + values, values).view({rows, rules.num_value_heads, rules.value_dim})};
}

at::Tensor Unit(const at::Tensor& x) {
  constexpr double kEps = 1e-6;
  return x * at::rsqrt((x * x).sum(-1, /*keepdim=*/true) + kEps);
}

}  // namespace

at::Tensor GatedDeltaRule(const at::Tensor& x, const MixerWeights& w, const MixerRules& rules, Activation activation,
                          DeltaState* state, const std::stop_token& stop) {
  const int64_t rows = x.size(0), heads = rules.num_value_heads, group = heads / rules.num_key_heads;
  const int64_t keys = int64_t{rules.num_key_heads} * rules.key_dim;
  const at::Tensor mixed = Activated(activation, Convolved(Split(x, w, rules).qkv, w.convolution, &state->tail));
  const auto of_keys = [&](int64_t first) {
    const at::Tensor by_head = mixed.narrow(1, first, keys).reshape({rows, rules.num_key_heads, rules.key_dim});
    return Unit(by_head.to(at::kFloat)).repeat_interleave(group, 1);
  };
  const at::Tensor q = of_keys(0) / std::sqrt(static_cast<double>(rules.key_dim)), k = of_keys(keys);
  const at::Tensor v =
      mixed.narrow(1, 2 * keys, heads * rules.value_dim).reshape({rows, heads, rules.value_dim}).to(at::kFloat);
  const at::Tensor ba = Apply(w.ba, x).view({rows, rules.num_key_heads, 2 * group});
  const at::Tensor rate = ba.narrow(2, 0, group).reshape({rows, heads}).sigmoid().to(at::kFloat);
  const at::Tensor step = ba.narrow(2, group, group).reshape({rows, heads}).to(at::kFloat) + w.step_bias;
  const at::Tensor kept = (w.decay.exp() * at::softplus(step)).neg().exp();  // [rows, heads]
  at::Tensor memory = state->memory.defined()
                          ? state->memory
                          : at::zeros({heads, rules.key_dim, rules.value_dim}, x.options().dtype(at::kFloat));
  std::vector<at::Tensor> outputs;
  for (int64_t row = 0; row < rows; ++row) {
    StopIfAsked(stop);
    const at::Tensor key = k[row].unsqueeze(-1);
    memory = memory * kept[row].view({heads, 1, 1});
    const at::Tensor recalled = (memory * key).sum(1);
    const at::Tensor correction = (v[row] - recalled) * rate[row].unsqueeze(-1);
    memory = memory + key * correction.unsqueeze(1);
    outputs.push_back((memory * q[row].unsqueeze(-1)).sum(1));
  }
  state->memory = memory;
  return at::stack(outputs).to(x.scalar_type());
}

at::Tensor DeltaGate(const at::Tensor& x, const MixerWeights& w, const MixerRules& rules) {
  return Split(x, w, rules).gate;
}

}  // namespace headscope::model
