// SPDX-License-Identifier: Apache-2.0
// Runs that follow a slider, against float64 attention over the kept pairs and against the measured run.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "analysis/compare.h"
#include "analysis/live_head.h"
#include "compare/model_window.h"
#include "kernels/contiguous.h"
#include "kernels/cpu_executor.h"
#include "support/attempts.h"
#include "support/stopped.h"
#include "synthetic_heads.h"

namespace headscope::analysis {
namespace {

using testing::AllProbabilities;
using testing::RandomHead;
using testing::RandomHeadShape;

struct Selected {
  const kernels::PrefillMethod& method;
  kernels::ParameterValues values;
  kernels::SparseIndex index;

  LiveChoice Choice() const { return {method, values}; }
};

Selected Select(const HeadTensors& head, const char* name, const std::string& parameters) {
  const kernels::PrefillMethod& method = *kernels::FindPrefillMethod(name);
  Selected selected{method, kernels::ParameterValues(method.spec()), {}};
  EXPECT_EQ(selected.values.Parse(method.spec(), parameters), "");
  EXPECT_TRUE(SelectOnHead(head, method, selected.values, {.num_threads = 2}, &selected.index).ok());
  return selected;
}

// |O - O_dense| / |O_dense| in float64: O weighs the kept keys of each row by their dense probabilities, normalised
// anew with what the sink takes.
double NaiveError(const HeadTensors& head, const kernels::SparseIndexView& index) {
  const std::vector<double> all = AllProbabilities(head);
  const auto width = static_cast<size_t>(head.ValueDim());
  double difference = 0, reference = 0;
  std::vector<kernels::ColumnRange> ranges;
  for (int64_t row = 0; row < head.num_rows; ++row) {
    ranges.clear();
    kernels::AppendKeptRanges(index, 0, 0, static_cast<int32_t>(row), &ranges);
    const double* const p = all.data() + row * head.num_tokens;
    std::vector<double> dense(width), kept(width);
    double mass = head.SinkMass(row);
    for (int64_t column = 0; column < head.num_tokens; ++column) {
      const bool keeps = std::any_of(ranges.begin(), ranges.end(),
                                     [&](const auto& range) { return column >= range.begin && column < range.end; });
      if (keeps) mass += p[column];
      for (size_t i = 0; i < width; ++i) {
        const double term = p[column] * static_cast<double>(head.v[static_cast<size_t>(column) * width + i]);
        dense[i] += term;
        if (keeps) kept[i] += term;
      }
    }
    for (size_t i = 0; i < width; ++i) {
      const double apart = kept[i] / mass - dense[i];
      difference += apart * apart;
      reference += dense[i] * dense[i];
    }
  }
  return std::sqrt(difference / reference);
}

std::vector<float> Attended(const HeadTensors& head, const kernels::SparseIndex& index) {
  std::vector<float> o(static_cast<size_t>(head.num_rows * head.ValueDim()));
  kernels::AttentionOutput output;
  output.o = kernels::ContiguousTensor<void>(o.data(), 1, head.num_rows, head.ValueDim());
  const kernels::Status status = kernels::AttendCpu(head.Problem(), index.View(), output, {2, {}});
  EXPECT_TRUE(status.ok()) << status.message();
  return o;
}

TEST(LiveRun, ErrorIsThatOfTheKeptPairsInFloat64) {
  for (const RandomHeadShape& shape :
       {RandomHeadShape{.num_tokens = 331}, RandomHeadShape{.num_tokens = 300, .first_row = 77, .v_head_dim = 16},
        RandomHeadShape{.num_tokens = 400, .window = 150}, RandomHeadShape{.num_tokens = 260, .sinks = true}}) {
    const HeadTensorsPtr head = RandomHead(shape, 3);
    const Selected selected = Select(*head, "a-shape", "n_sink=3,n_local=40");
    LiveHead live(head);
    LiveRun run;
    const kernels::Status status = live.Run(selected.Choice(), selected.index.View(), 2, {}, &run);
    ASSERT_TRUE(status.ok()) << status.message();
    // Single precision over some hundred keys: 1e-6 of the outputs, which the error is a large share of.
    EXPECT_NEAR(run.relative_error, NaiveError(*head, selected.index.View()), 2e-5) << shape.num_tokens;
    EXPECT_GT(run.relative_error, 0.01);
    EXPECT_EQ(run.checked_rows, head->num_rows);
    EXPECT_EQ(run.num_rows, head->num_rows);
    EXPECT_GT(run.attend_ms, 0);
    EXPECT_GT(run.dense_attend_ms, 0);
  }
}

TEST(LiveRun, SaysWhatTheMeasuredRunSaysAndDenseIsExact) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 900, .head_dim = 64}, 4);
  HeadComparison comparison(head, {.repeats = 1, .num_threads = 2});
  LiveHead live(head);
  for (const char* name : {"dense", "vertical-slash", "a-shape"}) {
    const Selected selected = Select(*head, name, "");
    MethodResult measured;
    ASSERT_TRUE(comparison.Run(name, selected.values, &measured).ok());
    LiveRun run;
    ASSERT_TRUE(live.Run(selected.Choice(), selected.index.View(), 2, {}, &run).ok());
    EXPECT_NEAR(run.relative_error, measured.relative_error, 1e-6) << name;
    EXPECT_NEAR(run.max_error, measured.max_error, 1e-6) << name;
  }
}

