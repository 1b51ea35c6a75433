// SPDX-License-Identifier: Apache-2.0
// Every family's forward pass against transformers: logits, text, every layer's hidden states, and every head's Q, K
// and V at every capture point and its log-sum-exp, on the tiny random checkpoints that tests/oracle/model_logits.py
// and family_groups.py wrote into the folder HEADSCOPE_FAMILY_FOLDER.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <tuple>
#include <utility>
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
// Two threads spend a third of their time handing each other parts of tiny models; transformer_test.cpp has more.
constexpr int32_t kThreads = 1;

class TinyModel : public ::testing::TestWithParam<std::string> {};

TEST_P(TinyModel, GivesTheLogitsAndTextOfTransformers) {
  const std::string folder = kOracle + GetParam();
  ExpectLikeTransformers(folder, folder, 40, kThreads);
}

// Rows [first, first + count) of logits.
std::vector<float> Rows(const std::vector<float>& logits, size_t num_rows, size_t first, size_t count) {
  const size_t width = logits.size() / num_rows;
  return {logits.begin() + static_cast<std::ptrdiff_t>(first * width),
          logits.begin() + static_cast<std::ptrdiff_t>((first + count) * width)};
}

// Of the tokens' own relative errors that which one in `part` of them are below: 2, the median.
double ErrorOfTokens(std::vector<double> errors, int32_t part) {
  const auto place = errors.begin() + std::ssize(errors) / part;
  std::ranges::nth_element(errors, place);
  return *place;
}
double TypicalError(const std::vector<float>& got, const std::vector<float>& want, size_t num_rows) {
  std::vector<double> errors;
  for (size_t row = 0; row < num_rows; ++row)
    errors.push_back(RelativeError(Rows(got, num_rows, row, 1), Rows(want, num_rows, row, 1)));
  return ErrorOfTokens(std::move(errors), 2);
}

// Whether roundings decide what a token meets.
bool Chooses(const ModelConfig& config) {
  return config.experts.num_experts > 0 || config.index.heads > 0;
}

// Sums in another order end in other roundings: no worse than twice what transformers' own bf16 is off.
//
// Of a mixture of experts that holds for the tokens whose experts stay the same. Where two experts are nearly as good,
// either rounding may take the other one: in transformers' own bf16 that happens to 4 to 31 of the 200 tokens here,
// which are then off several times, up to some 35 times, as much as the rest (mixtral, qwen3_moe, olmoe and minimax_m2,
// six draws of weights each), and decide the error of all together. The tokens that keep their experts are the most by
// far, so it is the median token that is compared.
TEST_P(TinyModel, IsAsNearInBf16AsTransformers) {
  const std::string folder = kOracle + GetParam();
  const auto tokens = ReadArray<int32_t>(folder + "/tokens.i32");
  const auto exact = ReadArray<float>(folder + "/logits.f32");
  const auto theirs = ReadArray<float>(folder + "/logits_bf16.f32");
  ASSERT_EQ(theirs.size(), exact.size());
  const size_t num_tokens = tokens.size();
  const bool chooses = Chooses(ReadModelConfig(folder));
  const auto error = [&](const std::vector<float>& got, const std::vector<float>& want, size_t num_rows) {
    return chooses ? TypicalError(got, want, num_rows) : RelativeError(got, want);
  };
  for (const int32_t chunk : {1024, 37}) {
    ModelSession session(
        folder, {.dtype = ElementType::kBFloat16, .device = kCpu, .chunk_tokens = chunk, .num_threads = kThreads});
    EXPECT_LE(error(session.FeedAllLogits(tokens), exact, num_tokens), 2 * error(theirs, exact, num_tokens))
        << "chunk " << chunk;
  }
  const auto model = OpenTransformer(
      folder, {.dtype = ElementType::kBFloat16, .device = kCpu, .chunk_tokens = 64, .num_threads = kThreads}, {});
  for (const RopeConfig& rope : model->config().ropes)  // of these a step's positions are not those of a longer prompt
    if (rope.type == RopeType::kDynamic || rope.type == RopeType::kLongRope) return;
  constexpr size_t kPrompt = 100, kSteps = 32;
  const std::span<const int32_t> all(tokens);
  model->BeginPrompt(kPrompt);
  model->Forward(all.first(kPrompt), LogitsOf::kNone);
  std::vector<float> steps;
  for (size_t i = 0; i < kSteps; ++i) {
    const std::vector<float> step = model->Forward(all.subspan(kPrompt + i, 1), LogitsOf::kLastToken);
    steps.insert(steps.end(), step.begin(), step.end());
  }
  const std::vector<float> wanted = Rows(exact, num_tokens, kPrompt, kSteps);
  EXPECT_LE(error(steps, wanted, kSteps), 2 * error(Rows(theirs, num_tokens, kPrompt, kSteps), wanted, kSteps))
      << "steps";
}

