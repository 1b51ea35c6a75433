// SPDX-License-Identifier: Apache-2.0
// The spread of kept mass over rows, and the search for the cheapest budgets, against plain counting and trying
// everything.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

#include "analysis/search.h"
#include "kernels/decode_method.h"
#include "kernels/sparse_index.h"
#include "search/budget_grid.h"
#include "search/kernel_work.h"
#include "synthetic_heads.h"

namespace headscope::analysis {
namespace {

using kernels::ParameterRole;
using kernels::ParameterSpec;
using kernels::ParameterType;
using kernels::ParameterValues;
using kernels::Unit;
using ::testing::HasSubstr;

constexpr MassStatistic kStatistics[] = {MassStatistic::kMinimum, MassStatistic::kFifthPercentile,
                                         MassStatistic::kMean};

// Tiles of 64 x 64, wherever they begin, and 64 single columns at a time; whole blocks of rows.
TEST(PairsInKernel, CountsWholeTilesOfEveryHalf) {
  kernels::SparseIndex index;
  index.num_qo_heads = 1;
  index.seq_q = index.seq_k = 200;  // a whole tile, and one with 72 rows: blocks of 64, 64, 64 and 8
  index.run_begin = {0, 3};
  index.run_count = {3, 1};
  index.column_begin = {0, 0};
  index.column_count = {0, 2};
  index.runs = {kernels::KeyRun::Make(0, 10, kernels::kRunUpperHalf),  // one block
                kernels::KeyRun::Make(0, 64, kernels::kRunLowerHalf),  // touches the next: 65 keys,
                kernels::KeyRun::Make(64, 1, kernels::kRunLowerHalf | kernels::kRunPartial),  // two blocks
                kernels::KeyRun::Make(100, 70, kernels::kRunPartial)};                        // two, of either half
  index.columns = {3, 60};  // one group, of either half
  EXPECT_EQ(PairsInKernel(index.View()), 64 * 64 * (1 + 2) + 2 * 64 * (128 + 64));
  index.seq_q = index.seq_k = 180;  // the last tile has its upper half alone
  EXPECT_EQ(PairsInKernel(index.View()), 64 * 64 * (1 + 2) + 64 * (128 + 64));
}

TEST(MassDistribution, CountsWhatAPlainLoopCounts) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(0, 1);
  for (const int rows : {1, 19, 20, 21, 40, 999}) {
    std::vector<float> mass(static_cast<size_t>(rows));
    for (float& value : mass) value = std::sqrt(uniform(random));
    const MassDistribution result = DistributeMass(mass);
    EXPECT_EQ(result.num_rows, rows);
    std::vector<float> sorted = mass;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(result.minimum, static_cast<double>(sorted.front()));
    EXPECT_EQ(mass[static_cast<size_t>(result.worst_row)], sorted.front());
    const auto fifth = static_cast<size_t>(std::ceil(0.05 * rows - 1e-9)) - 1;
    EXPECT_EQ(result.fifth_percentile, static_cast<double>(sorted[fifth])) << rows;
    const auto at_share = [&](double share) {
      return static_cast<double>(sorted[static_cast<size_t>(std::ceil(share * rows - 1e-9)) - 1]);
    };
    EXPECT_EQ(result.first_percentile, at_share(0.01)) << rows;
    EXPECT_EQ(result.first_quartile, at_share(0.25)) << rows;
    EXPECT_EQ(result.median, at_share(0.5)) << rows;
    double sum = 0;
    for (const float value : mass) sum += static_cast<double>(value);
    EXPECT_NEAR(result.mean, sum / rows, 1e-12);
    for (int bin = 0; bin < MassDistribution::kNumBins; ++bin) {
      const auto in_bin = std::count_if(mass.begin(), mass.end(), [&](float value) {
        return static_cast<double>(value) >= bin / 100.0 && static_cast<double>(value) < (bin + 1) / 100.0;
      });
      EXPECT_EQ(result.bins[static_cast<size_t>(bin)], in_bin) << bin;
    }
  }
}

// What the histogram shows left of the target line is what the share below it says, on the edges of bins too.
TEST(MassDistribution, RowsLeftOfATargetOnAnEdgeAreThoseBelowIt) {
  std::vector<float> mass = {-1e-7f, 1.0000002f};
  for (int edge = 0; edge <= 100; ++edge) {
    const auto value = static_cast<float>(edge / 100.0);
    mass.insert(mass.end(), {std::nextafter(value, -1.0f), value, std::nextafter(value, 2.0f)});
  }
  const MassDistribution result = DistributeMass(mass);
  int64_t left = 0;
  for (int edge = 0; edge < 100; ++edge) {
    if (edge > 0) {
      EXPECT_DOUBLE_EQ(ShareBelow(mass, edge / 100.0), static_cast<double>(left) / static_cast<double>(mass.size()));
    }
    left += result.bins[static_cast<size_t>(edge)];
  }
  EXPECT_EQ(left, result.num_rows) << "masses a hair outside 0..1 are in the outer bins";
}

TEST(MassDistribution, FifthPercentileReachesATargetWhenFewerThanOneInTwentyRowsAreBelow) {
  for (const size_t rows : {1u, 19u, 20u, 21u, 100u, 101u}) {
    for (size_t below = 0; below <= rows; ++below) {
      std::vector<float> mass(rows, 0.97f);
      std::fill_n(mass.begin(), below, 0.2f);
      EXPECT_EQ(DistributeMass(mass).fifth_percentile >= 0.95, below * 20 < rows) << below << " of " << rows;
    }
  }
}

TEST(MassDistribution, ANaNCountsAsNoMass) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> mass = {0.5f, nan, 0.75f, nan, 1.0f};
  const std::vector<float> zeros = {0.5f, 0.0f, 0.75f, 0.0f, 1.0f};
  EXPECT_EQ(DistributeMass(mass), DistributeMass(zeros));
  EXPECT_EQ(ShareBelow(mass, 0.6), ShareBelow(zeros, 0.6));
}