TEST(DenseTimes, AreTheMedianOfTheLastFewOfHalfAMinute) {
  DenseTimes times;
  DenseTimes::Moment now;
  EXPECT_TRUE(times.IsDue(now));
  EXPECT_EQ(times.MedianMs(), 0);
  times.Add(500, now);  // beside the statistics
  EXPECT_FALSE(times.IsDue(now + std::chrono::milliseconds(1900))) << "a fifth of the time at most";
  EXPECT_TRUE(times.IsDue(now + std::chrono::milliseconds(2000)));
  for (int i = 0; i < 4; ++i) times.Add(40, now += std::chrono::seconds(2));
  EXPECT_EQ(times.count(), 5);
  EXPECT_EQ(times.MedianMs(), 40) << "one that met other work does not decide";
  EXPECT_DOUBLE_EQ(times.OldestSeconds(now + std::chrono::seconds(1)), 9);
  EXPECT_FALSE(times.IsDue(now + std::chrono::milliseconds(499)));
  EXPECT_TRUE(times.IsDue(now + std::chrono::milliseconds(500)));
  times.Add(40, now += std::chrono::seconds(1));
  EXPECT_DOUBLE_EQ(times.OldestSeconds(now), 7) << "the sixth takes the first's place";
  times.Add(60, now += std::chrono::seconds(27));
  EXPECT_EQ(times.count(), 4) << "what is older than half a minute is gone";
  times.Add(70, now += std::chrono::seconds(60));
  EXPECT_EQ(times.count(), 1);
  EXPECT_EQ(times.MedianMs(), 70);
  times.Forget();
  EXPECT_TRUE(times.IsDue(now)) << "the machine has become quiet";
  EXPECT_EQ(times.count(), 0);
  times.Add(30, now);
  EXPECT_EQ(times.MedianMs(), 30);
}

