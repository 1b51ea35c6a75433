// SPDX-License-Identifier: Apache-2.0
// What follows a slider on the GPU is what the CPU's says of the same head, and takes less than a frame.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "analysis/compare.h"
#include "analysis/live_head.h"
#include "analysis/types/timing.h"
#include "base/stopwatch.h"
#include "compare/model_window.h"
#include "head_pair.h"
#include "kernels/cuda_select.h"
#include "kernels/method.h"
#include "support/gpu.h"
#include "support/stopped.h"

namespace headscope::analysis {
namespace {

using testing::HeadPair;
using testing::OnBoth;
using testing::RandomHeadShape;

// Weights and outputs are rounded to 16 bits on a GPU, in other places of the sum where lists are walked in another
// order: 2^-9 of each value at most, twice.
constexpr double kRoundedOutput = 4e-3;

std::shared_ptr<const HeadMass> MassOf(const HeadTensorsPtr& head) {
  auto mass = HeadMass::Compute(head, 2, {});
  EXPECT_NE(mass, nullptr);
  return mass;
}

class LiveOnGpu : public ::testing::TestWithParam<RandomHeadShape> {
 protected:
  void SetUp() override { SKIP_WITHOUT_GPU(); }
};

TEST_P(LiveOnGpu, EveryMethodsStepIsTheCpus) {
  const HeadPair pair = OnBoth(GetParam(), 11);
  ASSERT_NE(pair.gpu->gpu, nullptr);
  LiveHead on_cpu(pair.cpu), on_gpu(pair.gpu);
  ASSERT_TRUE(on_gpu.is_on_gpu());
  const auto cpu_mass = MassOf(pair.cpu), gpu_mass = MassOf(pair.gpu);
  int run_there = 0;
  for (const kernels::PrefillMethod* const method : kernels::PrefillMethods()) {
    SCOPED_TRACE(method->spec().name);
    const kernels::ParameterValues values(method->spec());
    const LiveChoice choice{*method, values};
    MaskPreview cpu, gpu;
    if (!on_cpu.Preview(*cpu_mass, choice, 2, {}, &cpu).ok()) continue;  // it wants a file, or other heads
    const kernels::Status previewed = on_gpu.Preview(*gpu_mass, choice, 2, {}, &gpu);
    ASSERT_TRUE(previewed.ok()) << previewed.message();
    EXPECT_NEAR(gpu.summary.kept_fraction, cpu.summary.kept_fraction, 1e-3) << "but for scores that tie";
    EXPECT_NEAR(gpu.summary.cra_mean, cpu.summary.cra_mean, 1e-3);
    LiveRun expected, untimed, timed;
    ASSERT_TRUE(on_cpu.Run(choice, cpu.index->View(), 2, {}, &expected).ok());
    const kernels::Status at_once = on_gpu.RunUntimed(gpu.index->View(), 2, {}, &untimed);
    ASSERT_TRUE(at_once.ok()) << at_once.message();
    const kernels::Status run = on_gpu.Run(choice, gpu.index->View(), 2, {}, &timed);
    ASSERT_TRUE(run.ok()) << run.message();
    for (const LiveRun& one : {untimed, timed}) {
      EXPECT_EQ(one.device, pair.gpu->gpu_device);
      EXPECT_EQ(one.note, "");
      EXPECT_EQ(one.num_rows, expected.num_rows);
      EXPECT_EQ(one.checked_rows, expected.checked_rows);
      EXPECT_NEAR(one.relative_error, expected.relative_error, kRoundedOutput + 1e-2 * expected.relative_error);
      if (method->spec().baseline) {
        EXPECT_EQ(one.relative_error, 0);
      }
    }
    EXPECT_FALSE(untimed.is_timed());
    EXPECT_GT(timed.attend_ms, 0);
    EXPECT_GT(timed.dense_attend_ms, 0);
    EXPECT_GE(timed.rounds, 3);
    EXPECT_EQ(timed.checked_attend_ms, 0);
    ++run_there;
  }
  EXPECT_GT(run_there, 15);
}

TEST_P(LiveOnGpu, AnIndexOfAnotherHeadIsRefusedAndAStopIsHeard) {
  const HeadPair pair = OnBoth(GetParam(), 12);
  ASSERT_NE(pair.gpu->gpu, nullptr);
  LiveHead live(pair.gpu);
  const kernels::PrefillMethod& dense = kernels::PrefillBaseline();
  const kernels::ParameterValues values(dense.spec());
  MaskPreview preview;
  ASSERT_TRUE(live.Preview(*MassOf(pair.gpu), {dense, values}, 2, {}, &preview).ok());
  LiveRun run;
  run.attend_ms = -1;
  EXPECT_EQ(live.Run({dense, values}, preview.index->View(), 2, StoppedToken(), &run).code(),
            kernels::StatusCode::kCancelled);
  EXPECT_EQ(live.Preview(*MassOf(pair.gpu), {dense, values}, 2, StoppedToken(), &preview).code(),
            kernels::StatusCode::kCancelled);
  kernels::SparseIndexView other = preview.index->View();
  other.seq_q -= 1;
  EXPECT_EQ(live.Run({dense, values}, other, 2, {}, &run).code(), kernels::StatusCode::kInvalidArgument);
  EXPECT_EQ(run.attend_ms, -1) << "unchanged";
}

INSTANTIATE_TEST_SUITE_P(Shapes, LiveOnGpu,
                         ::testing::Values(RandomHeadShape{.num_tokens = 300, .head_dim = 64},
                                           RandomHeadShape{.num_tokens = 1500, .first_row = 500, .head_dim = 128},
                                           RandomHeadShape{.num_tokens = 400, .head_dim = 64, .window = 150},
                                           RandomHeadShape{.num_tokens = 400, .head_dim = 64, .soft_cap = 5}),
                         [](const auto& shape) { return "case" + std::to_string(shape.index); });

// A figure that the panel shows beside one that the comparison gives for the same head.
TEST(LiveOnGpuTimes, RatioIsTheComparisons) {
  SKIP_WITHOUT_GPU();
  const HeadPair pair = OnBoth({.num_tokens = 16384, .head_dim = 128}, 13);
  ASSERT_NE(pair.gpu->gpu, nullptr);
  const kernels::PrefillMethod& method = *kernels::FindPrefillMethod("a-shape");
  kernels::ParameterValues values(method.spec());
  ASSERT_EQ(values.Parse(method.spec(), "n_local=2048"), "");
  CompareOptions options;
  options.repeats = 9;
  options.device = CudaDevice(0);
  MethodResult measured;
  HeadComparison comparison(pair.gpu, options);
  ASSERT_TRUE(comparison.Run("a-shape", values, &measured).ok());
  LiveHead live(pair.gpu);
  MaskPreview preview;
  ASSERT_TRUE(live.Preview(*MassOf(pair.gpu), {method, values}, 2, {}, &preview).ok());
  LiveRun run;
  ASSERT_TRUE(live.Run({method, values}, preview.index->View(), 2, {}, &run).ok());
  const double expected = measured.dense_attend.median_ms / measured.attend.median_ms;
  std::cout << "live " << run.attend_ms << " ms beside dense " << run.dense_attend_ms << ", compared "
            << measured.attend.median_ms << " beside " << measured.dense_attend.median_ms << '\n';
  EXPECT_NEAR(run.dense_attend_ms / run.attend_ms, expected, 0.2 * expected);
}

// What the window does when a slider moves, but for the picture: the mask with what it keeps of every row, the errors,
// and times.
TEST(LiveOnGpuTimes, AStepAt32KTakesLessThanAFrame) {
  SKIP_WITHOUT_GPU();
  constexpr double kFrameMs = 16;
  // Its rows look at a few columns, as a real head's do: of a random one, what some methods keep is all columns or all
  // diagonals one by one, lists that take longer to the host than to be made.
  HeadTensors planted = *testing::PlantedHead(testing::Plant::kVertical, 32768, 14, 1);
  for (float& value : planted.q) value *= 2;
  const HeadPair pair = OnBoth(testing::Bf16Head(std::move(planted)));
  ASSERT_NE(pair.gpu->gpu, nullptr);
  kernels::AttentionProblem there = pair.gpu->Problem();
  there.dtype = kernels::DType::kBFloat16;
  LiveHead live(pair.gpu);
  const auto mass = MassOf(pair.gpu);
  for (const kernels::PrefillMethod* const method : kernels::PrefillMethods()) {
    if (kernels::FindCudaSelector(*method) == nullptr) continue;
    SCOPED_TRACE(method->spec().name);
    const kernels::ParameterValues values(method->spec());
    kernels::CudaSelectSizes sizes;
    const kernels::Status planned =
        kernels::SelectCudaBufferSizes(*kernels::FindCudaSelector(*method), there, values, &sizes);
    const bool selects_there = planned.code() != kernels::StatusCode::kUnsupported;  // not every form of every method
    ASSERT_TRUE(planned.ok() || !selects_there) << planned.message();
    std::vector<double> masks, errors, times;
    double kept = 0;
    for (int step = 0; step < 6; ++step) {
      const Stopwatch watch;
      MaskPreview preview;
      LiveRun run;
      ASSERT_TRUE(live.Preview(*mass, {*method, values}, 0, {}, &preview).ok());
      const double mask_ms = watch.Milliseconds();
      kept = preview.summary.kept_fraction;
      ASSERT_TRUE(live.RunUntimed(preview.index->View(), 0, {}, &run).ok());
      const double error_ms = watch.Milliseconds();
      ASSERT_TRUE(live.Run({*method, values}, preview.index->View(), 0, {}, &run).ok());
      if (step == 0) continue;  // it makes dense attention's outputs
      masks.push_back(mask_ms);
      errors.push_back(error_ms);
      times.push_back(watch.Milliseconds());
    }
    std::cout << method->spec().name << " keeps " << 100 * kept << " %: the mask after " << Median(masks)
              << " ms, errors after " << Median(errors) << ", times after " << Median(times)
              << (selects_there ? "" : ", selected by the CPU") << '\n';
    if (selects_there) {
      EXPECT_LE(Median(errors), kFrameMs);
    }
  }
}

}  // namespace
}  // namespace headscope::analysis