// Every layer's heads, widened to fp32, one pass after the other.
class AllHeadsSink : public HeadSink {
 public:
  explicit AllHeadsSink(const ModelConfig& config, ElementType type = ElementType::kFloat32)
      : config_(config), type_(type), layers(static_cast<size_t>(config.num_layers)) {}
  bool Wants(int32_t) const override { return true; }
  bool WantsPoint(CapturePoint) const override { return true; }
  void Take(const LayerHeads& heads) override {
    const bool wide = heads.type == ElementType::kFloat32;
    ASSERT_TRUE(wide || heads.type == ElementType::kBFloat16);
    ASSERT_EQ(heads.captured, type_);
    Layer& layer = layers[static_cast<size_t>(heads.layer)];
    const AttentionLayer& facts = config_.layers[static_cast<size_t>(heads.layer)];
    const auto read = [&](const LayerHeads::Heads& from, int32_t count, int32_t dim,
                          std::vector<std::vector<float>>* to) {
      to->resize(static_cast<size_t>(count));
      for (int32_t h = 0; h < count; ++h) {
        std::vector<float>& head = (*to)[static_cast<size_t>(h)];
        for (int64_t t = 0; t < heads.num_tokens; ++t) {
          const int64_t first = h * from.head_stride + t * from.token_stride;
          for (int64_t i = first; i < first + dim; ++i) {
            head.push_back(wide ? static_cast<const float*>(from.data)[i]
                                : std::bit_cast<float>(uint32_t{static_cast<const uint16_t*>(from.data)[i]} << 16));
          }
        }
      }
    };
    read(heads.q, facts.num_qo_heads, facts.head_dim, &layer.q);
    read(heads.k, facts.num_kv_heads, facts.head_dim, &layer.k);
    read(heads.v, facts.num_kv_heads, facts.v_head_dim, &layer.v);
    read(heads.residual, 1, config_.hidden_size, &layer.residual);
    read(heads.q_projection, facts.num_qo_heads, facts.head_dim, &layer.q_projection);
    read(heads.k_projection, facts.num_kv_heads, facts.head_dim, &layer.k_projection);
    read(heads.q_pre_rope, facts.num_qo_heads, facts.head_dim, &layer.q_pre_rope);
    read(heads.k_pre_rope, facts.num_kv_heads, facts.head_dim, &layer.k_pre_rope);
    read(heads.head_outputs, facts.num_qo_heads, facts.v_head_dim, &layer.head_outputs);
    read(heads.cache_k, facts.num_kv_heads, facts.head_dim, &layer.cache_k);
    read(heads.cache_v, facts.num_kv_heads, facts.v_head_dim, &layer.cache_v);
    const auto read_numbers = [&](const float* from, int32_t count, std::vector<std::vector<float>>* to) {
      to->resize(static_cast<size_t>(count));
      for (std::vector<float>& head : *to) {
        head.insert(head.end(), from, from + heads.num_tokens);
        from += heads.num_tokens;
      }
    };
    read_numbers(heads.value_norms, facts.num_qo_heads, &layer.value_norms);
    read_numbers(heads.value_norms_l1, facts.num_qo_heads, &layer.value_norms_l1);
    read_numbers(heads.hidden_norms, 1, &layer.hidden_norms);
    for (int64_t t = 0; heads.selected != nullptr && t < heads.num_tokens; ++t) {
      const int32_t* row = heads.selected + t * heads.num_selected;
      layer.selected.emplace_back(row, row + heads.num_selected);
      layer.selected.back().resize(static_cast<size_t>(facts.selected), -1);
    }
    read_numbers(heads.lse, facts.num_qo_heads, &layer.lse);
  }
  struct Layer {
    std::vector<std::vector<float>> q, k, v, lse;  // by head
    std::vector<std::vector<float>> q_projection, k_projection, q_pre_rope, k_pre_rope, head_outputs, cache_k, cache_v,
        value_norms, value_norms_l1;
    std::vector<std::vector<float>> residual, hidden_norms;  // of no head
    std::vector<std::vector<int32_t>> selected;              // by row
  };

 private:
  const ModelConfig& config_;
  const ElementType type_;

 public:
  std::vector<Layer> layers;
};

