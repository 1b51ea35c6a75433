// SPDX-License-Identifier: Apache-2.0
#include "analysis/statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <stop_token>

#include "analysis/tiles.h"
#include "analysis/types/metric_scale.h"
#include "analysis/types/row_statistic.h"
#include "base/errors.h"
#include "statistics/ranked_mass.h"
#include "statistics/row_block_pass.h"
#include "statistics/row_statistics.h"
#include "statistics/top_columns.h"
#include "support/stopped.h"
#include "synthetic_heads.h"

namespace headscope::analysis {
namespace {

using testing::Plant;
using testing::PlantedHead;
using testing::RandomHead;

// Full statistics are compared with NumPy on a trace (tests/oracle/analysis_oracle.py); here are the parts, the edges
// and the classes.

TEST(TopColumns, SelectsWhatASortWould) {
  std::mt19937 random(3);
  TopColumns top;
  for (const int64_t size : {1, 5, 31, 32, 33, 127, 128, 257, 513, 2000, 8191, 16384, 20001}) {
    const std::function<float(int64_t)> rows[] = {
        [&](int64_t) { return std::normal_distribution<float>()(random); },
        [&](int64_t) { return static_cast<float>(random() % 7) - 3; },  // many ties
        [](int64_t i) { return static_cast<float>(i); },
        [](int64_t i) { return static_cast<float>(-i); },
        [size](int64_t i) { return static_cast<float>(std::min(i, size - i)); },
        [](int64_t i) { return static_cast<float>(i % 2 == 0 ? i : -i); }};
    for (const auto& value_at : rows) {
      std::vector<float> values;
      for (int64_t i = 0; i < size; ++i) values.push_back(value_at(i));
      std::vector<int32_t> order(values.size());
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
        return values[static_cast<size_t>(a)] > values[static_cast<size_t>(b)];
      });
      const auto best = [&](int32_t k) {
        return std::vector<int32_t>(order.begin(), order.begin() + std::min<int64_t>(k, size));
      };
      for (const int32_t k : {1, 4, 32, 128}) {
        EXPECT_THAT(top.Select(values.data(), size, k), ::testing::UnorderedElementsAreArray(best(k)))
            << size << " " << k;
        EXPECT_THAT(top.Narrow((k + 1) / 2), ::testing::UnorderedElementsAreArray(best((k + 1) / 2)))
            << size << " " << k;
      }
    }
  }
}

TEST(RankedMass, EqualsASortedRow) {
  std::mt19937 random(4);
  RankedMass ranked({1, 2, 4, 64, 1024}, {0.5, 0.9, 0.95, 0.999});
  for (const int64_t size : {1, 3, 64, 1024, 1500, 8000}) {
    for (const double sharpness : {0.0, 1.0, 6.0}) {
      std::vector<float> p;
      double sum = 0;
      for (int64_t i = 0; i < size; ++i) {
        p.push_back(static_cast<float>(std::exp(sharpness * std::normal_distribution<double>()(random))));
        sum += static_cast<double>(p.back());
      }
      for (float& value : p) value = static_cast<float>(static_cast<double>(value) / sum);
      ranked.Rank(p.data(), size);
      std::vector<float> sorted = p;
      std::sort(sorted.begin(), sorted.end(), std::greater<>());
      const int32_t counts[] = {1, 2, 4, 64, 1024};
      for (size_t i = 0; i < 5; ++i) {
        const double expected =
            std::accumulate(sorted.begin(), sorted.begin() + std::min<int64_t>(counts[i], size), 0.0);
        EXPECT_NEAR(ranked.top_mass()[i], expected, 1e-9) << size;
      }
      const double targets[] = {0.5, 0.9, 0.95, 0.999};
      for (size_t i = 0; i < 4; ++i) {
        int64_t needed = 0;
        double mass = 0;
        while (needed < size && mass < targets[i]) mass += static_cast<double>(sorted[static_cast<size_t>(needed++)]);
        EXPECT_NEAR(static_cast<double>(ranked.needed()[i]), static_cast<double>(needed), 1)
            << size << " " << targets[i];
      }
    }
  }
}

