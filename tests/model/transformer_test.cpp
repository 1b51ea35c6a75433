// SPDX-License-Identifier: Apache-2.0
// The forward pass against transformers (tests/oracle/model_logits.py), on the shipped checkpoint and on tiny random
// ones of every family.
#include "model/transformer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "checkpoint_files.h"

namespace headscope::model {
namespace {

const std::string kOracle = HEADSCOPE_BINARY_DIR "/oracle/model/";

double RelativeError(const std::vector<float>& got, const std::vector<float>& want) {
  EXPECT_EQ(got.size(), want.size());
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    error += std::pow(static_cast<double>(got[i]) - want[i], 2);
    norm += std::pow(static_cast<double>(want[i]), 2);
  }
  return std::sqrt(error / norm);
}

void ExpectLikeTransformers(const std::string& model_dir, const std::string& expected_dir, size_t prompt_tokens) {
  const auto tokens = ReadArray<int32_t>(expected_dir + "/tokens.i32");
  const auto logits = ReadArray<float>(expected_dir + "/logits.f32");
  const auto greedy = ReadArray<int32_t>(expected_dir + "/greedy.i32");
  ASSERT_FALSE(logits.empty());
  // A chunk that divides nothing crosses the seam between past and diagonal; one chunk has no past at all.
  for (const int32_t chunk : {1024, 37}) {
    SessionOptions options{.dtype = "fp32", .device = "cpu", .chunk_tokens = chunk, .num_threads = 0};
    ModelSession session(model_dir, options);
    EXPECT_LE(RelativeError(session.FeedAllLogits(tokens), logits), 1e-5) << "chunk " << chunk;
    session.Reset();
    session.Feed(std::span(tokens).first(prompt_tokens));
    EXPECT_EQ(session.Generate(static_cast<int64_t>(greedy.size())), greedy) << "chunk " << chunk;
  }
}

TEST(Transformer, ShippedModelGivesTheLogitsAndTextOfTransformers) {
  ASSERT_EQ(ReadArray<int32_t>(kOracle + "reference/greedy.i32").size(), 200U);
  ExpectLikeTransformers(ReferenceModel(), kOracle + "reference", 100);
}

class TinyModel : public ::testing::TestWithParam<const char*> {};

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
    const auto dim = static_cast<size_t>(config_.head_dim);
    const auto read = [&](const LayerHeads::Heads& from, int32_t count, std::vector<std::vector<float>>* to) {
      to->resize(static_cast<size_t>(count));
      for (int32_t h = 0; h < count; ++h) {
        std::vector<float>& head = (*to)[static_cast<size_t>(h)];
        for (int64_t t = 0; t < heads.num_tokens; ++t) {
          const float* row = static_cast<const float*>(from.data) + h * from.head_stride + t * from.token_stride;
          head.insert(head.end(), row, row + dim);
        }
      }
    };
    read(heads.q, config_.num_qo_heads, &layer.q);
    read(heads.k, config_.num_kv_heads, &layer.k);
    read(heads.v, config_.num_kv_heads, &layer.v);
    layer.lse.resize(static_cast<size_t>(config_.num_qo_heads));
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

// Over the keys that the row's window holds.
double LogSumExp(const std::vector<float>& q, const std::vector<float>& k, size_t dim, size_t row, int32_t window) {
  double sum = 0;
  const size_t first = window > 0 && row + 1 > static_cast<size_t>(window) ? row + 1 - static_cast<size_t>(window) : 0;
  for (size_t column = first; column <= row; ++column) {
    double dot = 0;
    for (size_t d = 0; d < dim; ++d) dot += static_cast<double>(q[row * dim + d]) * k[column * dim + d];
    sum += std::exp(dot / std::sqrt(static_cast<double>(dim)));
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
      OpenTransformer(folder, {.dtype = "fp32", .device = "cpu", .chunk_tokens = 64, .num_threads = 0}, {});
  const ModelConfig& config = model->config();
  AllHeadsSink sink(config);
  constexpr int64_t kPrompt = 40;
  constexpr int64_t kFirstChunk = 25;
  model->BeginPrompt(kPrompt);
  model->Forward(std::span(prompt).first(kFirstChunk), LogitsOf::kNone, &sink);
  model->Forward(std::span(prompt).subspan(kFirstChunk, kPrompt - kFirstChunk), LogitsOf::kNone, &sink);
  for (const int32_t& token : greedy) model->Forward(std::span(&token, 1), LogitsOf::kNone, &sink);
  const size_t head_size = (kPrompt + greedy.size()) * static_cast<size_t>(config.head_dim);
  const auto group = static_cast<size_t>(config.num_qo_heads / config.num_kv_heads);
  size_t at = 0;
  for (size_t layer = 0; layer < sink.layers.size(); ++layer) {
    const AllHeadsSink::Layer& found = sink.layers[layer];
    for (const auto* heads : {&found.q, &found.k, &found.v}) {
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
        const double lse = LogSumExp(found.q[head], found.k[head / group], static_cast<size_t>(config.head_dim), row,
                                     config.layers[layer].window);
        ASSERT_NEAR(found.lse[head][row], lse, 2e-5 * std::max(1.0, std::abs(lse)))
            << "layer " << layer << " head " << head << " row " << row;
      }
    }
  }
  EXPECT_EQ(at, wanted.size());
}

// Once, all but the first five, mistral, qwen2 and qwen3 were refused.
INSTANTIATE_TEST_SUITE_P(Families, TinyModel,
                         ::testing::Values("llama_gqa", "llama_mha_untied", "llama_mqa_biases", "llama_rope_linear",
                                           "llama_rope_llama3", "llama_rope_dynamic", "llama_rope_yarn",
                                           "llama_rope_yarn_attention_factor", "llama_rope_yarn_mscale",
                                           "llama_rope_longrope", "llama_rope_longrope_attention_factor",
                                           "llama_partial_rotary", "llama_partial_yarn", "llama_old_spelling",
                                           "llama_no_positions", "mistral", "mistral_window", "qwen2",
                                           "qwen2_window_from_layer", "qwen2_yarn", "qwen3", "qwen3_layer_types"),
                         [](const auto& model) { return std::string(model.param); });

TEST(Transformer, WindowsAreThoseOfTheFamilies) {
  const auto windows = [](const char* name) {
    std::vector<int32_t> found;
    for (const AttentionLayer& layer : OpenTransformer(kOracle + name, {}, {})->config().layers)
      found.push_back(layer.window);
    return found;
  };
  EXPECT_EQ(windows("mistral"), (std::vector<int32_t>{0, 0, 0}));
  EXPECT_EQ(windows("mistral_window"), (std::vector<int32_t>{32, 32, 32}));
  EXPECT_EQ(windows("qwen2_window_from_layer"), (std::vector<int32_t>{0, 32, 32}));
  EXPECT_EQ(windows("qwen3_layer_types"), (std::vector<int32_t>{32, 0, 32}));
}

// Keeps what a pass hands over, as fp32.
class KeepingSink : public HeadSink {
 public:
  explicit KeepingSink(const ModelConfig& config) : config_(config) {}
  bool Wants(int32_t layer) const override { return layer == 1; }
  void Take(const LayerHeads& heads) override {
    calls += 1;
    const auto read = [&](const LayerHeads::Heads& from, int32_t count, std::vector<float>* to) {
      for (int32_t h = 0; h < count; ++h) {
        for (int64_t t = 0; t < heads.num_tokens; ++t) {
          const float* row = static_cast<const float*>(from.data) + h * from.head_stride + t * from.token_stride;
          to->insert(to->end(), row, row + config_.head_dim);
        }
      }
    };
    ASSERT_FALSE(heads.is_bf16);
    tokens = heads.num_tokens;
    read(heads.q, config_.num_qo_heads, &q);
    read(heads.k, config_.num_kv_heads, &k);
    lse.assign(heads.lse, heads.lse + config_.num_qo_heads * heads.num_tokens);
  }
  int calls = 0;
  int64_t tokens = 0;
  std::vector<float> q, k, lse;

