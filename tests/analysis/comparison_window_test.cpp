// SPDX-License-Identifier: Apache-2.0
// Methods on heads whose model has a sliding window, against a program that knows only the definitions: one pair at a
// time, in float64.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "analysis/compare.h"
#include "analysis/tiles.h"
#include "compare/model_window.h"
#include "synthetic_heads.h"

namespace headscope::analysis {
namespace {

using kernels::MaskKind;
using testing::RandomHead;
using testing::RandomHeadShape;

constexpr int32_t kTileRows = 128;  // of every method's index

// kept[row][column].
using KeptSet = std::vector<std::vector<bool>>;

KeptSet KeptBy(const kernels::SparseIndexView& index) {
  KeptSet kept(static_cast<size_t>(index.seq_q), std::vector<bool>(static_cast<size_t>(index.seq_k)));
  std::vector<kernels::ColumnRange> ranges;
  for (int32_t row = 0; row < index.seq_q; ++row) {
    ranges.clear();
    kernels::AppendKeptRanges(index, 0, 0, row, &ranges);
    for (const kernels::ColumnRange& range : ranges) {
      for (int32_t column = range.begin; column < range.end; ++column)
        kept[static_cast<size_t>(row)][static_cast<size_t>(column)] = true;
    }
  }
  return kept;
}

// What the method keeps, and of that what lies inside the window.
KeptSet ExpectedKept(const HeadTensors& head, const kernels::PrefillMethod& method,
                     const kernels::ParameterValues& values) {
  kernels::SparseIndex index;
  EXPECT_TRUE(method.Select(head.Problem(), values, {.num_threads = 2}, &index).ok());
  EXPECT_EQ(index.tile_rows, kTileRows);
  KeptSet kept = KeptBy(index.View());
  const bool two_windows = index.rule.kind == MaskKind::kCausalWindow && index.rule.window < head.window;
  for (size_t row = 0; row < kept.size(); ++row) {
    const int64_t position = head.row_positions[row];
    const size_t last_of_tile = std::min(row / kTileRows * kTileRows + kTileRows, kept.size()) - 1;
    const int64_t last_position = head.row_positions[last_of_tile];
    for (size_t column = 0; column < kept[row].size(); ++column) {
      const auto at = static_cast<int64_t>(column);
      // docs/analysis.md, "A model's own window": sinks beside a shorter window leave by tiles.
      const bool leaves_by_tile = two_windows && at < index.rule.num_sinks && head.window >= kTileRows;
      const bool beyond_own = two_windows && head.window < kTileRows && position - at >= index.rule.window;
      if ((leaves_by_tile ? last_position : position) - at >= head.window || beyond_own) kept[row][column] = false;
    }
  }
  return kept;
}

struct Expected {
  double kept_fraction = 0, cra_min = 0, cra_p5 = 0, cra_mean = 0, relative_error = 0, max_error = 0, cosine = 0;
};

// The row's output over the columns that `keeps` names; *mass is their share of the model's own probabilities.
template <typename Keeps>
std::vector<double> AttendRow(const HeadTensors& head, int64_t row, Keeps&& keeps, double* mass) {
  const int64_t position = head.row_positions[static_cast<size_t>(row)];
  std::vector<double> o(static_cast<size_t>(head.head_dim));
  double sum = 0, all = 0;
  for (int64_t column = 0; column <= position; ++column) {
    if (position - column >= head.window) continue;
    const double weight = std::exp(Score(head, row, column));  // random scores are small: no maximum is taken off
    all += weight;
    if (!keeps(column)) continue;
    sum += weight;
    for (size_t d = 0; d < o.size(); ++d) {
      o[d] +=
          weight * static_cast<double>(head.v[static_cast<size_t>(column) * static_cast<size_t>(head.head_dim) + d]);
    }
  }
  *mass = sum / all;
  for (double& value : o) value = sum > 0 ? value / sum : 0;
  return o;
}

// Rows [first_row, ..) of the head, of which kept[row - first_row] says what is kept.
Expected Compare(const HeadTensors& head, int64_t first_row, const KeptSet& kept) {
  Expected expected;
  expected.cra_min = 1;
  double difference = 0, norm = 0;
  std::vector<double> masses;
  int64_t num_kept = 0, num_attended = 0;
  for (size_t i = 0; i < kept.size(); ++i) {
    const int64_t row = first_row + static_cast<int64_t>(i);
    double mass = 0, everything = 0;
    const std::vector<double> sparse = AttendRow(
        head, row, [&](int64_t column) { return kept[i][static_cast<size_t>(column)]; }, &mass);
    const std::vector<double> dense = AttendRow(
        head, row, [](int64_t) { return true; }, &everything);
    double dot = 0, sparse_norm = 0, dense_norm = 0;
    for (size_t d = 0; d < dense.size(); ++d) {
      difference += (sparse[d] - dense[d]) * (sparse[d] - dense[d]);
      expected.max_error = std::max(expected.max_error, std::fabs(sparse[d] - dense[d]));
      dot += sparse[d] * dense[d];
      sparse_norm += sparse[d] * sparse[d];
      dense_norm += dense[d] * dense[d];
    }
    norm += dense_norm;
    if (sparse_norm > 0) expected.cosine += dot / std::sqrt(sparse_norm * dense_norm);
    expected.cra_min = std::min(expected.cra_min, mass);
    expected.cra_mean += mass;
    masses.push_back(mass);
    num_kept += std::count(kept[i].begin(), kept[i].end(), true);
    num_attended += std::min<int64_t>(head.window, head.row_positions[static_cast<size_t>(row)] + 1);
  }
  const auto rows = static_cast<double>(kept.size());
  expected.kept_fraction = static_cast<double>(num_kept) / static_cast<double>(num_attended);
  expected.cra_mean /= rows;
  std::sort(masses.begin(), masses.end());
  expected.cra_p5 = masses[(masses.size() + 19) / 20 - 1];
  expected.cosine /= rows;
  expected.relative_error = std::sqrt(difference / norm);
  return expected;
}

void ExpectResult(const MethodResult& result, const Expected& expected) {
  EXPECT_DOUBLE_EQ(result.kept_fraction, expected.kept_fraction);
  EXPECT_NEAR(result.cra_min, expected.cra_min, 1e-5);
  EXPECT_NEAR(result.cra_p5, expected.cra_p5, 1e-5);
  EXPECT_NEAR(result.cra_mean, expected.cra_mean, 1e-5);
  EXPECT_NEAR(result.relative_error, expected.relative_error, 1e-5);
  EXPECT_NEAR(result.max_error, expected.max_error, 1e-4);
  EXPECT_NEAR(result.cosine, expected.cosine, 1e-5);
  EXPECT_LT(result.kernel_error, 1e-5);
}

struct Case {
  const char* method;
  const char* parameters;
};
// Budgets that leave something out inside the windows below; a-shape with a window shorter, and one longer than the
// model's.
constexpr Case kPrefill[] = {{"dense", ""},
                             {"a-shape", "n_sink=150,n_local=40"},
                             {"a-shape", "n_sink=0,n_local=40"},
                             {"a-shape", "n_sink=100,n_local=700"},
                             {"vertical-slash", "n_vertical=60,n_slash=40"},
                             {"block-sparse", "n_blocks=3"},
                             {"s2-attention", "vertical_stride=3"},
                             {"sample-attention", "alpha_c=0.5,alpha_s=0.5"}};

class ModelWindow : public ::testing::TestWithParam<RandomHeadShape> {
 protected:
  const HeadTensorsPtr head_ = RandomHead(GetParam(), 31);
  static CompareOptions Options() {
    CompareOptions options;
    options.repeats = 1;
    options.num_threads = 2;
    return options;
  }
  static kernels::ParameterValues Values(const kernels::MethodSpec& spec, const char* text) {
    kernels::ParameterValues values(spec);
    EXPECT_EQ(values.Parse(spec, text), "");
    return values;
  }
};

TEST_P(ModelWindow, PrefillMethodsKeepWhatLiesInsideIt) {
  HeadComparison comparison(head_, Options());
  const std::shared_ptr<const HeadMass> mass = HeadMass::Compute(head_, 2, {});
  for (const Case& c : kPrefill) {
    SCOPED_TRACE(std::string(c.method) + ":" + c.parameters);
    const kernels::PrefillMethod* method = kernels::FindPrefillMethod(c.method);
    const kernels::ParameterValues values = Values(method->spec(), c.parameters);
    const KeptSet kept = ExpectedKept(*head_, *method, values);
    const Expected expected = Compare(*head_, 0, kept);

    MethodResult result;
    const kernels::Status status = comparison.Run(c.method, values, &result);
    ASSERT_TRUE(status.ok()) << status.message();
    ExpectResult(result, expected);
    EXPECT_EQ(result.select_device, NamedCpu());

    MaskPreview preview;
    ASSERT_TRUE(PreviewMask(*mass, *method, values, 2, {}, &preview).ok());
    ASSERT_TRUE(kernels::Validate(preview.index->View()).ok());
    EXPECT_EQ(KeptBy(preview.index->View()), kept);
    EXPECT_EQ(preview.summary.kept_fraction, result.kept_fraction) << "one number, live and measured";
    EXPECT_NEAR(preview.summary.cra_min, expected.cra_min, 1e-5);
    EXPECT_NEAR(preview.summary.cra_p5, expected.cra_p5, 1e-5);
    EXPECT_NEAR(preview.summary.cra_mean, expected.cra_mean, 1e-5);
  }
}

TEST_P(ModelWindow, OverlayIsAShareOfWhatTheModelSees) {
  for (const Case& c : kPrefill) {
    SCOPED_TRACE(std::string(c.method) + ":" + c.parameters);
    const kernels::PrefillMethod* method = kernels::FindPrefillMethod(c.method);
    const kernels::ParameterValues values = Values(method->spec(), c.parameters);
    const KeptSet kept = ExpectedKept(*head_, *method, values);
    MaskPreview preview;
    ASSERT_TRUE(PreviewMask(*head_, *method, values, 2, {}, &preview).ok());
    const int32_t level = MaxLevel(head_->num_rows, head_->num_tokens);
    const MaskTilePtr tile =
        ComputeMaskTile(preview.index->View(), preview.window, {head_->id, TileReduction::kMax, level, 0, 0});
    std::vector<int64_t> pairs(256 * 256), counts(256 * 256);
    for (size_t row = 0; row < kept.size(); ++row) {
      const kernels::ColumnRange attended = head_->AttendedColumns(static_cast<int64_t>(row));
      for (auto column = static_cast<size_t>(attended.begin); column < static_cast<size_t>(attended.end); ++column) {
        const size_t texel = (row >> level) * 256 + (column >> level);
        ++pairs[texel];
        counts[texel] += kept[row][column];
      }
    }
    for (size_t texel = 0; texel < pairs.size(); ++texel) {
      if (counts[texel] == 0 || counts[texel] == pairs[texel]) {
        ASSERT_EQ(tile->kept[texel], counts[texel] == 0 ? 0 : 255) << texel;
      } else {
        ASSERT_NEAR(tile->kept[texel], 255.0 * static_cast<double>(counts[texel]) / static_cast<double>(pairs[texel]),
                    1.0)
            << texel;
      }
    }
  }
}

TEST_P(ModelWindow, DecodeMethodsSeeTheWindow) {
  CompareOptions options = Options();
  options.decode_rows = 5;
  HeadComparison comparison(head_, options);
  const int64_t first_row = head_->num_rows - 5;
  for (const Case& c : {Case{"dense", ""},
                        {"sliding-window", "n_local=30"},
                        {"sliding-window", "n_local=30,n_sink=590"},
                        {"sparq", "r=8,k=40,reallocate=0"}}) {
    SCOPED_TRACE(std::string(c.method) + ":" + c.parameters);
    const kernels::DecodeMethod* method = kernels::FindDecodeMethod(c.method);
    const kernels::ParameterValues values = Values(method->spec(), c.parameters);
    KeptSet kept(5, std::vector<bool>(static_cast<size_t>(head_->num_tokens)));
    for (size_t step = 0; step < kept.size(); ++step) {
      const int64_t row = first_row + static_cast<int64_t>(step);
      const kernels::ColumnRange attended = head_->AttendedColumns(row);
      // A choice by scores is made among the tokens of the window; one by place is cut to it.
      const bool by_scores = std::string_view(c.method) == "sparq";
      const int32_t first = by_scores ? attended.begin : 0;
      kernels::AttentionProblem problem = head_->Problem();
      problem.seq_q = 1;
      problem.seq_k = attended.end - first;
      problem.first_position = problem.seq_k - 1;
      problem.q.data = head_->q.data() + row * head_->head_dim;
      problem.k.data = head_->k.data() + int64_t{first} * head_->head_dim;
      problem.v.data = head_->v.data() + int64_t{first} * head_->head_dim;
      kernels::DecodeSelection selection;
      ASSERT_TRUE(method->Select(problem, values, {}, &selection).ok());
      for (const int32_t token : selection.pages) {
        if (first + token >= attended.begin) kept[step][static_cast<size_t>(first + token)] = true;
      }
    }
    MethodResult result;
    const kernels::Status status = comparison.Run(std::string("decode/") + c.method, values, &result);
    ASSERT_TRUE(status.ok()) << status.message();
    ExpectResult(result, Compare(*head_, first_row, kept));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, ModelWindow,
    ::testing::Values(RandomHeadShape{.num_tokens = 700, .head_dim = 32, .window = 200, .sharpness = 1},
                      RandomHeadShape{.num_tokens = 610, .first_row = 203, .window = 129, .sharpness = 1},
                      RandomHeadShape{.num_tokens = 400, .window = 50, .sharpness = 1},
                      RandomHeadShape{.num_tokens = 300, .window = 1, .sharpness = 1}));

TEST(ModelWindowAlone, ThatHidesNothingChangesNothing) {
  HeadTensors head = *RandomHead({.num_tokens = 300, .window = 300}, 2);
  EXPECT_FALSE(WindowHides(head));
  head.window = 299;
  EXPECT_TRUE(WindowHides(head));
}

// A method chooses for rows that follow one another and see all that is before them, but for a window.
TEST(ModelWindowAlone, NothingIsSelectedInBlocksOrBetweenGaps) {
  HeadTensors head;
  head.num_rows = head.num_tokens = 100;
  head.head_dim = 8;
  head.q.resize(800);
  head.k.resize(800);
  for (int32_t row = 0; row < 100; ++row) head.row_positions.push_back(row);
  const kernels::PrefillMethod* dense = kernels::FindPrefillMethod("dense");
  kernels::SparseIndex index;
  const auto status = [&] { return SelectOnHead(head, *dense, kernels::ParameterValues(dense->spec()), {}, &index); };
  EXPECT_TRUE(status().ok());
  head.chunk = 32;
  EXPECT_EQ(status().code(), kernels::StatusCode::kUnsupported);
  EXPECT_THAT(status().message(), ::testing::HasSubstr("attends in chunks of 32 tokens"));
  head.chunk = 0;
  head.row_positions.back() = 101;
  head.num_tokens = 102;
  EXPECT_EQ(status().code(), kernels::StatusCode::kUnsupported);
  EXPECT_THAT(status().message(), ::testing::HasSubstr("gaps between its query rows"));
}

// Another method, which counts its indices.
class CountedIndices final : public kernels::PrefillMethod {
 public:
  explicit CountedIndices(const kernels::PrefillMethod& inner) : inner_(inner) {}
  const kernels::MethodSpec& spec() const override { return inner_.spec(); }
  kernels::Status Select(const kernels::AttentionProblem& problem, const kernels::ParameterValues& values,
                         const kernels::RunOptions& options, kernels::SparseIndex* index) const override {
    ++count;
    return inner_.Select(problem, values, options, index);
  }
  mutable size_t count = 0;

 private:
  const kernels::PrefillMethod& inner_;
};

std::vector<kernels::ParameterValues> ThreeSettings(const kernels::MethodSpec& spec, const char* budget,
                                                    const std::array<double, 3>& values) {
  std::vector<kernels::ParameterValues> settings(3, kernels::ParameterValues(spec));
  for (size_t i = 0; i < settings.size(); ++i) EXPECT_EQ(settings[i].Set(spec, budget, values[i]), "");
  return settings;
}

// Twenty-five indices of a long prompt on every thread took hundreds of megabytes.
TEST(SelectEachOnHeads, AnIndexIsHandedOverBeforeTheNextIsMade) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 300, .window = 120}, 7);
  const CountedIndices method(*kernels::FindPrefillMethod("a-shape"));
  const auto settings = ThreeSettings(method.spec(), "n_local", {16, 64, 128});
  size_t handed = 0;
  ASSERT_TRUE(SelectEachOnHead(*head, method, settings, {.num_threads = 1},
                               [&](size_t place, const kernels::SparseIndex& index) -> kernels::Status {
                                 EXPECT_EQ(place, handed++);
                                 EXPECT_EQ(method.count, handed) << "none is made before this one is taken";
                                 EXPECT_EQ(
                                     KeptBy(index.View()),
                                     ExpectedKept(*head, *kernels::FindPrefillMethod("a-shape"), settings[place]));
                                 return {};
                               })
                  .ok());
  EXPECT_EQ(handed, 3u);
  const kernels::Status status = SelectEachOnHead(*head, method, settings, {.num_threads = 1},
                                                  [](size_t, const kernels::SparseIndex&) -> kernels::Status {
                                                    return {kernels::StatusCode::kCancelled, "enough"};
                                                  });
  EXPECT_EQ(status.message(), "enough");
  EXPECT_EQ(method.count, 4u) << "the first error ends it";
}

