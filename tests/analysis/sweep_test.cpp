// SPDX-License-Identifier: Apache-2.0
// The loop under statistics, searches and measurements, and the sweeps that stand on it.
#include "analysis/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "analysis/head_sweeps.h"
#include "analysis/measured_heads.h"
#include "analysis/types/metric_list.h"
#include "base/device.h"
#include "base/errors.h"
#include "data/synthetic_trace.h"
#include "kernels/method_names.h"
#include "synthetic_heads.h"

namespace headscope::analysis {
namespace {

using kernels::Status;
using kernels::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::chrono::milliseconds kMoment(5);

std::string TextOf(const SweepCell& cell) {
  return std::to_string(cell.head) + std::to_string(cell.method) + std::to_string(cell.device);
}

TEST(Sweep, KeepsTheOrderOfTheAxesWhicheverCellEndsFirst) {
  std::vector<std::optional<std::string>> results;
  const Status status = Sweep(
      SweepAxes{.num_heads = 2, .num_methods = 3, .num_devices = 2}, {.num_threads = 4, .most_at_once = 4},
      [](const SweepCell& cell, std::string* result) {
        std::this_thread::sleep_for(cell.place % 4 == 0 ? 4 * kMoment : kMoment);
        *result = TextOf(cell);
        return Status{};
      },
      &results);
  EXPECT_TRUE(status.ok());
  EXPECT_THAT(results, ElementsAre("000", "001", "010", "011", "020", "021", "100", "101", "110", "111", "120", "121"));
}

// The largest number of cells that were under way together.
int32_t MostTogether(int32_t most_at_once, std::vector<int32_t>* threads) {
  std::mutex mutex;
  int32_t now = 0, most = 0;
  const Status status =
      SweepCells({.num_heads = 8}, {.num_threads = 7, .most_at_once = most_at_once}, [&](const SweepCell& cell) {
        {
          const std::lock_guard lock(mutex);
          most = std::max(most, ++now);
          if (threads != nullptr) threads->push_back(cell.num_threads);
        }
        std::this_thread::sleep_for(kMoment);
        const std::lock_guard lock(mutex);
        --now;
        return Status{};
      });
  EXPECT_TRUE(status.ok());
  return most;
}

TEST(Sweep, TimedCellsNeverRunBesideEachOther) {
  std::vector<int32_t> threads;
  EXPECT_EQ(MostTogether(1, &threads), 1);
  EXPECT_THAT(threads, ::testing::Each(7)) << "one cell has all threads";
}

TEST(Sweep, OthersShareTheThreads) {
  std::vector<int32_t> threads;
  const int32_t most = MostTogether(3, &threads);
  EXPECT_GT(most, 1);
  EXPECT_LE(most, 3);
  for (const int32_t count : threads) EXPECT_TRUE(count == 2 || count == 3) << "three share seven: " << count;
}

TEST(Sweep, WithoutAListenerTheFirstFailureEndsIt) {
  std::vector<std::optional<int>> results;
  const Status status = Sweep(
      SweepAxes{.num_heads = 4}, {},
      [](const SweepCell& cell, int* result) {
        *result = 1;
        return cell.head == 2 ? Status{StatusCode::kUnsupported, "head 2 is too large"} : Status{};
      },
      &results);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_EQ(status.message(), "head 2 is too large");
  EXPECT_THAT(results, ElementsAre(1, 1, std::nullopt, std::nullopt));
  EXPECT_THROW(static_cast<void>(SweepCells({.num_heads = 2}, {},
                                            [](const SweepCell&) -> Status { throw std::runtime_error("broken"); })),
               std::runtime_error);
}

TEST(Sweep, HasAsManyHeadsAtOnceAsTheMemoryHolds) {
  EXPECT_EQ(HeadsAtOnce(kCpu, 1 << 20), 4);
  EXPECT_EQ(HeadsAtOnce(kCpu, int64_t{1} << 50), 1) << "one has to do";
  EXPECT_EQ(HeadsAtOnce(kCpu, MostMeasuredBytes() * 2 / 5), 2);
  EXPECT_EQ(HeadsAtOnce(CudaDevice(0), 1), 1);
}

TEST(Sweep, AListenerHearsOfAFailureAndTheOthersGoOn) {
  std::vector<std::string> heard;
  SweepOptions options;
  std::vector<StatusCode> kinds;
  options.failed = [&](const SweepCell& cell, const Status& why) {
    heard.push_back(TextOf(cell) + " " + why.message());
    kinds.push_back(why.code());
  };
  double share = 0;
  options.progress = [&](const SweepProgress& at) { share = at.share; };
  std::vector<std::optional<int>> results;
  const Status status = Sweep(
      SweepAxes{.num_heads = 5}, options,
      [](const SweepCell& cell, int* result) -> Status {
        if (cell.head == 0) return {StatusCode::kUnsupported, "refused"};
        if (cell.head == 2) throw std::runtime_error("broken");
        if (cell.head == 4) throw DeviceError("no room");
        *result = 1;
        return {};
      },
      &results);
  EXPECT_TRUE(status.ok());
  EXPECT_THAT(results, ElementsAre(std::nullopt, 1, std::nullopt, 1, std::nullopt));
  EXPECT_THAT(heard, ElementsAre("000 refused", "200 broken", "400 no room"));
  EXPECT_THAT(kinds, ElementsAre(StatusCode::kUnsupported, StatusCode::kDeviceError, StatusCode::kDeviceMissing))
      << "each as what it is";
  EXPECT_EQ(share, 1);
}

TEST(Sweep, EndsWhenItIsCancelledFromOutsideOrByACell) {
  std::stop_source stop;
  std::vector<std::optional<int>> results;
  const auto raise_at_1 = [&](const SweepCell& cell, int* result) {
    *result = 1;
    if (cell.head == 1) stop.request_stop();
    return Status{};
  };
  EXPECT_EQ(Sweep(SweepAxes{.num_heads = 3}, {.stop = stop.get_token()}, raise_at_1, &results).code(),
            StatusCode::kCancelled);
  EXPECT_THAT(results, ElementsAre(1, 1, std::nullopt));
  // A listener for failures hears nothing of it.
  SweepOptions options;
  options.failed = [](const SweepCell&, const Status& why) { ADD_FAILURE() << why.message(); };
  const auto stop_at_1 = [](const SweepCell& cell, int* result) {
    *result = 1;
    return cell.head == 1 ? Status{StatusCode::kCancelled, "stopped"} : Status{};
  };
  EXPECT_EQ(Sweep(SweepAxes{.num_heads = 3}, options, stop_at_1, &results).code(), StatusCode::kCancelled);
  EXPECT_THAT(results, ElementsAre(1, std::nullopt, std::nullopt));
  const auto throw_at_1 = [](const SweepCell& cell, int* result) -> Status {
    *result = 1;
    if (cell.head == 1) throw CancelledError("stopped");
    return {};
  };
  for (const SweepOptions& heard_or_not : {options, SweepOptions{}}) {
    EXPECT_EQ(Sweep(SweepAxes{.num_heads = 3}, heard_or_not, throw_at_1, &results).code(), StatusCode::kCancelled);
    EXPECT_THAT(results, ElementsAre(1, std::nullopt, std::nullopt));
  }
}

TEST(Sweep, ProgressHasThePartsOfCellsUnderWay) {
  std::vector<double> shares;
  std::vector<size_t> done;
  SweepOptions options;
  options.progress = [&](const SweepProgress& at) {
    shares.push_back(at.share);
    done.push_back(at.done);
    EXPECT_EQ(at.total, 2u);
  };
  ASSERT_TRUE(SweepCells({.num_heads = 2}, options, [](const SweepCell& cell) {
                cell.report(0.5);
                return Status{};
              }).ok());
  EXPECT_THAT(shares, ElementsAre(0.25, 0.5, 0.75, 1));
  EXPECT_THAT(done, ElementsAre(0, 1, 1, 2));
}

TEST(RunOnFirstDevice, GoesToTheNextWhereOneDoesNotTakeTheWork) {
  const auto run_with = [](StatusCode refusal, std::vector<MethodResult>* results) {
    return RunOnFirstDevice(
        {CudaDevice(0), kCpu},
        [refusal](const Device& device, std::vector<MethodResult>* made) -> Status {
          if (device.is_gpu()) return {refusal, "head_dim 72"};
          MethodResult result;
          result.method = "a-shape";
          result.note = "4 heads";
          made->push_back(result);
          return {};
        },
        results);
  };
  for (const StatusCode refusal : {StatusCode::kUnsupported, StatusCode::kOutOfMemory, StatusCode::kDeviceMissing}) {
    std::vector<MethodResult> results;
    EXPECT_TRUE(run_with(refusal, &results).ok());
    ASSERT_EQ(results.size(), 1u);
    EXPECT_EQ(results.front().note, "a-shape ran on the CPU: head_dim 72; 4 heads");
  }
  for (const StatusCode refusal : {StatusCode::kInvalidArgument, StatusCode::kDeviceError, StatusCode::kCancelled}) {
    std::vector<MethodResult> results;
    EXPECT_EQ(run_with(refusal, &results).code(), refusal);
    EXPECT_TRUE(results.empty());
  }
}

class OnATrace : public ::testing::Test {
 protected:
  OnATrace() {
    data::TraceLayout layout = data::testing::SmallLayout(ElementType::kFloat32, /*max_tokens=*/120);
    layout.row_selection = "all";
    data::testing::WriteTrace(folder_.File("trace.h5"), layout, 96, 32);
    trace_ = std::make_unique<data::TraceReader>(folder_.File("trace.h5"));
    heads_ = RecordedHeads(*trace_);
  }

