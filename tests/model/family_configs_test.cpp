// SPDX-License-Identifier: Apache-2.0
// Keys that later families have alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/errors.h"
#include "config_json.h"
#include "families/family.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(FamilyConfig, ReadsTheBlocksOfLlama4) {
  json llama = FamilyJson("llama4_text");
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

// Once, such a model was run as if its tokens saw the ones before them alone.
TEST(FamilyConfig, RefusesDecodersWhoseTokensSeeAllOthers) {
  for (const char* family : {"llama", "qwen2", "gemma2", "mistral"}) {
    EXPECT_THAT(RefusalWith("is_causal", false, FamilyJson(family)),
                AllOf(HasSubstr("is_causal"), HasSubstr("headscope.record")));
    json config = FamilyJson(family);
    config["is_causal"] = true;
    EXPECT_NO_THROW(Parse(config)) << family;
  }
}

TEST(FamilyConfig, RefusesVariantsOfTheFamiliesOf2026) {
  json minimax = FamilyJson("minimax_m2");
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
  json hunyuan = FamilyJson("hunyuan_v1_dense");
  hunyuan["rope_scaling"] = stretched;
  EXPECT_GT(Parse(hunyuan).ropes[0].theta, 500000);
  hunyuan["rope_scaling"]["alpha"] = -1;
  EXPECT_THAT(RefusalWith("vocab_size", 100, hunyuan), HasSubstr("alpha"));
  hunyuan["rope_scaling"]["alpha"] = 1e9;
  EXPECT_GT(Parse(hunyuan).ropes[0].theta, 1e14);
  EXPECT_THAT(RefusalWith("rope_theta", 1e28, hunyuan), HasSubstr("alpha: gives a theta that is not between 1 and"));
  EXPECT_THAT(RefusalWith("rope_theta", 1e300, hunyuan), HasSubstr("rope_theta: is not between 1 and 1e30"));
  EXPECT_THAT(RefusalWith("attn_output_gate", false, FamilyJson("qwen3_5_text")), HasSubstr("false is not supported"));
  EXPECT_THAT(RefusalWith("clip_qkv", 8, FamilyJson("olmoe")), HasSubstr("clip_qkv"));
  EXPECT_THAT(RefusalWith("clip_qkv", 8, FamilyJson("olmoe")),
              HasSubstr("record it with headscope.record of the Python"));
  EXPECT_THAT(RefusalWith("qk_norm_type", "per_head", minimax),
              HasSubstr("any other is recorded with headscope.record"));
  json glm = FamilyJson("glm4_moe");
  glm.update(
      {{"n_routed_experts", 4}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 8}, {"n_shared_experts", 1}});
  EXPECT_THAT(RefusalWith("mlp_layer_types", {"dense", "wide"}, glm), HasSubstr("dense and sparse are"));
  EXPECT_THAT(RefusalWith("mlp_layer_types", {"dense"}, glm), HasSubstr("one entry for each layer"));
  glm["mlp_layer_types"] = {"sparse", "dense"};
  EXPECT_EQ(Parse(glm).experts.layers, (std::vector<bool>{true, false}));
}

TEST(FamilyConfig, ReadsLayersOfShortConvolutions) {
  json lfm2 = FamilyJson("lfm2");
  EXPECT_FALSE(Parse(lfm2).layers[0].other_mixer) << "without a list, every layer has attention";
  lfm2["layer_types"] = {"conv", "full_attention"};
  const ModelConfig config = Parse(lfm2);
  EXPECT_TRUE(config.layers[0].other_mixer);
  EXPECT_EQ(config.layers[0].num_qo_heads, 0);
  EXPECT_FALSE(config.layers[1].other_mixer);
  EXPECT_EQ(config.mixer.kind, MixerKind::kShortConvolution);
  EXPECT_EQ(config.mixer.kernel, 3);
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
  EXPECT_TRUE(Parse(lfm2).layers[1].other_mixer);
  lfm2["block_auto_adjust_ff_dim"] = true;
  EXPECT_THAT(RefusalWith("block_ffn_dim_multiplier", -1.0, lfm2), HasSubstr("is not between 0 and 1024"));
}