 private:
  const ModelConfig& config_;
};

TEST(Transformer, HandsOverTheQueriesKeysAndLogSumExpsOfItsAttention) {
  const auto tokens = ReadArray<int32_t>(kOracle + "reference/tokens.i32");
  for (const std::string dtype : {"fp32", "auto"}) {
    const auto model = OpenTransformer(ReferenceModel(),
                                       {.dtype = dtype, .device = "cpu", .chunk_tokens = 1024, .num_threads = 0}, {});
    KeepingSink sink(model->config());
    model->Forward(std::span(tokens).first(150), LogitsOf::kNone, &sink);
    ASSERT_EQ(sink.calls, 1);
    const auto dim = static_cast<size_t>(model->config().head_dim);
    const auto group = static_cast<size_t>(model->config().num_qo_heads / model->config().num_kv_heads);
    const auto n = static_cast<size_t>(sink.tokens);
    for (size_t head = 0; head < static_cast<size_t>(model->config().num_qo_heads); ++head) {
      for (size_t row = 0; row < n; ++row) {
        double sum = 0;
        for (size_t column = 0; column <= row; ++column) {
          double dot = 0;
          for (size_t d = 0; d < dim; ++d)
            dot +=
                static_cast<double>(sink.q[(head * n + row) * dim + d]) * sink.k[(head / group * n + column) * dim + d];
          sum += std::exp(dot / std::sqrt(static_cast<double>(dim)));
        }
        ASSERT_NEAR(sink.lse[head * n + row], std::log(sum), 2e-5 * std::max(1.0, std::abs(std::log(sum))))
            << dtype << " head " << head << " row " << row;
      }
    }
    if (dtype == "auto") {
      EXPECT_TRUE(model->captures_bf16());
      for (const float value : sink.q) {
        uint32_t bits = 0;
        std::memcpy(&bits, &value, sizeof bits);
        ASSERT_EQ(bits & 0xFFFFU, 0U) << "q is a bf16 number";
      }
    }
  }
}

TEST(Transformer, LogitsDoNotChangeWhenHeadsAreCaptured) {
  const auto tokens = ReadArray<int32_t>(kOracle + "reference/tokens.i32");
  for (const std::string dtype : {"fp32", "auto", "bf16"}) {
    const auto model = OpenTransformer(ReferenceModel(),
                                       {.dtype = dtype, .device = "cpu", .chunk_tokens = 1024, .num_threads = 0}, {});
    class CountingSink : public HeadSink {
     public:
      bool Wants(int32_t) const override { return true; }
      void Take(const LayerHeads&) override { ++calls; }
      int calls = 0;
    } sink;
    const std::span<const int32_t> all(tokens);
    model->Forward(all.first(200), LogitsOf::kNone, nullptr);
    const std::vector<float> plain = model->Forward(all.subspan(200, 100), LogitsOf::kAllTokens, nullptr);
    model->Rewind(0);
    model->Forward(all.first(200), LogitsOf::kNone, &sink);
    const std::vector<float> captured = model->Forward(all.subspan(200, 100), LogitsOf::kAllTokens, &sink);
    EXPECT_EQ(sink.calls, 2 * model->config().num_layers);
    EXPECT_EQ(plain, captured) << dtype;
  }
}

TEST(Transformer, Bf16StaysNearFp32) {
  const auto tokens = ReadArray<int32_t>(kOracle + "reference/tokens.i32");
  const auto logits = ReadArray<float>(kOracle + "reference/logits.f32");
  ModelSession bf16(ReferenceModel(), {.dtype = "bf16", .device = "cpu", .chunk_tokens = 128, .num_threads = 0});
  ModelSession mixed(ReferenceModel(), {.dtype = "auto", .device = "cpu", .chunk_tokens = 128, .num_threads = 0});
  EXPECT_LT(RelativeError(bf16.FeedAllLogits(tokens), logits), 3e-2);
  EXPECT_LT(RelativeError(mixed.FeedAllLogits(tokens), logits), 1e-2);
}

TEST(Transformer, RefusesWhatItCannotRun) {
  EXPECT_THROW(
      OpenTransformer(ReferenceModel(), {.dtype = "fp8", .device = "cpu", .chunk_tokens = 1, .num_threads = 0}, {}),
      std::invalid_argument);
  EXPECT_THROW(
      OpenTransformer(ReferenceModel(), {.dtype = "auto", .device = "tpu", .chunk_tokens = 1, .num_threads = 0}, {}),
      std::invalid_argument);
  EXPECT_THROW(OpenTransformer("/nowhere", {}, {}), BadInputError);
  const auto model = OpenTransformer(ReferenceModel(), {}, {});
  const std::vector<int32_t> outside = {4096};
  EXPECT_THROW(model->Forward(outside, LogitsOf::kNone), std::invalid_argument);
  const std::vector<int32_t> long_prompt(16385, 1);
  EXPECT_THROW(model->Forward(long_prompt, LogitsOf::kNone), std::invalid_argument);
  EXPECT_EQ(model->num_tokens(), 0);
}

TEST(Transformer, TensorOfAnotherShapeIsRefusedBeforeItIsRead) {
  const TemporaryFolder folder;
  std::filesystem::copy(kOracle + "qwen3", folder.path(), std::filesystem::copy_options::recursive);
  nlohmann::json config = nlohmann::json::parse(ReadWholeFile(folder.File("config.json")));
  config["intermediate_size"] = 16000000;
  folder.Write("config.json", config.dump());
  EXPECT_THROW(OpenTransformer(folder.path(), {}, {}), BadInputError);
}

}  // namespace
}  // namespace headscope::model