// One value and one target in every bucket of a wide row: more answers at once than a byte counts.
TEST(RankedMass, HundredsOfTargetsInDifferentPlacesAreAllAnswered) {
  std::vector<float> values;
  std::vector<double> targets;
  double mass = 0;
  for (int i = 0; i < 600; ++i) {
    values.push_back(0.25f * std::exp2(static_cast<float>(-i) / 16));
    targets.push_back(mass + static_cast<double>(values.back()) / 2);
    mass += static_cast<double>(values.back());
  }
  RankedMass ranked({1}, targets);
  ranked.Rank(values.data(), 600);
  for (int64_t i = 0; i < 600; ++i) EXPECT_EQ(ranked.needed()[static_cast<size_t>(i)], i + 1);
}

// All or most of a row equal, where no value parts it, and values that a damaged file may hold: it ends, and what is
// defined is right.
TEST(RankedMass, RowsOfEqualAndOfImpossibleValuesEnd) {
  RankedMass ranked({1, 64, 1024}, {0.5, 0.9});
  std::vector<float> p(4096, 0x1p-12f);
  ranked.Rank(p.data(), 4096);
  EXPECT_EQ(ranked.needed()[0], 2048);
  EXPECT_NEAR(static_cast<double>(ranked.needed()[1]), 0.9 * 4096, 1);
  EXPECT_EQ(ranked.top_mass()[2], 0.25);
  std::fill(p.begin(), p.begin() + 3000, 0.0f);
  p[7] = 0.75f;
  ranked.Rank(p.data(), 4096);
  EXPECT_EQ(ranked.needed()[0], 1);
  EXPECT_EQ(ranked.needed()[1], 1 + std::ceil(0.15 * 4096));
  EXPECT_EQ(ranked.top_mass()[1], 0.75 + 63 * 0x1p-12);
  std::fill(p.begin(), p.end(), std::numeric_limits<float>::quiet_NaN());
  for (size_t i = 0; i < p.size(); i += 3) p[i] = -0.25f;
  ranked.Rank(p.data(), 4096);
  EXPECT_TRUE(std::isnan(ranked.top_mass()[0]));
}

TEST(RankedMass, ATargetThatIsNeverReachedNeedsEverything) {
  RankedMass ranked({1}, {0.99});
  const std::vector<float> p(10, 0.05f);
  ranked.Rank(p.data(), 10);
  EXPECT_EQ(ranked.needed()[0], 10);
}

double KurtosisOf(const std::vector<float>& q) {
  for (const RowStatistic* statistic : RowStatistics()) {
    if (statistic->info().name != "kurtosis") continue;
    RowView row;
    row.q = q;
    return statistic->OfRow(row);
  }
  ADD_FAILURE() << "kurtosis is not registered";
  return 0;
}

TEST(Statistics, KurtosisOfKnownDistributions) {
  std::mt19937 random(5);
  std::vector<float> normal(200000), uniform(200000), one_hot(128, 0.0f);
  for (float& value : normal) value = std::normal_distribution<float>()(random);
  for (float& value : uniform) value = std::uniform_real_distribution<float>()(random);
  one_hot[17] = 3;
  EXPECT_NEAR(KurtosisOf(normal), 0.0, 0.05);
  EXPECT_NEAR(KurtosisOf(uniform), -1.2, 0.02);
  EXPECT_NEAR(KurtosisOf(one_hot), (128.0 * 128 - 3 * 128 + 3) / 127 - 3, 1e-6);
  const std::vector<float> constant(64, 2.0f);
  EXPECT_TRUE(std::isnan(KurtosisOf(constant)));
}

TEST(Statistics, UniformRowsHaveTheirClosedForms) {
  const HeadTensorsPtr head = PlantedHead(Plant::kDiffuse, 700, 1);
  const HeadStatistics statistics = ComputeStatistics(*head, {});
  double entropy = 0, top_32 = 0;
  int64_t needed = 0;
  for (int64_t row = 0; row < 700; ++row) {
    entropy += std::log(static_cast<double>(row + 1)) / 700;
    top_32 += std::min(1.0, 32.0 / static_cast<double>(row + 1)) / 700;
    needed += static_cast<int64_t>(std::ceil(0.95 * static_cast<double>(row + 1) - 1e-6));
  }
  EXPECT_NEAR(statistics.entropy, entropy, 1e-5);
  EXPECT_NEAR(MetricValue(statistics, "top_32_mass"), top_32, 1e-5);
  EXPECT_NEAR(MetricValue(statistics, "sparsity_0.95"), 1 - static_cast<double>(needed) / (700.0 * 701 / 2), 1e-3);
  EXPECT_EQ(RowMeanOf(statistics, "kurtosis"), 0) << "q is zero: no row has a kurtosis";
}

