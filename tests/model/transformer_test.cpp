// SPDX-License-Identifier: Apache-2.0
// The forward pass against transformers (tests/oracle/model_logits.py), on the shipped checkpoint and on tiny random
// ones of every family.
#include "model/transformer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>

#include "base/device.h"
#include "base/errors.h"
#include "checkpoint_files.h"
#include "like_transformers.h"

namespace headscope::model {
namespace {

const std::string kOracle = HEADSCOPE_BINARY_DIR "/oracle/model/";

TEST(Transformer, ShippedModelGivesTheLogitsAndTextOfTransformers) {
  ASSERT_EQ(ReadArray<int32_t>(kOracle + "reference/greedy.i32").size(), 200U);
  ExpectLikeTransformers(ReferenceModel(), kOracle + "reference", 100);
}

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
    ASSERT_EQ(heads.type, ElementType::kFloat32);
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
  for (const std::optional<ElementType> dtype : {std::optional(ElementType::kFloat32), {}}) {
    const auto model =
        OpenTransformer(ReferenceModel(), {.dtype = dtype, .device = kCpu, .chunk_tokens = 1024, .num_threads = 0}, {});
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
            << ComputeTypeName(dtype) << " head " << head << " row " << row;
      }
    }
    if (!dtype) {
      EXPECT_EQ(model->captured_type(), ElementType::kBFloat16);
      for (const float value : sink.q) {
        uint32_t bits = 0;
        std::memcpy(&bits, &value, sizeof bits);
        ASSERT_EQ(bits & 0xFFFFU, 0U) << "q is a bf16 number";
      }
    }
  }
}

// Keeps whatever a pass hands over of any layer and at any point, one number behind the other.
class EverythingSink : public HeadSink {
 public:
  explicit EverythingSink(const ModelConfig& config) : config_(config) {}
  bool Wants(int32_t) const override { return true; }
  bool WantsPoint(CapturePoint) const override { return true; }
  void Take(const LayerHeads& heads) override {
    const AttentionLayer& facts = config_.layers[static_cast<size_t>(heads.layer)];
    const auto read = [&](const LayerHeads::Heads& from, int32_t count, int32_t dim) {
      if (from.data == nullptr) return;
      for (int32_t h = 0; h < count; ++h) {
        for (int64_t t = 0; t < heads.num_tokens; ++t) {
          const float* row = static_cast<const float*>(from.data) + h * from.head_stride + t * from.token_stride;
          numbers.insert(numbers.end(), row, row + dim);
        }
      }
    };
    const int32_t q_heads = facts.num_qo_heads, kv_heads = facts.num_kv_heads;
    for (const LayerHeads::Heads& q : {heads.q, heads.q_pre_rope, heads.q_projection}) read(q, q_heads, facts.head_dim);
    for (const LayerHeads::Heads& k : {heads.k, heads.k_pre_rope, heads.k_projection, heads.cache_k})
      read(k, kv_heads, facts.head_dim);
    for (const LayerHeads::Heads& v : {heads.v, heads.cache_v}) read(v, kv_heads, facts.v_head_dim);
    read(heads.head_outputs, q_heads, facts.v_head_dim);
    read(heads.residual, 1, config_.hidden_size);
    read(heads.index_q, config_.index.heads, config_.index.dim);
    read(heads.index_k, 1, config_.index.dim);
    numbers.insert(numbers.end(), heads.lse, heads.lse + q_heads * heads.num_tokens);
    if (heads.selected != nullptr)
      numbers.insert(numbers.end(), heads.selected, heads.selected + heads.num_selected * heads.num_tokens);
  }
  std::vector<float> numbers;

 private:
  const ModelConfig& config_;
};

// Attention that is zero, and notes in which layers it was asked for.
class NotesLayers final : public AttentionBackend {
 public:
  void Attend(const AttentionCall& call) override {
    layers.push_back(call.layer);
    const int64_t rows = call.num_rows * call.facts->num_qo_heads;
    std::fill_n(static_cast<float*>(call.o), rows * call.facts->v_head_dim, 0.0f);
    std::fill_n(call.lse, rows, 0.0f);
  }
  std::vector<int32_t> layers;
};

