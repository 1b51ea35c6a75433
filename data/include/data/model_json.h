// The model that a trace was captured from, as JSON: the same object wherever headscope prints or exports one.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "data/trace_schema.h"

namespace headscope::data {

// {"name", "model_type", "num_layers", "num_qo_heads", "num_kv_heads", "head_dim", "weights_sha256",
// "tokenizer_sha256"}. Texts are the file's bytes, which need not be UTF-8: dump the object with a handler for that.
nlohmann::ordered_json ModelJson(const ModelInfo& model);

}  // namespace headscope::data