  data::testing::ScratchFolder folder_;
  std::unique_ptr<data::TraceReader> trace_;
  std::vector<HeadId> heads_;
};

TEST_F(OnATrace, StatisticsAreThoseOfOneHeadAfterTheOther) {
  std::vector<HeadStatistics> swept;
  std::atomic<size_t> looked = 0;
  const auto look = [&](size_t place, const HeadTensors& head, const HeadStatistics& statistics) {
    EXPECT_EQ(head.id, heads_[place]);
    EXPECT_EQ(statistics.id, heads_[place]);
    ++looked;
  };
  ASSERT_TRUE(SweepStatistics(*trace_, heads_, kCpu, {}, {.num_threads = 3}, look, &swept).ok());
  ASSERT_EQ(swept.size(), heads_.size());
  EXPECT_EQ(looked, heads_.size());
  for (size_t i = 0; i < heads_.size(); ++i) {
    const HeadStatistics alone = ComputeStatistics(*LoadHead(*trace_, heads_[i]), {});
    EXPECT_EQ(swept[i].id, alone.id);
    for (const MetricInfo& metric : MetricsOf(alone)) {
      const double one = MetricValue(swept[i], metric.name), other = MetricValue(alone, metric.name);
      if (std::isnan(other)) {
        EXPECT_TRUE(std::isnan(one)) << metric.name;  // this head has no such number
      } else {
        EXPECT_DOUBLE_EQ(one, other) << metric.name;
      }
    }
  }
}

TEST_F(OnATrace, ComparisonsMeasureALayerOnceAndKeepTheOrderOfHeadsAndMethods) {
  ComparisonSweep comparison;
  for (const char* name : {"dense", "a-shape", "sparq"})
    comparison.methods.push_back({name, kernels::ParameterValues(*kernels::FindMethod(name).spec())});
  comparison.options.repeats = 2;
  comparison.options.decode_rows = 3;
  size_t looked = 0;
  comparison.look = [&](const HeadTensors&) { ++looked; };
  // From the last layer to the first, so that the order is not the trace's.
  std::vector<HeadId> heads(heads_.rbegin(), heads_.rend());
  std::vector<double> shares;
  SweepOptions sweep;
  sweep.progress = [&](const SweepProgress& at) { shares.push_back(at.share); };
  std::vector<MethodResult> results;
  const Status status = SweepComparisons(*trace_, heads, comparison, sweep, &results);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(results.size(), 3 * heads.size());
  EXPECT_EQ(looked, heads.size());
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].head, heads[i / 3]);
    EXPECT_EQ(results[i].method, comparison.methods[i % 3].name);
    EXPECT_EQ(results[i].attend.repeats, 2);
  }
  EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
  EXPECT_EQ(shares.back(), 1);
}

