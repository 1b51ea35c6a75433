// SPDX-License-Identifier: Apache-2.0
#include "data/model_json.h"

#include <nlohmann/json.hpp>

#include "trace/trace_tensors.h"

namespace headscope::data {

nlohmann::ordered_json ModelJson(const ModelInfo& model) {
  return {{"name", model.name},
          {"model_type", model.model_type},
          {"num_layers", model.num_layers},
          {"num_qo_heads", model.num_qo_heads},
          {"num_kv_heads", model.num_kv_heads},
          {"head_dim", model.head_dim},
          {"weights_sha256", model.weights_sha256},
          {"tokenizer_sha256", model.tokenizer_sha256}};
}

std::vector<std::string> SelectionTensors(const SelectionFacts& selection) {
  std::vector<std::string> names;
  if (selection.sets > 0) names.emplace_back(SpecOf(TraceTensor::kSelection).name);
  if (selection.index_heads == 0) return names;
  for (const TraceTensor tensor : {TraceTensor::kIndexQ, TraceTensor::kIndexK, TraceTensor::kIndexWeights})
    names.emplace_back(SpecOf(tensor).name);
  return names;
}

nlohmann::ordered_json LayersJson(const TraceLayout& layout) {
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (size_t slot = 0; slot < layout.layers.size(); ++slot) {
    const LayerFacts& facts = layout.facts[slot];
    layers.push_back({{"layer", layout.layers[slot]},
                      {"kind", NameOf(facts.Kind())},
                      {"num_qo_heads", facts.num_qo_heads},
                      {"num_kv_heads", facts.num_kv_heads},
                      {"head_dim", facts.head_dim},
                      {"v_head_dim", facts.v_head_dim},
                      {"qo_heads", facts.qo_heads},
                      {"kv_heads", facts.kv_heads},
                      {"softmax_scale", facts.softmax_scale},
                      {"soft_cap", facts.soft_cap},
                      {"window", facts.window},
                      {"chunk", facts.chunk},
                      {"bidirectional", facts.bidirectional},
                      {"rope",
                       {{"convention", NameOf(facts.rope.convention)},
                        {"theta", facts.rope.theta},
                        {"dims", facts.rope.num_dims},
                        {"first_dim", facts.rope.first_dim},
                        {"attention_factor", facts.rope.attention_factor}}},
                      {"sinks", facts.sinks},
                      {"norm", NameOf(facts.norm)},
                      {"output_gate", NameOf(facts.output_gate)},
                      {"v_is_k", facts.v_is_k},
                      {"kv_layer", facts.kv_layer},
                      {"selection_layer", facts.selection_layer}});
  }
  return layers;
}

const char* NameOf(LayerKind kind) {
  switch (kind) {
    case LayerKind::kAttention:
      return "attention";
    case LayerKind::kSliding:
      return "sliding";
    case LayerKind::kChunked:
      return "chunked";
    case LayerKind::kLinear:
      return "linear";
    case LayerKind::kNone:
      break;
  }
  return "none";
}

const char* NameOf(RopeConvention convention) {
  switch (convention) {
    case RopeConvention::kHalf:
      return "half";
    case RopeConvention::kInterleaved:
      return "interleaved";
    case RopeConvention::kNone:
      break;
  }
  return "none";
}

const char* NameOf(NormPlace place) {
  switch (place) {
    case NormPlace::kNone:
      return "none";
    case NormPlace::kHeadBeforeRope:
      return "head before rope";
    case NormPlace::kHeadAfterRope:
      return "head after rope";
    case NormPlace::kLayerBeforeRope:
      return "layer before rope";
    case NormPlace::kLayerAfterRope:
      return "layer after rope";
    case NormPlace::kUnknown:
      break;
  }
  return "unknown";
}

const char* NameOf(OutputGate gate) {
  switch (gate) {
    case OutputGate::kPerHead:
      return "per head";
    case OutputGate::kPerChannel:
      return "per channel";
    case OutputGate::kNone:
      break;
  }
  return "none";
}

}  // namespace headscope::data
