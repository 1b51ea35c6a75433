// SPDX-License-Identifier: Apache-2.0
#include "report/map_values.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "analysis/compare.h"
#include "base/check_status.h"
#include "base/errors.h"
#include "base/stop.h"
#include "head/head_checks.h"
#include "kernels/cpu_scores.h"
#include "kernels/parallel.h"

namespace headscope::analysis {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

// Work between two reports of progress: long enough that packing a head's keys anew for each is nothing beside it.
constexpr int64_t kNumStrips = 32;

// Attended pairs of rows [begin, end), which is what a strip costs.
int64_t PairsOf(const HeadTensors& head, int64_t begin, int64_t end) {
  int64_t pairs = 0;
  for (int64_t row = begin; row < end; ++row) {
    const kernels::ColumnRange attended = head.AttendedColumns(row);
    pairs += attended.end - attended.begin;
  }
  return pairs;
}

// Makes a map strip by strip: values_of(edges of a strip of texel rows) gives the strip's values. Throws
// CancelledError.
template <typename ValuesOf>
MapValues InStrips(const HeadTensors& head, const TexelEdges& edges, const RenderRequest& request,
                   ValuesOf&& values_of) {
  MapValues map;
  map.num_rows = edges.NumRows();
  map.num_columns = edges.NumColumns();
  const auto all = static_cast<double>(std::max<int64_t>(1, PairsOf(head, edges.rows.front(), edges.rows.back())));
  int64_t done = 0;
  for (int64_t strip = 0; strip < kNumStrips; ++strip) {
    const int64_t first = strip * map.num_rows / kNumStrips;
    const int64_t last = (strip + 1) * map.num_rows / kNumStrips;
    if (first == last) continue;
    const TexelEdges part = {{edges.rows.begin() + first, edges.rows.begin() + last + 1}, edges.columns};
    const std::vector<double> values = values_of(part);
    map.values.insert(map.values.end(), values.begin(), values.end());
    done += PairsOf(head, part.rows.front(), part.rows.back());
    if (request.progress) request.progress(static_cast<double>(done) / all);
    StopIfAsked(request.stop);
  }
  return map;
}

// Sums of the curves beside a map, strip by strip.
class ProfileSums {
 public:
  explicit ProfileSums(const TexelEdges& edges)
      : mass_(static_cast<size_t>(edges.NumColumns())), pairs_(static_cast<size_t>(edges.NumColumns())) {}

  void Add(const TexelGrid& grid, const TexelEdges& strip) {
    for (int64_t row = 0; row < grid.num_rows; ++row) {
      double mass = 0;
      for (int64_t column = 0; column < grid.num_columns; ++column) {
        const auto texel = static_cast<size_t>(row * grid.num_columns + column);
        mass += grid.sum_p[texel];
        mass_[static_cast<size_t>(column)] += grid.sum_p[texel];
        pairs_[static_cast<size_t>(column)] += grid.pairs[texel];
      }
      const auto slot = static_cast<size_t>(row);
      row_mass_.push_back(mass / static_cast<double>(strip.rows[slot + 1] - strip.rows[slot]));
    }
  }
  void MoveTo(MapValues* map) {
    map->row_mass = std::move(row_mass_);
    for (size_t column = 0; column < mass_.size(); ++column)
      map->key_mean.push_back(pairs_[column] == 0 ? kNothing : mass_[column] / static_cast<double>(pairs_[column]));
  }

