// SPDX-License-Identifier: Apache-2.0
// Recorded steps drive a method with state as a generation would: what it is shown before the first step, step by step,
// and once more.
#include "compare/decode_walk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "analysis/compare.h"
#include "compare/decode_device.h"
#include "evicting_method.h"
#include "kernels/cpu_executor.h"
#include "synthetic_heads.h"
#include "synthetic_trace.h"

namespace headscope::analysis {
namespace {

using testing::EvictingMethod;
using testing::MakeRandomLayer;
using testing::RandomHead;
using testing::RandomLayer;
using testing::Seen;

CompareOptions QuickSteps() {
  CompareOptions options;
  options.num_threads = 2;
  options.decode_rows = 5;
  return options;
}

// What a GPU chose is written over the CPU's lists, so it must be as long.
TEST(ChosenCount, RefusesListsOfAnotherLength) {
  kernels::DecodeSelection selection;
  selection.page_begin = {0, 3, 6};
  selection.pages = {0, 4, 7, 1, 2, 9};
  EXPECT_TRUE(CheckChosenCount(selection, 3, 0).ok());
  selection.page_begin = {0, 3, 5};
  selection.pages.pop_back();
  const kernels::Status status = CheckChosenCount(selection, 3, 12);
  EXPECT_EQ(status.code(), kernels::StatusCode::kDeviceError);
  EXPECT_THAT(status.message(), ::testing::HasSubstr("step 12, list 1: the GPU chose 3 and the CPU 2"));
  EXPECT_THAT(CheckChosenCount(selection, 2, 12).message(), ::testing::HasSubstr("list 0: the GPU chose 2"));
}

TEST(DecodeWalk, ThePromptIsWhatStandsBeforeTheFirstStep) {
  const RandomLayer layer = MakeRandomLayer({.num_tokens = 300, .first_row = 200}, 2, 2, 7);
  const DecodeSteps steps(*layer.measured, {3, 0}, 5);
  const kernels::AttentionProblem whole = layer.measured->Problem();
  const kernels::DecodePrompt prompt = steps.Prompt(whole, RecordedOf(*layer.measured));
  EXPECT_EQ(prompt.first_token, 0);
  EXPECT_EQ(prompt.cache.seq_k, 295);
  EXPECT_EQ(prompt.capacity, 300);
  EXPECT_EQ(prompt.layer, 3);
  // Rows 200 to 294 were recorded, with their log-sum-exps.
  EXPECT_EQ(prompt.cache.seq_q, 95);
  EXPECT_EQ(prompt.cache.first_position, 200);
  for (int32_t head = 0; head < 4; ++head) {
    for (const int32_t row : {0, 94}) {
      const float* const q = static_cast<const float*>(prompt.cache.q.data) + head * prompt.cache.q.head_stride +
                             row * prompt.cache.q.row_stride;
      const HeadTensors& of = *layer.heads[static_cast<size_t>(head)];
      EXPECT_EQ(q[0], of.q[static_cast<size_t>(row * of.head_dim)]);
      EXPECT_EQ(prompt.lse[head * prompt.lse_head_stride + row], of.lse[static_cast<size_t>(row)]);
    }
  }
  EXPECT_EQ(steps.Prompt(whole, {}).lse, nullptr);
}

TEST(DecodeWalk, OnlyRowsRightBeforeTheFirstStepAreItsQueries) {
  const HeadTensorsPtr gaps = RandomHead({.num_tokens = 300, .row_step = 3}, 5);
  const DecodeSteps steps(*gaps, gaps->id, 4);
  const kernels::DecodePrompt prompt = steps.Prompt(gaps->Problem(), {.lse = gaps->lse});
  EXPECT_EQ(prompt.cache.seq_q, 0) << "the row before is three tokens away";
  EXPECT_EQ(prompt.cache.seq_k, gaps->row_positions[static_cast<size_t>(steps.Row(0))]);
  const HeadTensorsPtr windowed = RandomHead({.num_tokens = 300, .window = 50}, 5);
  const DecodeSteps inside(*windowed, windowed->id, 4);
  const kernels::DecodePrompt seen = inside.Prompt(windowed->Problem(), {.lse = windowed->lse});
  EXPECT_EQ(seen.first_token, inside.FirstToken(0));
  EXPECT_EQ(seen.first_token + seen.cache.seq_k, 296);
  EXPECT_EQ(seen.cache.seq_q, seen.cache.seq_k) << "rows before the window's first token do not count";
  EXPECT_EQ(seen.cache.first_position, 0);
}

TEST(DecodeWalk, EveryRunIsAGenerationOfItsOwn) {
  const RandomLayer layer = MakeRandomLayer({.num_tokens = 120}, 2, 2, 9);
  const DecodeSteps steps(*layer.measured, {3, 0}, 5);
  std::unique_ptr<DecodeDevice> device;
  ASSERT_TRUE(MakeDecodeDevice(layer.measured, steps, QuickSteps(), &device).ok());
  const EvictingMethod method;
  const kernels::ParameterValues none;
  DecodeRun run;
  std::unique_ptr<DecodeWork> work;
  kernels::Status status = device->Prepare(method, none, &run, &work);
  ASSERT_TRUE(status.ok()) << status.message();
  const std::vector<float> first = run.o;
  for (size_t step = 0; step < 5; ++step) {
    const kernels::DecodeSelection head = kernels::SelectionOfHead(run.selections[step], 1);
    EXPECT_EQ(kernels::KeptTokens(head, 116 + static_cast<int32_t>(step)).size(), 116u) << "one comes and one goes";
  }
  double select_ms = 0, attend_ms = 0;
  status = work->Once(&select_ms, &attend_ms);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(run.o, first);
  const Seen& seen = *method.seen;
  EXPECT_EQ(seen.begins, 2);
  EXPECT_EQ(seen.appends, 10);
  EXPECT_EQ(seen.steps, 10);
  EXPECT_EQ(seen.attended, 10);
  std::vector<float> o(4 * 32), lse(4);
  const kernels::AttentionProblem last = steps.Problem(layer.measured->Problem(), 4);
  ASSERT_TRUE(kernels::DecodeReference(last, run.selections[4], {{o.data(), 128, 32, 32}, lse.data()}).ok());
  EXPECT_THAT(seen.lse, ::testing::Pointwise(::testing::FloatNear(1e-4f), lse));
  EXPECT_THAT(std::vector<float>(first.end() - 128, first.end()), ::testing::Pointwise(::testing::FloatNear(1e-4f), o));
}

// Each step more is a row of the prompt less, so what runs on the last row alone may not run on several.
TEST(DecodeWalk, WhetherAMethodRunsIsAskedOfTheFirstStep) {
  const kernels::DecodeMethod& method = *kernels::FindDecodeMethod("snap-kv");
  const auto runs = [&](const RandomLayer& layer, const std::string& parameters, int32_t decode_rows) {
    kernels::ParameterValues values(method.spec());
    EXPECT_EQ(values.Parse(method.spec(), parameters), "");
    return CheckDecodeRuns(*layer.measured, method, values, decode_rows, 2, {});
  };
  const RandomLayer whole = MakeRandomLayer({.num_tokens = 17}, 2, 2, 7);
  EXPECT_TRUE(runs(whole, "window=8", 1).ok());
  const kernels::Status budget = runs(whole, "window=8", 4);
  EXPECT_EQ(budget.code(), kernels::StatusCode::kInvalidArgument);
  EXPECT_THAT(budget.message(), ::testing::HasSubstr("compression_ratio leaves 6 of the prompt's 13 tokens"));
  const RandomLayer late = MakeRandomLayer({.num_tokens = 300, .first_row = 230}, 2, 2, 7);
  EXPECT_TRUE(runs(late, "window=64", 1).ok());
  const kernels::Status rows = runs(late, "window=64", 16);
  EXPECT_EQ(rows.code(), kernels::StatusCode::kUnsupported);
  EXPECT_THAT(rows.message(), ::testing::HasSubstr("last 64 queries, and 54 are at hand"));
}

// A method that takes what a lower layer chose is shown it, where that layer is at hand.
TEST(DecodeWalk, LowerLayersWalkAlong) {
  constexpr int32_t kTokens = 150, kKept = 20;
  const kernels::DecodeMethod& method = *kernels::FindDecodeMethod("tidal-decode");
  kernels::ParameterValues values(method.spec());
  ASSERT_EQ(values.Parse(method.spec(), "k=20,first_layer=1,reselect_layer=0"), "");
  const RandomLayer below = MakeRandomLayer({.num_tokens = kTokens}, 2, 2, 7);
  const RandomLayer above = MakeRandomLayer({.num_tokens = kTokens}, 2, 2, 8);
  auto lower = std::make_shared<MeasuredHeads>(*below.measured);
  lower->layer = 1;
  auto upper = std::make_shared<MeasuredHeads>(*above.measured);  // layer 3
  const kernels::Status alone = CheckDecodeRuns(*upper, method, values, 5, 2, {});
  EXPECT_EQ(alone.code(), kernels::StatusCode::kUnsupported);
  EXPECT_THAT(alone.message(), ::testing::HasSubstr("record layer 1 as well"));

  // Nor is a layer of any use that sees other tokens, or has other KV heads (which stands there without any).
  auto narrow = std::make_shared<MeasuredHeads>(*lower), other = std::make_shared<MeasuredHeads>();
  narrow->window = 40;
  other->layer = 1;
  for (const MeasuredHeadsPtr& unlike : {MeasuredHeadsPtr(narrow), MeasuredHeadsPtr(other)}) {
    upper->lower = {unlike};
    const kernels::Status refused = CheckDecodeRuns(*upper, method, values, 5, 2, {});
    EXPECT_EQ(refused.code(), kernels::StatusCode::kUnsupported);
    EXPECT_THAT(refused.message(), ::testing::HasSubstr("which has another window or another number of KV heads"));
  }

  upper->lower = {lower};
  EXPECT_TRUE(CheckDecodeRuns(*upper, method, values, 5, 2, {}).ok());
  const DecodeSteps steps(*upper, {3, 0}, 5);
  const kernels::AttentionProblem whole = upper->Problem();
  DecodeWalk walk(steps, method, values, whole, RecordedOf(*upper), {2, {}});
  for (int run = 0; run < 2; ++run) {
    ASSERT_TRUE(walk.Start().ok());
    for (int64_t step = 0; step < 5; ++step) {
      kernels::DecodeSelection selection;
      double milliseconds = 0;
      const kernels::Status status = walk.Select(step, &selection, &milliseconds);
      ASSERT_TRUE(status.ok()) << status.message();
      for (int32_t kv_head = 0; kv_head < 2; ++kv_head) {
        std::vector<double> mass(kTokens, 0.0);
        for (int32_t i = 0; i < 2; ++i) {
          const std::vector<double> p = testing::AllProbabilities(*below.heads[static_cast<size_t>(2 * kv_head + i)]);
          for (size_t token = 0; token < mass.size(); ++token)
            mass[token] += p[static_cast<size_t>(steps.Row(step)) * mass.size() + token];
        }
        std::vector<int32_t> most(kTokens);
        std::iota(most.begin(), most.end(), 0);
        std::ranges::sort(most, std::greater(), [&](int32_t token) { return mass[static_cast<size_t>(token)]; });
        most.resize(kKept);
        EXPECT_THAT(
            kernels::KeptTokens(kernels::SelectionOfHead(selection, 2 * kv_head), steps.Problem(whole, step).seq_k),
            ::testing::UnorderedElementsAreArray(most))
            << "step " << step << ", KV head " << kv_head;
      }
    }
  }
}

// A layer that the trace has and nobody can reuse is not a layer that it lacks: the remedies differ.
TEST(DecodeWalk, ALowerLayerOfOtherKvHeadsStandsThereWithoutHeads) {
  const data::testing::ScratchFolder folder;
  data::testing::WriteTrace(folder.File("t.h5"), data::testing::DifferingLayout(ElementType::kFloat32, 64), 64, 64);
  const data::TraceReader trace(folder.File("t.h5"));
  const MeasuredHeadsPtr heads = AloneHead(LoadHead(trace, {3, 0}));  // its layer has 1 KV head, layer 1 has 4
  const MeasuredHeadsPtr with = WithLowerLayers(trace, heads, {0, 1});
  ASSERT_EQ(with->lower.size(), 1U) << "layer 0 is not recorded";
  EXPECT_EQ(with->lower.front()->layer, 1);
  EXPECT_EQ(with->lower.front()->num_kv_heads, 0);
}

// The panel shows what a measured run keeps, of a method with state too.
TEST(DecodeWalk, ThePreviewIsTheSameGeneration) {
  for (const int32_t window : {0, 40}) {
    const HeadTensorsPtr head = RandomHead({.num_tokens = 150, .window = window}, 11);
    const EvictingMethod previewed, measured;
    DecodePreview preview;
    const kernels::Status status = PreviewDecode(*AloneHead(head), head->id, previewed, {}, 5, 2, {}, &preview);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(previewed.seen->attended, 5);
    const DecodeSteps steps(*head, head->id, 5);
    std::unique_ptr<DecodeDevice> device;
    ASSERT_TRUE(MakeDecodeDevice(AloneHead(head), steps, QuickSteps(), &device).ok());
    const kernels::ParameterValues none;
    DecodeRun run;
    std::unique_ptr<DecodeWork> work;
    ASSERT_TRUE(device->Prepare(measured, none, &run, &work).ok());
    for (size_t step = 0; step < 5; ++step) {
      const int32_t first = steps.FirstToken(static_cast<int64_t>(step));
      std::vector<int32_t> shown;
      for (const kernels::ColumnRange& range : preview.steps->steps[step].kept) {
        for (int32_t column = range.begin; column < range.end; ++column) shown.push_back(column - first);
      }
      const int32_t seq_k = steps.Problem(head->Problem(), static_cast<int64_t>(step)).seq_k;
      EXPECT_EQ(shown, kernels::KeptTokens(run.selections[step], seq_k)) << "step " << step << ", window " << window;
    }
  }
}

}  // namespace
}  // namespace headscope::analysis
