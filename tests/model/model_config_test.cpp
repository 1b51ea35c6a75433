// SPDX-License-Identifier: Apache-2.0
#include "model/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "checkpoint_files.h"
#include "families/family.h"

namespace headscope::model {
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
  EXPECT_EQ(config.ropes[0].theta, 10000);
}

TEST(ModelConfig, ReadsBothPlacesOfRope) {
  json old_style = Llama();
  old_style["rope_theta"] = 5e5;
  old_style["rope_scaling"] = {{"type", "linear"}, {"factor", 4}};
  json new_style = Llama();
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
  EXPECT_THAT(RefusalWith("hidden_act", "glu"), HasSubstr("hidden_act"));
  EXPECT_THAT(RefusalWith("layer_types", {"full_attention", "sliding_attention"}), HasSubstr("layer_types"));
  EXPECT_THAT(RefusalWith("layer_types", {"full_attention", "linear_attention"}), HasSubstr("linear_attention"));
  EXPECT_THAT(RefusalWith("layer_types", {"full_attention"}), HasSubstr("one for each of the 2 layers"));
  EXPECT_THAT(RefusalWith("rope_parameters", {{"full_attention", {{"rope_theta", 1e6}}}}), HasSubstr("full_attention"));
}

json Family(const char* model_type) {
  json config = Llama();
  config["model_type"] = model_type;
  config["num_key_value_heads"] = 2;
  return config;
}

std::vector<int32_t> Windows(const json& config) {
  std::vector<int32_t> windows;
  for (const AttentionLayer& layer : Parse(config).layers) windows.push_back(layer.window);
  return windows;
}