TEST(MassDistribution, NoRowsGiveZeros) {
  EXPECT_EQ(DistributeMass({}), MassDistribution());
  EXPECT_EQ(ShareBelow({}, 0.5), 0);
}

TEST(BudgetGrid, HasBothEndsAndTheMultiplesBetween) {
  const BudgetGrid tokens({.name = "n", .minimum = 1, .maximum = 1 << 20, .step = 64, .unit = Unit::kTokens}, 4200);
  ASSERT_EQ(tokens.size(), 67);
  EXPECT_EQ(tokens.Value(0), 1);
  for (int64_t place = 1; place < 66; ++place) EXPECT_EQ(tokens.Value(place), static_cast<double>(64 * place));
  EXPECT_EQ(tokens.Value(66), 4200);

  const BudgetGrid share({.name = "a", .type = ParameterType::kReal, .step = 0.01}, 200);
  ASSERT_EQ(share.size(), 101);
  for (int64_t place = 0; place <= 100; ++place)
    EXPECT_EQ(share.Value(place), static_cast<double>(place) / 100) << "the double that reads as written";

  const BudgetGrid fixed({.name = "f", .minimum = 7, .maximum = 7, .unit = Unit::kTokens}, 200);
  EXPECT_EQ(fixed.size(), 1);
  EXPECT_EQ(fixed.Value(0), 7);
}

// The registry's step of 50 was taken whatever the length: 127 tokens had three places.
TEST(BudgetGrid, ItsStepFitsTheLength) {
  const ParameterSpec lines{.name = "n", .maximum = 1 << 20, .step = 50, .unit = Unit::kColumns};
  const auto step = [&](int64_t tokens, int64_t most_steps) { return BudgetGrid(lines, tokens, most_steps).step(); };
  EXPECT_EQ(step(1, 0), 1);
  EXPECT_EQ(step(127, 0), 1);
  EXPECT_EQ(step(128, 0), 2);
  EXPECT_EQ(step(640, 0), 10);
  EXPECT_EQ(step(3199, 0), 25);
  EXPECT_EQ(step(3643, 0), 50);
  EXPECT_EQ(step(16378, 800), 50);
  EXPECT_EQ(step(40000, 800), 50);
  EXPECT_EQ(step(40001, 800), 100);
  EXPECT_EQ(step(131072, 800), 200);
  EXPECT_EQ(step(131072, 0), 50) << "a single budget is bisected";
  const ParameterSpec blocks{
      .name = "b", .minimum = 1, .maximum = 1 << 14, .unit = Unit::kBlocks, .tokens_per_unit = 64};
  EXPECT_EQ(BudgetGrid(blocks, 4090).maximum(), 64) << "more blocks than that there are not";
  EXPECT_EQ(BudgetGrid(blocks, 4097).maximum(), 65);
}

