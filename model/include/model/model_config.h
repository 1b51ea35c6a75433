// SPDX-License-Identifier: Apache-2.0
// config.json as one plain struct: what a decoder-only transformer of the supported families needs, checked and with
// defaults filled in.
//
// A key that would change the computation and is not supported (a quantised checkpoint, an unknown kind of layer or of
// position) is refused: running the model without it would show another model's heads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/attention_layer.h"
#include "model/rope_config.h"

namespace headscope::model {

struct Family;

enum class Activation : uint8_t { kSilu, kGelu, kGeluTanh, kGeluSigmoid, kRelu };

// What each layer gets of a token beside its hidden state (Gemma's per-layer embeddings, PLE); size 0: nothing.
struct LayerInputRules {
  int32_t size = 0;              // numbers a layer
  int32_t vocabulary = 0;        // tokens that have some
  bool others_as_first = false;  // the others get those of token 0; else they are refused
};

// Alternating updates (AltUp, arXiv 2301.13310, as Gemma 3n has them): the model carries several hidden states of a
// token, of which a layer runs on one and predicts and corrects all. inputs 0: the model has one, as usual.
struct AltUpRules {
  int32_t inputs = 0;
  int32_t active = 0;          // that which layers run on
  bool scaled_output = false;  // it is multiplied, number by number, where it meets the layer's input of its own
};

// How a router chooses among experts.
enum class RouterScore : uint8_t {
  kSoftmax,          // of all experts' logits
  kSoftmaxOfChosen,  // of the chosen ones', by the largest logits
  kSigmoid           // of each logit, plus a correction where it is compared
};

// The MLPs of layers with experts; num_experts 0: the model has none.
struct ExpertRules {
  int32_t num_experts = 0;
  int32_t per_token = 0;
  int32_t inner_size = 0;   // of each
  int32_t shared_size = 0;  // of the one that every token sees; 0: none
  RouterScore score = RouterScore::kSoftmax;
  bool wide_router = false;  // logits are made in fp32, whatever the model computes in
  bool normalised = false;   // the chosen experts' weights add up to 1
  double factor = 1;         // of the weights
  int32_t num_groups = 1;    // of experts, of which only the best kept_groups are chosen from
  int32_t kept_groups = 1;
  bool group_of_two = false;  // a group is as good as its two best experts together; else as its best
  bool weigh_inputs = false;  // the weights multiply what the experts get, and not what they give
  double limit = 0;           // GPT-OSS: gate and up are held to it, and up has 1 added; 0: a plain gated MLP
  double gain = 1;            // of its gate's sigmoid
  bool beside_mlp = false;    // a layer's MLP runs as well, and what both give is added
  bool mxfp4 = false;         // four-bit numbers with a scale for 32 of them
  std::vector<bool> layers;   // [num_layers], those that have experts
};

// DeepSeek's attention: q, k and v by way of latents; kv_rank 0: the model's is the usual one. Each head of q and k has
// nope_dim components without positions, then rope_dim with, which for k are shared by all heads.
struct LatentRules {
  int32_t q_rank = 0;  // 0: q comes straight from x
  int32_t kv_rank = 0;
  int32_t nope_dim = 0;
  int32_t rope_dim = 0;
  bool bias = false;  // of the projections into latents
};

// DeepSeek Sparse Attention's "lightning indexer" (AttentionLayer::selected), here the index: small vectors of its own,
// by which a row chooses the keys that it attends to. heads 0: the model has none.
struct IndexRules {
  int32_t heads = 0;  // of its queries; all of them read one key of a token
  int32_t dim = 0;
  int32_t rope = 0;  // place in ModelConfig::ropes
};

// Token mixers of layers without attention (AttentionLayer::other_mixer).
enum class MixerKind : uint8_t {
  kDeltaRule,        // a gated delta rule behind a convolution (arXiv 2412.06464)
  kShortConvolution  // a convolution between two gates
};

// Those layers; kernel 0: the model has none.
struct MixerRules {
  MixerKind kind = MixerKind::kDeltaRule;
  std::string_view kinds_key = "layer_types";  // says which layers those are, in config.json
  bool bias = false;                           // of a short convolution and its projections
  int32_t num_key_heads = 0;                   // of a delta rule, as all sizes below but the last
  int32_t num_value_heads = 0;                 // a multiple of num_key_heads
  int32_t key_dim = 0;
  int32_t value_dim = 0;
  int32_t kernel = 0;  // tokens that the convolution sees
};

struct ModelConfig {
  std::string model_type;
  const Family* family = nullptr;  // of that type; never null after reading
  int32_t num_layers = 0;
  int32_t num_qo_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t hidden_size = 0;
  int32_t intermediate_size = 0;
  int32_t vocabulary_size = 0;
  int32_t num_token_types = 0;  // kinds of text that embeddings know; 0: none
  int32_t embedding_size = 0;   // hidden_size, unless embeddings are projected
  int64_t max_positions = 0;    // the family's default where the file does not say
  bool max_positions_given = true;
  double norm_eps = 1e-6;
  Activation activation = Activation::kSilu;
  bool tied_embeddings = false;
  bool has_head = true;  // else the last hidden states are what the model gives
  bool final_norm = true;
  bool parallel = false;     // attention and MLP read the same, and both are added at once
  bool norms_after = false;  // the layers' input and MLP norms stand after the sums instead
  bool qkv_bias = false;
  bool output_bias = false;  // of the attention's output projection
  bool mlp_bias = false;
  double embedding_multiplier = 1;
  double value_multiplier = 1;     // of v as projected
  double residual_multiplier = 1;  // of what attention and MLP add
  double logit_multiplier = 1;
  double logit_soft_cap = 0;           // logit = cap * tanh(logit / cap); 0: none
  std::vector<AttentionLayer> layers;  // [num_layers]
  std::vector<int32_t> inner_sizes;    // [num_layers] of the MLPs, where they differ; else empty
  std::vector<RopeConfig> ropes;       // the kinds of positions that layers have; the first is that of most
  int32_t num_skipped_layers = 0;      // after the others, which predict further tokens and are not run
  ExpertRules experts;
  LatentRules latent;
  IndexRules index;
  MixerRules mixer;
  LayerInputRules layer_inputs;
  AltUpRules altup;
  int32_t laurel_rank = 0;            // of a low-rank layer beside attention (LAuReL); 0: none
  std::vector<double> gate_sparsity;  // [num_layers], the share of an MLP's gates that is cut off; empty: none
  std::string json;                   // the file's text, kept in traces
};

// Reads MODEL_DIR/config.json. Throws BadInputError.
ModelConfig ReadModelConfig(const std::string& model_dir);
// The same from text; `file` only names the source in messages.
ModelConfig ParseModelConfig(std::string_view text, const std::string& file);

// Inner size of a layer's MLP.
int32_t InnerSize(const ModelConfig& config, int32_t layer);

// Every token of an encoder sees all others; it takes a text in one pass and generates nothing.
bool IsEncoder(const ModelConfig& config);
// Throws BadInputError where no layer has attention, so that there are no heads.
void RequireHeads(const ModelConfig& config, const std::string& model_dir);
// Throws BadInputError for an encoder.
void RequireDecoder(const ModelConfig& config, const std::string& model_dir);

// "4096 positions (max_position_embeddings)", for messages.
std::string PositionsText(const ModelConfig& config);
// Throws UsageError, naming `what` (such as "length"), when the model has fewer positions than `count`.
void RequirePositions(const ModelConfig& config, std::string_view what, int64_t count);

}  // namespace headscope::model