// Once, each of these was refused.
TEST(ModelConfig, TakesWindowsAsTheFamiliesMeanThem) {
  json mistral = Family("mistral");
  EXPECT_EQ(Windows(mistral), (std::vector<int32_t>{4096, 4096})) << "an absent key";
  mistral["sliding_window"] = 512;
  EXPECT_EQ(Windows(mistral), (std::vector<int32_t>{512, 512}));
  mistral["sliding_window"] = nullptr;
  EXPECT_EQ(Windows(mistral), (std::vector<int32_t>{0, 0}));
  for (const char* type : {"qwen2", "qwen3"}) {
    json qwen = Family(type);
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
  EXPECT_THAT(found, ::testing::UnorderedElementsAre("olmo2", "olmo3", "gpt_oss", "afmoe", "gemma4_text", "gemma4"));
}

// The meaning of absent keys is that of transformers' configuration classes.
TEST(ModelConfig, FillsInWhatPublishedFilesLeaveOut) {
  EXPECT_EQ(Windows(Family("phi3")), (std::vector<int32_t>{0, 0})) << "no window, not mistral's";
  EXPECT_EQ(Windows(Family("gemma2")), (std::vector<int32_t>{4096, 0}));
  EXPECT_EQ(Parse(Family("phi3")).norm_eps, 1e-5);
  EXPECT_EQ(Parse(Family("olmo2")).norm_eps, 1e-5);
  EXPECT_EQ(Parse(Family("cohere")).ropes[0].theta, 500000);
  EXPECT_EQ(Parse(Family("gpt_neox")).ropes[0].rotary_dim, 4) << "a quarter of 16";
  EXPECT_EQ(Parse(Family("gemma3_text")).ropes[0].theta, 1e6);
  EXPECT_EQ(Parse(Family("gemma3_text")).ropes[1].theta, 1e4);
  json smol = Family("smollm3");
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
  EXPECT_THAT(RefusalWith("rope_scaling", linear, Family("phi3")), HasSubstr("default and longrope are"));
  const std::vector<int> ones(8, 1);
  const json longrope = {{"type", "longrope"}, {"short_factor", ones}, {"long_factor", ones}};
  EXPECT_THAT(RefusalWith("rope_scaling", longrope, Family("phi3")), HasSubstr("original_max_position_embeddings"));
  for (const char* type : {"gemma2", "gemma3_text"})
    EXPECT_THAT(RefusalWith("use_bidirectional_attention", true, Family(type)), HasSubstr("true is not supported"));
  EXPECT_THAT(RefusalWith("attn_logit_softcapping", 50, Family("gemma3_text")), HasSubstr("attn_logit_softcapping"));
  EXPECT_THAT(RefusalWith("logits_scaling", 0, Family("granite")), HasSubstr("logits_scaling"));
  EXPECT_THAT(RefusalWith("no_rope_layers", {1, 2}, Family("smollm3")), HasSubstr("0 or 1"));
  EXPECT_THAT(RefusalWith("no_rope_layers", {1}, Family("smollm3")), HasSubstr("one entry for each layer"));
}

TEST(ModelConfig, ReadsQwenVlWithTheTextModelsKeysInEitherPlace) {
  json flat = Family("qwen2_5_vl");
  flat["rope_scaling"] = {{"type", "mrope"}, {"mrope_section", {16, 24, 24}}};
  EXPECT_EQ(Parse(flat).ropes[0].type, RopeType::kDefault) << "three positions are one for text";
  EXPECT_THAT(RefusalWith("rope_scaling", flat["rope_scaling"], Family("qwen2")), HasSubstr("mrope"));
  json nested = {{"model_type", "qwen2_5_vl"}, {"text_config", flat}};
  nested["text_config"]["num_hidden_layers"] = 5;
  EXPECT_EQ(Parse(nested).num_layers, 5);
  EXPECT_EQ(Parse(flat).num_layers, 2);
}

TEST(ModelConfig, ReadsHowQueriesGrow) {
  json ministral = Family("ministral3");
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
  images["text_config"] = Family("mistral");
  EXPECT_EQ(Parse(images).layers[0].growth.rate, 0);
}

// Mistral 3 with images leaves out what either of its text models has by itself.
TEST(ModelConfig, FillsInWhatTheTextModelMeans) {
  const auto parsed = [](const char* kind) {
    json text = Family(kind);
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

TEST(ModelConfig, ReadsTheBlocksOfLlama4) {
  json llama = Family("llama4_text");
  llama["num_hidden_layers"] = 4;
  llama["intermediate_size_mlp"] = llama["intermediate_size"];
  llama["num_local_experts"] = 4;
  llama["num_experts_per_tok"] = 1;
  llama["attention_chunk_size"] = 64;
  llama["interleave_moe_layer_step"] = 2;
  llama["no_rope_layers"] = json::array();  // as published: by the interval
  const auto chunks = [&] {
    std::vector<int32_t> found;
    for (const AttentionLayer& layer : Parse(llama).layers) found.push_back(layer.chunk);
    return found;
  };
  EXPECT_EQ(chunks(), (std::vector<int32_t>{64, 64, 64, 0}));
  EXPECT_EQ(Parse(llama).layers[3].rope, -1);
  EXPECT_EQ(Parse(llama).layers[3].growth.length, 8192);
  EXPECT_EQ(Parse(llama).layers[3].qk_norm, QkNorm::kNone);
  llama["attn_temperature_tuning"] = 4;  // as published
  EXPECT_EQ(Parse(llama).layers[3].growth.rate, 0.1);
  for (const json& none : {json(0), json(false)}) {
    llama["attn_temperature_tuning"] = none;
    EXPECT_EQ(Parse(llama).layers[3].growth.rate, 0);
  }
  EXPECT_THAT(RefusalWith("attn_temperature_tuning", -1, llama), HasSubstr("attn_temperature_tuning"));
  llama.erase("attn_temperature_tuning");
  EXPECT_EQ(Parse(llama).layers[0].growth.rate, 0);
  EXPECT_EQ(Parse(llama).experts.layers, (std::vector<bool>{false, true, false, true}));
  llama["moe_layers"] = {0};
  EXPECT_EQ(Parse(llama).experts.layers, (std::vector<bool>{true, false, false, false}));
  llama["layer_types"] = {"chunked_attention", "full_attention", "full_attention", "chunked_attention"};
  EXPECT_EQ(chunks(), (std::vector<int32_t>{64, 0, 0, 64}));
  llama["attention_chunk_size"] = nullptr;
  EXPECT_EQ(chunks(), (std::vector<int32_t>{0, 0, 0, 0}));
  llama["attention_chunk_size"] = 64;
  EXPECT_THAT(RefusalWith("layer_types", {"chunked_attention"}, llama), HasSubstr("one entry for each layer"));
  EXPECT_THAT(
      RefusalWith("layer_types", {"full_attention", "sliding_attention", "full_attention", "full_attention"}, llama),
      HasSubstr("sliding_attention"));
  EXPECT_THAT(RefusalWith("moe_layers", {4}, llama), HasSubstr("must be layers"));
}

TEST(ModelConfig, RefusesVariantsOfTheFamiliesOf2026) {
  json minimax = Family("minimax_m2");
  minimax["num_local_experts"] = 4;
  minimax["num_experts_per_tok"] = 2;
  EXPECT_THAT(RefusalWith("use_qk_norm", false, minimax), HasSubstr("use_qk_norm"));
  EXPECT_THAT(RefusalWith("qk_norm_type", "per_head", minimax), HasSubstr("per_layer is"));
  EXPECT_THAT(RefusalWith("scoring_func", "softmax", minimax), HasSubstr("sigmoid is"));
  EXPECT_THAT(RefusalWith("rotary_dim", 7, minimax), HasSubstr("not even"));
  minimax["rotary_dim"] = 8;
  EXPECT_EQ(Parse(minimax).ropes[0].rotary_dim, 8);
  minimax["head_dim"] = 98;  // 98 * (64 / 98.0) is below 64
  minimax["rotary_dim"] = 64;
  EXPECT_EQ(Parse(minimax).ropes[0].rotary_dim, 64);
  minimax["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1e4}, {"partial_rotary_factor", 0.5}};
  minimax["head_dim"] = 96;
  EXPECT_EQ(Parse(minimax).ropes[0].rotary_dim, 48) << "newer files say it here";
  const json stretched = {{"type", "dynamic"}, {"factor", 1}, {"alpha", 50}};
  json hunyuan = Family("hunyuan_v1_dense");
  hunyuan["rope_scaling"] = stretched;
  EXPECT_GT(Parse(hunyuan).ropes[0].theta, 500000);
  hunyuan["rope_scaling"]["alpha"] = -1;
  EXPECT_THAT(RefusalWith("vocab_size", 100, hunyuan), HasSubstr("alpha"));
  hunyuan["rope_scaling"]["alpha"] = 1e9;
  EXPECT_GT(Parse(hunyuan).ropes[0].theta, 1e14);
  EXPECT_THAT(RefusalWith("rope_theta", 1e28, hunyuan), HasSubstr("alpha: gives a theta that is not between 1 and"));
  EXPECT_THAT(RefusalWith("rope_theta", 1e300, hunyuan), HasSubstr("rope_theta: is not between 1 and 1e30"));
  EXPECT_THAT(RefusalWith("attn_output_gate", false, Family("qwen3_5_text")), HasSubstr("false is not supported"));
  EXPECT_THAT(RefusalWith("clip_qkv", 8, Family("olmoe")), HasSubstr("clip_qkv"));
  json glm = Family("glm4_moe");
  glm.update(
      {{"n_routed_experts", 4}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 8}, {"n_shared_experts", 1}});
  EXPECT_THAT(RefusalWith("mlp_layer_types", {"dense", "wide"}, glm), HasSubstr("dense and sparse are"));
  EXPECT_THAT(RefusalWith("mlp_layer_types", {"dense"}, glm), HasSubstr("one entry for each layer"));
  glm["mlp_layer_types"] = {"sparse", "dense"};
  EXPECT_EQ(Parse(glm).experts.layers, (std::vector<bool>{true, false}));
}

TEST(ModelConfig, ReadsLayersOfShortConvolutions) {
  json lfm2 = Family("lfm2");
  EXPECT_FALSE(Parse(lfm2).layers[0].linear) << "without a list, every layer has attention";
  lfm2["layer_types"] = {"conv", "full_attention"};
  const ModelConfig config = Parse(lfm2);
  EXPECT_TRUE(config.layers[0].linear);
  EXPECT_EQ(config.layers[0].num_qo_heads, 0);
  EXPECT_FALSE(config.layers[1].linear);
  EXPECT_EQ(config.linear.kind, LinearKind::kShortConvolution);
  EXPECT_EQ(config.linear.kernel, 3);
  EXPECT_EQ(config.intermediate_size, 256) << "two thirds of 96, to the next multiple of 256";
  EXPECT_TRUE(config.tied_embeddings);
  lfm2["block_auto_adjust_ff_dim"] = false;
  lfm2["block_ff_dim"] = 80;
  EXPECT_EQ(Parse(lfm2).intermediate_size, 80);
  EXPECT_THAT(RefusalWith("layer_types", {"conv", "mamba"}, lfm2), HasSubstr("conv and full_attention are"));
  EXPECT_THAT(RefusalWith("layer_types", json::array({"conv"}), lfm2), HasSubstr("one entry for each layer"));
  EXPECT_THAT(RefusalWith("conv_L_cache", 0, lfm2), HasSubstr("conv_L_cache"));
  lfm2.erase("layer_types");
  EXPECT_THAT(RefusalWith("full_attn_idxs", json::array({2}), lfm2), HasSubstr("its numbers must be layers"));
  lfm2["full_attn_idxs"] = {0};
  EXPECT_TRUE(Parse(lfm2).layers[1].linear);
  lfm2["block_auto_adjust_ff_dim"] = true;
  EXPECT_THAT(RefusalWith("block_ffn_dim_multiplier", -1.0, lfm2), HasSubstr("is not between 0 and 1024"));
}

TEST(ModelConfig, ReadsDeepSeeksIndex) {
  json config = Family("deepseek_v32");
  config.update({{"q_lora_rank", 16},
                 {"kv_lora_rank", 16},
                 {"qk_nope_head_dim", 8},
                 {"qk_rope_head_dim", 8},
                 {"v_head_dim", 8},
                 {"n_routed_experts", 4},
                 {"num_experts_per_tok", 2},
                 {"moe_intermediate_size", 8},
                 {"n_shared_experts", 1},
                 {"first_k_dense_replace", 1},
                 {"layer_types", {"indexed_attention", "indexed_attention"}}});
  const ModelConfig read = Parse(config);
  EXPECT_EQ(read.layers[1].selected, 2048);
  EXPECT_EQ(read.index.heads, 64);
  EXPECT_EQ(read.index.dim, 128);
  ASSERT_EQ(read.ropes.size(), 2U);
  EXPECT_TRUE(read.ropes[0].interleaved);
  EXPECT_EQ(read.ropes[0].first_dim, 8);
  EXPECT_FALSE(read.ropes[1].interleaved) << "the index turns the first components, in halves";
  EXPECT_EQ(read.ropes[1].first_dim, 0);
  EXPECT_THAT(RefusalWith("index_topk", 1 << 20, config), HasSubstr("index_topk"));
  EXPECT_THAT(RefusalWith("index_head_dim", 4, config), HasSubstr("below qk_rope_head_dim"));
  EXPECT_THAT(RefusalWith("q_lora_rank", nullptr, config), HasSubstr("the index reads q's latent"));
  EXPECT_THAT(RefusalWith("layer_types", {"indexed_attention", "full_attention"}, config),
              HasSubstr("indexed_attention is"));
}

TEST(ModelConfig, ReadsWhatWindowsChangeInMiMo) {
  json mimo = Family("mimo_v2_flash");
  mimo.update(
      {{"num_key_value_heads", 1}, {"n_routed_experts", 4}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 8}});
  const ModelConfig config = Parse(mimo);
  EXPECT_EQ(config.layers[0].window, 0);
  EXPECT_EQ(config.layers[0].num_kv_heads, 1);
  EXPECT_EQ(config.layers[1].window, 129);
  EXPECT_EQ(config.layers[1].num_kv_heads, 2);
  EXPECT_EQ(config.layers[1].v_head_dim, 128);
  EXPECT_EQ(config.ropes[0].theta, 5e6);
  EXPECT_EQ(config.ropes[1].theta, 1e4);
  EXPECT_EQ(config.ropes[1].rotary_dim, 64);
  EXPECT_DOUBLE_EQ(config.value_multiplier, 0.707);
  EXPECT_FALSE(config.experts.layers[0]);
  mimo["sliding_window_size"] = 128;
  mimo["attention_value_scale"] = nullptr;
  EXPECT_EQ(Parse(mimo).layers[1].window, 129);
  EXPECT_EQ(Parse(mimo).value_multiplier, 1);
  EXPECT_THAT(RefusalWith("num_key_value_heads", 4, mimo), HasSubstr("twice of it does not divide"));
}

// The file as its makers publish it, and as transformers writes it.
TEST(ModelConfig, ReadsMiMoByItsPublishedKeys) {
  json written = Family("mimo_v2_flash");
  written.update({{"num_key_value_heads", 1},
                  {"n_routed_experts", 4},
                  {"num_experts_per_tok", 2},
                  {"moe_intermediate_size", 8},
                  {"head_dim", 24}});
  json published = written;
  const json linear = {{"rope_type", "linear"}, {"factor", 4}, {"rope_theta", 3e6}, {"partial_rotary_factor", 0.5}};
  written.update(
      {{"rms_norm_eps", 1e-3},
       {"layer_types", {"sliding_attention", "full_attention"}},
       {"mlp_layer_types", {"sparse", "dense"}},
       {"sliding_window", 64},
       {"rope_parameters",
        {{"full_attention", linear}, {"sliding_attention", {{"rope_theta", 2e4}, {"partial_rotary_factor", 0.5}}}}}});
  published.erase("rms_norm_eps");
  published.update({{"layernorm_epsilon", 1e-3},
                    {"hybrid_layer_pattern", {1, 0}},
                    {"moe_layer_freq", {1, 0}},
                    {"sliding_window", 63},  // which does not count
                    {"sliding_window_size", 63},
                    {"rope_theta", 3e6},
                    {"partial_rotary_factor", 0.5},
                    {"rope_scaling", {{"rope_type", "linear"}, {"factor", 4}}},
                    {"swa_rope_theta", 2e4},
                    {"swa_num_attention_heads", written["num_attention_heads"]},
                    {"swa_num_key_value_heads", 2},
                    {"swa_head_dim", 24},
                    {"swa_v_head_dim", 128},
                    {"add_swa_attention_sink_bias", true},
                    {"add_full_attention_sink_bias", false}});
  const ModelConfig one = Parse(written), other = Parse(published);
  EXPECT_EQ(one.norm_eps, 1e-3);
  EXPECT_EQ(other.norm_eps, 1e-3);
  EXPECT_EQ(one.experts.layers, (std::vector<bool>{true, false}));
  EXPECT_EQ(other.experts.layers, one.experts.layers);
  for (const ModelConfig* config : {&one, &other}) {
    EXPECT_EQ(config->layers[0].window, 64);
    EXPECT_EQ(config->layers[1].window, 0);
    EXPECT_EQ(config->layers[0].num_kv_heads, 2);
    ASSERT_EQ(config->ropes.size(), 2U);
    EXPECT_EQ(config->ropes[0].type, RopeType::kLinear);
    EXPECT_EQ(config->ropes[0].factor, 4);
    EXPECT_EQ(config->ropes[0].theta, 3e6);
    EXPECT_EQ(config->ropes[1].type, RopeType::kDefault);
    EXPECT_EQ(config->ropes[1].theta, 2e4);
    for (const RopeConfig& rope : config->ropes) EXPECT_EQ(rope.rotary_dim, 12);
  }
  json fewer = published;
  fewer["swa_num_key_value_heads"] = 1;
  EXPECT_EQ(Parse(fewer).layers[0].num_kv_heads, 1);
  EXPECT_THAT(RefusalWith("swa_num_key_value_heads", 3, published), HasSubstr("does not divide num_attention_heads"));
  EXPECT_THAT(RefusalWith("swa_head_dim", 32, published), HasSubstr("must be 24"));
  EXPECT_THAT(RefusalWith("swa_num_attention_heads", 2, published), HasSubstr("must be 4"));
  EXPECT_THAT(RefusalWith("swa_v_head_dim", 64, published), HasSubstr("must be 128"));
  EXPECT_THAT(RefusalWith("hybrid_layer_pattern", {1, 2}, published), HasSubstr("must be 0 and 1"));
  EXPECT_THAT(RefusalWith("moe_layer_freq", {1}, published), HasSubstr("one entry for each layer"));
  EXPECT_THAT(RefusalWith("add_full_attention_sink_bias", true, published), HasSubstr("must be false"));
  EXPECT_THAT(RefusalWith("rms_norm_eps", 1e-5, published), HasSubstr("is not rms_norm_eps"));
  EXPECT_THAT(RefusalWith("hybrid_layer_pattern", {0, 1}, written), HasSubstr("does not say the same as layer_types"));
}

TEST(ModelConfig, TakesTheFamilysPositionsWhereTheFileNamesNone) {
  for (const auto& [type, positions] : {std::pair{"llama", 2048}, {"mistral", 131072}, {"qwen2", 32768}}) {
    json config = Family(type);
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
  json config = Llama();
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
  config = Llama();
  config["rope_scaling"] = {{"type", "dynamic"}, {"factor", 2}};
  EXPECT_EQ(Parse(config).ropes[0].type, RopeType::kDynamic);
  EXPECT_EQ(Parse(config).max_positions, 2048) << "such a model runs past its length";
  // Layers with a window and those without may each have such positions; the reach is that of the larger factor.
  config = Llama();
  config["model_type"] = "olmo3";
  config["sliding_window"] = 64;
  config["layer_types"] = {"sliding_attention", "full_attention"};
  const auto dynamic = [](double factor) {
    return json{{"rope_type", "dynamic"}, {"factor", factor}, {"rope_theta", 1e4}};
  };
  config["rope_parameters"] = {{"full_attention", dynamic(4)}, {"sliding_attention", dynamic(2)}};
  EXPECT_EQ(Parse(config).max_positions, 4096);
  EXPECT_EQ(Parse(config).ropes[1].max_positions, 1024) << "where the positions begin to grow";
  config = Llama();
  config["rope_scaling"] = {{"type", "longrope"}, {"short_factor", {1, 1, 1, 1, 1, 1, 1, 1}}, {"long_factor", {2}}};
  EXPECT_THAT(RefusalWith("vocab_size", 100, config), AllOf(HasSubstr("long_factor"), HasSubstr("must have 8")));
  config["rope_scaling"]["long_factor"] = config["rope_scaling"]["short_factor"];
  EXPECT_EQ(Parse(config).ropes[0].long_factors.size(), 8U);
  config["rope_scaling"]["long_factor"][3] = 0;
  EXPECT_THAT(RefusalWith("vocab_size", 100, config), HasSubstr("long_factor"));
  config = Llama();
  config["rope_scaling"] = {{"rope_type", "llama3"}, {"factor", 16}, {"low_freq_factor", 1}, {"high_freq_factor", 1}};
  EXPECT_EQ(Parse(config).ropes[0].high_freq_factor, 1) << "Llama 4's, with nothing between the two bands";
  config["rope_scaling"]["high_freq_factor"] = 0.5;
  EXPECT_THAT(RefusalWith("vocab_size", 100, config), HasSubstr("is below low_freq_factor"));
  config = Llama();
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
  json granite = Family("granite");
  EXPECT_THAT(RefusalWith("attention_multiplier", 0, granite), HasSubstr("attention_multiplier"));
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"})
    EXPECT_THAT(RefusalWith(key, -1, Family("gemma2")), HasSubstr(key));
  EXPECT_THAT(RefusalWith("final_logit_softcapping", -1, Family("gemma3_text")), HasSubstr("final_logit_softcapping"));
}

// Command R's files name 128K beside the 8K of its first stage; those that transformers 4 wrote leave out a theta of
// 10000.
TEST(ModelConfig, ReadsWhatCohereLeavesOut) {
  json config = Family("cohere");
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
  json config = Family("mixtral");
  EXPECT_THAT(RefusalWith("num_local_experts", nullptr, config), HasSubstr("num_local_experts"));
  config["num_local_experts"] = 4;
  EXPECT_THAT(RefusalWith("num_experts_per_tok", 5, config), HasSubstr("num_experts_per_tok"));
  config["num_experts_per_tok"] = 2;
  EXPECT_EQ(Parse(config).experts.num_experts, 4);
  config["quantization_config"] = {{"quant_method", "mxfp4"}};
  EXPECT_THAT(RefusalWith("vocab_size", 100, config), HasSubstr("quantised")) << "only gpt_oss has such experts";
}

// As published, and as transformers 5.23 writes it: layers without a window have heads of their own.
TEST(ModelConfig, ReadsGemma4sLayersInBothForms) {
  json published = Family("gemma4_text");
  published.update({{"num_hidden_layers", 8},
                    {"head_dim", 16},
                    {"global_head_dim", 24},
                    {"num_global_key_value_heads", 1},
                    {"attention_k_eq_v", true},
                    {"num_kv_shared_layers", 3},
                    {"use_double_wide_mlp", true},
                    {"sliding_window", 32},
                    {"hidden_size_per_layer_input", 0}});
  for (int layer = 0; layer < 8; ++layer)
    published["layer_types"].push_back(layer == 3 ? "full_attention" : "sliding_attention");  // the last is full anyway
  json written = published;
  for (const char* key : {"global_head_dim", "num_global_key_value_heads"}) written.erase(key);
  for (const char* layer : {"3", "7"})
    written["per_layer_config"][layer] = {{"head_dim", 24}, {"num_key_value_heads", 1}};
  for (const json& config : {published, written}) {
    const ModelConfig read = Parse(config);
    std::vector<int32_t> dims, kv_heads, windows, sources, ropes;
    for (const AttentionLayer& layer : read.layers) {
      dims.push_back(layer.head_dim);
      kv_heads.push_back(layer.num_kv_heads);
      windows.push_back(layer.window);
      sources.push_back(layer.kv_layer);
      ropes.push_back(layer.rope);
      EXPECT_EQ(layer.v_is_projected_k, layer.window == 0);
      EXPECT_EQ(layer.scale, 1);
    }
    EXPECT_EQ(dims, (std::vector<int32_t>{16, 16, 16, 24, 16, 16, 16, 24}));
    EXPECT_EQ(kv_heads, (std::vector<int32_t>{2, 2, 2, 1, 2, 2, 2, 1}));
    EXPECT_EQ(windows, (std::vector<int32_t>{32, 32, 32, 0, 32, 32, 32, 0}));
    EXPECT_EQ(sources, (std::vector<int32_t>{-1, -1, -1, -1, -1, 4, 4, 3}));
    EXPECT_EQ(ropes, (std::vector<int32_t>{1, 1, 1, 0, 1, 1, 1, 0}));
    EXPECT_EQ(read.inner_sizes, (std::vector<int32_t>{96, 96, 96, 96, 96, 192, 192, 192}));
    EXPECT_EQ(read.ropes[0].type, RopeType::kProportional);
    EXPECT_EQ(read.ropes[0].turned_pairs, 3) << "a quarter of 24 components";
    EXPECT_EQ(read.ropes[1].theta, 1e4);
    EXPECT_THAT(RefusalWith("num_kv_shared_layers", 8, config), HasSubstr("num_kv_shared_layers"));
    EXPECT_THAT(RefusalWith("num_kv_shared_layers", 5, config), HasSubstr("leaves no layer of each kind"));
    EXPECT_THAT(RefusalWith("use_bidirectional_attention", "all", config), HasSubstr("use_bidirectional_attention"));
  }
  EXPECT_THAT(RefusalWith("global_head_dim", 25, published), HasSubstr("25 is not even"));
  EXPECT_THAT(RefusalWith("num_global_key_value_heads", 3, published), HasSubstr("does not divide"));
  for (const auto& [layer, facts, words] : {std::tuple{"8", json{{"head_dim", 24}}, "the number of a layer"},
                                            {"one", json{{"head_dim", 24}}, "the number of a layer"},
                                            {"2", json{{"sliding_window", 24}}, "sliding_window"},
                                            {"2", json{{"head_dim", 24}}, "heads of different sizes"}}) {
    json config = written["per_layer_config"];
    config[layer] = facts;
    EXPECT_THAT(RefusalWith("per_layer_config", config, written), HasSubstr(words)) << layer;
  }
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
  folder.Write("config.json", Llama().dump());
  EXPECT_THAT(refusal(folder.File("original")), HasSubstr("name the folder above it"));
  EXPECT_THAT(refusal(folder.File("original/")), HasSubstr("name the folder above it"));
  EXPECT_EQ(refusal(folder.path()), "accepted");
  folder.Write("params.json", "{}");
  EXPECT_EQ(refusal(folder.path()), "accepted") << "config.json decides where there are both";
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
