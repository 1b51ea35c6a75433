// SPDX-License-Identifier: Apache-2.0
#include "capture/stored_points.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "data/model_json.h"

namespace headscope::capture {
namespace {

std::vector<std::string> WithSelection(const data::SelectionFacts& selection) {
  std::vector<std::string> names = {"q", "k", "v", "lse"};
  for (std::string& name : data::SelectionTensors(selection)) names.push_back(std::move(name));
  return names;
}

}  // namespace

bool data::LayerFacts::*StoredFact(model::CapturePoint point) {
  switch (point) {
    case model::CapturePoint::kPreRope:
      return &data::LayerFacts::has_pre_rope;
    case model::CapturePoint::kValueNorms:
      return &data::LayerFacts::has_value_norms;
    case model::CapturePoint::kHiddenNorms:
      return &data::LayerFacts::has_hidden_norms;
    case model::CapturePoint::kProjection:
      return &data::LayerFacts::has_projection;
    case model::CapturePoint::kCache:
      return &data::LayerFacts::has_cache;
    case model::CapturePoint::kResidual:
      return &data::LayerFacts::has_residual;
    case model::CapturePoint::kHeadOutputs:
      return &data::LayerFacts::has_head_outputs;
    case model::CapturePoint::kValueNormsL1:
      return &data::LayerFacts::has_value_norms_l1;
  }
  throw std::logic_error("a capture point without a case");
}

std::vector<std::string> RecordedNames(std::span<const data::LayerFacts> layers) {
  const auto chooses = std::ranges::find_if(
      layers, [](const data::LayerFacts& facts) { return facts.selection != data::SelectionFacts{}; });
  std::vector<std::string> names = WithSelection(chooses == layers.end() ? data::SelectionFacts{} : chooses->selection);
  for (const model::CapturePointInfo& info : model::kCapturePoints)
    if (layers.front().*StoredFact(info.point)) names.emplace_back(info.name);
  return names;
}

std::vector<std::string> RecordedNames(const model::ModelConfig& config) {
  data::SelectionFacts any;
  for (int32_t layer = 0; layer < config.num_layers && any.sets == 0; ++layer) any = SelectionOf(config, layer, 1);
  return WithSelection(any);
}

data::SelectionFacts SelectionOf(const model::ModelConfig& config, int32_t layer, int64_t max_tokens) {
  const int32_t most = config.layers[static_cast<size_t>(layer)].selected;
  if (most == 0) return {};
  return {.sets = 1,
          .ids = static_cast<int32_t>(std::min<int64_t>(most, max_tokens)),
          .index_heads = config.index.heads,
          .index_kv_heads = 1,
          .index_dim = config.index.dim};
}

}  // namespace headscope::capture