TEST(Statistics, AllComponentsAgreeCompletely) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 500, .head_dim = 32}, 11);
  StatisticsOptions options;
  options.agreement_r = {4, 32};
  const HeadStatistics statistics = ComputeStatistics(*head, options);
  ASSERT_EQ(statistics.agreement.size(), 4u);
  EXPECT_LT(statistics.agreement[0].mean, 0.9);
  EXPECT_DOUBLE_EQ(statistics.agreement[2].mean, 1.0);
  EXPECT_DOUBLE_EQ(statistics.agreement[3].mean, 1.0);
}

TEST(Statistics, DoNotDependOnThreads) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 900}, 12);
  StatisticsOptions one, four;
  one.num_threads = 1;
  four.num_threads = 4;
  const HeadStatistics a = ComputeStatistics(*head, one);
  const HeadStatistics b = ComputeStatistics(*head, four);
  for (const MetricInfo& metric : Metrics()) {
    EXPECT_NEAR(MetricValue(a, metric.name), MetricValue(b, metric.name), 1e-12) << metric.name;
  }
}

TEST(Statistics, SampledRowsIncludeTheLastAndComeCloseToAll) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 2000}, 13);
  StatisticsOptions some;
  some.max_rows = 200;
  const std::vector<RowBlock> blocks = ChooseRows(*head, 64, 200);
  EXPECT_EQ(blocks.back().rows.back(), 1999);
  const HeadStatistics quick = ComputeStatistics(*head, some);
  const HeadStatistics exact = ComputeStatistics(*head, {});
  EXPECT_EQ(quick.num_rows, 200);
  EXPECT_EQ(exact.num_rows, 2000);
  EXPECT_NEAR(quick.entropy, exact.entropy, 0.05 * exact.entropy);
  EXPECT_NEAR(MetricValue(quick, "sparsity_0.95"), MetricValue(exact, "sparsity_0.95"), 0.02);
}

TEST(Statistics, ProfilesAddUpToTheMass) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 1000}, 14);
  const HeadStatistics statistics = ComputeStatistics(*head, {});
  ASSERT_EQ(statistics.column_profile.size(), 256u);
  EXPECT_NEAR(std::accumulate(statistics.column_profile.begin(), statistics.column_profile.end(), 0.0), 1.0, 1e-5);
  EXPECT_NEAR(std::accumulate(statistics.diagonal_profile.begin(), statistics.diagonal_profile.end(), 0.0), 1.0, 1e-5);
}

// Keys of one component that rises, and queries of a constant one: a score says how old its key is.
TEST(Statistics, LogitsByDistanceAreThoseOfTheKeysThere) {
  constexpr int64_t kTokens = 1000;
  HeadTensors head = *RandomHead({.num_tokens = kTokens}, 22);
  std::fill(head.q.begin(), head.q.end(), 0.0f);
  for (int64_t row = 0; row < kTokens; ++row) head.q[static_cast<size_t>(row * head.head_dim)] = 1.0f;
  for (int64_t token = 0; token < kTokens; ++token)
    head.k[static_cast<size_t>(token * head.head_dim)] = static_cast<float>(token) / head.scale / kTokens;
  const HeadStatistics statistics = ComputeStatistics(head, {});
  // At distance d stand the pairs (t, t - d) of rows d to 999, whose mean score is (999 - d) / 2 thousandths.
  double sum = 0, pairs = 0, local = 0, local_pairs = 0;
  std::vector<double> bin_sums(256), bin_pairs(256);
  for (int64_t distance = 0; distance < kTokens; ++distance) {
    const auto of = static_cast<double>(kTokens - distance);
    const double logits = of * (of - 1) / 2 / kTokens;
    sum += logits;
    pairs += of;
    if (distance < 128) local += logits, local_pairs += of;
    bin_sums[static_cast<size_t>(distance * 256 / kTokens)] += logits;
    bin_pairs[static_cast<size_t>(distance * 256 / kTokens)] += of;
  }
  EXPECT_NEAR(statistics.mean_logit, sum / pairs, 1e-6);
  EXPECT_NEAR(statistics.local_logit, local / local_pairs, 1e-6);
  ASSERT_EQ(statistics.logit_profile.size(), 256u);
  for (size_t bin = 0; bin < 256; ++bin)
    EXPECT_NEAR(static_cast<double>(statistics.logit_profile[bin]), bin_sums[bin] / bin_pairs[bin], 1e-5) << bin;
  // Rows that see a window have no pair behind it.
  head.window = 500;
  EXPECT_EQ(ComputeStatistics(head, {}).logit_profile.size(), 128u);
}