// Over the keys that the row's window or block holds, whatever an index chooses of them, and the head's sink.
double LogSumExp(const std::vector<float>& q, const std::vector<float>& k, const AttentionLayer& facts, size_t head,
                 size_t row) {
  const auto dim = static_cast<size_t>(facts.head_dim);
  const int32_t window = facts.window;
  double sum = facts.sinks.empty() ? 0 : std::exp(static_cast<double>(facts.sinks[head]));
  const size_t first = facts.chunk > 0 ? row - row % static_cast<size_t>(facts.chunk)
                       : window > 0 && row + 1 > static_cast<size_t>(window) ? row + 1 - static_cast<size_t>(window)
                                                                             : 0;
  for (size_t column = first; column <= row; ++column) {
    double dot = 0;
    for (size_t d = 0; d < dim; ++d) dot += static_cast<double>(q[row * dim + d]) * k[column * dim + d];
    const double score = dot * facts.scale;
    sum += std::exp(facts.soft_cap > 0 ? facts.soft_cap * std::tanh(score / facts.soft_cap) : score);
  }
  return std::log(sum);
}

// Takes the next numbers of what an oracle wrote, head by head, and compares them.
class Wanted {
 public:
  explicit Wanted(const std::string& path) : numbers_(ReadArray<float>(path)) {}
  bool AtEnd() const { return at_ == numbers_.size(); }
  void Compare(const std::vector<std::vector<float>>& heads, const char* what, size_t layer) {
    for (size_t head = 0; head < heads.size(); ++head) {
      ASSERT_LE(at_ + heads[head].size(), numbers_.size()) << what;
      const auto begin = numbers_.begin() + static_cast<std::ptrdiff_t>(at_);
      at_ += heads[head].size();
      EXPECT_LE(RelativeError(heads[head], {begin, numbers_.begin() + static_cast<std::ptrdiff_t>(at_)}), 1e-5)
          << what << " of layer " << layer << " head " << head;
    }
  }

 private:
  std::vector<float> numbers_;
  size_t at_ = 0;
};

// Those that transformers' modules had in the same passes, in the order of tests/oracle/watched_points.py.
void ExpectPoints(const std::vector<AllHeadsSink::Layer>& layers, const ModelConfig& config, const std::string& file) {
  Wanted wanted(file);
  for (size_t number = 0; number < layers.size(); ++number) {
    const AllHeadsSink::Layer& layer = layers[number];
    if (config.layers[number].other_mixer) continue;
    ASSERT_EQ(layer.residual.size(), 1U);
    wanted.Compare(layer.residual, "residual", number);
    wanted.Compare(layer.q_projection, "q_projection", number);
    wanted.Compare(layer.k_projection, "k_projection", number);
    wanted.Compare(layer.q_pre_rope, "q_pre_rope", number);
    wanted.Compare(layer.k_pre_rope, "k_pre_rope", number);
    wanted.Compare(layer.head_outputs, "head_outputs", number);
    wanted.Compare(layer.value_norms, "value_norms", number);
    wanted.Compare(layer.value_norms_l1, "value_norms_l1", number);
    // The cache of the model's own holds what is recorded in any case.
    EXPECT_EQ(layer.cache_k, layer.k) << number;
    EXPECT_EQ(layer.cache_v, layer.v) << number;
    const auto hidden = static_cast<size_t>(config.hidden_size);
    for (size_t token = 0; token < layer.hidden_norms[0].size(); ++token) {
      double square = 0;
      for (const float x : std::span(layer.residual[0]).subspan(token * hidden, hidden)) square += double{x} * x;
      EXPECT_NEAR(layer.hidden_norms[0][token], std::sqrt(square), 1e-5 * std::sqrt(square)) << number;
    }
  }
  EXPECT_TRUE(wanted.AtEnd());
}

// A prompt in two chunks, then a token at a time: where positions depend on the length (dynamic, longrope), chunks must
// not show, and keys stay as the step made them. Returns the logits of the prompt's last token and of each of those
// that follow it.
std::vector<float> FeedPromptAndSteps(Transformer* model, const std::string& folder, AllHeadsSink* sink) {
  const auto prompt = ReadArray<int32_t>(folder + "/tokens.i32");
  const auto greedy = ReadArray<int32_t>(folder + "/greedy.i32");
  EXPECT_EQ(greedy.size(), 32U);
  constexpr int64_t kPrompt = 40;
  constexpr int64_t kFirstChunk = 25;
  model->BeginPrompt(kPrompt);
  model->Forward(std::span(prompt).first(kFirstChunk), LogitsOf::kNone, sink);
  std::vector<float> logits =
      model->Forward(std::span(prompt).subspan(kFirstChunk, kPrompt - kFirstChunk), LogitsOf::kLastToken, sink);
  for (const int32_t& token : greedy) {
    const std::vector<float> step = model->Forward(std::span(&token, 1), LogitsOf::kLastToken, sink);
    logits.insert(logits.end(), step.begin(), step.end());
  }
  return logits;
}

