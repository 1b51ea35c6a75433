// SPDX-License-Identifier: Apache-2.0
// What a capture's model computes and holds, against counts made by hand, layer by layer.
#include "support/capture_cost.h"

#include <gtest/gtest.h>

#include <optional>

#include "base/device.h"
#include "capture/capture.h"

namespace headscope::app {
namespace {

// Two layers of 4 query heads over 2 KV heads of 8 (values 6), hidden 32, vocabulary 100, tied.
model::ModelConfig Config() {
  model::ModelConfig config = model::ParseModelConfig(
      R"({"model_type":"llama","num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":8,
          "hidden_size":32,"intermediate_size":16,"vocab_size":100,"max_position_embeddings":4096,
          "tie_word_embeddings":true,"hidden_act":"silu","rms_norm_eps":1e-5})",
      "config.json");
  for (model::AttentionLayer& layer : config.layers) layer.v_head_dim = 6;
  return config;
}

model::CheckpointSummary Summary(int64_t parameters) {
  model::CheckpointSummary summary;
  summary.used_numbers = parameters;
  summary.dtype = "BF16";
  return summary;
}

double Operations(const model::ModelConfig& config, int64_t parameters, int64_t tokens) {
  return CostOf(config, Summary(parameters), {tokens, 0, 1024}, 4).prompt_operations;
}

// Pairs one by one, of 4 heads with 8 + 6 multiplications and additions each.
double AttentionOperations(const model::AttentionLayer& layer, int64_t tokens) {
  int64_t pairs = 0;
  for (int64_t row = 0; row < tokens; ++row) {
    for (int64_t key = 0; key < tokens; ++key) {
      const bool near = layer.window == 0 || key > row - layer.window;
      const bool in_block = layer.chunk == 0 || key / layer.chunk == row / layer.chunk;
      const bool seen = !layer.causal || (key <= row && near && in_block);
      pairs += seen ? 1 : 0;
    }
  }
  return 2.0 * 4 * (8 + 6) * static_cast<double>(pairs);
}

TEST(CaptureCost, CountsEachLayersOwnPairsAndWidths) {
  model::ModelConfig config = Config();
  const double of_weights = 2.0 * (10000 - 100 * 32) * 50;  // embeddings are looked up
  EXPECT_DOUBLE_EQ(Operations(config, 10000, 50), of_weights + 2 * AttentionOperations(config.layers[0], 50));
  for (const int32_t window : {1, 7, 49, 50, 80}) {
    config.layers[1].window = window;
    EXPECT_DOUBLE_EQ(Operations(config, 10000, 50),
                     of_weights + AttentionOperations(config.layers[0], 50) + AttentionOperations(config.layers[1], 50))
        << window;
  }
  config.layers[1].window = 0;
  for (const int32_t chunk : {1, 7, 25, 49, 50, 80}) {
    config.layers[1].chunk = chunk;
    EXPECT_DOUBLE_EQ(Operations(config, 10000, 50),
                     of_weights + AttentionOperations(config.layers[0], 50) + AttentionOperations(config.layers[1], 50))
        << chunk;
  }
  config.layers[1].chunk = 0;
  config.layers[1].causal = false;
  EXPECT_DOUBLE_EQ(Operations(config, 10000, 50),
                   of_weights + AttentionOperations(config.layers[0], 50) + AttentionOperations(config.layers[1], 50));
  config.layers[1].other_mixer = true;  // no heads
  EXPECT_DOUBLE_EQ(Operations(config, 10000, 50), of_weights + AttentionOperations(config.layers[0], 50));
  config.tied_embeddings = false;  // and the head is multiplied with the last token alone
  EXPECT_DOUBLE_EQ(Operations(config, 10000, 50),
                   2.0 * (10000 - 2 * 100 * 32) * 50 + AttentionOperations(config.layers[0], 50));
}