TEST(Transformer, PassesEndBehindTheLastLayerThatIsWanted) {
  const auto tokens = ReadArray<int32_t>(kOracle + "reference/tokens.i32");
  const std::span<const int32_t> prompt = std::span(tokens).first(60);
  const auto model = OpenTransformer(ReferenceModel(), {.dtype = ElementType::kFloat32}, {});
  const int32_t last = model->config().num_layers - 1;
  KeepingSink whole(model->config());
  const std::vector<float> logits = model->Forward(prompt, LogitsOf::kLastToken, &whole);
  EXPECT_THROW(model->EndBehind(1), std::invalid_argument) << "the layers above have these tokens";

  model->Rewind(0);
  model->EndBehind(1);
  KeepingSink cut(model->config());
  EXPECT_TRUE(model->Forward(prompt, LogitsOf::kNone, &cut).empty());
  EXPECT_EQ(cut.q, whole.q);
  EXPECT_EQ(cut.k, whole.k);
  EXPECT_EQ(cut.lse, whole.lse);
  EXPECT_THROW(model->Forward(prompt.first(1), LogitsOf::kLastToken), std::invalid_argument);

  NotesLayers notes;
  model->Rewind(0);
  model->UseAttention(&notes);
  model->Forward(prompt, LogitsOf::kNone);
  EXPECT_THAT(notes.layers, ::testing::ElementsAre(0, 1));
  model->UseAttention(nullptr);

  model->Rewind(0);
  EXPECT_THROW(model->EndBehind(last + 1), std::invalid_argument);
  EXPECT_THROW(model->EndBehind(-1), std::invalid_argument);
  model->EndBehind(last);
  EXPECT_EQ(model->Forward(prompt, LogitsOf::kLastToken), logits);
}

// What this process has read, as the kernel counts it.
int64_t BytesRead() {
  std::ifstream counts("/proc/self/io");
  std::string name;
  int64_t bytes = -1;
  counts >> name >> bytes;
  return name == "rchar:" ? bytes : -1;
}