void ExpectHeadsLikeTransformers(const std::string& folder) {
  Wanted wanted(folder + "/heads.f32");
  const auto model = OpenTransformer(
      folder, {.dtype = ElementType::kFloat32, .device = kCpu, .chunk_tokens = 64, .num_threads = kThreads}, {});
  const ModelConfig& config = model->config();
  AllHeadsSink sink(config);
  const std::vector<float> logits = FeedPromptAndSteps(model.get(), folder, &sink);
  EXPECT_LE(RelativeError(logits, ReadArray<float>(folder + "/steps.f32")), 1e-5) << "of the steps";
  for (size_t layer = 0; layer < sink.layers.size(); ++layer) {
    const AllHeadsSink::Layer& found = sink.layers[layer];
    const AttentionLayer& facts = config.layers[layer];
    ASSERT_EQ(found.q.empty(), facts.other_mixer);
    if (facts.other_mixer) continue;
    const auto group = static_cast<size_t>(facts.num_qo_heads / facts.num_kv_heads);
    wanted.Compare(found.q, "q", layer);
    wanted.Compare(found.k, "k", layer);
    wanted.Compare(found.v, "v", layer);
    for (size_t head = 0; head < found.q.size(); ++head) {
      for (size_t row = 0; row < found.lse[head].size(); ++row) {
        const double lse = LogSumExp(found.q[head], found.k[head / group], facts, head, row);
        ASSERT_NEAR(found.lse[head][row], lse, 2e-5 * std::max(1.0, std::abs(lse)))
            << "layer " << layer << " head " << head << " row " << row;
      }
    }
  }
  EXPECT_TRUE(wanted.AtEnd());
  ExpectPoints(sink.layers, config, folder + "/points.f32");
  if (config.index.heads == 0) return;
  const auto sets = ReadArray<int32_t>(folder + "/selected.i32");
  std::vector<int32_t> found;
  for (const AllHeadsSink::Layer& layer : sink.layers)
    for (const std::vector<int32_t>& row : layer.selected) found.insert(found.end(), row.begin(), row.end());
  EXPECT_EQ(found, sets);
}

// Attention hands what a token with other experts gives to those behind it, which are more than half in some of these
// draws; the better quarter of the tokens has met none.
constexpr int32_t kPartThatKeeps = 4;

// How far heads are from those of heads.f32 and points.f32: of one layer's tensor, by token.
class TokenErrors {
 public:
  explicit TokenErrors(const std::string& path) : numbers_(ReadArray<float>(path)) {}
  bool AtEnd() const { return at_ == numbers_.size(); }
  // The relative error of all, or that of the tokens that keep their experts.
  double Next(const std::vector<std::vector<float>>& heads, size_t num_tokens, bool chooses) {
    std::vector<double> errors(num_tokens), norms(num_tokens);
    for (const std::vector<float>& head : heads) {
      if (numbers_.size() - at_ < head.size()) throw std::runtime_error("the oracle wrote fewer numbers");
      for (size_t i = 0; i < head.size(); ++i, ++at_) {
        const size_t token = i / (head.size() / num_tokens);
        errors[token] += std::pow(double{head[i]} - numbers_[at_], 2);
        norms[token] += std::pow(double{numbers_[at_]}, 2);
      }
    }
    if (!chooses) return std::sqrt(std::reduce(errors.begin(), errors.end()) / std::reduce(norms.begin(), norms.end()));
    for (size_t token = 0; token < num_tokens; ++token) errors[token] = std::sqrt(errors[token] / norms[token]);
    return ErrorOfTokens(std::move(errors), kPartThatKeeps);
  }

 private:
  std::vector<float> numbers_;
  size_t at_ = 0;
};

