// SPDX-License-Identifier: Apache-2.0
// What a family of models is, for the one transformer that runs them all: names of weights, and the switches in which
// families differ. A family is a file in this folder and a line of family_list.h, and a test against transformers. What
// none of the switches says needs a new one here, and its lines in network/decoder.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "families/rope_keys.h"
#include "model/attention_layer.h"

namespace headscope::model {

class JsonFields;
struct ModelConfig;
struct RankedForm;

// Where a projection has a bias.
enum class BiasRule : uint8_t { kNever, kAlways, kByAttentionBias, kByMlpBias };

// Which layers of a model have a sliding window.
enum class WindowRule : uint8_t {
  kNone,                // the family has none
  kBySlidingWindow,     // every layer, of sliding_window tokens; null means none
  kByUseSlidingWindow,  // with use_sliding_window, those that layer_types names, or those from max_window_layers on
  kByPattern,           // those that layer_types names, or all but every sliding_window_pattern-th
  kOwn,                 // Family::read says what each layer is
};

// How a checkpoint stores the projections to q, k and v.
enum class QkvLayout : uint8_t {
  kApart,     // three tensors
  kStacked,   // one: all rows of q, then of k, then of v
  kByKvHead,  // one: for each KV head the rows of its query heads, of its key, of its value
  kLatent,    // DeepSeek's: low-rank projections (LatentRules in model_config.h)
};

enum class NormKind : uint8_t {
  kRms,          // x / rms(x), back in x's type, times the weight
  kRmsInFp32,    // x / rms(x) times the weight, in fp32
  kRmsAboutOne,  // x / rms(x) times 1 + weight, in fp32
  kLayer,        // (x - mean) / deviation, times the weight, plus a bias where the family has one
};

// Names without ".weight". An empty name of a norm: the family has no norm there.
struct LayerNames {
  std::string_view input_norm = {};  // of what attention reads
  std::string_view qkv = {};         // where QkvLayout says one tensor; else the three
  std::string_view q = {}, k = {}, v = {}, output = {};
  std::string_view gate_of_output = {};  // Family::output_gate: a tensor of its own; else in q's
  std::string_view q_norm = {}, k_norm = {};
  std::string_view attention_output_norm = {};  // of what attention adds
  std::string_view mlp_norm = {};  // of what the MLP reads; without it in a parallel layer: the input norm's output
  std::string_view gate_up = {};   // gate and up in one tensor; else the two
  std::string_view gate = {}, up = {}, down = {};  // no gate: the activation of up alone
  std::string_view mlp_output_norm = {};           // of what the MLP adds
  std::string_view sinks = {};                     // a logit for each query head; the tensor has no ".weight"
  std::string_view factor = {};                    // one number, of the layer's output; no ".weight"
  std::string_view laurel_left = {}, laurel_right = {}, laurel_norm = {};  // ModelConfig::laurel_rank
  // QkvLayout::kLatent: q by way of its latent (without a rank of it: q), then k and v by way of theirs.
  std::string_view q_a = {}, q_a_norm = {}, q_b = {}, kv_a = {}, kv_a_norm = {}, kv_b = {};
  // Of the index (IndexRules), by way of q's latent; the norm is one with mean and bias.
  std::string_view index_q = {}, index_k = {}, index_k_norm = {}, index_weights = {};
};

// Names of a layer's experts, below the layer's prefix. No router: the family has none.
struct ExpertNames {
  std::string_view router = {};
  std::string_view correction = {};  // added to the scores where experts are chosen; no ".weight"
  std::string_view each = {};        // followed by the expert's number and a dot; else packed: one tensor for all
  std::string_view gate = {}, up = {}, down = {};
  std::string_view packed_gate_up = {}, packed_down = {};  // GPT-OSS: [experts, in, out], and _bias; or MXFP4
  // Packed ones are [experts, out, in] without a bias, all of gate before all of up, and a file may have each instead.
  bool packed_as_linear = false;
  bool packed_from_in = false;  // or they are [experts, in, out], with gate and up likewise
  std::string_view shared_gate = {}, shared_up = {}, shared_down = {};  // of the expert that every token sees
  std::string_view shared_weight = {};                                  // how much of it, through a sigmoid; none: all
  // Beside an MLP (ExpertRules::beside_mlp): norms of what experts read, of what they give, and of what the MLP gives.
  // What the router reads is the layer's input made one in size, times numbers of its own.
  std::string_view input_norm = {}, output_norm = {}, mlp_norm = {};
  std::string_view router_scale = {};  // for each component of what it reads; no ".weight"
  std::string_view expert_scale = {};  // for each expert, of its weights; no ".weight"
};

// Names of what layers get of a token beside its hidden state (LayerInputRules): its numbers for all layers, and a
// projection of its embedding with a norm; and, below a layer's prefix, how a layer adds it.
struct LayerInputNames {
  std::string_view embedding = {}, projection = {}, projection_norm = {};
  std::string_view gate = {}, output = {}, output_norm = {};
};

// Names of alternating updates (AltUpRules): the model's projections to its further hidden states and back, each
// followed by a number; and, below a layer's prefix, what predicts and corrects them. The scale has no ".weight".
struct AltUpNames {
  std::string_view spread = {}, gather = {};
  std::string_view router = {}, router_norm = {}, prediction = {}, correction = {}, output_scale = {};
};

// Names of a token mixer in place of attention (MixerRules). No output projection: the family has none.
struct MixerNames {
  std::string_view qkvz = {}, ba = {};                // by key head: q, k, v and gate; b and a
  std::string_view qkv = {}, z = {}, b = {}, a = {};  // or, where these have names, each of them apart
  std::string_view in = {};  // of a short convolution: rows of the gate before it, of the gate behind it, of its input
  std::string_view convolution = {}, decay = {}, step_bias = {}, norm = {}, output = {};
};

// Keys of sizes in config.json. An empty key: the family has no such key.
struct SizeKeys {
  std::string_view hidden = "hidden_size";
  std::string_view inner = "intermediate_size";
  std::string_view layers = "num_hidden_layers";
  std::string_view heads = "num_attention_heads";
  std::string_view kv_heads = "num_key_value_heads";
  std::string_view head_dim = "head_dim";
  std::string_view vocabulary = "vocab_size";
  std::string_view positions = "max_position_embeddings";
};

struct Family {
  std::string_view model_type = {};
  std::string_view embedding = {}, final_norm = {}, head = {};  // tensor names, without ".weight"
  std::string_view other_head = {};                             // under which files may have the head; empty: none
  std::string_view layer_prefix = {};                           // followed by the layer's number and a dot
  // Before all names but the head's: the first under which the checkpoint has the embedding.
  std::array<std::string_view, 2> prefixes = {};
  std::string_view position_embedding = {};  // a vector for each position, added to the token's; empty: none
  int32_t first_position = 0;                // its row of the first position
  std::string_view token_types = {};         // a vector for each kind of text, of which the first is added; empty: none
  std::string_view embedding_norm = {};      // of the sum of all these; empty: none
  std::string_view embedding_in = {}, embedding_out = {};  // projections where embeddings have a size of their own
  LayerNames layer = {};
  ExpertNames experts = {};
  MixerNames mixer = {};
  LayerInputNames layer_input = {};
  AltUpNames altup = {};
  // Whole names of what old checkpoints hold of a layer beside its weights: it follows from config.json.
  std::array<std::string_view, 3> derived = {"self_attn.rotary_emb.inv_freq"};
  std::array<std::string_view, 1> derived_of_model = {};  // the same of the model, below its prefix
  // What begins so belongs to other networks that stand in the same files.
  std::array<std::string_view, 4> skipped = {};
  QkvLayout qkv_layout = QkvLayout::kApart;
  BiasRule qkv_bias = BiasRule::kNever;
  BiasRule output_bias = BiasRule::kNever;
  BiasRule mlp_bias = BiasRule::kNever;
  NormKind norm = NormKind::kRms;
  bool norm_bias = false;  // of NormKind::kLayer
  QkNorm qk_norm = QkNorm::kNone;
  bool head_norms_without_weight = false;  // of QkNorm::kEachHeadAfterRope
  bool norms_values = false;               // each head of v has an RMS norm without weight
  bool head_norms_apart = false;           // QkNorm::kEachHead: every head has weights of its own
  bool transposed = false;                 // the layers' weights are [in, out]
  bool sinks_of_windows = false;           // only layers with a window have LayerNames::sinks
  bool output_gate = false;       // every head has a gate of what it puts out: q's projection gives it after its rows
  bool causal = true;             // else an encoder: every token sees all others
  bool parallel = false;          // attention and MLP read the same, and both are added at once
  bool rope_interleaved = false;  // turns components 2j and 2j + 1; else j and j + half
  WindowRule window = WindowRule::kNone;
  int32_t absent_window = 4096;       // when sliding_window is absent; 0: no window
  int32_t absent_window_pattern = 0;  // WindowRule::kByPattern, when sliding_window_pattern is absent