class BudgetSearchTest : public ::testing::Test {
 protected:
  void UseHead(HeadTensorsPtr head) { mass_ = HeadMass::Compute(std::move(head), 2, {}); }
  MaskPreview Preview(const kernels::PrefillMethod& method, const ParameterValues& values) const {
    MaskPreview preview;
    const kernels::Status status = PreviewMask(*mass_, method, values, 2, {}, &preview);
    EXPECT_TRUE(status.ok()) << status.message();
    return preview;
  }
  BudgetSearchResult Find(const kernels::PrefillMethod& method, const BudgetTarget& target) const {
    return Find(method, ParameterValues(method.spec()), target);
  }
  BudgetSearchResult Find(const kernels::PrefillMethod& method, const ParameterValues& values,
                          const BudgetTarget& target) const {
    BudgetSearchResult result;
    double done = 0;
    BudgetSearchOptions options;
    options.num_threads = 2;
    options.progress = [&](double share) {
      EXPECT_GE(share, done);
      done = share;
    };
    const kernels::Status status = SearchBudget(*mass_, method, values, target, options, &result);
    EXPECT_TRUE(status.ok()) << method.spec().name << ": " << status.message();
    EXPECT_LE(done, 1);
    return result;
  }

  std::shared_ptr<const HeadMass> mass_;
};

// The contract of ParameterRole::kBudget, on which bisection rests: no row loses mass when a budget rises.
TEST_F(BudgetSearchTest, EveryBudgetOfTheRegistryKeepsMoreWhenItRises) {
  UseHead(testing::RandomHead({.num_tokens = 640}, 11));
  int budgets = 0;
  for (const kernels::PrefillMethod* method : kernels::PrefillMethods()) {
    for (const ParameterSpec& parameter : method->spec().parameters) {
      if (parameter.role == ParameterRole::kOther) continue;
      ++budgets;
      ParameterValues values(method->spec());
      // The other budgets small, so that this one decides.
      for (const ParameterSpec& other : method->spec().parameters) {
        if (other.role == ParameterRole::kOther) continue;
        ASSERT_EQ(values.Set(method->spec(), other.name, other.minimum), "");
      }
      std::vector<float> before;
      const BudgetGrid grid(parameter, 640);
      for (int64_t place = 0; place < grid.size(); place = std::max(place + 1, std::min(2 * place, grid.size() - 1))) {
        ASSERT_EQ(values.Set(method->spec(), parameter.name, grid.Value(place)), "");
        const std::vector<float> mass = Preview(*method, values).kept_mass;
        for (size_t row = 0; row < before.size(); ++row)
          ASSERT_GE(mass[row], before[row] - 1e-5f) << method->spec().name << ' ' << parameter.name << " row " << row;
        before = mass;
      }
      EXPECT_NEAR(*std::min_element(before.begin(), before.end()), 1, 1e-4)
          << method->spec().name << ": the largest " << parameter.name << " keeps everything";
    }
  }
  EXPECT_GE(budgets, 8);
}

// The same of decode methods: no step loses mass, and the search finds what trying every value finds.
TEST(DecodeBudgetSearch, FindsTheLeastOfBudgetsThatKeepMoreWhenTheyRise) {
  const HeadTensorsPtr head = testing::RandomHead({.num_tokens = 400, .sharpness = 3}, 21);
  const MeasuredHeadsPtr alone = AloneHead(head);
  int budgets = 0;
  for (const kernels::DecodeMethod* method : kernels::DecodeMethods()) {
    const kernels::MethodSpec& spec = method->spec();
    if (!CheckSearchable(spec).ok() || Budgets(spec).front()->role == ParameterRole::kAmount) continue;
    // This head has neither.
    if (method->Inputs(ParameterValues(spec)).q_pre_rope) continue;
    if (!method->LowerLayers(ParameterValues(spec), head->id.layer).empty()) continue;
    SCOPED_TRACE(spec.name);
    ++budgets;
    const ParameterSpec& budget = *Budgets(spec).front();
    const BudgetGrid grid(budget, 400);
    EXPECT_EQ(grid.minimum(), std::max(budget.minimum, budget.least_budget)) << "what means something else is left out";
    const BudgetTarget target{.mass = 0.8, .statistic = MassStatistic::kMean};
    std::vector<float> before;
    int64_t least = grid.size();
    for (int64_t place = 0; place < std::min<int64_t>(grid.size(), 500); ++place) {
      ParameterValues values(spec);
      ASSERT_EQ(values.Set(spec, budget.name, grid.Value(place)), "");
      DecodePreview preview;
      const kernels::Status made = PreviewDecode(*alone, head->id, *method, values, 16, 1, {}, &preview);
      // A budget that does not hold what is kept in any case is refused, and larger ones are not.
      if (before.empty() && made.code() == kernels::StatusCode::kInvalidArgument) continue;
      ASSERT_TRUE(made.ok()) << made.message();
      for (size_t step = 0; step < before.size(); ++step) ASSERT_GE(preview.kept_mass[step], before[step] - 1e-5f);
      before = preview.kept_mass;
      if (least == grid.size() && DistributeMass(before).mean >= target.mass) least = place;
    }
    ASSERT_LT(least, grid.size());
    std::vector<BudgetSearchResult> found;
    DecodeBudgetSearcher searcher({{alone}}, {});
    ASSERT_TRUE(searcher.Search(*method, ParameterValues(spec), target, &found).ok());
    EXPECT_TRUE(found.front().reached);
    EXPECT_EQ(found.front().values.Real(budget.name), grid.Value(least));
    EXPECT_GE(found.front().mass.mean, target.mass);
  }
  EXPECT_GE(budgets, 13);
}