// Heads and hidden states of prefill, chunks and steps in bf16. Where experts or an index choose, it is the better
// quarter of the tokens that is compared, as above.
// Returns the logits of the prompt's last token and of each step.
std::vector<float> ExpectHeadsNearInBf16(const std::string& folder) {
  constexpr ElementType kType = ElementType::kBFloat16;
  const auto model =
      OpenTransformer(folder, {.dtype = kType, .device = kCpu, .chunk_tokens = 64, .num_threads = kThreads}, {});
  const ModelConfig& config = model->config();
  const bool chooses = Chooses(config);
  AllHeadsSink sink(config, kType);
  const std::vector<float> logits = FeedPromptAndSteps(model.get(), folder, &sink);
  TokenErrors heads(folder + "/heads.f32"), points(folder + "/points.f32");
  const auto theirs = ReadArray<float>(folder + "/errors_bf16.f32");
  size_t at = chooses ? 1 : 0;
  for (size_t number = 0; number < sink.layers.size(); ++number) {
    const AllHeadsSink::Layer& layer = sink.layers[number];
    if (config.layers[number].other_mixer) continue;
    const size_t num_tokens = layer.lse.front().size();
    const auto compare = [&](TokenErrors* exact, const std::vector<std::vector<float>>& found, const char* what) {
      ASSERT_LT(at, theirs.size());
      EXPECT_LE(exact->Next(found, num_tokens, chooses), 2 * theirs[at]) << what << " of layer " << number;
      at += 2;
    };
    compare(&heads, layer.q, "q");
    compare(&heads, layer.k, "k");
    compare(&heads, layer.v, "v");
    compare(&points, layer.residual, "residual");
    compare(&points, layer.q_projection, "q_projection");
    compare(&points, layer.k_projection, "k_projection");
    compare(&points, layer.q_pre_rope, "q_pre_rope");
    compare(&points, layer.k_pre_rope, "k_pre_rope");
    compare(&points, layer.head_outputs, "head_outputs");
    compare(&points, layer.value_norms, "value_norms");
    compare(&points, layer.value_norms_l1, "value_norms_l1");
    EXPECT_EQ(layer.cache_k, layer.k) << number;
    EXPECT_EQ(layer.cache_v, layer.v) << number;
  }
  EXPECT_TRUE(heads.AtEnd() && points.AtEnd());
  EXPECT_EQ(at / 2 * 2, theirs.size());
  return logits;
}

TEST_P(TinyModel, HasHeadsAsNearInBf16AsTransformers) {
  ExpectHeadsNearInBf16(kOracle + GetParam());
}

TEST_P(TinyModel, GivesTheHeadsOfTransformersInPrefillAndDecode) {
  ExpectHeadsLikeTransformers(kOracle + GetParam());
}

#ifdef HEADSCOPE_GROUPED_FAMILIES
// A family whose heads share keys, and how many do.
class GroupedModel : public ::testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(GroupedModel, GivesTheLogitsAndHeadsOfTransformers) {
  const auto& [family, group] = GetParam();
  const std::string folder = kOracle + "groups/" + family + "_" + std::to_string(group);
  const ModelConfig config = ReadModelConfig(folder);
  EXPECT_TRUE(std::ranges::any_of(config.layers, [&](const AttentionLayer& layer) {
    return !layer.other_mixer && layer.num_qo_heads == group * layer.num_kv_heads;
  }));
  const auto tokens = ReadArray<int32_t>(folder + "/tokens.i32");
  const auto logits = ReadArray<float>(folder + "/logits.f32");
  ASSERT_FALSE(logits.empty());
  for (const int32_t chunk : {1024, 25}) {
    ModelSession session(
        folder, {.dtype = ElementType::kFloat32, .device = kCpu, .chunk_tokens = chunk, .num_threads = kThreads});
    EXPECT_LE(RelativeError(session.FeedAllLogits(tokens), logits), 1e-5) << "chunk " << chunk;
  }
  ExpectHeadsLikeTransformers(folder);
}

// Of families whose layers choose, the one draw above is compared: in some of these so many early tokens have other
// experts in either rounding that no token is left without their mark.
TEST_P(GroupedModel, IsAsNearInBf16AsTransformers) {
  const auto& [family, group] = GetParam();
  const std::string folder = kOracle + "groups/" + family + "_" + std::to_string(group);
  if (Chooses(ReadModelConfig(folder))) GTEST_SKIP() << "its layers choose: one draw of the family is compared above";
  const auto tokens = ReadArray<int32_t>(folder + "/tokens.i32");
  const auto exact = ReadArray<float>(folder + "/logits.f32"), theirs = ReadArray<float>(folder + "/logits_bf16.f32");
  ASSERT_EQ(theirs.size(), exact.size());
  for (const int32_t chunk : {1024, 25}) {
    ModelSession session(
        folder, {.dtype = ElementType::kBFloat16, .device = kCpu, .chunk_tokens = chunk, .num_threads = kThreads});
    EXPECT_LE(RelativeError(session.FeedAllLogits(tokens), exact), 2 * RelativeError(theirs, exact))
        << "chunk " << chunk;
  }
  constexpr size_t kRows = 33;
  const auto last_rows = [&](const std::vector<float>& logits) {
    return Rows(logits, tokens.size(), tokens.size() - kRows, kRows);
  };
  const std::vector<float> wanted = last_rows(exact);
  EXPECT_LE(RelativeError(ExpectHeadsNearInBf16(folder), wanted), 2 * RelativeError(last_rows(theirs), wanted))
      << "steps";
}