  // Keys of config.json, and what an absent one means.
  std::string_view text_model = {};  // the object that they stand in, of models that see images as well; empty: none
  bool text_model_may_be_whole = false;  // they may stand at the top level instead
  // The row to read it by, where that depends on which text model it is. Null: this one.
  const Family& (*row_of_text)(const JsonFields& root) = nullptr;
  SizeKeys keys = {};
  bool absent_inner_of_four = false;  // an absent size of the MLP is four times the hidden size
  bool mxfp4_experts = false;         // quantised so, the one kind that is read
  std::string_view norm_eps_key = "rms_norm_eps";
  double absent_norm_eps = 1e-6;
  RopeKeys rope = {};
  std::string_view activation_key = "hidden_act";  // empty: always absent_activation
  std::string_view absent_activation = "silu";
  bool absent_tied_embeddings = false;
  bool absent_attention_bias = false;
  int32_t absent_head_dim = 0;  // 0: hidden_size / heads
  int64_t absent_max_positions = 0;
  int32_t absent_num_kv_heads = 0;  // 0: as many as query heads
  int32_t absent_num_heads = 0;     // 0: the file must say
  int32_t absent_vocabulary = 0;    // 0: the file must say
  // Keys that the family has beside those of all: multipliers, soft caps, scales, what differs from layer to layer.
  // Called last; refuses what it cannot run (JsonFields::RefuseField). Null: none.
  void (*read)(const JsonFields& root, ModelConfig* config) = nullptr;
  // Makes ModelConfig::ropes and the layers' places in it. Null: one kind of positions for all layers, or none where
  // there is a position_embedding.
  void (*read_ropes)(const JsonFields& root, ModelConfig* config) = nullptr;
  // Of a tokenizer that lists tokens by rank (families/ranked_form.h). Null: the family was not published with one.
  const RankedForm* ranked_tokens = nullptr;
};

// Names as in llama's checkpoints, and norms before attention and MLP: what most families' rows begin with.
constexpr Family LlamaLayout() {
  return {
      .embedding = "model.embed_tokens",
      .final_norm = "model.norm",
      .head = "lm_head",
      .layer_prefix = "model.layers.",
      .layer =
          {
              .input_norm = "input_layernorm",
              .q = "self_attn.q_proj",
              .k = "self_attn.k_proj",
              .v = "self_attn.v_proj",
              .output = "self_attn.o_proj",
              .mlp_norm = "post_attention_layernorm",
              .gate = "mlp.gate_proj",
              .up = "mlp.up_proj",
              .down = "mlp.down_proj",
          },
  };
}

// The row of a text model that stands, with its keys in text_config, in the files of a model that sees images as well:
// `prefixes` come before its names in place of "model.".
constexpr Family InsideModelWithImages(Family row, const std::array<std::string_view, 2>& prefixes) {
  constexpr std::string_view kModel = "model.";
  LayerInputNames& input = row.layer_input;
  for (std::string_view* name : {&row.embedding, &row.final_norm, &row.layer_prefix, &input.embedding,
                                 &input.projection, &input.projection_norm, &row.altup.spread, &row.altup.gather}) {
    if (name->starts_with(kModel)) name->remove_prefix(kModel.size());
  }
  row.text_model = "text_config";
  row.prefixes = prefixes;
  return row;
}

std::span<const Family* const> Families();
// nullptr: not known.
const Family* FindFamily(std::string_view model_type);

}  // namespace headscope::model
