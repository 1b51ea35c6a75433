// SPDX-License-Identifier: Apache-2.0
#include "recorded_layers.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

#include "base/errors.h"
#include "base/number_list.h"
#include "capture/stored_points.h"
#include "head_choice.h"

namespace headscope::capture {
namespace {

const char* MixerName(const model::ModelConfig& config) {
  return config.mixer.kind == model::MixerKind::kDeltaRule ? "recurrence" : "short convolution";
}

// Of those that have heads: all of them where none is named.
std::vector<int32_t> ChooseLayers(const std::vector<int32_t>& named, const model::ModelConfig& config) {
  std::vector<int32_t> chosen = ChooseNumbers(named, config.num_layers, "layer");
  const auto has_no_heads = [&](int32_t layer) { return config.layers[static_cast<size_t>(layer)].other_mixer; };
  if (named.empty()) {
    std::erase_if(chosen, has_no_heads);
  } else if (const auto without = std::find_if(chosen.begin(), chosen.end(), has_no_heads); without != chosen.end()) {
    throw UsageError(
        {.field = "layers",
         .value = std::to_string(*without),
         .problem = std::string("the layer has a ") + MixerName(config) + " instead of attention, so it has no heads",
         .remedy = "name layers with attention, or none to record all of those"});
  }
  return chosen;
}

// The query heads of one layer, which need not have as many as others.
std::vector<int32_t> ChooseHeads(const CaptureRequest& request, const model::ModelConfig& config, int32_t number) {
  const model::AttentionLayer& layer = config.layers[static_cast<size_t>(number)];
  if (request.kv_heads.empty()) return ChooseNumbers(request.heads, layer.num_qo_heads, "head");
  return GroupsOf(ChooseNumbers(request.kv_heads, layer.num_kv_heads, "kv-head"), layer.num_qo_heads,
                  layer.num_kv_heads);
}

// An encoder reads the whole text at once, and its attention is no method's.
void RequireOnePass(const CaptureRequest& request) {
  if (request.decode_tokens > 0) {
    throw UsageError({.field = "decode",
                      .value = std::to_string(request.decode_tokens),
                      .problem = "the model is an encoder, which generates no tokens",
                      .remedy = "leave it at 0, or name a decoder"});
  }
  if (request.attention != nullptr) {
    throw UsageError(
        {.field = "attention",
         .value = request.attention_text,
         .problem =
             "the model is an encoder, whose rows also attend to later tokens, but every method needs causal attention",
         .remedy = "leave it out, or name a decoder"});
  }
}

data::NormPlace NormOf(model::QkNorm norm) {
  switch (norm) {
    case model::QkNorm::kNone:
      return data::NormPlace::kNone;
    case model::QkNorm::kEachHead:
      return data::NormPlace::kHeadBeforeRope;
    case model::QkNorm::kEachHeadAfterRope:
      return data::NormPlace::kHeadAfterRope;
    case model::QkNorm::kAllHeads:
      return data::NormPlace::kLayerBeforeRope;
  }
  return data::NormPlace::kUnknown;
}

// What the configuration says of a layer, for the trace.
data::LayerFacts FactsOf(const model::ModelConfig& config, int32_t layer, const std::vector<int32_t>& qo_heads) {
  const model::AttentionLayer& from = config.layers[static_cast<size_t>(layer)];
  data::LayerFacts facts;
  facts.num_qo_heads = from.num_qo_heads;
  facts.num_kv_heads = from.num_kv_heads;
  facts.head_dim = from.head_dim;
  facts.v_head_dim = from.v_head_dim;
  facts.qo_heads = qo_heads;
  facts.kv_heads = KvHeadsOf(qo_heads, from.num_qo_heads, from.num_kv_heads);
  facts.softmax_scale = static_cast<float>(from.scale);
  facts.soft_cap = static_cast<float>(from.soft_cap);
  facts.window = from.window;
  facts.chunk = from.chunk;
  facts.bidirectional = !from.causal;
  facts.sinks = from.sinks;
  facts.kv_layer = from.kv_layer;
  if (from.rope < 0) {
    facts.rope.convention = data::RopeConvention::kNone;
  } else {
    const model::RopeConfig& rope = config.ropes[static_cast<size_t>(from.rope)];
    if (rope.interleaved) facts.rope.convention = data::RopeConvention::kInterleaved;
    facts.rope.theta = static_cast<float>(rope.theta);
    facts.rope.num_dims = rope.rotary_dim == from.head_dim ? 0 : rope.rotary_dim;
    facts.rope.first_dim = rope.first_dim;
    facts.rope.attention_factor = static_cast<float>(rope.attention_factor);
  }
  facts.norm = NormOf(from.qk_norm);
  if (from.output_gate) facts.output_gate = data::OutputGate::kPerChannel;
  return facts;
}

std::string FolderName(const std::string& path) {
  const std::filesystem::path whole = std::filesystem::absolute(path).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

}  // namespace

RecordedHeads ChooseRecordedHeads(const CaptureRequest& request, const model::ModelConfig& config) {
  RequireHeads(config, request.model_dir);
  if (IsEncoder(config)) RequireOnePass(request);
  if (request.task) RequirePositions(config, "length", request.task_length);
  RequirePositions(config, "decode", request.decode_tokens);
  if (!request.heads.empty() && !request.kv_heads.empty()) {
    throw UsageError({.field = "kv-heads",
                      .value = NumberListText(request.kv_heads),
                      .problem = "heads are named as well, and either alone says which heads are recorded",
                      .remedy = "name one of them"});
  }
  RecordedHeads chosen{ChooseLayers(request.layers, config), {}};
  for (const int32_t layer : chosen.layers) chosen.qo_heads.push_back(ChooseHeads(request, config, layer));
  return chosen;
}

data::TraceLayout LayoutOfTrace(const CaptureRequest& request, const model::ModelConfig& config, ElementType captured,
                                const RecordedHeads& heads, const Prompt& prompt) {
  data::TraceLayout layout;
  layout.model.name = FolderName(request.model_dir);
  layout.model.model_type = config.model_type;
  layout.model.config_json = config.json;
  layout.model.num_layers = config.num_layers;
  layout.model.num_qo_heads = config.num_qo_heads;
  layout.model.num_kv_heads = config.num_kv_heads;
  layout.model.head_dim = config.head_dim;
  layout.max_tokens = static_cast<int64_t>(prompt.tokens.size()) + request.decode_tokens;
  layout.layers = heads.layers;
  layout.encoding = captured;
  layout.attention = request.attention_text;
  for (size_t slot = 0; slot < layout.layers.size(); ++slot) {
    layout.facts.push_back(FactsOf(config, layout.layers[slot], heads.qo_heads[slot]));
    data::LayerFacts& facts = layout.facts.back();
    for (const model::CapturePoint point : request.record) facts.*StoredFact(point) = true;
    if (facts.has_residual) facts.hidden_size = config.hidden_size;
    facts.selection = SelectionOf(config, layout.layers[slot], layout.max_tokens);
  }
  const data::LayerKind without_attention =
      config.mixer.kind == model::MixerKind::kDeltaRule ? data::LayerKind::kLinear : data::LayerKind::kNone;
  for (const model::AttentionLayer& layer : config.layers)
    layout.model.layer_kinds.push_back(layer.other_mixer  ? without_attention
                                       : layer.window > 0 ? data::LayerKind::kSliding
                                       : layer.chunk > 0  ? data::LayerKind::kChunked
                                                          : data::LayerKind::kAttention);
  layout.row_selection = request.rows;
  layout.prompt_source = prompt.source;
  layout.task_answer = prompt.answer;
  // An answer that the decode steps have no room for is not judged.
  if (std::ssize(prompt.answer_tokens) <= request.decode_tokens)
    layout.answer_tokens = static_cast<int32_t>(prompt.answer_tokens.size());
  return layout;
}

}  // namespace headscope::capture
