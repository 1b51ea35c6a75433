// SPDX-License-Identifier: Apache-2.0
// How well a few numbers of q and k find the best keys: components of q by size or by place, or projections onto a
// random subspace (SparQ Attention, figure E2) and onto the keys' own principal components (Loki, section 3).
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "figures/figure_list.h"
#include "figures/head_rows.h"
#include "figures/simple_figure.h"
#include "kernels/random_subspace.h"

namespace headscope::analysis {
namespace {

constexpr int32_t kProjectedKeys = 32, kShareOfComponents = 8;  // r is an eighth of head_dim
constexpr std::array kSubspaceNames = {"largest components", "first components", "last components", "random subspace",
                                       "principal components of K"};

// A symmetric matrix by Jacobi's rotations, which leave it diagonal: eigenvectors are then the columns of `turned`.
void Diagonalise(int32_t n, std::vector<double>* matrix, std::vector<double>* turned) {
  const auto at = [n](std::vector<double>* of, int32_t row, int32_t column) -> double& {
    return (*of)[static_cast<size_t>(int64_t{row} * n + column)];
  };
  turned->assign(matrix->size(), 0);
  for (int32_t i = 0; i < n; ++i) at(turned, i, i) = 1;
  constexpr int kMostSweeps = 30;
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    double outside = 0, inside = 0;
    for (int32_t row = 0; row < n; ++row) {
      inside += at(matrix, row, row) * at(matrix, row, row);
      for (int32_t column = 0; column < row; ++column) outside += at(matrix, row, column) * at(matrix, row, column);
    }
    if (outside <= 1e-24 * inside) return;
    for (int32_t p = 0; p < n; ++p) {
      for (int32_t q = p + 1; q < n; ++q) {
        const double off = at(matrix, p, q);
        if (off == 0) continue;
        const double theta = (at(matrix, q, q) - at(matrix, p, p)) / (2 * off);
        const double t = (theta >= 0 ? 1 : -1) / (std::fabs(theta) + std::hypot(theta, 1));
        const double c = 1 / std::hypot(t, 1), s = t * c;
        for (int32_t i = 0; i < n; ++i) {
          for (std::vector<double>* const of : {matrix, turned}) {
            const double a = at(of, i, p), b = at(of, i, q);
            at(of, i, p) = c * a - s * b;
            at(of, i, q) = s * a + c * b;
          }
        }
        for (int32_t i = 0; i < n; ++i) {
          const double a = at(matrix, p, i), b = at(matrix, q, i);
          at(matrix, p, i) = c * a - s * b;
          at(matrix, q, i) = s * a + c * b;
        }
      }
    }
  }
}

// The r directions of the largest variance of a head's keys, [r, head_dim].
std::vector<float> PrincipalDirections(const HeadTensors& head, int32_t r) {
  const int32_t n = head.head_dim;
  std::vector<double> mean(static_cast<size_t>(n)), covariance(static_cast<size_t>(int64_t{n} * n)), vectors;
  const auto tokens = static_cast<double>(head.num_tokens);
  for (size_t i = 0; i < head.k.size(); ++i)
    mean[i % static_cast<size_t>(n)] += static_cast<double>(head.k[i]) / tokens;
  std::vector<double> key(static_cast<size_t>(n));
  for (int64_t token = 0; token < head.num_tokens; ++token) {
    for (size_t d = 0; d < key.size(); ++d)
      key[d] = static_cast<double>(head.k[static_cast<size_t>(token * n) + d]) - mean[d];
    for (size_t a = 0; a < key.size(); ++a) {
      for (size_t b = 0; b < key.size(); ++b) covariance[a * key.size() + b] += key[a] * key[b] / tokens;
    }
  }
  Diagonalise(n, &covariance, &vectors);
  std::vector<double> variances;
  for (size_t d = 0; d < key.size(); ++d) variances.push_back(covariance[d * key.size() + d]);
  std::vector<float> directions;
  for (const int32_t column : LargestIndices(variances, r)) {
    for (size_t d = 0; d < key.size(); ++d)
      directions.push_back(static_cast<float>(vectors[d * key.size() + static_cast<size_t>(column)]));
  }
  return directions;
}

using Agreements = std::array<double, kSubspaceNames.size()>;

// Mean over the looked-at rows with more than kProjectedKeys columns, in the order of kSubspaceNames; NaN where there
// are none.
Agreements AgreementsOf(HeadRows* rows, int64_t max_rows) {
  const HeadTensors& head = rows->head();
  const int32_t size = head.head_dim, r = std::max(1, size / kShareOfComponents);
  const std::vector<float> random = kernels::RandomSubspace(r, size, static_cast<uint64_t>(head.kv_head)),
                           principal = PrincipalDirections(head, r);
  Agreements sums = {};
  double count = 0;
  for (const int64_t row : SpacedRows(head.num_rows, max_rows)) {
    const std::span<const float> scores = rows->Scores(row);
    if (scores.size() <= static_cast<size_t>(kProjectedKeys)) continue;
    const std::vector<int32_t> best = LargestIndices(scores, kProjectedKeys);
    const float* const q = head.q.data() + row * size;
    const auto of_components = [&](const std::vector<int32_t>& components) {
      std::vector<float> reduced(static_cast<size_t>(size));
      for (const int32_t d : components) reduced[static_cast<size_t>(d)] = q[d];
      return reduced;
    };
    std::vector<float> magnitudes;
    magnitudes.reserve(static_cast<size_t>(size));
    for (int32_t d = 0; d < size; ++d) magnitudes.push_back(std::fabs(q[d]));
    std::vector<int32_t> first(static_cast<size_t>(r)), last(first);
    std::iota(first.begin(), first.end(), 0);
    std::iota(last.begin(), last.end(), size - r);
    std::array<std::vector<float>, kSubspaceNames.size()> queries = {
        of_components(LargestIndices(magnitudes, r)), of_components(first), of_components(last),
        std::vector<float>(q, q + size), std::vector<float>(q, q + size)};
    kernels::ProjectOnto(random, queries[3]);
    kernels::ProjectOnto(principal, queries[4]);
    for (size_t i = 0; i < queries.size(); ++i)
      sums[i] += SharedPart(best, LargestIndices(rows->ScoresOf(queries[i], row), kProjectedKeys));
    ++count;
  }
  for (double& sum : sums) sum /= count;
  return sums;
}

std::vector<FigurePanel> MakeProjections(const FigureInput& input, std::string* caption) {
  const auto all =
      OfEveryHead<Agreements>(input, [&input](HeadRows* rows) { return AgreementsOf(rows, input.max_rows); });
  FigurePanel lines, bars;
  lines.title = "by layer, mean over heads";
  lines.x.title = "layer";
  bars.title = "mean over heads";
  bars.kind = FigureKind::kBars;
  bars.categories.assign(kSubspaceNames.begin(), kSubspaceNames.end());
  lines.y = bars.y = {"share of the 32 best keys that is found", false, 0, 1};
  for (size_t trace = 0; trace < all.size(); ++trace) {
    FigureSeries means{input.traces[trace].name, {}, {}};
    for (size_t i = 0; i < kSubspaceNames.size(); ++i) {
      FigureSeries by_layer = MeanByLayer(input.traces[trace], [&](size_t head) { return all[trace][head][i]; });
      FigureSeries series = PartOfTrace(input, trace, kSubspaceNames[i]);
      series.x = std::move(by_layer.x);
      series.y = std::move(by_layer.y);
      lines.series.push_back(std::move(series));
      std::vector<double> of_heads;
      for (const Agreements& head : all[trace]) of_heads.push_back(head[i]);
      means.y.push_back(MeanOfNumbers(of_heads));
    }
    bars.series.push_back(std::move(means));
  }
  *caption =
      "Share of a row's 32 best keys that an eighth of the numbers finds: of q's components the largest, the first or "
      "the last, and projections onto random orthonormal directions or the keys' principal components. SparQ, figure "
      "E2: the largest components find considerably more than the first.";
  return {std::move(lines), std::move(bars)};
}

}  // namespace

const FigureMaker& ProjectionsFigure() {
  static const SimpleFigure figure({"projections", "Agreement of projections", "SparQ Attention, figure E2",
                                    "keys that a few components of q find, or a random or principal subspace"},
                                   MakeProjections);
  return figure;
}

}  // namespace headscope::analysis