// A head whose group shares its choices is judged in the group: what its neighbours want costs it mass.
TEST(DecodeBudgetSearch, AHeadInItsGroupIsJudgedByWhatTheGroupChooses) {
  const testing::RandomLayer layer =
      testing::MakeRandomLayer({.num_tokens = 304, .sharpness = 3}, 1, 4, 5);  // whole pages of 16
  const BudgetTarget target{.mass = 0.8, .statistic = MassStatistic::kFifthPercentile};
  int differ = 0;
  for (const char* name : {"quest", "sparq", "exact-top-k"}) {
    SCOPED_TRACE(name);
    const kernels::DecodeMethod& method = *kernels::FindDecodeMethod(name);
    const ParameterSpec& budget = *Budgets(method.spec()).front();
    const BudgetGrid grid(budget, 304);
    for (const HeadTensorsPtr& head : layer.heads) {
      int64_t least = 0;
      for (;; ++least) {
        ASSERT_LT(least, grid.size());
        ParameterValues values(method.spec());
        ASSERT_EQ(values.Set(method.spec(), budget.name, grid.Value(least)), "");
        DecodePreview preview;
        ASSERT_TRUE(PreviewDecode(*layer.measured, head->id, method, values, 16, 1, {}, &preview).ok());
        if (DistributeMass(preview.kept_mass).fifth_percentile >= target.mass) break;
      }
      DecodeSearchOptions options;
      options.head = head->id;
      DecodeBudgetSearcher in_group({{layer.measured}}, options);
      std::vector<BudgetSearchResult> found, alone;
      ASSERT_TRUE(in_group.Search(method, ParameterValues(method.spec()), target, &found).ok());
      EXPECT_TRUE(found.front().reached);
      EXPECT_EQ(found.front().values.Real(budget.name), grid.Value(least));
      DecodeBudgetSearcher by_itself({{AloneHead(head)}}, {});
      ASSERT_TRUE(by_itself.Search(method, ParameterValues(method.spec()), target, &alone).ok());
      differ += alone.front().values == found.front().values ? 0 : 1;
      // What attends is one head.
      EXPECT_EQ(
          in_group
              .Search(method, ParameterValues(method.spec()), {.kind = BudgetTarget::Kind::kError, .most = 0.5}, &found)
              .code(),
          kernels::StatusCode::kUnsupported);
    }
  }
  EXPECT_GT(differ, 0);
}

TEST_F(BudgetSearchTest, OneBudgetIsTheLeastThatReachesTheTarget) {
  UseHead(testing::RandomHead({.num_tokens = 900, .sharpness = 4}, 12));
  for (const char* name : {"block-sparse", "s2-attention"}) {
    const kernels::PrefillMethod& method = *kernels::FindPrefillMethod(name);
    const ParameterSpec& budget =
        *std::find_if(method.spec().parameters.begin(), method.spec().parameters.end(),
                      [](const ParameterSpec& parameter) { return parameter.role == ParameterRole::kBudget; });
    for (const MassStatistic statistic : kStatistics) {
      for (const double target : {0.5, 0.9}) {
        const BudgetSearchResult found = Find(method, {target, statistic});
        ASSERT_TRUE(found.reached);
        // By trying every value from the least on.
        ParameterValues values(method.spec());
        double value = budget.minimum;
        for (;; value += budget.step) {
          ASSERT_EQ(values.Set(method.spec(), budget.name, value), "");
          if (DistributeMass(Preview(method, values).kept_mass).Value(statistic) >= target) break;
        }
        EXPECT_EQ(found.values, values) << name << ' ' << target << ": " << found.values.ToString(method.spec());
        EXPECT_EQ(found.mass, DistributeMass(Preview(method, values).kept_mass));
      }
    }
  }
}

