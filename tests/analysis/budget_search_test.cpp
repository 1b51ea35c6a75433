// The spread of kept mass over rows, and the search for the cheapest budgets, against plain counting and trying
// everything.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "analysis/search.h"
#include "search/budget_grid.h"
#include "synthetic_heads.h"

namespace headscope::analysis {
namespace {

using kernels::ParameterRole;
using kernels::ParameterSpec;
using kernels::ParameterType;
using kernels::ParameterValues;
using ::testing::HasSubstr;

constexpr MassStatistic kStatistics[] = {MassStatistic::kMinimum, MassStatistic::kFifthPercentile,
                                         MassStatistic::kMean};

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
  const BudgetGrid tokens({"n", ParameterType::kInteger, 0, 1, 1 << 20, 64, true, "", "", ""}, 200);
  ASSERT_EQ(tokens.size(), 5);
  const double expected[] = {1, 64, 128, 192, 200};
  for (int64_t place = 0; place < 5; ++place) EXPECT_EQ(tokens.Value(place), expected[place]);
  EXPECT_THAT(tokens.coarse(), ::testing::ElementsAre(0, 1, 2, 4));

  const BudgetGrid share({"a", ParameterType::kReal, 0, 0, 1, 0.01, false, "", "", ""}, 200);
  ASSERT_EQ(share.size(), 101);
  for (int64_t place = 0; place <= 100; ++place)
    EXPECT_EQ(share.Value(place), static_cast<double>(place) / 100) << "the double that reads as written";
  EXPECT_EQ(share.coarse().front(), 0);
  EXPECT_EQ(share.coarse().back(), 100);
  const BudgetGrid mass({"m", ParameterType::kReal, 0, 0, 1, 0.01, false, "", "", "", ParameterRole::kMassShare}, 200);
  EXPECT_THAT(mass.coarse(),
              ::testing::ElementsAre(0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 91, 92, 93, 94, 95, 96, 97, 98, 99, 100));