TEST(Statistics, OneTokenIsAllMassOnItself) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 1}, 15);
  const HeadStatistics statistics = ComputeStatistics(*head, {});
  EXPECT_EQ(statistics.num_rows, 1);
  EXPECT_NEAR(statistics.max_probability, 1, 1e-6);
  EXPECT_NEAR(statistics.sink_mass, 1, 1e-6);
  EXPECT_NEAR(statistics.local_mass, 1, 1e-6);
  EXPECT_NEAR(statistics.entropy, 0, 1e-6);
  EXPECT_EQ(MetricValue(statistics, "sparsity_0.95"), 0);
}

// An lse a hair too small, as fp32 makes it, gave masses of 1.000001 and an entropy of -0.0000.
TEST(Statistics, RoundingLeavesNoMassAboveOneAndNoEntropyBelowZero) {
  HeadTensors head = *RandomHead({.num_tokens = 1}, 18);
  head.lse[0] -= 1e-5f;
  const HeadStatistics statistics = ComputeStatistics(head, {});
  for (const double mass : {statistics.max_probability, statistics.sink_mass, statistics.local_mass,
                            MetricValue(statistics, "top_1_mass"), MetricValue(statistics, "top_1024_mass")}) {
    EXPECT_EQ(mass, 1);
  }
  EXPECT_EQ(statistics.entropy, 0);
  // What is no rounding stays to be seen.
  head.lse[0] -= 1;
  EXPECT_GT(ComputeStatistics(head, {}).max_probability, 2.7);
  EXPECT_LT(ComputeStatistics(head, {}).entropy, -2);
}

TEST(Statistics, StoppedOnesAreThrownAway) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 300}, 16);
  const std::stop_token stopped = StoppedToken();
  StatisticsOptions options;
  options.stop = stopped;
  EXPECT_THROW(ComputeStatistics(*head, options), CancelledError);
}

struct PlantedClass {
  Plant plant;
  HeadClass expected;
};
class PlantedClasses : public ::testing::TestWithParam<PlantedClass> {};