// Every setting of the grid, by masks: what the search's result must equal. Kept pairs, and the statistics of the rows.
class FullSearch {
 public:
  FullSearch(std::span<const HeadTensorsPtr> heads, const kernels::PrefillMethod& method, const ParameterValues& values)
      : method_(method) {
    int64_t longest = 0;
    std::vector<std::shared_ptr<const HeadMass>> masses;
    for (const HeadTensorsPtr& head : heads) {
      longest = std::max(longest, head->num_tokens);
      masses.push_back(HeadMass::Compute(head, 2, {}));
    }
    const std::vector<SearchedBudget> grid = SearchedGrid(method.spec(), longest);
    for (const double first : ValuesOf(grid[0])) {
      for (const double second : grid.size() > 1 ? ValuesOf(grid[1]) : std::vector<double>{0}) {
        Setting setting{values, 0, {}};
        EXPECT_EQ(setting.values.Set(method.spec(), grid[0].name, first), "");
        if (grid.size() > 1) {
          EXPECT_EQ(setting.values.Set(method.spec(), grid[1].name, second), "");
        }
        std::vector<float> rows;
        for (const auto& mass : masses) {
          MaskPreview preview;
          const kernels::Status status = PreviewMask(*mass, method, setting.values, 1, {}, &preview);
          EXPECT_TRUE(status.ok()) << status.message();
          setting.kept += kernels::CountPairs(preview.index->View()).kept;
          rows.insert(rows.end(), preview.kept_mass.begin(), preview.kept_mass.end());
        }
        setting.mass = DistributeMass(rows);
        settings_.push_back(setting);
      }
    }
  }

  size_t size() const { return settings_.size(); }

  // The fewest kept pairs; of equal ones the smallest first budget, then the smallest second: the first that is met.
  void ExpectEqual(const BudgetSearchResult& found, const BudgetTarget& target) const {
    const Setting* best = nullptr;
    for (const Setting& setting : settings_) {
      if (setting.mass.Value(target.statistic) < target.mass) continue;
      if (best == nullptr || setting.kept < best->kept) best = &setting;
    }
    ASSERT_EQ(found.reached, best != nullptr);
    if (best == nullptr) best = &settings_.back();
    EXPECT_EQ(found.values, best->values)
        << method_.spec().name << " for " << target.mass << " of statistic " << static_cast<int>(target.statistic)
        << " found " << found.values.ToString(method_.spec()) << ", which keeps " << found.kept_fraction
        << ", where a full search finds " << best->values.ToString(method_.spec());
    EXPECT_EQ(found.mass, best->mass);
  }

 private:
  struct Setting {
    ParameterValues values;
    int64_t kept;
    MassDistribution mass;
  };
  static std::vector<double> ValuesOf(const SearchedBudget& budget) {
    std::vector<double> values{budget.minimum};
    for (int64_t multiple = 0; values.back() < budget.maximum; ++multiple) {
      const double value = budget.step < 1 ? static_cast<double>(multiple) / std::round(1 / budget.step)
                                           : static_cast<double>(multiple) * budget.step;
      if (value > budget.minimum) values.push_back(std::min(value, budget.maximum));
    }
    return values;
  }

  const kernels::PrefillMethod& method_;
  std::vector<Setting> settings_;
};

struct SearchCase {
  const char* method;
  const char* parameters;
};
struct SearchedHead {
  HeadTensorsPtr head;
  std::vector<SearchCase> cases;
};
constexpr BudgetTarget kTargets[] = {
    {0.5, MassStatistic::kMinimum},           {0.9, MassStatistic::kMinimum}, {0.6, MassStatistic::kFifthPercentile},
    {0.95, MassStatistic::kFifthPercentile},  {0.5, MassStatistic::kMean},    {0.95, MassStatistic::kMean},
    {0.999, MassStatistic::kFifthPercentile}, {1, MassStatistic::kMinimum},
};

// It ended at settings that kept up to an eighth more pairs than the cheapest of its grid: it took the best of a coarse
// border, and lowered each budget by itself from there.
TEST_F(BudgetSearchTest, FindsWhatAFullSearchOfItsGridFinds) {
  const SearchCase slash{"vertical-slash", ""};
  const SearchCase slash_as_printed{"vertical-slash", "last_q=7,forced_columns=0,forced_slashes=3"};
  const SearchCase a_shape{"a-shape", ""};
  const SearchCase sample{"sample-attention", "chunk_n=3,own_rows_only=1"};
  const SearchCase blocks{"block-sparse", ""};
  const SearchCase shards{"s2-attention", "vertical_stride=4"};
  const SearchedHead heads[] = {
      {testing::PlantedHead(testing::Plant::kVertical, 130, 31), {slash, a_shape}},
      {testing::PlantedHead(testing::Plant::kSlash, 130, 32), {slash_as_printed}},
      {testing::PlantedHead(testing::Plant::kSinkLocal, 320, 33), {blocks, shards}},
      {testing::RandomHead({.num_tokens = 270, .first_row = 90, .soft_cap = 20, .sharpness = 4}, 34), {sample}},
      {testing::RandomHead({.num_tokens = 130, .first_row = 30, .sharpness = 4}, 35), {slash_as_printed}},
      {testing::RandomHead({.num_tokens = 1}, 36), {slash, a_shape, sample, blocks, shards}},
      // A model's own window, longer than a row tile and shorter: sinks leave the one early, and the other has none.
      {testing::RandomHead({.num_tokens = 256, .window = 170, .sharpness = 3}, 37), {a_shape}},
      {testing::RandomHead({.num_tokens = 130, .first_row = 10, .window = 50}, 38), {a_shape, slash_as_printed}},
  };
  size_t tried = 0;
  for (const SearchedHead& searched : heads) {
    UseHead(searched.head);
    for (const SearchCase& one : searched.cases) {
      const kernels::PrefillMethod& method = *kernels::FindPrefillMethod(one.method);
      ParameterValues values(method.spec());
      ASSERT_EQ(values.Parse(method.spec(), one.parameters), "");
      const FullSearch full({&searched.head, 1}, method, values);
      tried += full.size();
      for (const BudgetTarget& target : kTargets) full.ExpectEqual(Find(method, values, target), target);
    }
  }
  EXPECT_GT(tried, 30000u);
}