  const BudgetGrid fixed({"f", ParameterType::kInteger, 0, 7, 7, 1, false, "", "", ""}, 200);
  EXPECT_EQ(fixed.size(), 1);
  EXPECT_EQ(fixed.Value(0), 7);
}

class BudgetSearchTest : public ::testing::Test {
 protected:
  void UseHead(HeadTensorsPtr head) { mass_ = HeadMass::Compute(std::move(head), 2, nullptr); }
  MaskPreview Preview(const kernels::PrefillMethod& method, const ParameterValues& values) const {
    MaskPreview preview;
    const kernels::Status status = PreviewMask(*mass_, method, values, 2, nullptr, &preview);
    EXPECT_TRUE(status.ok()) << status.message();
    return preview;
  }
  BudgetSearchResult Find(const kernels::PrefillMethod& method, const BudgetTarget& target) const {
    BudgetSearchResult result;
    int32_t made = 0, most = 0;
    BudgetSearchOptions options;
    options.num_threads = 2;
    options.progress = [&](int32_t so_far, int32_t at_most) {
      EXPECT_EQ(so_far, made + 1);
      made = so_far;
      most = at_most;
    };
    const kernels::Status status =
        SearchBudget(*mass_, method, ParameterValues(method.spec()), target, options, &result);
    EXPECT_TRUE(status.ok()) << method.spec().name << ": " << status.message();
    EXPECT_EQ(result.num_masks, made);
    EXPECT_LE(made, most);
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
      for (const int64_t place : grid.coarse()) {
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

TEST_F(BudgetSearchTest, OfTwoBudgetsNeitherCanBeLoweredAloneAndNoCoarsePairIsCheaper) {
  UseHead(testing::PlantedHead(testing::Plant::kSinkLocal, 700, 13));
  for (const char* name : {"a-shape", "vertical-slash", "sample-attention"}) {
    const kernels::PrefillMethod& method = *kernels::FindPrefillMethod(name);
    std::vector<ParameterSpec> budgets;
    for (const ParameterSpec& parameter : method.spec().parameters) {
      if (parameter.role != ParameterRole::kOther) budgets.push_back(parameter);
    }
    ASSERT_EQ(budgets.size(), 2u);
    const BudgetGrid grids[] = {BudgetGrid(budgets[0], 700), BudgetGrid(budgets[1], 700)};
    const BudgetTarget target{0.9, MassStatistic::kFifthPercentile};
    const BudgetSearchResult found = Find(method, target);
    ASSERT_TRUE(found.reached) << name;
    EXPECT_GE(found.mass.fifth_percentile, 0.9);
    EXPECT_LE(found.num_masks, 50);

    for (const size_t budget : {0u, 1u}) {
      int64_t place = 0;
      while (grids[budget].Value(place) != found.values.Real(budgets[budget].name)) ASSERT_LT(++place, 1000);
      if (place == 0) continue;
      ParameterValues lower = found.values;
      ASSERT_EQ(lower.Set(method.spec(), budgets[budget].name, grids[budget].Value(place - 1)), "");
      EXPECT_LT(DistributeMass(Preview(method, lower).kept_mass).fifth_percentile, 0.9)
          << name << ' ' << budgets[budget].name << " can be lowered";
    }
    for (const int64_t first : grids[0].coarse()) {
      for (const int64_t second : grids[1].coarse()) {
        ParameterValues values(method.spec());
        ASSERT_EQ(values.Set(method.spec(), budgets[0].name, grids[0].Value(first)), "");
        ASSERT_EQ(values.Set(method.spec(), budgets[1].name, grids[1].Value(second)), "");
        const MaskPreview preview = Preview(method, values);
        if (DistributeMass(preview.kept_mass).fifth_percentile < 0.9) continue;
        EXPECT_LE(found.kept_fraction, preview.summary.kept_fraction) << name << ' ' << preview.summary.parameters;
      }
    }
    // Parameters that are no budgets stay.
    const ParameterValues defaults(method.spec());
    for (const ParameterSpec& parameter : method.spec().parameters) {
      if (parameter.role != ParameterRole::kOther) continue;
      EXPECT_EQ(found.values.Real(parameter.name), defaults.Real(parameter.name));
    }
  }
}

// Keeps the newest `width` keys, at most 16: too few for most targets.
class NarrowBand final : public kernels::PrefillMethod {
 public:
  NarrowBand() {
    spec_.name = "narrow-band";
    spec_.title = "Narrow band";
    spec_.parameters = {{"width", ParameterType::kInteger, 4, 1, 16, 1, false, "tokens", "newest keys", "work",
                         ParameterRole::kBudget}};
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
  const auto mass_of = [](const HeadTensorsPtr& head) { return HeadMass::Compute(head, 2, nullptr); };
  const auto short_one = mass_of(testing::PlantedHead(testing::Plant::kSinkLocal, 300, 21));
  const auto long_one = mass_of(testing::PlantedHead(testing::Plant::kDiffuse, 900, 22));
  const HeadMass* const both[] = {short_one.get(), long_one.get()};
  const kernels::PrefillMethod& method = *kernels::FindPrefillMethod("block-sparse");
  const auto try_blocks = [&](int32_t blocks, double* kept) {
    ParameterValues values(method.spec());
    EXPECT_EQ(values.Set(method.spec(), "n_blocks", blocks), "");
    std::vector<float> rows;
    double kept_pairs = 0, pairs = 0;
    for (const HeadMass* mass : both) {
      MaskPreview preview;
      EXPECT_TRUE(PreviewMask(*mass, method, values, 2, nullptr, &preview).ok());
      rows.insert(rows.end(), preview.kept_mass.begin(), preview.kept_mass.end());
      const auto tokens = static_cast<double>(mass->head().num_tokens);
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
  const std::span<const HeadMass* const> none;
  EXPECT_EQ(SearchBudget(none, method, ParameterValues(method.spec()), {}, {}, &result).code(),
            kernels::StatusCode::kInvalidArgument);
}

TEST_F(BudgetSearchTest, RefusesWhatItCannotSearchAndStopsWhenTold) {
  UseHead(testing::RandomHead({.num_tokens = 300}, 15));
  BudgetSearchResult result;
  const kernels::PrefillMethod& dense = *kernels::FindPrefillMethod("dense");
  EXPECT_THAT(SearchBudget(*mass_, dense, ParameterValues(dense.spec()), {}, {}, &result).message(),
              HasSubstr("method dense has 0 budgets"));
  const kernels::PrefillMethod& blocks = *kernels::FindPrefillMethod("block-sparse");
  for (const double target : {-0.1, 1.5, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THAT(SearchBudget(*mass_, blocks, ParameterValues(blocks.spec()), {.mass = target}, {}, &result).message(),
                HasSubstr("choose one from 0 to 1"));
  }
  std::atomic<bool> cancelled = false;
  BudgetSearchOptions options;
  options.cancelled = &cancelled;
  options.progress = [&](int32_t made, int32_t) {
    EXPECT_EQ(made, 1);
    cancelled = true;
  };
  EXPECT_EQ(SearchBudget(*mass_, blocks, ParameterValues(blocks.spec()), {}, options, &result).code(),
            kernels::StatusCode::kCancelled);
}

}  // namespace
}  // namespace headscope::analysis