TEST_P(PlantedClasses, AreRecognised) {
  const HeadTensorsPtr head = PlantedHead(GetParam().plant, 2000, 21);
  for (const int64_t max_rows : {0, 256}) {
    StatisticsOptions options;
    options.max_rows = max_rows;
    const HeadStatistics statistics = ComputeStatistics(*head, options);
    EXPECT_STREQ(HeadClassName(statistics.head_class), HeadClassName(GetParam().expected))
        << statistics.class_reason << " rows " << max_rows;
    EXPECT_FALSE(statistics.class_reason.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Plants, PlantedClasses,
                         ::testing::Values(PlantedClass{Plant::kSinkLocal, HeadClass::kSinkLocal},
                                           PlantedClass{Plant::kVertical, HeadClass::kVerticalSlash},
                                           PlantedClass{Plant::kSlash, HeadClass::kVerticalSlash},
                                           PlantedClass{Plant::kBlock, HeadClass::kBlock},
                                           PlantedClass{Plant::kDiffuse, HeadClass::kDiffuse},
                                           PlantedClass{Plant::kRetrieval, HeadClass::kRetrieval},
                                           PlantedClass{Plant::kSink, HeadClass::kSink},
                                           PlantedClass{Plant::kLocal, HeadClass::kLocal}));

// A thousand heads of known classes, each with noise of its own on every score.
TEST(Classes, OfAThousandNoisyHeadsAreRightInNinetyEightPercent) {
  constexpr std::array kPlants = {
      PlantedClass{Plant::kSinkLocal, HeadClass::kSinkLocal}, PlantedClass{Plant::kVertical, HeadClass::kVerticalSlash},
      PlantedClass{Plant::kSlash, HeadClass::kVerticalSlash}, PlantedClass{Plant::kBlock, HeadClass::kBlock},
      PlantedClass{Plant::kDiffuse, HeadClass::kDiffuse},     PlantedClass{Plant::kRetrieval, HeadClass::kRetrieval},
      PlantedClass{Plant::kSink, HeadClass::kSink},           PlantedClass{Plant::kLocal, HeadClass::kLocal}};
  constexpr uint32_t kHeads = 1000;
  StatisticsOptions options;
  options.max_rows = 200;
  options.agreement_r = {};
  std::map<std::string, int> wrong;
  int right = 0;
  for (uint32_t i = 0; i < kHeads; ++i) {
    const PlantedClass& planted = kPlants[i % kPlants.size()];
    const float noise = 0.05f + 0.95f * static_cast<float>(i) / kHeads;
    const HeadTensorsPtr head = PlantedHead(planted.plant, 1500, 1000 + i, noise);
    const HeadStatistics statistics = ComputeStatistics(*head, options);
    EXPECT_GE(statistics.class_confidence, 0);
    EXPECT_LE(statistics.class_confidence, 1);
    EXPECT_NE(statistics.class_alternative, statistics.head_class);
    if (statistics.head_class == planted.expected) {
      ++right;
    } else {
      ++wrong[std::string(HeadClassName(planted.expected)) + " as " + HeadClassName(statistics.head_class)];
    }
  }
  EXPECT_GE(right, 980) << ::testing::PrintToString(wrong);
  RecordProperty("right_of_a_thousand", right);
}

TEST(Classes, FollowTheThresholdsThatAUserGives) {
  const HeadTensorsPtr head = PlantedHead(Plant::kSlash, 1500, 5);
  StatisticsOptions options;
  const HeadStatistics usual = ComputeStatistics(*head, options);
  ASSERT_EQ(usual.head_class, HeadClass::kVerticalSlash);
  // The line share is what decides: where it has to be all of the far mass, the next rule does.
  options.classes.line_share = 1;
  const HeadStatistics strict = ComputeStatistics(*head, options);
  EXPECT_NE(strict.head_class, HeadClass::kVerticalSlash);
  EXPECT_EQ(strict.class_alternative, HeadClass::kVerticalSlash) << "the lines hold nearly all of it";
  EXPECT_LT(strict.class_confidence, 1);
}

// Heads that look at what is near: what sinks and window hold of it says which of three classes they have, on the
// threshold, too.
TEST(Classes, OfNearHeadsSayWhetherSinksOrTheWindowHoldThem) {
  const auto class_of = [](double sink, double far, double near_share) {
    HeadStatistics head;
    head.sink_mass = sink;
    head.sparsity = {{kClassTarget, 0.9}};
    ClassRules rules;
    rules.near_share = near_share;
    Classify({.far_mass = far}, rules, &head);
    return head;
  };
  EXPECT_EQ(class_of(0.75, 0.125, 0.75).head_class, HeadClass::kSink);
  EXPECT_EQ(class_of(0.5, 0, 0.5).head_class, HeadClass::kSink) << "halves: the first rule";
  EXPECT_EQ(class_of(0.75, 0, 0.75).head_class, HeadClass::kSink);
  EXPECT_EQ(class_of(0.25, 0, 0.75).head_class, HeadClass::kLocal);
  EXPECT_EQ(class_of(0, 0.125, 0.75).head_class, HeadClass::kLocal);
  EXPECT_EQ(class_of(0.5, 0, 0.75).head_class, HeadClass::kSinkLocal);
  EXPECT_EQ(class_of(0.5, 0, 1).head_class, HeadClass::kSinkLocal);
  const HeadStatistics nearly = class_of(0.3125, 0, 0.75);
  EXPECT_EQ(nearly.head_class, HeadClass::kSinkLocal);
  EXPECT_EQ(nearly.class_alternative, HeadClass::kLocal);
  EXPECT_NEAR(nearly.class_confidence, 0.625, 1e-12) << "0.0625 of the sure 0.1 away";
  EXPECT_EQ(nearly.class_reason, "sink 0.31 and the rest of the window 0.69 hold 1.00");
}

TEST(Classes, AreFoundAnewFromTheEvidence) {
  StatisticsOptions strict;
  strict.classes.line_share = 1;
  for (const Plant plant : {Plant::kSlash, Plant::kSinkLocal}) {
    const HeadTensorsPtr head = PlantedHead(plant, 1500, 5);
    const HeadStatistics wanted = ComputeStatistics(*head, strict);
    ClassEvidence evidence;
    HeadStatistics classed = ComputeStatistics(*head, {}, &evidence);
    Classify(evidence, strict.classes, &classed);
    EXPECT_EQ(classed.head_class, wanted.head_class);
    EXPECT_EQ(classed.class_reason, wanted.class_reason);
    EXPECT_EQ(classed.class_confidence, wanted.class_confidence);
    EXPECT_EQ(classed.class_alternative, wanted.class_alternative);
    classed.sparsity.clear();  // such as a file may have it
    Classify(evidence, {}, &classed);
    EXPECT_EQ(classed.head_class, wanted.head_class);
  }
}

TEST(Classes, AreWrittenAndReadAsJson) {
  const std::string path = ::testing::TempDir() + "class_rules.json";
  const auto read = [&path](const std::string& text) {
    std::ofstream(path) << text;
    return ReadClassRules(path);
  };
  ClassRules changed;
  changed.block_lift = 0.25;
  EXPECT_EQ(read(ClassRulesJson(changed)).block_lift, 0.25);
  EXPECT_EQ(read(ClassRulesJson(changed)).near_mass, ClassRules{}.near_mass);
  const std::string begin = R"({"schema": "headscope-classes-1", "thresholds": )";
  EXPECT_EQ(read(begin + R"({"far_mass": 0.5}})").far_mass, 0.5);
  for (const char* wrong : {"{", "[]", R"({"thresholds": {}})"}) EXPECT_THROW(read(wrong), BadInputError) << wrong;
  for (const char* wrong : {R"({"near": 0.5}})", R"({"far_mass": 2}})", R"({"far_mass": "0.1"}})"})
    EXPECT_THROW(read(begin + wrong), BadInputError) << wrong;
  EXPECT_THROW(ReadClassRules(path + ".absent"), BadInputError);
}

double MeanOf(const HeadStatistics& statistics, const char* name) {
  return MetricValue(statistics, name);
}

// Heads whose scores are known: queries are copies of one key each.
TEST(Statistics, TokenScoresFindWhatIsLookedAt) {
  const auto looking_back = [](int64_t distance) {
    HeadTensors head = *RandomHead({.num_tokens = 400, .head_dim = 128, .sharpness = 0}, 31);
    for (int64_t row = 0; row < 400; ++row) {
      const int64_t column = std::max<int64_t>(0, row - distance);
      for (int64_t i = 0; i < 128; ++i)
        head.q[static_cast<size_t>(row * 128 + i)] = 4 * head.k[static_cast<size_t>(column * 128 + i)];
    }
    for (int64_t row = 0; row < 400; ++row) {
      double sum = 0;
      for (int64_t column = 0; column <= row; ++column) sum += std::exp(Score(head, row, column));
      head.lse[static_cast<size_t>(row)] = static_cast<float>(std::log(sum));
    }
    return ComputeStatistics(head, {});
  };
  // Ids come back after 37 tokens (synthetic_heads.cpp).
  const HeadStatistics previous = looking_back(1), same = looking_back(37), behind = looking_back(36);
  EXPECT_GT(MeanOf(previous, "previous_token"), 0.99);
  EXPECT_LT(MeanOf(same, "previous_token"), 0.01);
  EXPECT_GT(MeanOf(same, "duplicate_token"), 0.99);
  EXPECT_LT(MeanOf(behind, "duplicate_token"), 0.01);
  EXPECT_GT(MeanOf(behind, "induction"), 0.99);
  EXPECT_LT(MeanOf(previous, "induction"), 0.01);
}

TEST(Statistics, LargestLogitIsThatOfTheWorstRow) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 300, .head_dim = 64, .sharpness = 5}, 32);
  double largest = -1e9, mean = 0;
  for (int64_t row = 0; row < 300; ++row) {
    double of_row = -1e9;
    for (int64_t column = 0; column <= row; ++column) of_row = std::max(of_row, Score(*head, row, column));
    largest = std::max(largest, of_row);
    mean += of_row / 300;
  }
  const HeadStatistics statistics = ComputeStatistics(*head, {});
  EXPECT_NEAR(MeanOf(statistics, "largest_logit"), largest, 1e-4 * largest);
  EXPECT_NEAR(MeanOf(statistics, "row_maximum"), mean, 1e-4 * mean);
}

