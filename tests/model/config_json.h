// SPDX-License-Identifier: Apache-2.0
// Small config.json files for tests, and what reading them gives.
#pragma once

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/errors.h"
#include "model/model_config.h"

namespace headscope::model {

inline nlohmann::json LlamaJson() {
  return {{"model_type", "llama"},  {"hidden_size", 64},        {"intermediate_size", 96},        {"vocab_size", 100},
          {"num_hidden_layers", 2}, {"num_attention_heads", 4}, {"max_position_embeddings", 1024}};
}

inline ModelConfig Parse(const nlohmann::json& config) {
  return ParseModelConfig(config.dump(), "config.json");
}

inline std::string RefusalWith(const std::string& key, const nlohmann::json& value,
                               nlohmann::json config = LlamaJson()) {
  config[key] = value;
  try {
    Parse(config);
  } catch (const BadInputError& error) {
    EXPECT_THAT(error.what(), ::testing::AllOf(::testing::HasSubstr("config.json: "), ::testing::HasSubstr("; ")));
    return error.what();
  }
  return "accepted";
}

// As many KV heads as fit each family.
inline nlohmann::json FamilyJson(const char* model_type) {
  nlohmann::json config = LlamaJson();
  config["model_type"] = model_type;
  config["num_key_value_heads"] = 2;
  return config;
}

}  // namespace headscope::model
