// SPDX-License-Identifier: Apache-2.0
// What the window says of a capture's memory and time before it starts.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "capture/capture.h"
#include "capture_estimator.h"
#include "checkpoint_files.h"

namespace headscope::app {
namespace {

ui::CaptureEstimate EstimateOn(std::vector<Device> layers, const Device& asked = kCpu) {
  data::LayerFacts facts;
  facts.num_qo_heads = facts.num_kv_heads = 1;
  facts.head_dim = facts.v_head_dim = 64;
  facts.qo_heads = facts.kv_heads = {0};
  capture::CapturePlan plan;
  plan.layout.layers = {0};
  plan.layout.facts = {facts};
  plan.layout.max_tokens = plan.num_rows = 10;
  plan.bytes = 5000;
  plan.placement.layers = std::move(layers);
  ui::CaptureEstimate estimate;
  SetCost(plan, asked, 1'000'000, 3, &estimate);
  if (!estimate.on_gpu) estimate.memory_bytes -= capture::RecorderBytes(plan, IsSpread(plan.placement.layers));
  return estimate;
}

void ExpectCost(const ui::CaptureEstimate& estimate, bool on_gpu, double seconds) {
  EXPECT_EQ(estimate.on_gpu, on_gpu);
  EXPECT_EQ(estimate.seconds, seconds);
  EXPECT_EQ(estimate.memory_bytes, 1'000'000);
}

TEST(CaptureEstimate, IsOfOneDeviceWhereOneHoldsTheModel) {
  ExpectCost(EstimateOn({}), false, 3);
  ExpectCost(EstimateOn({}, CudaDevice(0)), true, 3);
  ExpectCost(EstimateOn({kCpu, kCpu}), false, 3);
  ExpectCost(EstimateOn({CudaDevice(1), CudaDevice(1)}), true, 3);
}

TEST(CaptureEstimate, NamesNoDeviceAndNoTimeOfASpreadModel) {
  ExpectCost(EstimateOn({CudaDevice(0), kCpu}), false, 0);
  ExpectCost(EstimateOn({CudaDevice(0), CudaDevice(1)}), false, 0);
}

TEST(CaptureEstimate, LayersThatAreNotRunTakeNothing) {
  CaptureEstimator estimator;
  ui::CaptureSettings settings;
  settings.model_dir = ReferenceModel();
  settings.prompt_ids.assign(4096, 5);
  settings.rows = "last:1";
  settings.output_path = "unwritten.h5";
  const auto of = [&](const char* layers) {
    settings.layers = layers;
    return estimator.Estimate(settings);
  };
  const ui::CaptureEstimate first = of("0"), last = of("9");  // of ten that are alike
  EXPECT_NEAR(last.seconds / first.seconds, 10, 0.1);
  const model::AttentionLayer facts = model::ReadModelConfig(settings.model_dir).layers.front();
  const int64_t weights = model::ReadCheckpointSummary(settings.model_dir, /*with_hash=*/false).layer_numbers.front();
  EXPECT_EQ(last.memory_bytes - first.memory_bytes,
            9 * 4 * (weights + int64_t{4096} * facts.num_kv_heads * (facts.head_dim + facts.v_head_dim)));
  settings.decode_tokens = 1;
  EXPECT_GT(of("0").seconds, last.seconds) << "a token that is generated needs all of them";
}

}  // namespace
}  // namespace headscope::app