TEST_F(BudgetSearchTest, OneSettingForTwoRecordingsIsThatOfAFullSearchOverBoth) {
  const HeadTensorsPtr heads[] = {testing::PlantedHead(testing::Plant::kSinkLocal, 70, 41),
                                  testing::RandomHead({.num_tokens = 130}, 42)};
  const kernels::PrefillMethod& method = *kernels::FindPrefillMethod("vertical-slash");
  const ParameterValues values(method.spec());
  const FullSearch full(heads, method, values);
  for (const BudgetTarget& target : kTargets) {
    BudgetSearchResult found;
    const kernels::Status status = SearchBudget(heads, method, values, target, {.num_threads = 2}, &found);
    ASSERT_TRUE(status.ok()) << status.message();
    full.ExpectEqual(found, target);
  }
}

// A method of two budgets that says nothing of its entries, or the wrong thing.
class Wrapped final : public kernels::PrefillMethod {
 public:
  Wrapped(const kernels::PrefillMethod& inner, bool enters) : inner_(inner), enters_(enters) {}
  const kernels::MethodSpec& spec() const override { return inner_.spec(); }
  kernels::Status Select(const kernels::AttentionProblem& problem, const ParameterValues& values,
                         const kernels::RunOptions& options, kernels::SparseIndex* index) const override {
    return inner_.Select(problem, values, options, index);
  }
  kernels::Status EnterBudgets(const kernels::AttentionProblem& problem, const ParameterValues& values,
                               std::span<const double> first, std::span<const double> second,
                               const kernels::RunOptions& options,
                               std::unique_ptr<kernels::BudgetEntries>* entries) const override {
    if (!enters_) return PrefillMethod::EnterBudgets(problem, values, first, second, options, entries);
    std::vector<double> too_much(first.begin(), first.end());
    for (double& value : too_much) value += 3;
    return inner_.EnterBudgets(problem, values, too_much, second, options, entries);
  }

 private:
  const kernels::PrefillMethod& inner_;
  const bool enters_;
};

TEST_F(BudgetSearchTest, AMethodWithoutEntriesIsWalkedAndOneWithWrongOnesRefused) {
  const HeadTensorsPtr head = testing::PlantedHead(testing::Plant::kSinkLocal, 130, 43);
  UseHead(head);
  const kernels::PrefillMethod& a_shape = *kernels::FindPrefillMethod("a-shape");
  const ParameterValues values(a_shape.spec());
  const FullSearch full({&head, 1}, a_shape, values);
  const Wrapped silent(a_shape, false);
  for (const BudgetTarget& target : kTargets) {
    const BudgetSearchResult walked = Find(silent, values, target);
    full.ExpectEqual(walked, target);
    EXPECT_LE(walked.num_masks, 2 * 66 + 1);
  }
  BudgetSearchResult result;
  const kernels::Status status = SearchBudget(*mass_, Wrapped(a_shape, true), values, {}, {}, &result);
  EXPECT_EQ(status.code(), kernels::StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("its budgets cannot be searched"));
}

// A method of two budgets that counts how often it is asked for its entries: once for each pass over a head's
// probabilities.
class Counted final : public kernels::PrefillMethod {
 public:
  explicit Counted(const kernels::PrefillMethod& inner) : inner_(inner) {}
  const kernels::MethodSpec& spec() const override { return inner_.spec(); }
  kernels::Status Select(const kernels::AttentionProblem& problem, const ParameterValues& values,
                         const kernels::RunOptions& options, kernels::SparseIndex* index) const override {
    return inner_.Select(problem, values, options, index);
  }
  kernels::Status EnterBudgets(const kernels::AttentionProblem& problem, const ParameterValues& values,
                               std::span<const double> first, std::span<const double> second,
                               const kernels::RunOptions& options,
                               std::unique_ptr<kernels::BudgetEntries>* entries) const override {
    ++count_;
    return inner_.EnterBudgets(problem, values, first, second, options, entries);
  }
  int Taken() const { return std::exchange(count_, 0); }