TEST(FamilyConfig, ReadsDeepSeeksIndex) {
  json config = FamilyJson("deepseek_v32");
  config.update({{"q_lora_rank", 16},
                 {"kv_lora_rank", 16},
                 {"qk_nope_head_dim", 8},
                 {"qk_rope_head_dim", 8},
                 {"v_head_dim", 8},
                 {"n_routed_experts", 4},
                 {"num_experts_per_tok", 2},
                 {"moe_intermediate_size", 8},
                 {"n_shared_experts", 1},
                 {"n_group", 1},
                 {"topk_group", 1},
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

// Of a file that left these out another model ran than transformers': all experts in one group, which added less.
TEST(FamilyConfig, FillsInHowEachFamilyChoosesExperts) {
  struct Wanted {
    const char* family;
    double factor;
    int32_t groups, kept;
  };
  for (const auto& [family, factor, groups, kept] :
       {Wanted{"deepseek_v3", 2.5, 8, 4}, Wanted{"deepseek_v32", 2.5, 8, 4}, Wanted{"glm4_moe_lite", 1.8, 1, 1},
        Wanted{"glm4_moe", 1, 1, 1}, Wanted{"mimo_v2_flash", 1, 1, 1}, Wanted{"kimi_k2", 0, 0, 0}}) {
    json config = FamilyJson(family);
    config.update({{"q_lora_rank", 16},
                   {"kv_lora_rank", 16},
                   {"qk_nope_head_dim", 8},
                   {"qk_rope_head_dim", 8},
                   {"v_head_dim", 8},
                   {"n_routed_experts", 32},
                   {"num_experts_per_tok", 2},
                   {"moe_intermediate_size", 8},
                   {"n_shared_experts", 1},
                   {"first_k_dense_replace", 1}});
    if (groups == 0) {  // transformers has no such family
      EXPECT_THAT(RefusalWith("n_group", 1, config), HasSubstr("routed_scaling_factor: the field is missing"));
      config["routed_scaling_factor"] = 2.8;
      EXPECT_THAT(RefusalWith("topk_group", 1, config), HasSubstr("n_group: the field is missing"));
      EXPECT_THAT(RefusalWith("n_group", 1, config), HasSubstr("topk_group: the field is missing"));
      continue;
    }
    const ExpertRules read = Parse(config).experts;
    EXPECT_EQ(read.factor, factor) << family;
    EXPECT_EQ(read.num_groups, groups) << family;
    EXPECT_EQ(read.kept_groups, kept) << family;
    if (groups > 2) {
      EXPECT_THAT(RefusalWith("n_group", 2, config), HasSubstr("topk_group: is missing"));
      EXPECT_THAT(RefusalWith("n_routed_experts", groups, config), HasSubstr("n_group: is missing"));
    }
  }
}

TEST(FamilyConfig, ReadsWhatWindowsChangeInMiMo) {
  json mimo = FamilyJson("mimo_v2_flash");
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
TEST(FamilyConfig, ReadsMiMoByItsPublishedKeys) {
  json written = FamilyJson("mimo_v2_flash");
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

TEST(FamilyConfig, ReadsGemma3n) {
  json config = FamilyJson("gemma3n_text");
  config["num_hidden_layers"] = 12;
  config["num_kv_shared_layers"] = 2;
  const ModelConfig read = Parse(config);
  EXPECT_EQ(read.layers[3].window, 512);
  EXPECT_EQ(read.layers[4].window, 0) << "every fifth";
  EXPECT_EQ(read.layers[9].kv_layer, -1);
  EXPECT_EQ(read.layers[10].kv_layer, 8) << "the last before it of its kind";
  EXPECT_EQ(read.layers[11].kv_layer, 8);
  EXPECT_EQ(read.layers[11].scale, 1);
  EXPECT_EQ(read.gate_sparsity, (std::vector<double>{.95, .95, .95, .95, .95, .95, .95, .95, .95, .95, 0, 0}));
  EXPECT_EQ(read.altup.inputs, 4);
  EXPECT_EQ(read.altup.active, 0);
  EXPECT_TRUE(read.altup.scaled_output);
  EXPECT_EQ(read.laurel_rank, 64);
  EXPECT_EQ(read.layer_inputs.size, 256);
  EXPECT_EQ(read.logit_soft_cap, 30);
  EXPECT_EQ(read.ropes[0].theta, 1e6);
  EXPECT_EQ(read.ropes[1].theta, 1e4);
  EXPECT_TRUE(read.tied_embeddings);
  EXPECT_TRUE(read.layer_inputs.others_as_first);
  const std::vector<int32_t> sizes = {8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 24};
  config["intermediate_size"] = sizes;
  EXPECT_EQ(Parse(config).inner_sizes, sizes);
  EXPECT_EQ(Parse(config).intermediate_size, 24);
  EXPECT_THAT(RefusalWith("intermediate_size", {8, 8}, config), HasSubstr("one entry for each layer"));
  EXPECT_THAT(RefusalWith("intermediate_size", std::vector<int32_t>(12, 0), config), HasSubstr("holds 0"));
  EXPECT_THAT(RefusalWith("activation_sparsity_pattern", {0.5}, config), HasSubstr("one entry for each layer"));
  EXPECT_THAT(RefusalWith("activation_sparsity_pattern", std::vector<double>(12, 1.0), config), HasSubstr("below 1"));
  EXPECT_THAT(RefusalWith("altup_active_idx", 4, config), HasSubstr("altup_active_idx"));
  EXPECT_THAT(RefusalWith("num_kv_shared_layers", 9, config), HasSubstr("leaves no layer of each kind"));
  EXPECT_THAT(RefusalWith("sliding_window", int64_t{1} << 31, config), HasSubstr("which no trace counts"));
  const ModelConfig inside = Parse({{"model_type", "gemma3n"}, {"text_config", config}});
  EXPECT_EQ(inside.altup.inputs, 4);
  EXPECT_FALSE(inside.layer_inputs.others_as_first) << "ids behind those are of images and sound";
}

// As published, and as transformers 5.23 writes it: layers without a window have heads of their own.
TEST(FamilyConfig, ReadsGemma4sLayersInBothForms) {
  json published = FamilyJson("gemma4_text");
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

}  // namespace
}  // namespace headscope::model