TEST(Statistics, RowsThatSampleAreSpreadAndIncludeTheLast) {
  const std::vector<uint8_t> all = SampledRows(kSampledRows), some = SampledRows(5000);
  EXPECT_EQ(std::accumulate(all.begin(), all.end(), int64_t{0}), kSampledRows);
  EXPECT_EQ(std::accumulate(some.begin(), some.end(), int64_t{0}), kSampledRows);
  EXPECT_EQ(some.back(), 1);
  for (size_t begin = 0; begin + 5 <= some.size(); ++begin)
    EXPECT_GE(std::accumulate(some.begin() + static_cast<std::ptrdiff_t>(begin),
                              some.begin() + static_cast<std::ptrdiff_t>(begin) + 5, 0),
              1);
}

TEST(Statistics, AHeadWithoutTokensAndPreRopeQueriesLacksTheirNumbers) {
  HeadTensors head = *RandomHead({.num_tokens = 200}, 33);
  head.previous_same = nullptr;
  head.q_pre_rope.clear();
  const HeadStatistics statistics = ComputeStatistics(head, {});
  EXPECT_TRUE(std::isnan(MeanOf(statistics, "kurtosis_pre_rope")));
  EXPECT_TRUE(std::isnan(MeanOf(statistics, "kurtosis_pooled_pre_rope")));
  EXPECT_FALSE(std::isnan(MeanOf(statistics, "kurtosis_pooled")));
}

