// SPDX-License-Identifier: Apache-2.0
#include "model/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "checkpoint_files.h"
#include "config_json.h"
#include "families/family.h"

namespace headscope::model {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ModelConfig, FillsInTheFamilysDefaults) {
  const ModelConfig config = Parse(LlamaJson());
  EXPECT_EQ(config.num_kv_heads, 4);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_FALSE(config.tied_embeddings);
  EXPECT_FALSE(config.qkv_bias);
  EXPECT_EQ(config.ropes[0].theta, 10000);
}

TEST(ModelConfig, ReadsBothPlacesOfRope) {
  json old_style = LlamaJson();
  old_style["rope_theta"] = 5e5;
  old_style["rope_scaling"] = {{"type", "linear"}, {"factor", 4}};
  json new_style = LlamaJson();
  new_style["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 4}, {"rope_theta", 5e5}};
  for (const json& style : {old_style, new_style}) {
    const ModelConfig config = Parse(style);
    EXPECT_EQ(config.ropes[0].type, RopeType::kLinear);
    EXPECT_EQ(config.ropes[0].theta, 5e5);
    EXPECT_EQ(config.ropes[0].factor, 4);
  }
  old_style["rope_parameters"] = new_style["rope_parameters"];
  EXPECT_THROW(Parse(old_style), BadInputError);
}

TEST(ModelConfig, RefusesWhatWouldBeAnotherModel) {
  EXPECT_THAT(RefusalWith("model_type", "gemma1"),
              AllOf(HasSubstr("model_type"), HasSubstr("llama, llama4_text, llama4, Yi, mistral")));
  EXPECT_THAT(RefusalWith("model_type", "gemma1"), HasSubstr("headscope.record"));
  for (const auto* family : Families())
    EXPECT_THAT(RefusalWith("model_type", "gemma1"), HasSubstr(" " + std::string(family->model_type)));
  EXPECT_THAT(RefusalWith("quantization_config", {{"bits", 4}}), HasSubstr("quantization_config"));
  EXPECT_THAT(RefusalWith("rope_scaling", {{"rope_type", "mrope"}, {"factor", 2}}),
              AllOf(HasSubstr("rope_scaling.rope_type"), HasSubstr("mrope"), HasSubstr("yarn, longrope"),
                    HasSubstr("headscope.record")));
  EXPECT_THAT(RefusalWith("hidden_act", "glu"), AllOf(HasSubstr("hidden_act"), HasSubstr("headscope.record")));
  EXPECT_THAT(RefusalWith("layer_types", {"full_attention", "sliding_attention"}), HasSubstr("layer_types"));
  EXPECT_THAT(RefusalWith("layer_types", {"full_attention", "linear_attention"}), HasSubstr("linear_attention"));
  EXPECT_THAT(RefusalWith("layer_types", {"full_attention"}), HasSubstr("one for each of the 2 layers"));
  EXPECT_THAT(RefusalWith("rope_parameters", {{"full_attention", {{"rope_theta", 1e6}}}}), HasSubstr("full_attention"));
}

std::vector<int32_t> Windows(const json& config) {
  std::vector<int32_t> windows;
  for (const AttentionLayer& layer : Parse(config).layers) windows.push_back(layer.window);
  return windows;
}

// Once, each of these was refused.
TEST(ModelConfig, TakesWindowsAsTheFamiliesMeanThem) {
  json mistral = FamilyJson("mistral");
  EXPECT_EQ(Windows(mistral), (std::vector<int32_t>{4096, 4096})) << "an absent key";
  mistral["sliding_window"] = 512;
  EXPECT_EQ(Windows(mistral), (std::vector<int32_t>{512, 512}));
  mistral["sliding_window"] = nullptr;
  EXPECT_EQ(Windows(mistral), (std::vector<int32_t>{0, 0}));
  for (const char* type : {"qwen2", "qwen3"}) {
    json qwen = FamilyJson(type);
    qwen["sliding_window"] = 512;
    qwen["max_window_layers"] = 1;
    EXPECT_EQ(Windows(qwen), (std::vector<int32_t>{0, 0})) << "use_sliding_window is false";
    qwen["use_sliding_window"] = true;
    EXPECT_EQ(Windows(qwen), (std::vector<int32_t>{0, 512}));
    qwen["layer_types"] = {"sliding_attention", "full_attention"};
    EXPECT_EQ(Windows(qwen), (std::vector<int32_t>{512, 0}));
    qwen["sliding_window"] = nullptr;
    EXPECT_THROW(Parse(qwen), BadInputError);
    qwen["sliding_window"] = 0;
    EXPECT_THAT(RefusalWith("sliding_window", 0, qwen), HasSubstr("sliding_window"));
  }
}

// In bf16 these multiply by the weight before they round, as transformers' modules of them do: less than what the
// tests of numbers allow to differ.
TEST(ModelConfig, SomeFamiliesNormsStayInFp32) {
  std::vector<std::string_view> found;
  for (const auto* family : Families())
    if (family->norm == NormKind::kRmsInFp32) found.push_back(family->model_type);
  EXPECT_THAT(found, ::testing::UnorderedElementsAre("olmo2", "olmo3", "gpt_oss", "afmoe", "gemma3n_text", "gemma3n",
                                                     "gemma4_text", "gemma4"));
}

// The meaning of absent keys is that of transformers' configuration classes.
TEST(ModelConfig, FillsInWhatPublishedFilesLeaveOut) {
  EXPECT_EQ(Windows(FamilyJson("phi3")), (std::vector<int32_t>{0, 0})) << "no window, not mistral's";
  EXPECT_EQ(Windows(FamilyJson("gemma2")), (std::vector<int32_t>{4096, 0}));
  EXPECT_EQ(Parse(FamilyJson("phi3")).norm_eps, 1e-5);
  EXPECT_EQ(Parse(FamilyJson("olmo2")).norm_eps, 1e-5);
  EXPECT_EQ(Parse(FamilyJson("cohere")).ropes[0].theta, 500000);
  EXPECT_EQ(Parse(FamilyJson("gpt_neox")).ropes[0].rotary_dim, 4) << "a quarter of 16";
  EXPECT_EQ(Parse(FamilyJson("gemma3_text")).ropes[0].theta, 1e6);
  EXPECT_EQ(Parse(FamilyJson("gemma3_text")).ropes[1].theta, 1e4);
  json smol = FamilyJson("smollm3");
  EXPECT_EQ(Parse(smol).ropes[0].theta, 2e6);
  smol["num_hidden_layers"] = 8;
  const ModelConfig config = Parse(smol);
  for (size_t layer = 0; layer < 8; ++layer) EXPECT_EQ(config.layers[layer].rope, layer % 4 == 3 ? -1 : 0) << layer;
}

// As google's files of Gemma 3 are: most is left out, and what there is stands beside what is said of images.
TEST(ModelConfig, ReadsTheTextModelOfOneThatSeesImages) {
  json file = {{"model_type", "gemma3"},
               {"vision_config", {{"hidden_size", 16}}},
               {"text_config",
                {{"model_type", "gemma3_text"},
                 {"hidden_size", 64},
                 {"intermediate_size", 96},
                 {"num_hidden_layers", 6},
                 {"sliding_window", 1024},
                 {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}}}}};
  const ModelConfig config = Parse(file);
  EXPECT_EQ(config.model_type, "gemma3");
  EXPECT_EQ(config.vocabulary_size, 262208);
  EXPECT_EQ(config.num_qo_heads, 8);
  EXPECT_EQ(config.num_kv_heads, 4);
  EXPECT_EQ(config.head_dim, 256);
  EXPECT_EQ(config.max_positions, 131072);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_EQ(Windows(file), (std::vector<int32_t>{1024, 1024, 1024, 1024, 1024, 0}));
  EXPECT_EQ(config.ropes[0].factor, 8);
  file["tie_word_embeddings"] = false;
  EXPECT_FALSE(Parse(file).tied_embeddings);
  EXPECT_THAT(RefusalWith("quantization_config", {{"bits", 4}}, file), HasSubstr("quantization_config"));
  file["text_config"]["hidden_size"] = 0;
  EXPECT_THAT(RefusalWith("vision_config", nullptr, file), HasSubstr("text_config.hidden_size"));
  EXPECT_THAT(RefusalWith("text_config", nullptr, file), HasSubstr("text_config"));
}

