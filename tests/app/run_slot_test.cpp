// SPDX-License-Identifier: Apache-2.0
// What the window's runs measure, and which baselines they are measured beside.
#include "run_slot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <stop_token>
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
  RunSettings settings;
  settings.options.repeats = 2;
  settings.options.decode_rows = 4;
  settings.report = [&](const analysis::RepeatProgress& at) {
    if (measured.empty() || measured.back() != at.method) measured.emplace_back(at.method);
  };
  analysis::MethodResult result;
  const kernels::Status status =
      slot->Run(head, settings, method, kernels::ParameterValues(*kernels::FindMethod(method).spec()), {}, &result);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_GT(result.dense_attend.repeats, 0);
  return measured;
}

TEST(RunSlotTest, EveryDecodeRunHasABaselineOfItsOwn) {
  const analysis::HeadTensorsPtr head = RandomHead();
  RunSlot slot;
  // They take turns, and go first in turn.
  for (int run = 0; run < 2; ++run) {
    EXPECT_THAT(MeasuredIn(&slot, head, "sparq"), ElementsAre("dense", "sparq", "dense", "reading keys and values",
                                                              "sparq", "reading keys and values", "dense"));
  }
  EXPECT_THAT(MeasuredIn(&slot, head, "sliding-window").front(), "dense");
}

// A short baseline meets the disturbances of its own run; a layer's tensors are made once a head.
TEST(RunSlotTest, AShortPrefillBaselineIsMeasuredBesideEveryRun) {
  const analysis::HeadTensorsPtr head = RandomHead();
  RunSlot slot;
  for (int run = 0; run < 2; ++run)
    EXPECT_THAT(MeasuredIn(&slot, head, "a-shape"), ::testing::Contains("dense")) << "run " << run;
}

// What the slot keeps for the next run was made under the token of the first.
TEST(RunSlotTest, ARunThatWasStoppedDoesNotStopTheNextOnes) {
  const analysis::HeadTensorsPtr head = RandomHead();
  RunSlot slot;
  RunSettings settings;
  settings.options.repeats = 1;
  settings.options.decode_rows = 4;
  for (const char* method : {"a-shape", "sparq"}) {
    const kernels::ParameterValues values(*kernels::FindMethod(method).spec());
    analysis::MethodResult result;
    std::stop_source first, second;
    EXPECT_TRUE(slot.Run(head, settings, method, values, first.get_token(), &result).ok()) << method;
    first.request_stop();
    const kernels::Status status = slot.Run(head, settings, method, values, second.get_token(), &result);
    EXPECT_TRUE(status.ok()) << method << ": " << status.message();
  }
}

TEST(RunSlotTest, TheLayerIsWhatIsMeasuredUnlessTheHeadAloneIsAskedFor) {
  const analysis::HeadTensorsPtr head = RandomHead();
  int made = 0;
  RunSettings settings;
  settings.layer_of = [&](const analysis::HeadTensorsPtr& shown) {
    ++made;
    auto layer = std::make_shared<analysis::MeasuredHeads>(*analysis::AloneHead(shown));
    layer->heads_of_layer = 8;
    return layer;
  };
  settings.alone = false;
  settings.options.repeats = 1;
  settings.options.decode_rows = 4;
  RunSlot slot;
  const auto measured = [&](const std::string& method) {
    analysis::MethodResult result;
    const kernels::Status status =
        slot.Run(head, settings, method, kernels::ParameterValues(*kernels::FindMethod(method).spec()), {}, &result);
    EXPECT_TRUE(status.ok()) << status.message();
    return ScopeText(result.head, result.measured);
  };
  EXPECT_EQ(measured("a-shape"), "layer 0: 1 of 8 heads");
  EXPECT_EQ(measured("sparq"), "layer 0: 1 of 8 heads");
  EXPECT_EQ(made, 1);
  settings.alone = true;
  EXPECT_EQ(measured("a-shape"), "head 0:0 alone");
  EXPECT_EQ(made, 1);
}

}  // namespace
}  // namespace headscope::app