INSTANTIATE_TEST_SUITE_P(Families, GroupedModel,
                         ::testing::Combine(::testing::Values(HEADSCOPE_GROUPED_FAMILIES),
                                            ::testing::Values(1, 2, 4, 7, 8)),
                         [](const auto& model) {
                           return std::get<0>(model.param) + "_" + std::to_string(std::get<1>(model.param));
                         });

// A family that the oracle makes and this program does not name would be compared by nobody.
TEST(GroupedModels, AreAllThatTheOracleMakes) {
  const std::set<std::string> named = {HEADSCOPE_GROUPED_FAMILIES};
  std::ifstream file(kOracle + "groups/families.json");
  const auto made = nlohmann::json::parse(file).get<std::set<std::string>>();
  EXPECT_EQ(named, made);
}
#endif

// q, k and v of every layer, and the hidden states, of one pass over the whole text; in bf16 as above.
void ExpectEncoderLikeTransformers(const std::string& model_dir, const std::string& expected) {
  const auto tokens = ReadArray<int32_t>(expected + "/tokens.i32");
  const auto theirs = ReadArray<float>(expected + "/errors_bf16.f32");
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBFloat16}) {
    const auto model =
        OpenTransformer(model_dir, {.dtype = type, .device = kCpu, .chunk_tokens = 64, .num_threads = kThreads}, {});
    AllHeadsSink sink(model->config(), type);
    const std::vector<float> hidden = model->Forward(tokens, LogitsOf::kAllTokens, &sink);
    auto their_error = theirs.begin();
    const auto most = [&] { return type == ElementType::kFloat32 ? 1e-5 : 2 * double{*their_error++}; };
    EXPECT_LE(RelativeError(hidden, ReadArray<float>(expected + "/hidden.f32")), most());
    TokenErrors wanted(expected + "/heads.f32");
    for (const AllHeadsSink::Layer& layer : sink.layers) {
      for (const auto* heads : {&layer.q, &layer.k, &layer.v})
        EXPECT_LE(wanted.Next(*heads, tokens.size(), false), most());
    }
    EXPECT_TRUE(wanted.AtEnd());
    EXPECT_TRUE(type == ElementType::kFloat32 || their_error == theirs.end());
    EXPECT_THROW(model->Forward(tokens, LogitsOf::kNone), UsageError) << "a second pass";
  }
}

TEST(Encoder, GivesTheHiddenStatesOfTransformers) {
  ExpectEncoderLikeTransformers(kOracle + "bert", kOracle + "bert");
  ExpectEncoderLikeTransformers(kOracle + "bert_old_names", kOracle + "bert");
  EXPECT_THROW(RequireDecoder(ReadModelConfig(kOracle + "bert"), kOracle + "bert"), BadInputError);
}

// The mean of its hidden states, made one long, is the sentence's embedding.
TEST(Encoder, GivesTheEmbeddingOfAPublishedSentenceEncoder) {
  const std::string expected = kOracle + "sentence_encoder";
  const std::string published = ReadWholeFile(expected + "/model_dir");
  ExpectEncoderLikeTransformers(published, expected);
  const Tokenizer tokenizer = Tokenizer::Load(published + "/tokenizer.json");
  const std::vector<int32_t> tokens = tokenizer.Encode(ReadWholeFile(expected + "/text"), true);
  EXPECT_EQ(tokens, ReadArray<int32_t>(expected + "/tokens.i32"));
  const auto model = OpenTransformer(
      published, {.dtype = ElementType::kFloat32, .device = kCpu, .chunk_tokens = 64, .num_threads = kThreads}, {});
  const std::vector<float> hidden = model->Forward(tokens, LogitsOf::kAllTokens);
  std::vector<float> mean(static_cast<size_t>(model->config().hidden_size));
  for (size_t i = 0; i < hidden.size(); ++i) mean[i % mean.size()] += hidden[i];
  double square = 0;
  for (const float value : mean) square += static_cast<double>(value) * value;
  for (float& value : mean) value = static_cast<float>(value / std::sqrt(square));
  EXPECT_LE(RelativeError(mean, ReadArray<float>(expected + "/embedding.f32")), 1e-5);
}