TEST(Transformer, WeightsOfLayersThatAreNotRunAreNotRead) {
  if (BytesRead() < 0) GTEST_SKIP() << "this kernel does not count what a process reads";
  const CheckpointSummary summary = ReadCheckpointSummary(ReferenceModel(), /*with_hash=*/false);
  const int64_t number_bytes = summary.dtype == "BF16" ? 2 : 4;
  const auto read = [&](std::optional<int32_t> last_layer) {
    SessionOptions options;
    options.last_layer = last_layer;
    Progress last;
    const int64_t before = BytesRead();
    OpenTransformer(ReferenceModel(), options, [&](const Progress& progress) { last = progress; });
    const int64_t bytes = BytesRead() - before;
    EXPECT_EQ(last.done, last.total);
    EXPECT_NEAR(static_cast<double>(last.total), static_cast<double>(bytes), 200e3) << "files' headers beside it";
    return bytes;
  };
  read(0);  // LibTorch and what it looks up when it is first used
  const int64_t whole = read({});
  for (const int32_t last_layer : {0, 3, summary.num_layers - 1}) {
    int64_t above = 0;
    for (size_t layer = static_cast<size_t>(last_layer) + 1; layer < summary.layer_numbers.size(); ++layer)
      above += summary.layer_numbers[layer] * number_bytes;
    // Other threads read as well: a library that looks at its memory map some tens of KB.
    EXPECT_NEAR(static_cast<double>(whole - read(last_layer)), static_cast<double>(above), 200e3) << last_layer;
  }
  EXPECT_GT(summary.layer_numbers[1] * number_bytes, 500'000) << "or the bounds above say nothing";
}

// Which logits alone need; it may be a tenth of a model.
TEST(Transformer, AHeadIsReadForLogitsAlone) {
  const std::string folder = kOracle + "llama_mha_untied";
  const ModelConfig config = ReadModelConfig(folder);
  ASSERT_FALSE(config.tied_embeddings);
  const auto loaded = [&](std::optional<int32_t> last_layer) {
    SessionOptions options;
    options.last_layer = last_layer;
    Progress last;
    OpenTransformer(folder, options, [&](const Progress& progress) { last = progress; });
    EXPECT_EQ(last.done, last.total);
    return last.done;
  };
  EXPECT_EQ(loaded({}) - loaded(config.num_layers - 1), int64_t{4} * config.vocabulary_size * config.hidden_size);
}

// Layers on two places, in two runs and in turn: what moves between them, or is kept on both for layers that share
// keys, changes nothing, in a prompt, in steps, and in tokens that were taken back. Both places are the CPU; two GPUs:
// tests/extension/two_gpus_test.py.
TEST(Transformer, LayersOnSeveralPlacesGiveTheSameNumbers) {
  const auto tokens = ReadArray<int32_t>(kOracle + "reference/tokens.i32");
  const Device one{DeviceKind::kCpu, 0}, other{DeviceKind::kCpu, 1}, third{DeviceKind::kCpu, 2};
  const auto run = [&](const std::string& folder, const std::vector<Device>& layer_devices) {
    SessionOptions options;
    options.dtype = ElementType::kFloat32;
    options.layer_devices = layer_devices;
    const auto model = OpenTransformer(folder, options, {});
    const int32_t most = model->config().vocabulary_size;
    std::vector<int32_t> ids;
    for (const int32_t token : std::span(tokens).first(60)) ids.push_back(token % most);
    EverythingSink sink(model->config());
    model->Forward(std::span(ids).first(40), LogitsOf::kNone);
    std::vector<float> all = model->Forward(std::span(ids).subspan(40, 19), LogitsOf::kAllTokens, &sink);
    const auto add = [&](const std::vector<float>& more) { all.insert(all.end(), more.begin(), more.end()); };
    add(model->Forward(std::span(ids).last(1), LogitsOf::kLastToken, &sink));
    model->Rewind(35);
    add(model->Forward(std::span(ids).subspan(20, 7), LogitsOf::kAllTokens, &sink));
    add(sink.numbers);
    return all;
  };
  for (const char* name : {"llama_gqa", "gemma3_old_spelling", "gpt2_hub_names", "gemma3n_text", "gemma4_text",
                           "gemma4", "lfm2", "deepseek_v32", "qwen3_next"}) {
    const std::string folder = kOracle + name;
    const auto layers = static_cast<size_t>(ReadModelConfig(folder).num_layers);
    const std::vector<float> wanted = run(folder, {});
    std::vector<Device> two(layers, other), three(layers, third), in_turn(layers, other);
    std::fill_n(two.begin(), layers / 2, one);
    std::fill_n(three.begin(), 2 * layers / 3, other);
    std::fill_n(three.begin(), layers / 3, one);
    for (size_t layer = 1; layer < layers; layer += 2) in_turn[layer] = one;
    EXPECT_EQ(run(folder, two), wanted) << name;
    EXPECT_EQ(run(folder, three), wanted) << name;
    EXPECT_EQ(run(folder, in_turn), wanted) << name;
  }
  EXPECT_THROW(run(kOracle + "llama_gqa", {one}), std::invalid_argument);
}

// Of layers that share keys and lie on two places, of those with an index and of those without attention, too: the
// layers that are run give the numbers that they give in a whole pass, and all of them do again.
TEST(Transformer, PassesThatEndEarlierGiveTheSameNumbers) {
  const auto tokens = ReadArray<int32_t>(kOracle + "reference/tokens.i32");
  const Device one{DeviceKind::kCpu, 0}, other{DeviceKind::kCpu, 1};
  for (const char* name : {"llama_gqa", "gemma3n_text", "gemma4_text", "lfm2", "deepseek_v32", "qwen3_next"}) {
    const int32_t layers = ReadModelConfig(kOracle + name).num_layers;
    SessionOptions options;
    options.dtype = ElementType::kFloat32;
    options.layer_devices.assign(static_cast<size_t>(layers), one);
    for (size_t layer = 1; layer < options.layer_devices.size(); layer += 2) options.layer_devices[layer] = other;
    const auto model = OpenTransformer(kOracle + name, options, {});
    std::vector<int32_t> ids;
    for (const int32_t token : std::span(tokens).first(40)) ids.push_back(token % model->config().vocabulary_size);
    const auto run = [&](int32_t layer) {
      EverythingSink sink(model->config());
      model->Rewind(0);
      model->EndBehind(layer);
      model->Reserve(30);
      model->Forward(ids, LogitsOf::kNone, &sink);
      return sink.numbers;
    };
    const std::vector<float> whole = run(layers - 1);
    for (int32_t layer = 0; layer < layers; ++layer) {
      const std::vector<float> part = run(layer);
      ASSERT_LE(part.size(), whole.size()) << name;
      EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin())) << name << " layer " << layer;
    }
    EXPECT_EQ(run(layers - 1), whole) << name;
  }
}

