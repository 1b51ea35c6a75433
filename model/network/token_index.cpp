// SPDX-License-Identifier: Apache-2.0
#include "network/token_index.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "base/stop.h"
#include "network/activations.h"

namespace headscope::model {

IndexVectors MakeIndexVectors(const at::Tensor& x, const at::Tensor& latent, const IndexWeights& w,
                              const IndexRules& rules, const RotaryEmbedding::Tables& positions) {
  constexpr double kEps = 1e-6;
  const int64_t rows = x.size(0);
  const at::Tensor q = Apply(w.q, latent).view({rows, rules.heads, rules.dim}).transpose(0, 1);
  const at::Tensor k = at::layer_norm(Apply(w.k, x).to(at::kFloat), {rules.dim}, w.k_norm.weight.to(at::kFloat),
                                      w.k_norm.bias.to(at::kFloat), kEps)
                           .to(x.scalar_type())
                           .unsqueeze(0);
  const at::Tensor weights = Apply(w.weights, x).to(at::kFloat) / std::sqrt(static_cast<double>(rules.heads));
  return {RotaryEmbedding::Rotate(q, positions), RotaryEmbedding::Rotate(k, positions), weights.t().contiguous()};
}

at::Tensor ChooseTokens(const IndexVectors& of_pass, const at::Tensor& keys, int64_t count, const std::stop_token& stop,
                        int64_t block_scores) {
  const int64_t heads = of_pass.q.size(0), rows = of_pass.q.size(1), tokens = keys.size(0), past = tokens - rows;
  const int64_t step = RowsOfBlock(heads * tokens, rows, block_scores);
  const at::TensorOptions numbers = keys.options().dtype(at::kLong);
  const at::Tensor transposed = keys.to(at::kFloat).t();
  const int64_t kept = std::min(count, tokens);
  const double scale = 1 / std::sqrt(static_cast<double>(keys.size(1)));
  std::vector<at::Tensor> chosen;
  for (int64_t first = 0; first < rows; first += step) {
    StopIfAsked(stop);
    const int64_t size = std::min(step, rows - first);
    const at::Tensor products = at::matmul(of_pass.q.narrow(1, first, size).to(at::kFloat), transposed).mul_(scale);
    at::Tensor scores = products.relu_().mul_(of_pass.weights.narrow(1, first, size).unsqueeze(-1)).sum(0);
    const at::Tensor positions = at::arange(past + first, past + first + size, numbers).unsqueeze(1);
    const at::Tensor columns = at::arange(0, tokens, numbers), later = columns.gt(positions);
    scores.masked_fill_(later, -std::numeric_limits<double>::infinity());
    const at::Tensor least = std::get<0>(scores.topk(kept, -1)).narrow(-1, kept - 1, 1);
    // All above the least score, and of those that have it the first; of a row with fewer keys than that, all.
    const at::Tensor above = scores.gt(least), at_least = scores.eq(least);
    const at::Tensor room = above.sum(-1, /*keepdim=*/true).neg_().add_(kept);
    const at::Tensor in =
        above.logical_or_(at_least.logical_and(at_least.cumsum(-1).le(room))).logical_and_(later.logical_not());
    const at::Tensor rising = std::get<0>(at::where(in, columns, tokens).topk(kept, -1, /*largest=*/false));
    chosen.push_back(rising.masked_fill(rising.eq(tokens), -1).to(at::kInt));
  }
  return at::cat(chosen, 0).contiguous();
}

}  // namespace headscope::model