// Components of different size, each normal: the pooled kurtosis is that of the Gaussian, and far from 0.
TEST(Statistics, PooledKurtosisOfAGaussianIsThatOfItsCovariance) {
  HeadTensors head = *RandomHead({.num_tokens = 4000, .head_dim = 16, .sharpness = 1}, 34);
  for (size_t i = 0; i < head.q.size(); ++i) head.q[i] = head.q[i] * static_cast<float>(1 + i % 16) + 2;
  StatisticsOptions options;
  options.max_rows = 10;
  const HeadStatistics statistics = ComputeStatistics(head, options);
  EXPECT_GT(MeanOf(statistics, "kurtosis_pooled"), 1);
  EXPECT_NEAR(MeanOf(statistics, "kurtosis_pooled"), MeanOf(statistics, "kurtosis_gaussian"), 0.1);
}

TEST(Statistics, OutliersOfQAreCountedByAGaussiansShare) {
  HeadTensors head = *RandomHead({.num_tokens = 4000, .head_dim = 16, .sharpness = 1}, 35);
  head.q_pre_rope.clear();
  StatisticsOptions options;
  options.max_rows = 10;  // a number of the whole head, whatever rows are looked at
  EXPECT_NEAR(MeanOf(ComputeStatistics(head, options), "query_outliers"), 1, 0.3);
  // One component in a hundred stands out, by more than three deviations: 0.01 / 0.0027.
  for (size_t i = 0; i < head.q.size(); ++i) head.q[i] = i % 100 == 0 ? 5.0f : i % 2 == 0 ? 0.1f : -0.1f;
  const HeadStatistics statistics = ComputeStatistics(head, options);
  EXPECT_NEAR(MeanOf(statistics, "query_outliers"), 3.704, 0.001);
  EXPECT_TRUE(std::isnan(MeanOf(statistics, "query_outliers_pre_rope"))) << "not recorded";
  std::fill(head.q.begin(), head.q.end(), 2.0f);
  EXPECT_TRUE(std::isnan(MeanOf(ComputeStatistics(head, options), "query_outliers"))) << "no deviation";
}

