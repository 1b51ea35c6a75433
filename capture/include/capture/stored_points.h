// SPDX-License-Identifier: Apache-2.0
// What a trace has, or will have, of its layers: q, k, v and lse, and what a capture recorded beside them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/trace_schema.h"
#include "model/capture_points.h"
#include "model/model_config.h"

namespace headscope::capture {

// The fact of a recorded layer that is true where the layer has the tensors of that point.
bool data::LayerFacts::*StoredFact(model::CapturePoint point);

// In the words of commands: "q", "k", "v", "lse", the datasets of layers that choose their keys, the capture points of
// the first layer.
std::vector<std::string> RecordedNames(std::span<const data::LayerFacts> layers);

// Those of a model's layers before any is recorded, without capture points.
std::vector<std::string> RecordedNames(const model::ModelConfig& config);

// How a layer of that model chooses its keys, in a trace of at most so many tokens; none where it sees all.
data::SelectionFacts SelectionOf(const model::ModelConfig& config, int32_t layer, int64_t max_tokens);

}  // namespace headscope::capture