TEST(ModelConfig, RefusesVariantsThatItsFamiliesDoNotRun) {
  const json linear = {{"type", "linear"}, {"factor", 4}};
  EXPECT_THAT(RefusalWith("rope_scaling", linear, FamilyJson("phi3")), HasSubstr("default and longrope are"));
  const std::vector<int> ones(8, 1);
  const json longrope = {{"type", "longrope"}, {"short_factor", ones}, {"long_factor", ones}};
  EXPECT_THAT(RefusalWith("rope_scaling", longrope, FamilyJson("phi3")), HasSubstr("original_max_position_embeddings"));
  for (const char* type : {"gemma2", "gemma3_text"})
    EXPECT_THAT(RefusalWith("use_bidirectional_attention", true, FamilyJson(type)), HasSubstr("true is not supported"));
  EXPECT_THAT(RefusalWith("attn_logit_softcapping", 50, FamilyJson("gemma3_text")),
              HasSubstr("attn_logit_softcapping"));
  EXPECT_THAT(RefusalWith("logits_scaling", 0, FamilyJson("granite")), HasSubstr("logits_scaling"));
  EXPECT_THAT(RefusalWith("no_rope_layers", {1, 2}, FamilyJson("smollm3")), HasSubstr("0 or 1"));
  EXPECT_THAT(RefusalWith("no_rope_layers", {1}, FamilyJson("smollm3")), HasSubstr("one entry for each layer"));
}