// A statistic of rows that has no kernel, or needs none.
class NamedStatistic final : public RowStatistic {
 public:
  NamedStatistic(const char* name, bool reads_probabilities) : reads_(reads_probabilities) { info_.name = name; }
  const MetricInfo& info() const override { return info_; }
  bool reads_probabilities() const override { return reads_; }
  double OfRow(const RowView&) const override { return 0; }

 private:
  MetricInfo info_;
  const bool reads_;
};

TEST(Statistics, WhatTheCpuComputedForAHeadOnAGpuIsNamed) {
  const NamedStatistic from_q("of_q", false), one("one", true), other("other", true);
  EXPECT_EQ(CpuStatisticsNote({}), "");
  EXPECT_EQ(CpuStatisticsNote({&from_q}), "") << "it looks at no score, wherever they are made";
  EXPECT_EQ(CpuStatisticsNote({&from_q, &one}), "one has no GPU version and was computed on the CPU");
  EXPECT_EQ(CpuStatisticsNote({&one, &from_q, &other}), "one, other have no GPU version and were computed on the CPU");
}

// Where one number stands for a head: the window's first colours, the classes' target, what every analysis computes.
TEST(Metrics, QuoteSparsityAtOneTarget) {
  EXPECT_EQ(QuotedSparsity(), "sparsity_0.95");
  EXPECT_EQ(Metrics().front().name, QuotedSparsity());
  HeadStatistics head;
  head.sparsity = {{0.9, 0.5}, {0.95, 0.25}};
  EXPECT_EQ(MetricValue(head, QuotedSparsity()), 0.25);
  EXPECT_THAT(StatisticsOptions{}.cra_targets, ::testing::Contains(kQuotedCra));
  EXPECT_EQ(CraText(0.9), "0.90");
  EXPECT_EQ(CraText(0.995), "0.995");
}

// What report, demo and figures take from the list of metrics, in place of lists of names.
TEST(Metrics, SayWhereTheyAreShown) {
  const auto named = [](auto&& chosen) {
    std::vector<std::string> names;
    for (const MetricInfo& metric : Metrics()) {
      if (chosen(metric)) names.push_back(metric.name);
    }
    return names;
  };
  EXPECT_THAT(named([](const MetricInfo& metric) { return metric.in_report; }),
              ::testing::ElementsAre("sparsity_0.95", "entropy", "sink_mass", "local_mass", "retrieval_peak",
                                     "kurtosis", "agreement_r32_k128"));
  EXPECT_THAT(named([](const MetricInfo& metric) { return !metric.mass_part.empty(); }),
              ::testing::UnorderedElementsAre("sink_mass", "local_mass", "spike_mass", "scatter_mass"));
  for (const HeadClassInfo& one : kHeadClasses) {
    EXPECT_FALSE(named([&](const MetricInfo& metric) { return metric.clearest_of == one.head_class; }).empty())
        << one.name;
  }
}

TEST(Metrics, AValueAboveTheAlarmHasItsColour) {
  MetricInfo metric{"largest_logit", "", "", "", false, 0, 0, 100};
  const std::vector<double> values = {1, 50, 200};
  const MetricScale scale(metric, values);
  const auto is_alarm = [&scale](double value) {
    const Rgb color = *scale.Color(value);
    return color.red == kAlarmColor.red && color.green == kAlarmColor.green && color.blue == kAlarmColor.blue;
  };
  EXPECT_FALSE(is_alarm(100));
  EXPECT_TRUE(is_alarm(100.1));
}

TEST(Metrics, EveryNameHasAValueAndOthersHaveNone) {
  const HeadStatistics statistics = ComputeStatistics(*RandomHead({.num_tokens = 200}, 17), {});
  for (const MetricInfo& metric : Metrics())
    EXPECT_FALSE(std::isnan(MetricValue(statistics, metric.name))) << metric.name;
  EXPECT_TRUE(std::isnan(MetricValue(statistics, "no_such_metric")));
  EXPECT_TRUE(std::isnan(MetricValue(HeadStatistics{}, "top_32_mass")));
}

}  // namespace
}  // namespace headscope::analysis
