// Which baselines the window's runs share: prefill's is long and measured once a head, that of decode steps with each
// run.
#include "run_slot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "kernels/method_names.h"

namespace headscope::app {
namespace {

using ::testing::ElementsAre;

constexpr int32_t kTokens = 256, kHeadDim = 32;

analysis::HeadTensorsPtr RandomHead() {
  auto head = std::make_shared<analysis::HeadTensors>();
  head->id = {0, 0};
  head->num_rows = head->num_tokens = kTokens;
  head->head_dim = kHeadDim;
  head->scale = 0.2f;
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  for (std::vector<float>* tensor : {&head->q, &head->k, &head->v}) {
    tensor->resize(size_t{kTokens} * kHeadDim);
    for (float& value : *tensor) value = normal(random);
  }
  head->lse.assign(kTokens, 5.0f);
  for (int32_t i = 0; i < kTokens; ++i) head->row_positions.push_back(i);
  return head;
}

// The methods that were measured by each of three runs in a row, in order and without repetitions.
std::vector<std::string> MeasuredIn(RunSlot* slot, const analysis::HeadTensorsPtr& head, const std::string& method) {
  std::vector<std::string> measured;
  RunSettings settings{
      .repeats = 2, .least_ms = 0, .decode_rows = 4, .report = [&](const analysis::RepeatProgress& at) {
        if (measured.empty() || measured.back() != at.method) measured.emplace_back(at.method);
      }};
  const std::atomic<bool> cancelled = false;
  analysis::MethodResult result;
  const kernels::Status status = slot->Run(
      head, settings, method, kernels::ParameterValues(*kernels::FindMethod(method).spec()), cancelled, &result);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_GT(result.dense_attend.repeats, 0);
  return measured;
}

TEST(RunSlotTest, EveryDecodeRunHasABaselineOfItsOwn) {
  const analysis::HeadTensorsPtr head = RandomHead();
  RunSlot slot;
  EXPECT_THAT(MeasuredIn(&slot, head, "sparq"), ElementsAre("dense", "sparq"));
  EXPECT_THAT(MeasuredIn(&slot, head, "sparq"), ElementsAre("dense", "sparq"));
  EXPECT_THAT(MeasuredIn(&slot, head, "sliding-window"), ElementsAre("dense", "sliding-window"));
}

TEST(RunSlotTest, ThePrefillBaselineOutlivesDecodeRunsAndEndsWithTheHead) {
  const analysis::HeadTensorsPtr head = RandomHead(), other = RandomHead();
  RunSlot slot;
  const auto first_of = [&](const analysis::HeadTensorsPtr& of) { return MeasuredIn(&slot, of, "a-shape").front(); };
  const std::string first = first_of(head);
  EXPECT_EQ(first, "dense");
  MeasuredIn(&slot, head, "sparq");
  const std::vector<std::string> again = MeasuredIn(&slot, head, "a-shape");
  EXPECT_NE(again.front(), "dense") << "measured once a head";
  EXPECT_EQ(first_of(other), "dense");
}

}  // namespace
}  // namespace headscope::app