TEST(SelectEachOnHeads, WhatSettingsShareIsInsideTheWindowAtEach) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 300, .window = 120}, 8);
  const kernels::PrefillMethod& method = *kernels::FindPrefillMethod("oracle-top-p");
  const auto settings = ThreeSettings(method.spec(), "p", {0.3, 0.6, 0.9});
  size_t handed = 0;
  ASSERT_TRUE(SelectEachOnHead(*head, method, settings, {.num_threads = 1},
                               [&](size_t place, const kernels::SparseIndex& index) -> kernels::Status {
                                 EXPECT_EQ(place, handed++);
                                 EXPECT_EQ(KeptBy(index.View()), ExpectedKept(*head, method, settings[place]));
                                 return {};
                               })
                  .ok());
  EXPECT_EQ(handed, 3u);
}

// 131,072 rows of 100,000 columns and fewer: more pairs than 32 bits count.
TEST(ModelWindowAlone, PairsAreCountedIn64Bits) {
  HeadTensors head;
  head.num_rows = head.num_tokens = 131072;
  head.window = 100000;
  for (int32_t row = 0; row < 131072; ++row) head.row_positions.push_back(row);
  EXPECT_EQ(AttendedPairs(head), int64_t{100000} * 100001 / 2 + int64_t{31072} * 100000);
  const kernels::PrefillMethod* dense = kernels::FindPrefillMethod("dense");
  kernels::SparseIndex index;
  head.head_dim = 8;
  head.q.resize(8);  // dense reads none of it
  head.k.resize(8);
  ASSERT_TRUE(SelectOnHead(head, *dense, kernels::ParameterValues(dense->spec()), {}, &index).ok());
  ASSERT_TRUE(kernels::Validate(index.View()).ok());
  EXPECT_EQ(KeptFraction(head, index.View()), 1.0);
}

}  // namespace
}  // namespace headscope::analysis