TEST(ModelConfig, ReadsQwenVlWithTheTextModelsKeysInEitherPlace) {
  json flat = FamilyJson("qwen2_5_vl");
  flat["rope_scaling"] = {{"type", "mrope"}, {"mrope_section", {16, 24, 24}}};
  EXPECT_EQ(Parse(flat).ropes[0].type, RopeType::kDefault) << "three positions are one for text";
  EXPECT_THAT(RefusalWith("rope_scaling", flat["rope_scaling"], FamilyJson("qwen2")), HasSubstr("mrope"));
  json nested = {{"model_type", "qwen2_5_vl"}, {"text_config", flat}};
  nested["text_config"]["num_hidden_layers"] = 5;
  EXPECT_EQ(Parse(nested).num_layers, 5);
  EXPECT_EQ(Parse(flat).num_layers, 2);
}

TEST(ModelConfig, ReadsHowQueriesGrow) {
  json ministral = FamilyJson("ministral3");
  EXPECT_THAT(RefusalWith("hidden_act", "silu", ministral), HasSubstr("rope_scaling"));
  json& positions = ministral["rope_parameters"];
  positions = {{"rope_type", "yarn"}, {"rope_theta", 1e6}, {"factor", 4.0}, {"original_max_position_embeddings", 256}};
  EXPECT_THAT(RefusalWith("hidden_act", "silu", ministral), HasSubstr("llama_4_scaling_beta"));
  positions["llama_4_scaling_beta"] = -0.1;
  EXPECT_THAT(RefusalWith("hidden_act", "silu", ministral), HasSubstr("must not be negative"));
  positions["llama_4_scaling_beta"] = 0.1;
  EXPECT_EQ(Parse(ministral).layers[1].growth.rate, 0.1);
  EXPECT_EQ(Parse(ministral).layers[1].growth.length, 256);
  json images = {{"model_type", "mistral3"}, {"text_config", ministral}};
  EXPECT_EQ(Parse(images).layers[0].growth.rate, 0.1);
  images["text_config"]["model_type"] = "mistral4";
  EXPECT_THAT(RefusalWith("architectures", json::array(), images), HasSubstr("mistral and ministral3 are"));
  images["text_config"] = FamilyJson("mistral");
  EXPECT_EQ(Parse(images).layers[0].growth.rate, 0);
}