 private:
  const kernels::PrefillMethod& inner_;
  mutable int count_ = 0;
};

TEST_F(BudgetSearchTest, WhatSettingsKeepOnAverageIsMadeOnce) {
  const HeadTensorsPtr head = testing::PlantedHead(testing::Plant::kSinkLocal, 300, 43);
  const kernels::PrefillMethod& a_shape = *kernels::FindPrefillMethod("a-shape");
  const ParameterValues values(a_shape.spec());
  const Counted method(a_shape);
  const BudgetTarget kept{.kind = BudgetTarget::Kind::kKept, .most = 0.4};
  const BudgetTarget mean{0.9, MassStatistic::kMean}, least{0.9, MassStatistic::kMinimum};
  const auto search = [&](BudgetSearcher* searcher, const BudgetTarget& target) {
    std::vector<BudgetSearchResult> found;
    EXPECT_TRUE(searcher->Search(method, values, target, &found).ok());
    return found.at(0);
  };
  const auto alone = [&](const BudgetTarget& target) {
    BudgetSearcher searcher({{head}}, {});
    return search(&searcher, target);
  };
  const std::array expected = {alone(kept), alone(mean), alone(least)};
  EXPECT_EQ(method.Taken(), 3);
  BudgetSearcher searcher({{head}}, {});
  std::vector<TradeOffPoint> points, again;
  EXPECT_EQ(search(&searcher, kept).values, expected[0].values);
  ASSERT_TRUE(searcher.TradeOff(method, values, 7, &points).ok());
  EXPECT_EQ(search(&searcher, mean).values, expected[1].values);
  EXPECT_EQ(method.Taken(), 1) << "for all three";
  EXPECT_EQ(search(&searcher, least).values, expected[2].values);
  EXPECT_EQ(method.Taken(), 1) << "the least row is another question";
  ASSERT_TRUE(searcher.TradeOff(method, values, 7, &again).ok());
  EXPECT_EQ(method.Taken(), 1) << "one set is held at a time";
  ASSERT_EQ(points.size(), again.size());
  for (size_t i = 0; i < points.size(); ++i) {
    EXPECT_EQ(points[i].values, again[i].values);
    EXPECT_EQ(points[i].kept_fraction, again[i].kept_fraction);
  }
  // Another method's are not taken for this one's, nor those of other values.
  const Counted other(a_shape);
  ASSERT_TRUE(searcher.TradeOff(other, values, 7, &again).ok());
  EXPECT_EQ(other.Taken(), 1);
}

// Keeps the newest `width` keys, at most 16: too few for most targets.
class NarrowBand final : public kernels::PrefillMethod {
 public:
  NarrowBand() {
    spec_.name = "narrow-band";
    spec_.title = "Narrow band";
    spec_.parameters = {{.name = "width",
                         .default_value = 4,
                         .minimum = 1,
                         .maximum = 16,
                         .unit = Unit::kTokens,
                         .role = ParameterRole::kBudget}};
  }
  const kernels::MethodSpec& spec() const override { return spec_; }
  kernels::Status Select(const kernels::AttentionProblem& problem, const ParameterValues& values,
                         const kernels::RunOptions& options, kernels::SparseIndex* index) const override {
    const kernels::PrefillMethod& band = *kernels::FindPrefillMethod("a-shape");
    ParameterValues of_band(band.spec());
    EXPECT_EQ(of_band.Set(band.spec(), "n_sink", 0), "");
    EXPECT_EQ(of_band.Set(band.spec(), "n_local", values.Real("width")), "");
    return band.Select(problem, of_band, options, index);
  }

 private:
  kernels::MethodSpec spec_;
};

TEST(FrontBytes, GrowWithHeadsAndThreadsAndAreOfTwoBudgetsAlone) {
  const kernels::MethodSpec& two = kernels::FindPrefillMethod("a-shape")->spec();
  const std::vector<SearchedBudget> grid = SearchedGrid(two, 4096);
  ASSERT_EQ(grid.size(), 2U);
  int64_t pairs = 1;
  for (const SearchedBudget& budget : grid) {  // the minimum, the multiples of the step above it, and the maximum
    std::set<double> places = {budget.minimum, budget.maximum};
    for (double at = 0; at < budget.maximum; at += budget.step) {
      if (at > budget.minimum) places.insert(at);
    }
    pairs *= std::ssize(places) + 1;
  }
  EXPECT_EQ(FrontBytes(two, 4096, 3, 2), pairs * (3 * 16 + 2 * 16));
  EXPECT_EQ(FrontBytes(NarrowBand().spec(), 4096, 3, 2), 0);
}