TEST_F(OnATrace, AComparisonThatFailsNamesTheTraceAndWhatWasMeasured) {
  ComparisonSweep comparison;
  comparison.methods.push_back({"nonesuch", {}});
  std::vector<MethodResult> results;
  const Status status = SweepComparisons(*trace_, {heads_.front()}, comparison, {}, &results);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr(folder_.File("trace.h5") + ", layer "));
  EXPECT_THAT(status.message(), HasSubstr("nonesuch"));
}

TEST_F(OnATrace, EveryMeasurementIsToldOfAsItEndsAndAFailedOneLeavesTheOthers) {
  ComparisonSweep comparison;
  comparison.methods.push_back({"a-shape", kernels::ParameterValues(*kernels::FindMethod("a-shape").spec())});
  comparison.options.repeats = 1;
  std::vector<HeadId> measured, failed;
  size_t tellings = 0;
  comparison.measured = [&](const std::vector<MethodResult>& results) {
    ++tellings;
    for (const MethodResult& result : results) measured.push_back(result.head);
  };
  std::vector<MethodResult> results;
  ASSERT_TRUE(SweepComparisons(*trace_, heads_, comparison, {}, &results).ok());
  EXPECT_EQ(measured.size(), heads_.size());
  EXPECT_LT(tellings, heads_.size()) << "the heads of a layer end together";
  measured.clear();
  comparison.failed = [&](const std::vector<HeadId>& heads, const Status& why) {
    failed.insert(failed.end(), heads.begin(), heads.end());
    EXPECT_THAT(why.message(), HasSubstr("nonesuch"));
  };
  comparison.methods = {{"nonesuch", {}}};
  EXPECT_TRUE(SweepComparisons(*trace_, heads_, comparison, {}, &results).ok());
  EXPECT_EQ(failed, heads_) << "each once, and the sweep went on";
  EXPECT_TRUE(measured.empty());
}

// What the line of progress counts by.
TEST(LayerComparison, SaysHowManyRunsItWillReport) {
  const testing::RandomLayer layer = testing::MakeRandomLayer({.num_tokens = 200}, 2, 2, 3);
  for (const std::vector<const char*>& names :
       {std::vector{"a-shape"}, std::vector{"sparq"}, std::vector{"dense", "a-shape", "sparq", "vertical-slash"}}) {
    std::vector<AskedMethod> methods;
    for (const char* name : names)
      methods.push_back({name, kernels::ParameterValues(*kernels::FindMethod(name).spec())});
    int64_t reported = 0;
    CompareOptions options;
    options.repeats = 3;
    options.decode_rows = 2;
    options.progress = [&](const RepeatProgress&) { ++reported; };
    LayerComparison comparison(layer.measured, options);
    const int64_t announced = comparison.NumRuns(methods);
    std::vector<MethodResult> results;
    ASSERT_TRUE(comparison.Run(methods, {layer.heads.front()->id}, &results).ok());
    EXPECT_EQ(announced, reported) << names.front();
  }
}

}  // namespace
}  // namespace headscope::analysis