TEST(CaptureCost, AMixtureMultipliesTheExpertsThatATokenChooses) {
  model::ModelConfig config = Config();
  config.experts = {.num_experts = 8, .per_token = 2, .inner_size = 20, .layers = {false, true}};
  const double expert = 3.0 * 32 * 20, attention = 2 * AttentionOperations(config.layers[0], 10);
  const auto stored = static_cast<int64_t>(10000 + 8 * expert);
  EXPECT_DOUBLE_EQ(Operations(config, stored, 10), 2 * (10000 - 3200 + 2 * expert) * 10 + attention);
  config.experts.mxfp4 = true;  // stored as half a byte a number, and a byte for 32 of them, each counted as two
  const auto packed = static_cast<int64_t>(10000 + 8 * expert + 8 * expert / 16);
  EXPECT_DOUBLE_EQ(Operations(config, packed, 10), 2 * (10000 - 3200 + 2 * expert) * 10 + attention);
  const int64_t plain = CostOf(Config(), Summary(10000), {10, 0, 1024}, 4).model_bytes;
  EXPECT_EQ(CostOf(config, Summary(packed), {10, 0, 1024}, 4).model_bytes - plain,
            static_cast<int64_t>(4 * 8 * expert));
}

TEST(CaptureCost, AStepReadsWeightsAndTheKeysThatItsRowSees) {
  model::ModelConfig config = Config();
  config.layers[1].window = 5;
  const CaptureCost cost = CostOf(config, Summary(10000), {40, 3, 1024}, 2);
  EXPECT_DOUBLE_EQ(cost.decode_bytes, 2.0 * 3 * (10000 + 2 * 14 * 43 + 2 * 14 * 5));
  EXPECT_EQ(CostOf(config, Summary(10000), {40, 0, 1024}, 2).decode_bytes, 0);
  config.layers[1].window = 0;
  for (const auto& [chunk, keys] : {std::pair(8, 3), {43, 43}, {42, 1}, {100, 43}}) {
    config.layers[1].chunk = chunk;
    EXPECT_DOUBLE_EQ(CostOf(config, Summary(10000), {40, 3, 1024}, 2).decode_bytes,
                     2.0 * 3 * (10000 + 2 * 14 * 43 + 2 * 14 * keys));
  }
}

TEST(CaptureCost, MemoryGrowsWithTheCacheOfEachLayerAndTheWidestPass) {
  model::ModelConfig config = Config();
  const auto held = [&](int64_t tokens, int32_t chunk) {
    return CostOf(config, Summary(10000), {tokens, 0, chunk}, 4).model_bytes;
  };
  EXPECT_EQ(held(2000, 100) - held(1000, 100), 4 * 1000 * 2 * 2 * 14) << "keys and values of two layers";
  config.layers[1].other_mixer = true;
  EXPECT_EQ(held(2000, 100) - held(1000, 100), 4 * 1000 * 2 * 14);
  EXPECT_EQ(held(1000, 200) - held(1000, 100), 2 * (held(1000, 150) - held(1000, 100)));
  EXPECT_GT(held(1000, 1), 4 * 10000);
}

TEST(CaptureCost, LayersAboveTheLastThatIsRunTakeNothing) {
  model::ModelConfig config = Config();
  config.experts = {.num_experts = 8, .per_token = 2, .inner_size = 20, .layers = {false, true}};
  const double expert = 3.0 * 32 * 20;
  model::CheckpointSummary summary = Summary(static_cast<int64_t>(10000 + 8 * expert));
  summary.layer_numbers = {2500, static_cast<int64_t>(3000 + 8 * expert)};
  const auto cost = [&](std::optional<int32_t> last_layer, int64_t tokens) {
    return CostOf(config, summary, {.prompt_tokens = tokens, .last_layer = last_layer}, 4);
  };
  EXPECT_DOUBLE_EQ(cost(0, 50).prompt_operations,
                   2.0 * (10000 - 3200 - 3000) * 50 + AttentionOperations(config.layers[0], 50));
  EXPECT_EQ(cost(1, 50).prompt_operations, cost({}, 50).prompt_operations);
  const auto growth = [&](std::optional<int32_t> last_layer) {  // of the cache alone: the pass is a chunk's
    return cost(last_layer, 3000).model_bytes - cost(last_layer, 2000).model_bytes;
  };
  EXPECT_EQ(growth(0), 4 * 1000 * 2 * 14);
  EXPECT_EQ(growth({}), 2 * growth(0));
  const int64_t cache = 4 * 2000 * 2 * 14, second = 4 * static_cast<int64_t>(3000 + 8 * expert);
  const auto less = [&] { return cost({}, 2000).model_bytes - cost(0, 2000).model_bytes; };
  EXPECT_EQ(less(), cache + second);
  config.tied_embeddings = false;
  EXPECT_EQ(less(), cache + second + 4 * 3200) << "without logits there is no head";
  EXPECT_EQ(cost({}, 2000).model_bytes - cost(1, 2000).model_bytes, 4 * 3200) << "where all layers run, too";
  config.tied_embeddings = true;
  config.experts.mxfp4 = true;
  summary.used_numbers = static_cast<int64_t>(10000 + 8 * expert + 8 * expert / 16);
  summary.layer_numbers[1] = static_cast<int64_t>(3000 + 8 * expert + 8 * expert / 16);
  EXPECT_DOUBLE_EQ(cost(0, 50).prompt_operations,
                   2.0 * (10000 - 3200 - 3000) * 50 + AttentionOperations(config.layers[0], 50));
  EXPECT_EQ(less(), cache + second) << "stored in half a byte, held as the others are";
  config.layers[1].num_qo_heads = 400;  // and a wide layer's pass is none that is run
  EXPECT_GT(less(), cache + second);
}

