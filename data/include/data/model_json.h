// SPDX-License-Identifier: Apache-2.0
// The model that a trace was captured from, as JSON: the same object wherever headscope prints or exports one.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data/trace_schema.h"

namespace headscope::data {

// {"name", "model_type", "num_layers", "num_qo_heads", "num_kv_heads", "head_dim", "weights_sha256",
// "tokenizer_sha256"}. Texts are the file's bytes, which need not be UTF-8: dump the object with a handler for that.
nlohmann::ordered_json ModelJson(const ModelInfo& model);

// One object for each recorded layer: {"layer", "kind", "num_qo_heads", "num_kv_heads", "head_dim", "v_head_dim",
// "qo_heads", "kv_heads" (recorded), "softmax_scale", "soft_cap", "window", "chunk", "rope": {"convention", "theta",
// "dims", "first_dim", "attention_factor"}, "sinks" (of the layer's query heads, or empty), "norm", "output_gate",
// "v_is_k", "kv_layer", "selection_layer"}.
nlohmann::ordered_json LayersJson(const TraceLayout& layout);

// Datasets of a layer that chooses its keys: "selection" and what the choice came from, as far as it is recorded.
std::vector<std::string> SelectionTensors(const SelectionFacts& selection);

const char* NameOf(LayerKind kind);             // "attention", "sliding", "chunked", "linear", "none"
const char* NameOf(RopeConvention convention);  // "half", "interleaved", "none"
const char* NameOf(NormPlace place);            // "unknown", "none", "head before rope", ...
const char* NameOf(OutputGate gate);            // "none", "per head", "per channel"

}  // namespace headscope::data