// Dense attention in plain loops, which counts its calls and does something at one of them.
class WatchedAttention : public AttentionBackend {
 public:
  void Attend(const AttentionCall& call) override {
    largest_pass = std::max(largest_pass, call.num_rows);
    calls++;
    if (during) during();
    const AttentionLayer& facts = *call.facts;
    const auto row_of = [](const AttentionCall::Tensor& tensor, int64_t head, int64_t row) {
      return static_cast<const float*>(tensor.data) + head * tensor.head_stride + row * tensor.row_stride;
    };
    for (int64_t head = 0; head < facts.num_qo_heads; ++head) {
      const int64_t kv_head = head / (facts.num_qo_heads / facts.num_kv_heads);
      for (int64_t row = 0; row < call.num_rows; ++row) {
        const float* q = row_of(call.q, head, row);
        std::vector<double> output(static_cast<size_t>(facts.v_head_dim));
        double sum = 0;
        for (int64_t token = 0; token <= call.num_tokens - call.num_rows + row; ++token) {
          const float* k = row_of(call.k, kv_head, token);
          double score = 0;
          for (int32_t d = 0; d < facts.head_dim; ++d) score += static_cast<double>(q[d]) * static_cast<double>(k[d]);
          const double weight = std::exp(score * facts.scale);
          sum += weight;
          const float* v = row_of(call.v, kv_head, token);
          for (size_t d = 0; d < output.size(); ++d) output[d] += weight * static_cast<double>(v[d]);
        }
        const int64_t place = head * call.num_rows + row;
        for (size_t d = 0; d < output.size(); ++d)
          static_cast<float*>(call.o)[place * facts.v_head_dim + static_cast<int64_t>(d)] =
              static_cast<float>(output[d] / sum);
        call.lse[place] = static_cast<float>(std::log(sum));
      }
    }
  }
  int64_t largest_pass = 0, calls = 0;
  std::function<void()> during;
};

// A model with a recurrence, 60 tokens in, that was taken back to 50. It feeds those anew, in chunks as a prompt; a
// request to stop ends that, and what failed is fed by the next call.
class RecurrentModel : public ::testing::TestWithParam<const char*> {};

TEST_P(RecurrentModel, FeedsWhatStaysInChunksUntilItIsThere) {
  const std::string folder = kOracle + GetParam();
  const auto tokens = ReadArray<int32_t>(folder + "/tokens.i32");
  const std::span<const int32_t> all(tokens);
  constexpr int32_t kChunk = 16;
  WatchedAttention attention;
  const auto model = OpenTransformer(
      folder, {.dtype = ElementType::kFloat32, .device = kCpu, .chunk_tokens = kChunk, .num_threads = kThreads}, {});
  model->UseAttention(&attention);
  model->Forward(all.first(50), LogitsOf::kNone);
  const std::vector<float> wanted = model->Forward(all.subspan(50, 1), LogitsOf::kLastToken);
  model->Forward(all.subspan(51, 9), LogitsOf::kNone);

  model->Rewind(50);
  EXPECT_EQ(model->num_tokens(), 50);
  attention.calls = attention.largest_pass = 0;
  attention.during = [&] {
    if (attention.calls == 2) throw DeviceError("the memory is used up");  // in the second chunk: one layer attends
  };
  EXPECT_THROW(model->Forward(all.subspan(50, 1), LogitsOf::kLastToken), DeviceError);
  EXPECT_EQ(model->num_tokens(), 50);
  EXPECT_EQ(attention.largest_pass, kChunk);

  std::stop_source stop;
  attention.calls = 0;
  attention.during = [&] { stop.request_stop(); };
  EXPECT_THROW(model->Forward(all.subspan(50, 1), LogitsOf::kLastToken, nullptr, stop.get_token()), CancelledError);
  EXPECT_EQ(attention.calls, 1) << "it went on after the request";
  EXPECT_EQ(model->num_tokens(), 50);

  attention.during = {};
  // The recurrence was summed up in passes of other sizes, which moves its fp32 by some 1e-5, more or less with the
  // processor's matrix products; a state that is not the 50th token's is off by tenths.
  EXPECT_LE(RelativeError(model->Forward(all.subspan(50, 1), LogitsOf::kLastToken), wanted), 1e-4);
  EXPECT_EQ(model->num_tokens(), 51);
}

