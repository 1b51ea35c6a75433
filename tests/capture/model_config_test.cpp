#include "checkpoint/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "capture/errors.h"

namespace headscope::capture {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

json Llama() {
  return {{"model_type", "llama"},  {"hidden_size", 64},        {"intermediate_size", 96},        {"vocab_size", 100},
          {"num_hidden_layers", 2}, {"num_attention_heads", 4}, {"max_position_embeddings", 1024}};
}

ModelConfig Parse(const json& config) {
  return ParseModelConfig(config.dump(), "config.json");
}

std::string RefusalWith(const std::string& key, const json& value, json config = Llama()) {
  config[key] = value;
  try {
    Parse(config);
  } catch (const BadInputError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("config.json: "), HasSubstr("; ")));
    return error.what();
  }
  return "accepted";
}

TEST(ModelConfig, FillsInTheFamilysDefaults) {
  const ModelConfig config = Parse(Llama());
  EXPECT_EQ(config.num_kv_heads, 4);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_FALSE(config.tied_embeddings);
  EXPECT_FALSE(config.qkv_bias);
  EXPECT_EQ(config.rope.theta, 10000);
}

TEST(ModelConfig, ReadsBothPlacesOfRope) {
  json old_style = Llama();
  old_style["rope_theta"] = 5e5;
  old_style["rope_scaling"] = {{"type", "linear"}, {"factor", 4}};
  json new_style = Llama();
  new_style["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 4}, {"rope_theta", 5e5}};
  for (const json& style : {old_style, new_style}) {
    const ModelConfig config = Parse(style);
    EXPECT_EQ(config.rope.type, RopeType::kLinear);
    EXPECT_EQ(config.rope.theta, 5e5);
    EXPECT_EQ(config.rope.factor, 4);
  }
  old_style["rope_parameters"] = new_style["rope_parameters"];
  EXPECT_THROW(Parse(old_style), BadInputError);
}

TEST(ModelConfig, RefusesWhatWouldBeAnotherModel) {
  EXPECT_THAT(RefusalWith("model_type", "gemma2"), AllOf(HasSubstr("model_type"), HasSubstr("llama, mistral")));
  EXPECT_THAT(RefusalWith("quantization_config", {{"bits", 4}}), HasSubstr("quantization_config"));
  EXPECT_THAT(RefusalWith("rope_scaling", {{"rope_type", "yarn"}, {"factor", 2}}), HasSubstr("rope_scaling.rope_type"));
  EXPECT_THAT(RefusalWith("hidden_act", "gelu"), HasSubstr("hidden_act"));
  EXPECT_THAT(RefusalWith("partial_rotary_factor", 0.5), HasSubstr("partial_rotary_factor"));
  EXPECT_THAT(RefusalWith("layer_types", {"full_attention", "sliding_attention"}), HasSubstr("layer_types"));
  json mistral = Llama();
  mistral["model_type"] = "mistral";
  mistral["num_key_value_heads"] = 2;
  EXPECT_THAT(RefusalWith("vocab_size", 100, mistral), HasSubstr("an absent field means a window of 4096"));
  EXPECT_EQ(RefusalWith("sliding_window", nullptr, mistral), "accepted");
  EXPECT_THAT(RefusalWith("sliding_window", 4096, mistral), HasSubstr("sliding_window"));
  json qwen2 = Llama();
  qwen2["model_type"] = "qwen2";
  qwen2["num_key_value_heads"] = 2;
  EXPECT_THAT(RefusalWith("use_sliding_window", true, qwen2), HasSubstr("use_sliding_window"));
}

TEST(ModelConfig, RefusesValuesOutsideTheirRange) {
  for (const char* key : {"hidden_size", "intermediate_size", "vocab_size", "num_hidden_layers", "num_attention_heads",
                          "max_position_embeddings"}) {
    for (const json& bad :
         {json(0), json(-1), json(1.5), json("4"), json(1e30), json(UINT64_MAX), json(true), json(json::array())}) {
      EXPECT_THAT(RefusalWith(key, bad), HasSubstr(key)) << bad;
    }
    EXPECT_THAT(RefusalWith(key, nullptr), AllOf(HasSubstr(key), HasSubstr("missing")));
  }
  EXPECT_THAT(RefusalWith("num_key_value_heads", 3), HasSubstr("does not divide"));
  EXPECT_THAT(RefusalWith("head_dim", 7), HasSubstr("not even"));
  EXPECT_THAT(RefusalWith("num_attention_heads", 3), HasSubstr("head_dim"));
  EXPECT_THAT(RefusalWith("rms_norm_eps", 0), HasSubstr("rms_norm_eps"));
  EXPECT_THAT(RefusalWith("rope_theta", 0), HasSubstr("rope_theta"));
}

TEST(ModelConfig, RefusesJsonThatTwoReadersCouldReadDifferently) {
  const std::string twice = R"({"model_type":"llama","model_type":"mistral"})";
  EXPECT_THROW(ParseModelConfig(twice, "config.json"), BadInputError);
  EXPECT_THROW(ParseModelConfig("", "config.json"), BadInputError);
  EXPECT_THROW(ParseModelConfig("[]", "config.json"), BadInputError);
  EXPECT_THROW(ParseModelConfig(std::string(200000, '['), "config.json"), BadInputError);
  EXPECT_THROW(ParseModelConfig("{\"a\":\"\xff\"}", "config.json"), BadInputError);
}

}  // namespace
}  // namespace headscope::capture