// A model that is loaded as far as a layer gives that layer's numbers, and no logits.
TEST(Transformer, AModelWithoutItsLastLayersGivesTheNumbersOfTheFirst) {
  const auto tokens = ReadArray<int32_t>(kOracle + "reference/tokens.i32");
  const Device one{DeviceKind::kCpu, 0}, other{DeviceKind::kCpu, 1};
  for (const char* name :
       {"llama_gqa", "gpt2_hub_names", "gemma3n_text", "gemma4_text", "lfm2", "deepseek_v32", "qwen3_next"}) {
    const int32_t layers = ReadModelConfig(kOracle + name).num_layers;
    const auto run = [&](std::optional<int32_t> last_layer, int32_t last_run) {
      SessionOptions options;
      options.dtype = ElementType::kFloat32;
      options.last_layer = last_layer;
      options.layer_devices.assign(static_cast<size_t>(last_layer.value_or(layers - 1)) + 1, one);
      for (size_t layer = 1; layer < options.layer_devices.size(); layer += 2) options.layer_devices[layer] = other;
      const auto model = OpenTransformer(kOracle + name, options, {});
      std::vector<int32_t> ids;
      for (const int32_t token : std::span(tokens).first(40)) ids.push_back(token % model->config().vocabulary_size);
      EverythingSink sink(model->config());
      model->EndBehind(last_run);
      model->Forward(std::span(ids).first(25), LogitsOf::kNone, &sink);
      model->Forward(std::span(ids).subspan(25), LogitsOf::kNone, &sink);
      if (last_layer && (*last_layer < layers - 1 || !model->config().tied_embeddings)) {
        EXPECT_THROW(model->Forward(std::span(ids).first(1), LogitsOf::kLastToken), std::invalid_argument) << name;
        model->Rewind(0);
        EXPECT_THROW(model->EndBehind(*last_layer + 1), std::invalid_argument) << name;
      }
      return sink.numbers;
    };
    for (int32_t layer = 0; layer < layers; ++layer) EXPECT_EQ(run(layer, layer), run({}, layer)) << name << layer;
    SessionOptions outside;
    outside.last_layer = layers;
    EXPECT_THROW(OpenTransformer(kOracle + name, outside, {}), std::invalid_argument);
  }
}

TEST(Transformer, LogitsDoNotChangeWhenHeadsAreCaptured) {
  const auto tokens = ReadArray<int32_t>(kOracle + "reference/tokens.i32");
  for (const std::optional<ElementType> dtype :
       {std::optional(ElementType::kFloat32), {}, std::optional(ElementType::kBFloat16)}) {
    const auto model =
        OpenTransformer(ReferenceModel(), {.dtype = dtype, .device = kCpu, .chunk_tokens = 1024, .num_threads = 0}, {});
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
    EXPECT_EQ(plain, captured) << ComputeTypeName(dtype);
  }
}

TEST(Transformer, Bf16StaysNearFp32) {
  const auto tokens = ReadArray<int32_t>(kOracle + "reference/tokens.i32");
  const auto logits = ReadArray<float>(kOracle + "reference/logits.f32");
  ModelSession bf16(ReferenceModel(),
                    {.dtype = ElementType::kBFloat16, .device = kCpu, .chunk_tokens = 128, .num_threads = 0});
  ModelSession mixed(ReferenceModel(), {.dtype = {}, .device = kCpu, .chunk_tokens = 128, .num_threads = 0});
  EXPECT_LT(RelativeError(bf16.FeedAllLogits(tokens), logits), 3e-2);
  EXPECT_LT(RelativeError(mixed.FeedAllLogits(tokens), logits), 1e-2);
}

TEST(Transformer, RefusesWhatItCannotRun) {
  EXPECT_THROW(
      OpenTransformer(ReferenceModel(),
                      {.dtype = ElementType::kFloat16, .device = kCpu, .chunk_tokens = 1, .num_threads = 0}, {}),
      UsageError);
  EXPECT_THROW(OpenTransformer("/nowhere", {}, {}), BadInputError);
  const auto model = OpenTransformer(ReferenceModel(), {}, {});
  const std::vector<int32_t> outside = {4096};
  EXPECT_THROW(model->Forward(outside, LogitsOf::kNone), BadInputError);
  const std::vector<int32_t> long_prompt(16385, 1);
  EXPECT_THROW(model->Forward(long_prompt, LogitsOf::kNone), UsageError);
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
