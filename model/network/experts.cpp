// SPDX-License-Identifier: Apache-2.0
#include "network/experts.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <limits>
#include <tuple>

#include "network/activations.h"

namespace headscope::model {
namespace {

// Scores [rows, experts] with those outside the best groups at `hidden`.
at::Tensor OfBestGroups(const at::Tensor& scores, const ExpertRules& rules, double hidden) {
  const int64_t rows = scores.size(0), groups = rules.num_groups;
  const at::Tensor by_group = scores.view({rows, groups, -1});
  const at::Tensor worth =
      rules.group_of_two ? std::get<0>(by_group.topk(2, -1)).sum(-1) : std::get<0>(by_group.max(-1));
  const at::Tensor best = std::get<1>(worth.topk(rules.kept_groups, -1));
  const at::Tensor kept = at::zeros_like(worth, worth.options().dtype(at::kBool)).scatter_(1, best, true);
  return by_group.masked_fill(kept.logical_not().unsqueeze(-1), hidden).view({rows, -1});
}

// GPT-OSS's MLP, with gate and up held to a limit and 1 added to up.
at::Tensor LimitedMlp(const at::Tensor& x, const Projection& gate_up, const Projection& down,
                      const ExpertRules& rules) {
  const at::Tensor both = Apply(gate_up, x);
  const int64_t inner = both.size(-1) / 2;
  const at::Tensor gate = both.narrow(-1, 0, inner).clamp_max(rules.limit);
  const at::Tensor up = both.narrow(-1, inner, inner).clamp(-rules.limit, rules.limit);
  return Apply(down, (up + 1) * (gate * at::sigmoid(gate * rules.gain)));
}

}  // namespace

Routing Route(const at::Tensor& x, const ExpertWeights& w, const ExpertRules& rules) {
  if (rules.score == RouterScore::kSoftmaxOfChosen) {
    auto [logits, experts] = Apply(w.router, x).topk(rules.per_token, -1);
    return {experts, logits.softmax(-1).to(at::kFloat)};
  }
  // Where the logits are not, what follows them is in fp32.
  const at::Tensor logits = rules.wide_router ? at::linear(x.to(at::kFloat), w.router.weight.to(at::kFloat))
                                              : Apply(w.router, x).to(at::kFloat);
  const at::Tensor scores = rules.score == RouterScore::kSigmoid ? logits.sigmoid() : logits.softmax(-1);
  at::Tensor compared = w.correction.defined() ? scores + w.correction : scores;
  if (rules.num_groups > 1) {
    const double hidden = w.correction.defined() ? -std::numeric_limits<double>::infinity() : 0.0;
    compared = OfBestGroups(compared, rules, hidden);
  }
  const at::Tensor experts = std::get<1>(compared.topk(rules.per_token, -1));
  at::Tensor weights = scores.gather(1, experts);
  if (rules.normalised) weights = weights / weights.sum(-1, /*keepdim=*/true);
  if (w.expert_scale.defined()) weights = weights * w.expert_scale.index({experts});
  return {experts, weights * rules.factor};
}

at::Tensor MixExperts(const at::Tensor& x, const at::Tensor& routed, const ExpertWeights& w, const ExpertRules& rules,
                      Activation activation) {
  const Routing routing = Route(routed, w, rules);
  at::Tensor sum = at::zeros_like(x);
  for (int64_t expert = 0; expert < rules.num_experts; ++expert) {
    const std::vector<at::Tensor> chosen = at::where(routing.experts.eq(expert));
    const at::Tensor &rows = chosen[0], &places = chosen[1];
    if (rows.numel() == 0) continue;
    const at::Tensor weights = routing.weights.index_select(0, rows).gather(1, places.unsqueeze(1));
    at::Tensor some = x.index_select(0, rows);
    if (rules.weigh_inputs) some = some * weights.to(x.scalar_type());
    const Projection& gate_up = w.gate_up[static_cast<size_t>(expert)];
    const Projection& down = w.down[static_cast<size_t>(expert)];
    const at::Tensor made =
        rules.limit > 0 ? LimitedMlp(some, gate_up, down, rules) : GatedMlp(some, gate_up, down, activation);
    sum.index_add_(0, rows, rules.weigh_inputs ? made : made.mul(weights).to(x.scalar_type()));
  }
  if (rules.shared_size == 0) return sum;
  const at::Tensor shared = GatedMlp(x, w.shared_gate_up, w.shared_down, activation);
  return sum + (w.shared_weight.weight.defined() ? shared * at::sigmoid(Apply(w.shared_weight, x)) : shared);
}

}  // namespace headscope::model