// Mistral 3 with images leaves out what either of its text models has by itself.
TEST(ModelConfig, FillsInWhatTheTextModelMeans) {
  const auto parsed = [](const char* kind) {
    json text = FamilyJson(kind);
    for (const char* key : {"rms_norm_eps", "rope_theta", "head_dim", "max_position_embeddings", "sliding_window"})
      text.erase(key);
    if (std::string(kind) == "ministral3")
      text["rope_parameters"] = {
          {"rope_type", "default"}, {"llama_4_scaling_beta", 0.1}, {"original_max_position_embeddings", 256}};
    return Parse({{"model_type", "mistral3"}, {"text_config", text}});
  };
  const ModelConfig mistral = parsed("mistral"), ministral = parsed("ministral3");
  EXPECT_EQ(mistral.norm_eps, 1e-6);
  EXPECT_EQ(mistral.ropes[0].theta, 1e4);
  EXPECT_EQ(mistral.head_dim, mistral.hidden_size / mistral.num_qo_heads);
  EXPECT_EQ(mistral.max_positions, 131072);
  EXPECT_EQ(mistral.layers[0].window, 4096);
  EXPECT_EQ(mistral.model_type, "mistral3");
  EXPECT_EQ(ministral.norm_eps, 1e-5);
  EXPECT_EQ(ministral.ropes[0].theta, 1e6);
  EXPECT_EQ(ministral.head_dim, 128);
  EXPECT_EQ(ministral.max_positions, 262144);
  EXPECT_EQ(ministral.layers[0].window, 0);
}

TEST(ModelConfig, TakesTheFamilysPositionsWhereTheFileNamesNone) {
  for (const auto& [type, positions] : {std::pair{"llama", 2048}, {"mistral", 131072}, {"qwen2", 32768}}) {
    json config = FamilyJson(type);
    config.erase("max_position_embeddings");
    EXPECT_EQ(Parse(config).max_positions, positions) << type;
    try {
      RequirePositions(Parse(config), "--length", 200000);
      ADD_FAILURE() << "200000 tokens were accepted";
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr("config.json has no max_position_embeddings"));
    }
  }
}

