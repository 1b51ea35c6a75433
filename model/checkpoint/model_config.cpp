// SPDX-License-Identifier: Apache-2.0
#include "model/model_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/errors.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/read_rope_config.h"
#include "checkpoint/strict_json.h"
#include "families/family.h"
#include "model/input_file.h"
#include "model/model_types.h"

namespace headscope::model {
namespace {

// Far above any real model, low enough that no product of two of them leaves 64 bits.
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxHeads = 65536;
constexpr int64_t kMaxHeadDim = 4096;
constexpr int64_t kMaxSize = 1 << 24;
constexpr int64_t kMaxConfigBytes = 16 << 20;

// A window of that length, or 0 where it could never hide a token: a trace counts tokens in 31 bits.
int32_t WindowOf(const JsonFields& root, std::optional<int64_t> absent) {
  const int64_t window = root.Integer("sliding_window", 1, INT64_MAX, absent);
  return window > INT32_MAX ? 0 : static_cast<int32_t>(window);
}

// Whether the configuration gives its layers windows at all.
bool HasWindows(const JsonFields& root, const Family& family) {
  const WindowRule rule = family.window;
  if (rule == WindowRule::kNone || rule == WindowRule::kOwn || root.IsNull("sliding_window"))
    return false;  // null means none
  if (family.absent_window == 0 && !root.Has("sliding_window")) return false;
  return rule != WindowRule::kByUseSlidingWindow || root.Boolean("use_sliding_window", false);
}

// "LLLG": three layers with a window, one without, and so on.
std::optional<std::string> PatternLetters(const JsonFields& root, WindowRule rule) {
  const std::optional<JsonValue> given = root.Find("sliding_window_pattern");
  if (rule != WindowRule::kByPattern || !given || !given->IsString()) return std::nullopt;
  const std::string letters(given->Text());
  if (letters.empty() || letters.find_first_not_of("LG") != std::string::npos)
    root.RefuseField("sliding_window_pattern", given->Shortened() + " is not known", "it is made of L and G");
  return letters;
}

// Which layers have a window; the defaults of absent keys are the families' own.
std::vector<int32_t> ReadWindows(const JsonFields& root, const Family& family, int32_t num_layers) {
  constexpr int64_t kAbsentFullLayers = 28;
  const WindowRule rule = family.window;
  const bool by_layer = rule == WindowRule::kByUseSlidingWindow || rule == WindowRule::kByPattern;
  std::vector<int32_t> windows(static_cast<size_t>(num_layers), 0);
  if (rule == WindowRule::kOwn) return windows;
  const bool on = HasWindows(root, family);
  const int32_t window = on ? WindowOf(root, family.absent_window) : 0;
  const std::optional<JsonValue> types = root.Find("layer_types");
  if (types) {
    const JsonValue list = root.Array("layer_types");
    if (list.size() != windows.size()) {
      root.RefuseField("layer_types", "has " + std::to_string(list.size()) + " entries",
                       "it must have one for each of the " + std::to_string(num_layers) + " layers");
    }
    size_t layer = 0;
    list.ForEachElement([&](const JsonValue& type) {
      const bool slides = type.IsString() && type.Text() == "sliding_attention";
      if (!slides && !(type.IsString() && type.Text() == "full_attention")) {
        root.RefuseUnsupported("layer_types", type.Shortened() + " is not supported",
                               "full_attention and sliding_attention are");
      }
      if (slides && (!by_layer || !on)) {
        root.RefuseField("layer_types", "names sliding_attention where this model has no window",
                         rule == WindowRule::kByUseSlidingWindow ? "set use_sliding_window and sliding_window"
                         : rule == WindowRule::kByPattern        ? "set sliding_window"
                                                                 : "use a model with one kind of layer");
      }
      windows[layer++] = slides ? window : 0;
    });
    if (by_layer) return windows;
  }
  if (const std::optional<std::string> letters = PatternLetters(root, rule)) {
    for (size_t layer = 0; layer < windows.size(); ++layer)
      if ((*letters)[layer % letters->size()] == 'L') windows[layer] = window;
    return windows;
  }
  int64_t first = 0, pattern = 0;  // every pattern-th layer from the first on sees everything
  if (rule == WindowRule::kByUseSlidingWindow)
    first = root.Integer("max_window_layers", 0, kMaxLayers, kAbsentFullLayers);
  if (rule == WindowRule::kByPattern && on)
    pattern = root.Integer("sliding_window_pattern", 1, kMaxLayers, family.absent_window_pattern);
  for (int64_t layer = first; layer < num_layers; ++layer) {
    if (pattern == 0 || (layer + 1) % pattern != 0) windows[static_cast<size_t>(layer)] = window;
  }
  return windows;
}

bool HasBias(const JsonFields& root, const Family& family, BiasRule rule) {
  switch (rule) {
    case BiasRule::kNever:
      return false;
    case BiasRule::kAlways:
      return true;
    case BiasRule::kByAttentionBias:
      return root.Boolean("attention_bias", family.absent_attention_bias);
    case BiasRule::kByMlpBias:
      return root.Boolean("mlp_bias", false);
  }
  return false;
}

constexpr std::array<std::pair<std::string_view, Activation>, 8> kActivations = {
    {{"silu", Activation::kSilu},
     {"swish", Activation::kSilu},
     {"gelu", Activation::kGelu},
     {"gelu_pytorch_tanh", Activation::kGeluTanh},
     {"gelu_new", Activation::kGeluTanh},
     {"gelu_fast", Activation::kGeluTanh},
     {"quick_gelu", Activation::kGeluSigmoid},
     {"relu", Activation::kRelu}}};

Activation ReadActivation(const JsonFields& root, const Family& family) {
  const std::string absent(family.absent_activation);
  const std::string name = family.activation_key.empty() ? absent : root.Text(family.activation_key, absent);
  for (const auto& [known, activation] : kActivations) {
    if (known == name) return activation;
  }
  root.RefuseUnsupported(family.activation_key, Quoted(name) + " is not supported",
                         "silu, gelu, gelu_pytorch_tanh, gelu_new, gelu_fast, quick_gelu and relu are");
}

void ReadQuantisation(const JsonFields& root, ModelConfig* config) {
  if (!root.Has("quantization_config")) return;
  if (config->family->mxfp4_experts) {
    const std::string method = root.Object("quantization_config").Text("quant_method", "");
    config->experts.mxfp4 = method == "mxfp4";
    if (config->experts.mxfp4) return;
  }
  root.RefuseField("quantization_config", "quantised weights are not supported",
                   "use the model's fp32, fp16 or bf16 checkpoint, or " + std::string(kRecordFromPython));
}

void ReadSizes(const JsonFields& root, ModelConfig* config) {
  const Family& family = *config->family;
  const SizeKeys& keys = family.keys;
  const auto size = [&](std::string_view key, int64_t most, std::optional<int64_t> absent = {}) {
    return static_cast<int32_t>(key.empty() ? *absent : root.Integer(key, 1, most, absent));
  };
  config->hidden_size = config->embedding_size = size(keys.hidden, kMaxSize);
  const int64_t four_times = std::min(kMaxSize, int64_t{4} * config->hidden_size);
  config->intermediate_size =
      size(keys.inner, kMaxSize, family.absent_inner_of_four ? std::optional(four_times) : std::nullopt);
  const auto unless_absent = [](int32_t absent) { return absent > 0 ? std::optional<int64_t>(absent) : std::nullopt; };
  config->vocabulary_size = size(keys.vocabulary, kMaxSize, unless_absent(family.absent_vocabulary));
  config->num_layers = size(keys.layers, kMaxLayers);
  config->num_qo_heads = size(keys.heads, kMaxHeads, unless_absent(family.absent_num_heads));
  const int64_t absent_kv = family.absent_num_kv_heads > 0 ? family.absent_num_kv_heads : config->num_qo_heads;
  config->num_kv_heads = size(keys.kv_heads, kMaxHeads, absent_kv);
  if (config->num_qo_heads % config->num_kv_heads != 0) {
    root.RefuseField(keys.kv_heads,
                     std::to_string(config->num_kv_heads) + " does not divide " + std::string(keys.heads) + " " +
                         std::to_string(config->num_qo_heads),
                     "correct one of the two");
  }
  const bool given = !keys.head_dim.empty() && root.Has(keys.head_dim);
  if (!given && family.absent_head_dim == 0 && config->hidden_size % config->num_qo_heads != 0) {
    root.RefuseField(keys.head_dim.empty() ? keys.heads : keys.head_dim,
                     keys.head_dim.empty()
                         ? "does not divide " + std::string(keys.hidden)
                         : "is absent, and " + std::string(keys.heads) + " does not divide " + std::string(keys.hidden),
                     keys.head_dim.empty() ? "correct one of the two" : "add it");
  }
  const int64_t absent_dim =
      family.absent_head_dim > 0 ? family.absent_head_dim : config->hidden_size / config->num_qo_heads;
  config->head_dim = given ? static_cast<int32_t>(root.Integer(keys.head_dim, 2, kMaxHeadDim))
                           : static_cast<int32_t>(std::min(absent_dim, kMaxHeadDim + 1));
  if (config->head_dim < 2 || config->head_dim % 2 != 0 || config->head_dim > kMaxHeadDim) {
    root.RefuseField(keys.head_dim.empty() ? keys.heads : keys.head_dim,
                     std::to_string(config->head_dim) + " is not even", "rotary positions rotate pairs of components");
  }
  config->max_positions_given = root.Has(keys.positions);
  config->max_positions = root.Integer(keys.positions, 1, kMaxPositions, family.absent_max_positions);
}

}  // namespace

ModelConfig ParseModelConfig(std::string_view text, const std::string& file) {
  // Thousands of values are plenty, also with the factors and layers of the longest models.
  const JsonTree json(text, file, {.max_nodes = 1 << 20});
  const JsonFields whole(json.Root(), file, "");
  ModelConfig config;
  config.json = std::string(text);
  config.model_type = whole.Text("model_type");
  const Family* found = FindFamily(config.model_type);
  if (found == nullptr) {
    whole.RefuseField(
        "model_type", Quoted(config.model_type) + " is not supported",
        "these are: " + KnownModelTypes() + "; any other is recorded with " + std::string(kRecordFromPython));
  }
  config.family = found;
  ReadQuantisation(whole, &config);
  const bool is_whole = found->text_model.empty() || (found->text_model_may_be_whole && !whole.Has(found->text_model));
  const JsonFields root = is_whole ? whole : whole.Object(found->text_model);
  if (found->row_of_text != nullptr) config.family = &found->row_of_text(root);
  const Family& family = *config.family;
  ReadSizes(root, &config);
  // transformers lets every token of such a model see all others, as embeddings made by decoders want it.
  if (family.causal && !root.Boolean("is_causal", true)) root.RefuseUnsupported("is_causal", "false is not supported");
  config.norm_eps =
      family.norm_eps_key.empty() ? family.absent_norm_eps : root.Number(family.norm_eps_key, family.absent_norm_eps);
  if (!(config.norm_eps > 0)) root.RefuseField(family.norm_eps_key, "must be positive", "correct it");
  config.activation = ReadActivation(root, family);
  config.tied_embeddings =
      (whole.Has("tie_word_embeddings") ? whole : root).Boolean("tie_word_embeddings", family.absent_tied_embeddings);
  config.qkv_bias = HasBias(root, family, family.qkv_bias);
  config.output_bias = HasBias(root, family, family.output_bias);
  config.mlp_bias = HasBias(root, family, family.mlp_bias);
  for (const int32_t window : ReadWindows(root, family, config.num_layers)) {
    config.layers.push_back({.num_qo_heads = config.num_qo_heads,
                             .num_kv_heads = config.num_kv_heads,
                             .head_dim = config.head_dim,
                             .v_head_dim = config.head_dim,
                             .scale = 1.0 / std::sqrt(static_cast<double>(config.head_dim)),
                             .window = window,
                             .qk_norm = family.qk_norm,
                             .output_gate = family.output_gate,
                             .causal = family.causal});
  }
  if (family.read_ropes != nullptr) {
    family.read_ropes(root, &config);
  } else if (family.position_embedding.empty()) {
    config.ropes = {ReadRopeConfig(root, family.rope, config.head_dim, config.max_positions)};
  } else {
    for (AttentionLayer& layer : config.layers) layer.rope = -1;
  }
  const int64_t named = config.max_positions;
  for (RopeConfig& rope : config.ropes) {
    rope.interleaved = family.rope_interleaved;
    if (rope.type != RopeType::kDynamic && rope.type != RopeType::kYarn) continue;
    // Such a model runs past the length that it names: that is where its positions begin to grow, or the length that it
    // was trained at, as files that were extended by hand go on naming it.
    const int64_t begin = rope.type == RopeType::kYarn ? rope.original_max_positions : named;
    const double reach = std::min(static_cast<double>(begin) * rope.factor, static_cast<double>(kMaxPositions));
    config.max_positions = std::max(config.max_positions, static_cast<int64_t>(reach));
  }
  config.parallel = family.parallel;
  config.has_head = !family.head.empty();
  if (family.read != nullptr) family.read(root, &config);
  return config;
}

ModelConfig ReadModelConfig(const std::string& model_dir) {
  const std::filesystem::path folder(model_dir);
  const std::string path = (folder / "config.json").string();
  RequireModelFolder(folder);
  return ParseModelConfig(ReadSmallFile(path, kMaxConfigBytes, "name a model's folder, which has this file"), path);
}

int32_t InnerSize(const ModelConfig& config, int32_t layer) {
  return config.inner_sizes.empty() ? config.intermediate_size : config.inner_sizes[static_cast<size_t>(layer)];
}

bool IsEncoder(const ModelConfig& config) {
  return !config.family->causal;
}

void RequireHeads(const ModelConfig& config, const std::string& model_dir) {
  if (!std::ranges::all_of(config.layers, &AttentionLayer::other_mixer)) return;
  throw BadInputError({.file = (std::filesystem::path(model_dir) / "config.json").string(),
                       .field = std::string(config.mixer.kinds_key),
                       .problem = "no layer has attention, so there are no heads",
                       .remedy = "use a model that has layers with attention"});
}

void RequireDecoder(const ModelConfig& config, const std::string& model_dir) {
  if (!IsEncoder(config)) return;
  throw BadInputError({.file = (std::filesystem::path(model_dir) / "config.json").string(),
                       .field = "model_type",
                       .value = config.model_type,
                       .problem = "it is an encoder, which generates nothing",
                       .remedy = "name a decoder"});
}

std::string PositionsText(const ModelConfig& config) {
  return std::to_string(config.max_positions) + " positions (" +
         (config.max_positions_given ? std::string(config.family->keys.positions)
                                     : "the default of " + config.model_type + ": config.json has no " +
                                           std::string(config.family->keys.positions)) +
         ")";
}

void RequirePositions(const ModelConfig& config, std::string_view what, int64_t count) {
  if (count <= config.max_positions) return;
  throw UsageError({.field = std::string(what),
                    .value = std::to_string(count),
                    .problem = "the model has " + PositionsText(config),
                    .remedy = "choose a smaller number"});
}

}  // namespace headscope::model