 private:
  std::vector<double> mass_, row_mass_;
  std::vector<int64_t> pairs_;
};

// `sums`: the head's curves are wanted, too, from the same pass; null: they are not.
std::vector<double> ScoreValues(const HeadTensors& head, TileReduction reduction, const TexelEdges& edges,
                                bool* all_on_gpu, ProfileSums* sums = nullptr) {
  const std::array reductions = {reduction, TileReduction::kMean};
  const size_t count = sums == nullptr || reduction == TileReduction::kMean ? 1 : 2;
  TexelGrid grid;
  AccumulateTexels(head, edges, std::span(reductions).first(count), 0, {}, &grid);
  *all_on_gpu &= grid.on_gpu;
  if (sums != nullptr) sums->Add(grid, edges);
  std::vector<double> values;
  for (size_t i = 0; i < grid.pairs.size(); ++i) {
    values.push_back(
        grid.pairs[i] == 0 ? kNothing : std::exp2(static_cast<double>(grid.Log2P(reduction, static_cast<int64_t>(i)))));
  }
  return values;
}

MapValues MaskValues(const HeadTensors& head, const kernels::SparseIndexView& index, const TexelEdges& edges) {
  const MaskTexels texels = CountMaskTexels(index, head.window, edges);
  MapValues map;
  map.num_rows = edges.NumRows();
  map.num_columns = edges.NumColumns();
  for (size_t i = 0; i < texels.pairs.size(); ++i) {
    map.values.push_back(
        texels.pairs[i] == 0 ? kNothing : static_cast<double>(texels.kept[i]) / static_cast<double>(texels.pairs[i]));
  }
  return map;
}

// One row's change of probability over columns [begin, end): kept entries gain, because the softmax over fewer keys
// shares out what the dropped ones lose. The row's kept mass says how much.
class DifferenceRow {
 public:
  DifferenceRow(const HeadTensors& head, const kernels::SparseIndexView& index, const kernels::PackedKeys& keys,
                int64_t begin, int64_t end)
      : head_(head), index_(index), keys_(keys), begin_(begin), change_(static_cast<size_t>(end - begin)) {}

  // mass_in_trace: what all of the row's keys that are there hold; the kept ones share it out among themselves.
  // A learned sink keeps its part whatever is left out.
  const std::vector<float>& Compute(int64_t row, float kept_mass, double mass_in_trace) {
    const auto width = static_cast<int32_t>(change_.size());
    kernels::ScoreBlock(head_.q.data() + row * head_.head_dim, head_.head_dim, 1, keys_, 0, width, head_.scale,
                        head_.soft_cap, change_.data(), width);
    kernels::ExpInPlace(change_.data(), width, head_.lse[static_cast<size_t>(row)]);
    ranges_.clear();
    kernels::AppendKeptRanges(index_, 0, 0, static_cast<int32_t>(row), &ranges_);
    const auto sink = static_cast<float>(head_.SinkMass(row));
    const float gain = kept_mass > 0 ? (static_cast<float>(mass_in_trace) + sink) / (kept_mass + sink) - 1.0f : 0.0f;
    int64_t dropped_from = 0;
    const auto drop = [&](int64_t until) {
      for (int64_t j = dropped_from; j < until; ++j) change_[static_cast<size_t>(j)] = -change_[static_cast<size_t>(j)];
    };
    for (const kernels::ColumnRange& range : ranges_) {
      const int64_t from = std::clamp<int64_t>(range.begin - begin_, 0, width);
      const int64_t to = std::clamp<int64_t>(range.end - begin_, 0, width);
      drop(from);
      for (int64_t j = from; j < to; ++j) change_[static_cast<size_t>(j)] *= gain;
      dropped_from = std::max(dropped_from, to);
    }
    drop(width);
    return change_;
  }