// Where both are short, no run's ratio has a dense time in it that was taken apart from the method's: both are medians
// of the rounds that a comparison makes (RoundOrder has their order), of every run anew.
TEST(LiveRun, OfAShortHeadDenseAndTheMethodAreTimedInTurnByEveryRun) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 300}, 8);
  const Selected selected = Select(*head, "a-shape", "n_sink=3,n_local=40");
  LiveHead live(head);
  LiveRun first, second;
  ASSERT_TRUE(live.Run(selected.Choice(), selected.index.View(), 2, {}, &first).ok());
  ASSERT_TRUE(live.Run(selected.Choice(), selected.index.View(), 2, {}, &second).ok());
  for (const LiveRun& run : {first, second}) {
    EXPECT_GE(run.rounds, LiveHead::kLeastRounds);
    EXPECT_EQ(run.dense_times, 0) << "none was taken apart";
    EXPECT_EQ(run.checked_attend_ms, 0);
    EXPECT_GT(run.dense_attend_ms, 0);
    EXPECT_GT(run.attend_ms, 0);
  }
  EXPECT_EQ(second.relative_error, first.relative_error);
}

// The panel's dense attention took twice as long as the one of `compare` beside it: a ratio of 2.0 where that says 1.3.
// Both are taken in turn here, so that what else the machine does meets both, and only adds: the least of many counts,
// and more are taken while the two differ, since on a busy machine neither may have run undisturbed yet.
TEST(LiveRun, DenseTakesAsLongAsInAMeasuredRunOfTheHead) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 1200, .head_dim = 64}, 21);
  const Selected selected = Select(*head, "a-shape", "n_sink=16,n_local=500");
  LiveHead live(head);
  HeadComparison comparison(head, {.repeats = 3, .num_threads = 1});  // two wait for a core each on a busy machine
  constexpr double kNone = std::numeric_limits<double>::infinity(), kMost = 1.5;
  double dense = kNone, method = kNone, dense_measured = kNone, method_measured = kNone;
  const auto alike = [](double one, double other) { return one < kMost * other && other < kMost * one; };
  constexpr int kLeastPairs = 10, kMostPairs = 400;
  int pair = 0;
  while (pair < kLeastPairs ||
         (pair < kMostPairs && !(alike(dense, dense_measured) && alike(method, method_measured)))) {
    LiveRun run;
    MethodResult measured;
    const auto run_live = [&] { ASSERT_TRUE(live.Run(selected.Choice(), selected.index.View(), 1, {}, &run).ok()); };
    const auto compare = [&] { ASSERT_TRUE(comparison.Run("a-shape", selected.values, &measured).ok()); };
    if (pair % 2 == 0) run_live();
    compare();
    if (pair % 2 != 0) run_live();
    dense = std::min(dense, run.dense_attend_ms);
    method = std::min(method, run.attend_ms);
    dense_measured = std::min(dense_measured, measured.dense_attend.median_ms);
    method_measured = std::min(method_measured, measured.attend.median_ms);
    ++pair;
  }
  EXPECT_TRUE(alike(dense, dense_measured)) << dense << " ms live, " << dense_measured << " in a measured run";
  EXPECT_TRUE(alike(method, method_measured)) << method << " ms live, " << method_measured << " in a measured run";
}

// A window shows the errors at once, and waits with the times until it has drawn.
TEST(LiveRun, WithoutTimesKnowsTheErrorsOfShortHeadsAndOfSampledQueries) {
  for (const auto& [num_tokens, head_dim] : {std::pair{300, 32}, {8300, 8}}) {
    const HeadTensorsPtr head = RandomHead({.num_tokens = num_tokens, .head_dim = head_dim}, 8);
    const Selected selected = Select(*head, "a-shape", "n_sink=3,n_local=40");
    LiveHead live(head);
    LiveRun untimed, run;
    ASSERT_TRUE(live.RunUntimed(selected.index.View(), 2, {}, &untimed).ok());
    ASSERT_TRUE(LiveHead(head).Run(selected.Choice(), selected.index.View(), 2, {}, &run).ok());
    EXPECT_FALSE(untimed.is_timed());
    EXPECT_EQ(untimed.dense_attend_ms, 0);
    EXPECT_GT(untimed.relative_error, 0.01);
    EXPECT_EQ(untimed.relative_error, run.relative_error) << num_tokens;
    EXPECT_EQ(untimed.max_error, run.max_error) << num_tokens;
    EXPECT_EQ(untimed.checked_rows, run.checked_rows) << num_tokens;
    EXPECT_EQ(untimed.num_rows, num_tokens);
    // Dense attention's outputs are held from then on, and are not among its times.
    ASSERT_TRUE(live.Run(selected.Choice(), selected.index.View(), 2, {}, &run).ok());
    EXPECT_EQ(run.relative_error, untimed.relative_error) << num_tokens;
    EXPECT_TRUE(run.is_timed());
    EXPECT_LE(run.dense_times, 1);
    const LiveRun before = untimed;
    EXPECT_EQ(live.RunUntimed(selected.index.View(), 2, StoppedToken(), &untimed).code(),
              kernels::StatusCode::kCancelled);
    EXPECT_EQ(untimed.relative_error, before.relative_error);
  }
}