INSTANTIATE_TEST_SUITE_P(Kinds, RecurrentModel, ::testing::Values("qwen3_next", "lfm2"),
                         [](const auto& model) { return std::string(model.param); });

// What an attention that weighs tokens by their values is given of them.
class NormsWatched : public WatchedAttention {
 public:
  AttentionExtras Wants() const override { return {.value_norms = true}; }
  void Attend(const AttentionCall& call) override {
    given.emplace_back(call.value_norms, call.value_norms + call.facts->num_qo_heads * call.num_rows);
    WatchedAttention::Attend(call);
  }
  std::vector<std::vector<float>> given;
};

class NormsSink : public HeadSink {
 public:
  explicit NormsSink(const ModelConfig& config) : config_(config) {}
  bool Wants(int32_t) const override { return true; }
  bool WantsPoint(CapturePoint point) const override { return point == CapturePoint::kValueNormsL1; }
  void Take(const LayerHeads& heads) override {
    const int64_t count = config_.layers[static_cast<size_t>(heads.layer)].num_qo_heads * heads.num_tokens;
    taken.emplace_back(heads.value_norms_l1, heads.value_norms_l1 + count);
  }
  std::vector<std::vector<float>> taken;

 private:
  const ModelConfig& config_;
};

// CriticalKV in a running model weighs by what a trace records for it (tests/oracle/capture_points.py).
TEST(ValueNorms, AnAttentionIsGivenThoseThatAreRecorded) {
  const std::string folder = kOracle + "mistral";
  const auto tokens = ReadArray<int32_t>(folder + "/tokens.i32");
  const auto model = OpenTransformer(
      folder, {.dtype = ElementType::kFloat32, .device = kCpu, .chunk_tokens = 50, .num_threads = kThreads}, {});
  NormsWatched attention;
  NormsSink sink(model->config());
  model->UseAttention(&attention);
  model->Forward(std::span(tokens).first(60), LogitsOf::kNone, &sink);
  ASSERT_FALSE(sink.taken.empty());
  EXPECT_EQ(attention.given, sink.taken);
}

// Fails when it is handed that layer.
class FailingSink : public HeadSink {
 public:
  explicit FailingSink(int32_t layer) : layer_(layer) {}
  bool Wants(int32_t layer) const override { return layer == layer_; }
  void Take(const LayerHeads&) override { throw DeviceError("the memory is used up"); }

 private:
  int32_t layer_;
};

// What a model keeps of tokens that were taken back, or of a pass that failed in its middle, does not show:
// recurrences, keys that layers share, and an index's own.
class KeepingModel : public ::testing::TestWithParam<const char*> {};

TEST_P(KeepingModel, ForgetsWhatWasTakenBack) {
  const std::string folder = kOracle + GetParam();
  const auto tokens = ReadArray<int32_t>(folder + "/tokens.i32");
  const std::span<const int32_t> all(tokens);
  const auto model = OpenTransformer(
      folder, {.dtype = ElementType::kFloat32, .device = kCpu, .chunk_tokens = 50, .num_threads = kThreads}, {});
  model->Forward(all.first(50), LogitsOf::kNone);
  const std::vector<float> wanted = model->Forward(all.subspan(50, 4), LogitsOf::kAllTokens);
  model->Forward(all.subspan(100, 9), LogitsOf::kNone);
  model->Rewind(50);
  int32_t last = model->config().num_layers - 1;
  while (model->config().layers[static_cast<size_t>(last)].other_mixer) --last;
  FailingSink failing(last);
  EXPECT_THROW(model->Forward(all.subspan(120, 6), LogitsOf::kNone, &failing), DeviceError);
  EXPECT_EQ(model->num_tokens(), 50);
  EXPECT_EQ(model->Forward(all.subspan(50, 4), LogitsOf::kAllTokens), wanted);
}

INSTANTIATE_TEST_SUITE_P(Kinds, KeepingModel,
                         ::testing::Values("qwen3_next", "lfm2", "gemma3n_text", "gemma4_text", "deepseek_v32",
                                           "mimo_v2_flash"),
                         [](const auto& model) { return std::string(model.param); });

INSTANTIATE_TEST_SUITE_P(Families, TinyModel, ::testing::Values(HEADSCOPE_FAMILY_MODELS),
                         [](const auto& model) { return model.param; });

}  // namespace
}  // namespace headscope::model