 private:
  const HeadTensors& head_;
  const kernels::SparseIndexView& index_;
  const kernels::PackedKeys& keys_;
  const int64_t begin_;
  std::vector<float> change_;
  std::vector<kernels::ColumnRange> ranges_;
};

// Of every row: what a mask keeps, and what there is to keep.
struct RowMasses {
  std::vector<float> kept;
  std::vector<double> in_trace;
};

// Texel rows of one strip. `keys`: the head's, of the map's columns alone.
std::vector<double> DifferenceValues(const HeadTensors& head, const kernels::SparseIndexView& index,
                                     const kernels::PackedKeys& keys, const RowMasses& masses, TileReduction reduction,
                                     const TexelEdges& edges) {
  const int64_t num_columns = edges.NumColumns();
  std::vector<double> values(static_cast<size_t>(edges.NumRows() * num_columns), kNothing);
  const int64_t begin = edges.columns.front();
  const int64_t end = edges.columns.back();
  kernels::ParallelFor(edges.NumRows(), 0, {}, [&](int64_t texel_row, int32_t) {
    DifferenceRow difference(head, index, keys, begin, end);
    std::vector<double> result(static_cast<size_t>(num_columns), 0.0);
    std::vector<int64_t> pairs(result.size(), 0);
    for (int64_t row = edges.rows[static_cast<size_t>(texel_row)]; row < edges.rows[static_cast<size_t>(texel_row + 1)];
         ++row) {
      const auto slot = static_cast<size_t>(row);
      const std::vector<float>& change = difference.Compute(row, masses.kept[slot], masses.in_trace[slot]);
      const kernels::ColumnRange attended = head.AttendedColumns(row);
      for (size_t texel = 0; texel < result.size(); ++texel) {
        const int64_t from = std::max<int64_t>(edges.columns[texel], attended.begin);
        const int64_t to = std::min<int64_t>(edges.columns[texel + 1], attended.end);
        for (int64_t column = from; column < to; ++column) {
          const auto value = static_cast<double>(change[static_cast<size_t>(column - begin)]);
          if (reduction == TileReduction::kMean) {
            result[texel] += value;
          } else if (std::fabs(value) > std::fabs(result[texel])) {
            result[texel] = value;
          }
        }
        pairs[texel] += std::max<int64_t>(0, to - from);
      }
    }
    for (size_t texel = 0; texel < result.size(); ++texel) {
      if (pairs[texel] == 0) continue;
      const double divisor = reduction == TileReduction::kMean ? static_cast<double>(pairs[texel]) : 1.0;
      values[static_cast<size_t>(texel_row * num_columns) + texel] = result[texel] / divisor;
    }
  });
  return values;
}

void CheckMask(const HeadTensors& head, const MaskLists& mask, ViewKind view) {
  const kernels::SparseIndexView* const index = mask.index;
  if (mask.steps != nullptr) {
    if (view == ViewKind::kMask || view == ViewKind::kDifference)
      throw UsageError({.field = "view",
                        .problem = "a decode method chooses for its steps alone, and this view is about every query",
                        .remedy = "choose overlay, lost or overlap"});
    if (mask.steps->first_row >= 0 && mask.steps->end_row() <= head.num_rows) return;
  }
  if (index != nullptr && index->seq_q == head.num_rows && index->seq_k == head.num_tokens) return;
  throw UsageError({.field = "method",
                    .problem = "a mask or difference of head " + HeadName(head.id) + " needs an index of its " +
                               std::to_string(head.num_rows) + " rows and " + std::to_string(head.num_tokens) +
                               " columns",
                    .remedy = "choose one"});
}

MapValues OtherValues(const HeadTensors& head, const HeadTensors& other, const RenderRequest& request,
                      const TexelEdges& edges, ProfileSums* sums) {
  bool all_on_gpu = true;
  return InStrips(head, edges, request, [&](const TexelEdges& strip) {
    std::vector<double> values = ScoreValues(other, request.reduction, strip, &all_on_gpu);
    const std::vector<double> here = ScoreValues(head, request.reduction, strip, &all_on_gpu, sums);
    for (size_t i = 0; i < values.size(); ++i) values[i] -= here[i];  // NaN where either has no pairs
    return values;
  });
}

// Per texel; 1 where no row is a step, so that only what a decode method leaves out looks left out.
std::vector<double> KeptShares(const HeadTensors& head, const MaskLists& mask, const TexelEdges& edges) {
  if (mask.steps == nullptr) return MaskValues(head, *mask.index, edges).values;
  const MaskTexels texels = CountMaskTexels(*mask.steps, edges);
  std::vector<double> shares;
  for (size_t i = 0; i < texels.pairs.size(); ++i)
    shares.push_back(texels.pairs[i] == 0 ? 1
                                          : static_cast<double>(texels.kept[i]) / static_cast<double>(texels.pairs[i]));
  return shares;
}

std::vector<std::array<double, kNumKeptBy>> OverlapShares(const MaskLists& first, const MaskLists& second,
                                                          const HeadTensors& head, const TexelEdges& edges) {
  const MaskPairTexels texels = CountMaskPairTexels(first, second, head.window, edges);
  std::vector<std::array<double, kNumKeptBy>> shares(texels.pairs.size());
  for (size_t i = 0; i < shares.size(); ++i) {
    for (size_t by = 0; by < kNumKeptBy; ++by) {
      shares[i][by] =
          texels.pairs[i] == 0 ? 0 : static_cast<double>(texels.kept[i][by]) / static_cast<double>(texels.pairs[i]);
    }
  }
  return shares;
}

}  // namespace