TEST(ModelConfig, ReadsEveryKindOfRope) {
  const json yarn = {{"type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 256}};
  json config = LlamaJson();
  config["rope_scaling"] = yarn;
  EXPECT_EQ(Parse(config).ropes[0].type, RopeType::kYarn);
  EXPECT_EQ(Parse(config).ropes[0].original_max_positions, 256);
  EXPECT_NEAR(Parse(config).ropes[0].attention_factor, 0.1 * std::log(4.0) + 1, 1e-12);
  EXPECT_EQ(Parse(config).max_positions, 1024) << "the length that the file names is the stretched one";
  config["rope_scaling"]["original_max_position_embeddings"] = 1024;
  EXPECT_EQ(Parse(config).max_positions, 4096) << "extended by hand, as Qwen2.5's card says";
  config["rope_scaling"] = yarn;
  config["original_max_position_embeddings"] = 128;
  EXPECT_EQ(Parse(config).ropes[0].original_max_positions, 128) << "the top level wins";
  config = LlamaJson();
  config["rope_scaling"] = {{"type", "dynamic"}, {"factor", 2}};
  EXPECT_EQ(Parse(config).ropes[0].type, RopeType::kDynamic);
  EXPECT_EQ(Parse(config).max_positions, 2048) << "such a model runs past its length";
  // Layers with a window and those without may each have such positions; the reach is that of the larger factor.
  config = LlamaJson();
  config["model_type"] = "olmo3";
  config["sliding_window"] = 64;
  config["layer_types"] = {"sliding_attention", "full_attention"};
  const auto dynamic = [](double factor) {
    return json{{"rope_type", "dynamic"}, {"factor", factor}, {"rope_theta", 1e4}};
  };
  config["rope_parameters"] = {{"full_attention", dynamic(4)}, {"sliding_attention", dynamic(2)}};
  EXPECT_EQ(Parse(config).max_positions, 4096);
  EXPECT_EQ(Parse(config).ropes[1].max_positions, 1024) << "where the positions begin to grow";
  config = LlamaJson();
  config["rope_scaling"] = {{"type", "longrope"}, {"short_factor", {1, 1, 1, 1, 1, 1, 1, 1}}, {"long_factor", {2}}};
  EXPECT_THAT(RefusalWith("vocab_size", 100, config), AllOf(HasSubstr("long_factor"), HasSubstr("must have 8")));
  config["rope_scaling"]["long_factor"] = config["rope_scaling"]["short_factor"];
  EXPECT_EQ(Parse(config).ropes[0].long_factors.size(), 8U);
  config["rope_scaling"]["long_factor"][3] = 0;
  EXPECT_THAT(RefusalWith("vocab_size", 100, config), HasSubstr("long_factor"));
  config = LlamaJson();
  config["rope_scaling"] = {{"rope_type", "llama3"}, {"factor", 16}, {"low_freq_factor", 1}, {"high_freq_factor", 1}};
  EXPECT_EQ(Parse(config).ropes[0].high_freq_factor, 1) << "Llama 4's, with nothing between the two bands";
  config["rope_scaling"]["high_freq_factor"] = 0.5;
  EXPECT_THAT(RefusalWith("vocab_size", 100, config), HasSubstr("is below low_freq_factor"));
  config = LlamaJson();
  config["partial_rotary_factor"] = 0.5;
  EXPECT_EQ(Parse(config).ropes[0].rotary_dim, 8);
  for (const json& bad : {json(0), json(-1), json(1.5), json(0.1875)})
    EXPECT_THAT(RefusalWith("partial_rotary_factor", bad), HasSubstr("partial_rotary_factor")) << bad;
}

TEST(ModelConfig, RefusesValuesOutsideTheirRange) {
  for (const char* key : {"hidden_size", "intermediate_size", "vocab_size", "num_hidden_layers", "num_attention_heads",
                          "max_position_embeddings"}) {
    for (const json& bad :
         {json(0), json(-1), json(1.5), json("4"), json(1e30), json(UINT64_MAX), json(true), json(json::array())}) {
      EXPECT_THAT(RefusalWith(key, bad), HasSubstr(key)) << bad;
    }
    if (std::string(key) != "max_position_embeddings") {
      EXPECT_THAT(RefusalWith(key, nullptr), AllOf(HasSubstr(key), HasSubstr("missing")));
    }
  }
  EXPECT_THAT(RefusalWith("num_key_value_heads", 3), HasSubstr("does not divide"));
  EXPECT_THAT(RefusalWith("head_dim", 7), HasSubstr("not even"));
  EXPECT_THAT(RefusalWith("num_attention_heads", 3), HasSubstr("head_dim"));
  EXPECT_THAT(RefusalWith("rms_norm_eps", 0), HasSubstr("rms_norm_eps"));
  EXPECT_THAT(RefusalWith("rope_theta", 0), HasSubstr("rope_theta"));
}

TEST(ModelConfig, RefusesFactorsThatWouldTurnOrHideScores) {
  json granite = FamilyJson("granite");
  EXPECT_THAT(RefusalWith("attention_multiplier", 0, granite), HasSubstr("attention_multiplier"));
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"})
    EXPECT_THAT(RefusalWith(key, -1, FamilyJson("gemma2")), HasSubstr(key));
  EXPECT_THAT(RefusalWith("final_logit_softcapping", -1, FamilyJson("gemma3_text")),
              HasSubstr("final_logit_softcapping"));
}

// Command R's files name 128K beside the 8K of its first stage; those that transformers 4 wrote leave out a theta of
// 10000.
TEST(ModelConfig, ReadsWhatCohereLeavesOut) {
  json config = FamilyJson("cohere");
  for (const char* key : {"rope_theta", "max_position_embeddings"}) config.erase(key);
  config["layer_norm_eps"] = 1e-5;
  EXPECT_EQ(Parse(config).max_positions, 8192);
  EXPECT_EQ(Parse(config).ropes[0].theta, 500000);
  config["model_max_length"] = 131072;
  EXPECT_EQ(Parse(config).max_positions, 131072);
  config["transformers_version"] = "4.38.2";
  EXPECT_EQ(Parse(config).ropes[0].theta, 10000);
}

TEST(ModelConfig, RefusesExpertsThatDoNotFitTogether) {
  json config = FamilyJson("mixtral");
  EXPECT_THAT(RefusalWith("num_local_experts", nullptr, config), HasSubstr("num_local_experts"));
  config["num_local_experts"] = 4;
  EXPECT_THAT(RefusalWith("num_experts_per_tok", 5, config), HasSubstr("num_experts_per_tok"));
  config["num_experts_per_tok"] = 2;
  EXPECT_EQ(Parse(config).experts.num_experts, 4);
  config["quantization_config"] = {{"quant_method", "mxfp4"}};
  EXPECT_THAT(RefusalWith("vocab_size", 100, config), HasSubstr("quantised")) << "only gpt_oss has such experts";
}

// Once, all that was said of Llama's folder original/ was that config.json cannot be opened.
TEST(ModelConfig, RefusesTheMakersOwnFormWithTheFolderToNameInstead) {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& path) -> std::string {
    try {
      ReadModelConfig(path);
    } catch (const BadInputError& error) {
      return error.what();
    }
    return "accepted";
  };
  std::filesystem::create_directory(folder.File("original"));
  EXPECT_THAT(refusal(folder.File("original")), HasSubstr("cannot be opened"));
  folder.Write("original/params.json", R"({"dim": 4096})");
  folder.Write("original/consolidated.00.pth", "PK");
  EXPECT_THAT(refusal(folder.File("original")),
              AllOf(HasSubstr("params.json"), HasSubstr("model.safetensors"), HasSubstr("conversion script")));
  folder.Write("config.json", LlamaJson().dump());
  EXPECT_THAT(refusal(folder.File("original")), HasSubstr("name the folder above it"));
  EXPECT_THAT(refusal(folder.File("original/")), HasSubstr("name the folder above it"));
  EXPECT_EQ(refusal(folder.path()), "accepted");
  folder.Write("params.json", "{}");
  EXPECT_EQ(refusal(folder.path()), "accepted") << "config.json decides where there are both";
}

// config.json of such paths was said not to open, and another file was asked for.
TEST(ModelConfig, SaysWhatToNameInsteadOfWhatIsNoModelsFolder) {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& path) -> std::string {
    try {
      ReadModelConfig(folder.File(path));
    } catch (const BadInputError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(refusal("none"), HasSubstr("name a model's folder"));
  for (const char* path :
       {"model", "cache", "cache/snapshots", "cache/snapshots/b", "cache/snapshots/a", "quantised", "adapter"})
    std::filesystem::create_directory(folder.File(path));
  for (const char* path : {"model/config.json", "cache/snapshots/b/config.json"})
    folder.Write(path, LlamaJson().dump());
  EXPECT_EQ(refusal("model"), "accepted");
  EXPECT_THAT(refusal("model/config.json"),
              HasSubstr("is a file, not a model's folder; name the folder that it is in"));
  folder.Write("alone", "");
  EXPECT_THAT(refusal("alone"), HasSubstr("is a file, not a model's folder; name a folder with a config.json"));
  EXPECT_THAT(refusal("cache"), HasSubstr("name the one in it, " + folder.File("cache/snapshots/b")));
  folder.Write("cache/snapshots/a/config.json", LlamaJson().dump());
  EXPECT_THAT(refusal("cache"), HasSubstr("such as " + folder.File("cache/snapshots/a")));
  folder.Write("quantised/model-q4.gguf", "GGUF");
  EXPECT_THAT(refusal("quantised"), AllOf(HasSubstr("model-q4.gguf: is GGUF"), HasSubstr("headscope.record")));
  folder.Write("adapter/adapter_config.json", R"({"peft_type":"LORA"})");
  folder.Write("adapter/adapter_model.safetensors", "");
  EXPECT_THAT(refusal("adapter"), AllOf(HasSubstr("adapter_config.json: is of an adapter"), HasSubstr("merge it")));
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
}  // namespace headscope::model