// Between the two, all rows are compared, and a pass over them takes long: it is made once, for errors and times.
TEST(LiveRun, WithoutTimesKnowsNothingOfAHeadThatIsNeitherShortNorSampled) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 4200, .head_dim = 128}, 8);
  LiveHead live(head);
  LiveRun untimed;
  ASSERT_TRUE(live.RunUntimed(Select(*head, "a-shape", "n_sink=3,n_local=40").index.View(), 2, {}, &untimed).ok());
  EXPECT_EQ(untimed.checked_rows, 0);
  EXPECT_EQ(untimed.num_rows, 4200);
}

// What dense takes is known anew beside later runs of a head whose runs are too long for rounds.
TEST(LiveRun, DenseOfALongHeadIsTimedAgain) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 8300, .head_dim = 8}, 8);
  ASSERT_GT(head->num_rows * head->num_tokens, LiveHead::kMostPairs);
  const Selected selected = Select(*head, "a-shape", "n_sink=3,n_local=40");
  LiveHead live(head);
  LiveRun first, at_once, later;
  ASSERT_TRUE(live.Run(selected.Choice(), selected.index.View(), 2, {}, &first).ok());
  ASSERT_TRUE(live.Run(selected.Choice(), selected.index.View(), 2, {}, &at_once).ok());
  EXPECT_EQ(first.rounds, 0);
  EXPECT_EQ(first.dense_times, 1);
  // It is due by the clock, sooner or later by what it took.
  do {
    std::this_thread::sleep_for(DenseTimes::kApart / 2);
    ASSERT_TRUE(live.Run(selected.Choice(), selected.index.View(), 2, {}, &later).ok());
  } while (later.dense_times == at_once.dense_times);
  EXPECT_EQ(later.dense_times, at_once.dense_times + 1);
  EXPECT_GE(later.dense_age_s, 0.5);
  EXPECT_GT(later.dense_attend_ms, 0);
  EXPECT_EQ(later.relative_error, first.relative_error);
  // What was timed beside other work says nothing of a machine that has become quiet.
  live.ForgetDenseTimes();
  ASSERT_TRUE(live.Run(selected.Choice(), selected.index.View(), 2, {}, &later).ok());
  EXPECT_EQ(later.dense_times, 1);
  EXPECT_EQ(later.relative_error, first.relative_error);
}

