// SPDX-License-Identifier: Apache-2.0
// What is computed of a trace's heads comes back whole at the next start, and only for that very trace.
#include "statistics_store.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "analysis/types/head_statistic.h"
#include "analysis/types/head_statistics.h"
#include "analysis/types/row_statistic.h"

namespace headscope::app {
namespace {

using analysis::HeadStatistics;

class StatisticsStoreTest : public ::testing::Test {
 protected:
  StatisticsStoreTest() : folder_(std::filesystem::path(::testing::TempDir()) / "headscope-statistics-store") {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    trace_ = (folder_ / "trace.h5").string();
    std::ofstream(trace_) << "a trace";
  }
  ~StatisticsStoreTest() override { std::filesystem::remove_all(folder_); }

  StatisticsStore Store() const { return {(folder_ / "cache").string(), trace_}; }

  std::filesystem::path folder_;
  std::string trace_;
};

constexpr analysis::ClassEvidence kEvidence = {0.25, 0.125, 0.0625, 0.5};

// A different number in every field, so that none of them can be left out or swapped.
HeadStatistics EveryFieldDifferent() {
  HeadStatistics head;
  head.id = {3, 5};
  head.kv_head = 2;
  head.num_rows = 1000;
  head.num_tokens = 1001;
  head.device = {CudaDevice(0), "a GPU"};
  head.note = "a note";
  double next = 0;
  for (double* value : {&head.entropy, &head.max_probability, &head.sink_mass, &head.local_mass, &head.vertical_mass,
                        &head.slash_mass, &head.block_mass, &head.retrieval_mass, &head.retrieval_peak,
                        &head.outside_mass, &head.mean_logit, &head.local_logit}) {
    *value = (next += 1) / 16;
  }
  for (const analysis::RowStatistic* statistic : analysis::RowStatistics())
    head.row_means.push_back({statistic->info().name, (next += 1) / 16});
  for (const analysis::HeadStatistic* statistic : analysis::WholeHeadStatistics())
    head.numbers.push_back({statistic->info().name, (next += 1) / 16});
  for (int32_t k = 1; k <= 1024; k *= 2) head.top_k_mass.push_back({k, (next += 1) / 64});
  for (const int32_t r : {8, 16, 32}) {
    for (const int32_t k : {32, 128}) head.agreement.push_back({r, k, (next += 1) / 64});
  }
  for (const double target : {0.90, 0.95, 0.99}) head.sparsity.push_back({target, (next += 1) / 64});
  head.column_profile = {0.5f, 0.25f};
  head.diagonal_profile = {0.75f};
  head.logit_profile = {-2.5f, 3.25f};
  head.head_class = analysis::HeadClass::kBlock;
  head.class_reason = "because";
  head.class_confidence = (next += 1) / 64;
  head.class_alternative = analysis::HeadClass::kDiffuse;
  return head;
}

TEST_F(StatisticsStoreTest, EveryMetricComesBack) {
  const HeadStatistics head = EveryFieldDifferent();
  ASSERT_EQ(Store().Save({{head, kEvidence}}), "");
  const std::vector<KnownHead> loaded = Store().Load();
  ASSERT_EQ(loaded.size(), 1u);
  for (const analysis::MetricInfo& metric : analysis::Metrics()) {
    EXPECT_EQ(analysis::MetricValue(loaded[0].statistics, metric.name), analysis::MetricValue(head, metric.name))
        << metric.name;
  }
  EXPECT_EQ(loaded[0].statistics.id, head.id);
  EXPECT_EQ(loaded[0].statistics.kv_head, head.kv_head);
  EXPECT_EQ(loaded[0].statistics.num_rows, head.num_rows);
  EXPECT_EQ(loaded[0].statistics.num_tokens, head.num_tokens);
  EXPECT_EQ(loaded[0].statistics.device, head.device);
  EXPECT_EQ(loaded[0].statistics.note, head.note);
  EXPECT_EQ(loaded[0].statistics.column_profile, head.column_profile);
  EXPECT_EQ(loaded[0].statistics.diagonal_profile, head.diagonal_profile);
  EXPECT_EQ(loaded[0].statistics.logit_profile, head.logit_profile);
  EXPECT_EQ(loaded[0].statistics.head_class, head.head_class);
  EXPECT_EQ(loaded[0].statistics.class_reason, head.class_reason);
  EXPECT_EQ(loaded[0].statistics.class_alternative, head.class_alternative);
  EXPECT_EQ(loaded[0].evidence.far_mass, kEvidence.far_mass);
  EXPECT_EQ(loaded[0].evidence.block_chance, kEvidence.block_chance);
  EXPECT_EQ(loaded[0].evidence.line_chance, kEvidence.line_chance);
  EXPECT_EQ(loaded[0].evidence.learned_sink_mass, kEvidence.learned_sink_mass);
}

TEST_F(StatisticsStoreTest, ANumberThatAHeadHasNotComesBackAsSuch) {
  HeadStatistics head = EveryFieldDifferent();
  head.row_means.back().mean = head.numbers.back().value = std::nan("");
  ASSERT_EQ(Store().Save({{head, kEvidence}}), "");
  const std::vector<KnownHead> loaded = Store().Load();
  ASSERT_EQ(loaded.size(), 1u);
  EXPECT_TRUE(std::isnan(loaded[0].statistics.row_means.back().mean));
  EXPECT_TRUE(std::isnan(loaded[0].statistics.numbers.back().value));
}

TEST_F(StatisticsStoreTest, NumbersOfAnotherListOfStatisticsAreComputedAgain) {
  HeadStatistics head = EveryFieldDifferent();
  head.row_means.front().name = "forgotten";
  ASSERT_EQ(Store().Save({{head, kEvidence}}), "");
  EXPECT_TRUE(Store().Load().empty());
}

TEST_F(StatisticsStoreTest, AChangedTraceFindsNothing) {
  ASSERT_EQ(Store().Save({{EveryFieldDifferent(), kEvidence}}), "");
  std::ofstream(trace_) << "another trace, longer";
  EXPECT_TRUE(Store().Load().empty());
}

TEST_F(StatisticsStoreTest, ADamagedFileCountsAsAbsent) {
  ASSERT_EQ(Store().Save({{EveryFieldDifferent(), kEvidence}}), "");
  std::filesystem::resize_file(Store().path(), 40);
  EXPECT_TRUE(Store().Load().empty());
  std::ofstream(Store().path()) << R"({"schema": "headscope-statistics-cache-1", "heads": []})";
  EXPECT_TRUE(Store().Load().empty());
  // Of a name twice a parser takes the last.
  ASSERT_EQ(Store().Save({{EveryFieldDifferent(), kEvidence}}), "");
  std::string text;
  std::getline(std::ifstream(Store().path()), text, '\0');
  std::ofstream(Store().path()) << text.insert(1, R"("schema": "of another program",)");
  EXPECT_TRUE(Store().Load().empty());
}

}  // namespace
}  // namespace headscope::app