TEST(CaptureCost, NumbersAreAsWideAsTheModelRuns) {
  model::CheckpointSummary summary = Summary(1);
  EXPECT_EQ(NumberBytes(summary, {}, kCpu), 4) << "a CPU widens bf16";
  EXPECT_EQ(NumberBytes(summary, ElementType::kBFloat16, kCpu), 2);
  EXPECT_EQ(NumberBytes(summary, {}, CudaDevice(0)), 2);
  EXPECT_EQ(NumberBytes(summary, ElementType::kFloat32, CudaDevice(0)), 4);
  summary.dtype = "F16";
  EXPECT_EQ(NumberBytes(summary, {}, CudaDevice(0)), 4);
}

TEST(CaptureCost, TheRecorderHoldsABoundedPartOfATrace) {
  data::LayerFacts facts;
  facts.num_qo_heads = 2;
  facts.num_kv_heads = 1;
  facts.head_dim = facts.v_head_dim = 128;
  facts.qo_heads = {0, 1};
  facts.kv_heads = {0};
  capture::CapturePlan plan;
  plan.layout.layers = {0};
  plan.layout.facts = {facts};
  plan.layout.encoding = ElementType::kBFloat16;
  plan.layout.max_tokens = plan.num_rows = 10;
  const int64_t program = capture::RecorderBytes(plan, /*from_gpu=*/false), open_chunks = 10 * (4 * 256 + 2 * 4 + 8);
  plan.bytes = 1000;
  EXPECT_EQ(capture::RecorderBytes(plan, /*from_gpu=*/false), program + 1000);
  plan.bytes = int64_t{1} << 40;
  EXPECT_EQ(capture::RecorderBytes(plan, /*from_gpu=*/false), program + (64 << 20));
  plan.layout.max_tokens = plan.num_rows = 1 << 20;
  EXPECT_EQ(capture::RecorderBytes(plan, /*from_gpu=*/false),
            program + (64 << 20) + (4 * 256 << 10) + (2 * 32 << 10) + (64 << 10) - open_chunks)
      << "one open chunk of each head";
  // What a GPU makes may wait in more memory, but not in all of it.
  const int64_t from_gpu = capture::RecorderBytes(plan, /*from_gpu=*/true);
  EXPECT_GE(from_gpu, capture::RecorderBytes(plan, /*from_gpu=*/false));
  EXPECT_LE(from_gpu, capture::RecorderBytes(plan, /*from_gpu=*/false) + (1 << 30));
}

TEST(CaptureCost, AModelIsSpreadWhereItsLayersLieOnSeveralDevices) {
  EXPECT_FALSE(IsSpread({}));
  EXPECT_FALSE(IsSpread(std::vector{CudaDevice(1), CudaDevice(1)}));
  EXPECT_TRUE(IsSpread(std::vector{CudaDevice(0), kCpu}));
  EXPECT_TRUE(IsSpread(std::vector{CudaDevice(0), CudaDevice(1)}));
}

}  // namespace
}  // namespace headscope::app