// More pairs than are compared whole: blocks of rows, the first and the last among them.
TEST(LiveRun, OfALongHeadBlocksOfRowsAreCompared) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 8300, .first_row = 100, .head_dim = 8}, 5);
  ASSERT_GT(head->num_rows * head->num_tokens, LiveHead::kMostPairs);
  LiveHead live(head);
  LiveRun run;
  const Selected dense = Select(*head, "dense", "");
  ASSERT_TRUE(live.Run(dense.Choice(), dense.index.View(), 2, {}, &run).ok());
  // 8200 rows are 64 blocks and one of 8 rows, which is the last that is compared.
  EXPECT_EQ(run.checked_rows, (LiveHead::kBlocks - 1) * LiveHead::kBlockRows + 8);
  EXPECT_EQ(run.num_rows, 8200);
  EXPECT_LT(run.relative_error, 1e-6) << "the same rows of both are held beside each other";
  // Those rows of the whole output, by one call, beside those of dense attention.
  const Selected selected = Select(*head, "a-shape", "n_sink=4,n_local=500");
  ASSERT_TRUE(live.Run(selected.Choice(), selected.index.View(), 2, {}, &run).ok());
  const std::vector<float> sparse = Attended(*head, selected.index),
                           all = Attended(*head, Select(*head, "dense", "").index);
  double difference = 0, reference = 0;
  for (const int64_t block : {0, 9, 18, 27, 36, 45, 54, 64}) {
    const auto end = static_cast<size_t>(std::min<int64_t>((block + 1) * 128, 8200) * head->ValueDim());
    for (auto i = static_cast<size_t>(block * 128 * head->ValueDim()); i < end; ++i) {
      difference += std::pow(static_cast<double>(sparse[i]) - static_cast<double>(all[i]), 2);
      reference += std::pow(static_cast<double>(all[i]), 2);
    }
  }
  EXPECT_NEAR(run.relative_error, std::sqrt(difference / reference), 1e-6);
  EXPECT_GT(run.relative_error, 0.01);
}

// Times that stand beside each other are of the same rows: the method's are a part of its whole run, and dense
// attention's are not shorter than those of a mask that keeps everything. The least so far, for other programs run.
TEST(LiveRun, OfALongHeadTheComparedRowsAreTimedByThemselves) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 8300, .head_dim = 32}, 9);
  LiveHead live(head);
  const auto run_again = [&](const Selected& selected, LiveRun* least) {
    LiveRun run;
    EXPECT_TRUE(live.Run(selected.Choice(), selected.index.View(), 2, {}, &run).ok());
    EXPECT_GT(run.checked_attend_ms, 0);
    EXPECT_GT(run.dense_attend_ms, 0);
    const bool is_first = least->attend_ms == 0;
    least->attend_ms = is_first ? run.attend_ms : std::min(least->attend_ms, run.attend_ms);
    least->checked_attend_ms =
        is_first ? run.checked_attend_ms : std::min(least->checked_attend_ms, run.checked_attend_ms);
    least->dense_attend_ms = run.dense_attend_ms;
  };
  const Selected everything = Select(*head, "dense", ""), band = Select(*head, "a-shape", "n_sink=64,n_local=448");
  LiveRun dense, few;
  int runs = 0;
  EXPECT_TRUE(HoldsOnce(
      [&] {
        run_again(everything, &dense);
        run_again(band, &few);
        return ++runs >= 7 && dense.checked_attend_ms < dense.attend_ms &&  // an eighth of the rows, on one core of two
               dense.dense_attend_ms > 0.5 * dense.checked_attend_ms &&
               few.checked_attend_ms < dense.checked_attend_ms / 2;  // an eighth of the pairs
      },
      40))
      << "all rows " << dense.attend_ms << " ms, those compared " << dense.checked_attend_ms << " ms and of dense "
      << dense.dense_attend_ms << " ms, of the band's " << few.checked_attend_ms << " ms";
}

TEST(LiveRun, SaysWhyAHeadIsNotOnTheGpuThatIsThere) {
  HeadTensors head = *RandomHead({.num_tokens = 300}, 6);
  head.gpu_refusal = "head 3:5 is too large";
  LiveHead live(std::make_shared<const HeadTensors>(std::move(head)));
  const Selected selected = Select(*live.head(), "a-shape", "");
  LiveRun run;
  ASSERT_TRUE(live.RunUntimed(selected.index.View(), 2, {}, &run).ok());
  EXPECT_EQ(run.note, "head 3:5 is too large");
  EXPECT_EQ(run.device, NamedCpu());
  ASSERT_TRUE(live.Run(selected.Choice(), selected.index.View(), 2, {}, &run).ok());
  EXPECT_EQ(run.note, "head 3:5 is too large");
}

