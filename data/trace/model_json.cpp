#include "data/model_json.h"

#include <nlohmann/json.hpp>

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

}  // namespace headscope::data