TEST_F(BudgetSearchTest, ATargetOutOfReachIsSaidInOneSentence) {
  UseHead(testing::PlantedHead(testing::Plant::kDiffuse, 400, 14));
  const NarrowBand method;
  const BudgetTarget target{0.95, MassStatistic::kMinimum};
  const BudgetSearchResult result = Find(method, target);
  EXPECT_FALSE(result.reached);
  EXPECT_EQ(result.values.Real("width"), 16);
  EXPECT_EQ(result.num_masks, 1) << "nothing more is tried";
  const std::string sentence = UnreachedSentence(method.spec(), target, result);
  EXPECT_THAT(sentence, HasSubstr("Narrow band keeps at most 0.0"));
  EXPECT_THAT(sentence, HasSubstr("of every query, with width at the largest"));
}

// The rows of both recordings count together, and a budget may be as long as the longer one.
TEST_F(BudgetSearchTest, OneSettingForTwoRecordingsIsTheLeastThatReachesTheTargetOverTheRowsOfBoth) {
  const HeadTensorsPtr both[] = {testing::PlantedHead(testing::Plant::kSinkLocal, 300, 21),
                                 testing::PlantedHead(testing::Plant::kDiffuse, 900, 22)};
  const kernels::PrefillMethod& method = *kernels::FindPrefillMethod("block-sparse");
  const auto try_blocks = [&](int32_t blocks, double* kept) {
    ParameterValues values(method.spec());
    EXPECT_EQ(values.Set(method.spec(), "n_blocks", blocks), "");
    std::vector<float> rows;
    double kept_pairs = 0, pairs = 0;
    for (const HeadTensorsPtr& head : both) {
      MaskPreview preview;
      EXPECT_TRUE(PreviewMask(*HeadMass::Compute(head, 2, {}), method, values, 2, {}, &preview).ok());
      rows.insert(rows.end(), preview.kept_mass.begin(), preview.kept_mass.end());
      const auto tokens = static_cast<double>(head->num_tokens);
      kept_pairs += preview.summary.kept_fraction * tokens * (tokens + 1) / 2;
      pairs += tokens * (tokens + 1) / 2;
    }
    *kept = kept_pairs / pairs;
    return DistributeMass(rows);
  };
  for (const MassStatistic statistic : kStatistics) {
    BudgetSearchResult found;
    const kernels::Status status =
        SearchBudget(both, method, ParameterValues(method.spec()), {0.9, statistic}, {.num_threads = 2}, &found);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(found.reached);
    int32_t least = 1;
    double kept = 0;
    while (try_blocks(least, &kept).Value(statistic) < 0.9) ASSERT_LT(++least, 16);
    EXPECT_EQ(found.values.Integer("n_blocks"), least);
    EXPECT_EQ(found.mass, try_blocks(least, &kept));
    EXPECT_EQ(found.mass.num_rows, 1200);
    EXPECT_NEAR(found.kept_fraction, kept, 1e-12);
  }
  BudgetSearchResult result;
  const std::span<const HeadTensorsPtr> none;
  EXPECT_EQ(SearchBudget(none, method, ParameterValues(method.spec()), {}, {}, &result).code(),
            kernels::StatusCode::kInvalidArgument);
}

TEST_F(BudgetSearchTest, RefusesWhatItCannotSearchAndStopsWhenTold) {
  UseHead(testing::RandomHead({.num_tokens = 300}, 15));
  BudgetSearchResult result;
  const kernels::PrefillMethod& dense = *kernels::FindPrefillMethod("dense");
  EXPECT_THAT(SearchBudget(*mass_, dense, ParameterValues(dense.spec()), {}, {}, &result).message(),
              HasSubstr("method dense has no budget to search"));
  const kernels::PrefillMethod& blocks = *kernels::FindPrefillMethod("block-sparse");
  for (const double target : {-0.1, 1.5, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THAT(SearchBudget(*mass_, blocks, ParameterValues(blocks.spec()), {.mass = target}, {}, &result).message(),
                HasSubstr("choose one from 0 to 1"));
  }
  std::stop_source stop;
  BudgetSearchOptions options;
  options.stop = stop.get_token();
  options.progress = [&](double) { stop.request_stop(); };
  EXPECT_EQ(SearchBudget(*mass_, blocks, ParameterValues(blocks.spec()), {}, options, &result).code(),
            kernels::StatusCode::kCancelled);
}

}  // namespace
}  // namespace headscope::analysis