TEST(LiveRun, StopsAndLeavesWhatWasThere) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 600}, 6);
  LiveHead live(head);
  LiveRun run;
  run.attend_ms = -1;
  const Selected a_shape = Select(*head, "a-shape", "");
  EXPECT_EQ(live.Run(a_shape.Choice(), a_shape.index.View(), 2, StoppedToken(), &run).code(),
            kernels::StatusCode::kCancelled);
  EXPECT_EQ(run.attend_ms, -1);
}

TEST(LiveRun, OfADecodeMethodSaysWhatTheMeasuredRunSays) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 300, .head_dim = 64}, 7);
  HeadComparison comparison(head, {.repeats = 1, .num_threads = 2, .decode_rows = 12});
  for (const auto& [name, parameters] : {std::pair{"dense", ""}, {"sparq", "r=16,k=128"}, {"quest", "budget=64"}}) {
    const kernels::DecodeMethod& method = *kernels::FindDecodeMethod(name);
    kernels::ParameterValues values(method.spec());
    ASSERT_EQ(values.Parse(method.spec(), parameters), "") << name;
    MethodResult measured;
    ASSERT_TRUE(comparison.Run(std::string("decode/") + name, values, &measured).ok());
    LiveRun run;
    const kernels::Status status = RunDecodeLive(*AloneHead(head), head->id, method, values, 12, {}, 2, {}, &run);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_NEAR(run.relative_error, measured.relative_error, 1e-6) << name;
    EXPECT_EQ(run.num_rows, 12);
    EXPECT_GT(run.attend_ms, 0);
  }
}

// Of a dense decode that takes next to no time.
class AtOnce final : public OtherDecode {
 public:
  explicit AtOnce(int* runs) : runs_(runs) {}
  kernels::Status Run() override {
    ++*runs_;
    return {};
  }

 private:
  int* const runs_;
};

TEST(LiveRun, OfADecodeMethodIsBesideTheDenseThatItsMeasuredRunIsBeside) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 300, .head_dim = 64}, 7);
  const kernels::DecodeMethod& method = *kernels::FindDecodeMethod("quest");
  const kernels::ParameterValues values(method.spec());
  int runs = 0;
  const OtherDense other{.name = "another",
                         .make = [&runs](const kernels::AttentionProblem&, std::unique_ptr<OtherDecode>* made) {
                           *made = std::make_unique<AtOnce>(&runs);
                           return kernels::Status{};
                         }};
  MethodResult measured;
  CompareOptions options{.repeats = 1, .num_threads = 2, .decode_rows = 12};
  options.other_dense = other;
  EXPECT_TRUE(HoldsOnce([&] {  // it is the faster one, unless another program takes its core
    EXPECT_TRUE(HeadComparison(head, options).Run("quest", values, &measured).ok());
    return measured.baseline == "another";
  })) << measured.baseline;
  LiveRun run;
  EXPECT_TRUE(HoldsOnce([&] {
    runs = 0;
    EXPECT_TRUE(RunDecodeLive(*AloneHead(head), head->id, method, values, 12, other, 2, {}, &run).ok());
    EXPECT_EQ(runs, 2 * 12) << "each step warms up";
    return run.dense_attend_ms < run.attend_ms / 10;
  })) << "the other's, as in the measured run: "
      << run.dense_attend_ms << " and " << run.attend_ms << " ms";
  // One that does not compute what the model does is not beside it.
  auto capped = std::make_shared<HeadTensors>(*head);
  capped->soft_cap = 30;
  runs = 0;
  ASSERT_TRUE(RunDecodeLive(*AloneHead(capped), head->id, method, values, 12, other, 2, {}, &run).ok());
  EXPECT_EQ(runs, 0);
}

}  // namespace
}  // namespace headscope::analysis