CommonPart PartInCommon(const HeadTensors& head, const HeadTensors* other) {
  if (other == nullptr)
    throw UsageError({.problem = "the difference of two heads needs the other one", .remedy = "choose it"});
  if (other->num_tokens == head.num_tokens && other->row_positions == head.row_positions)
    return {head.num_rows, head.num_tokens, false};
  // A causal row has the same keys in a trace that goes on behind it.
  const int64_t rows = std::min(head.num_rows, other->num_rows);
  const bool alike =
      rows > 0 && !head.bidirectional && !other->bidirectional && head.first_token == other->first_token &&
      std::equal(head.row_positions.begin(), head.row_positions.begin() + rows, other->row_positions.begin());
  if (alike) {
    const int64_t columns = head.row_positions[static_cast<size_t>(rows - 1)] + int64_t{1};
    if (columns <= std::min(head.num_tokens, other->num_tokens)) return {rows, columns, true};
  }
  throw UsageError({.problem = "head " + HeadName(other->id) + " has " + std::to_string(other->num_rows) +
                               " queries of " + std::to_string(other->num_tokens) + " tokens, and head " +
                               HeadName(head.id) + " has " + std::to_string(head.num_rows) + " of " +
                               std::to_string(head.num_tokens) +
                               ", and they do not begin with the same queries and keys",
                    .remedy = "choose traces that recorded the same rows from the first token on"});
}

MapValues ComputeMapValues(const HeadTensors& head, const RenderSources& sources, const RenderRequest& request,
                           const TexelEdges& edges) {
  const TileReduction reduction = request.reduction;
  const ViewKind view = request.view;
  const kernels::SparseIndexView* const index = sources.index;
  const MaskLists mask{sources.index, sources.steps}, other_mask{sources.other_index, sources.other_steps};
  if (request.profiles && (view == ViewKind::kMask || view == ViewKind::kDifference))
    throw UsageError({.field = "profiles",
                      .problem = "they are beside a map of probabilities, and this one shows none",
                      .remedy = "leave them out, or choose another view"});
  ProfileSums sums(edges);
  ProfileSums* const wanted = request.profiles ? &sums : nullptr;
  if (view == ViewKind::kOther) {
    PartInCommon(head, sources.other);
    MapValues map = OtherValues(head, *sources.other, request, edges, wanted);
    if (wanted != nullptr) sums.MoveTo(&map);
    return map;
  }
  if (view != ViewKind::kScores) CheckMask(head, mask, view);
  if (view == ViewKind::kMask) return MaskValues(head, *index, edges);  // counted, not computed
  if (view != ViewKind::kDifference) {
    if (view == ViewKind::kOverlap) CheckMask(head, other_mask, view);
    bool all_on_gpu = true;
    MapValues map = InStrips(head, edges, request, [&](const TexelEdges& strip) {
      return ScoreValues(head, reduction, strip, &all_on_gpu, wanted);
    });
    if (wanted != nullptr) sums.MoveTo(&map);
    if (all_on_gpu) map.device = head.gpu_device;
    if (view == ViewKind::kOverlay || view == ViewKind::kLost) map.kept = KeptShares(head, mask, edges);
    if (view == ViewKind::kOverlap) map.kept_by = OverlapShares(mask, other_mask, head, edges);
    return map;
  }
  RowMasses masses;
  CheckStatus(KeptMass(head, *index, 0, request.stop, &masses.kept));
  masses.in_trace = MassInTrace(head, 0, request.stop);
  const int64_t begin = edges.columns.front();
  const kernels::PackedKeys keys(head.k.data() + begin * head.head_dim, kernels::DType::kFloat32, head.head_dim,
                                 static_cast<int32_t>(edges.columns.back() - begin), head.head_dim);
  return InStrips(head, edges, request, [&](const TexelEdges& strip) {
    return DifferenceValues(head, *index, keys, masses, reduction, strip);
  });
}

}  // namespace headscope::analysis
