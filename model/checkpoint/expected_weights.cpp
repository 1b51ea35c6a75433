// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/expected_weights.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "network/architecture.h"

namespace headscope::model {
namespace {

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

void Require(Checkpoint* checkpoint, const std::string& name, const std::vector<int64_t>& shape) {
  const TensorEntry* entry = checkpoint->Find(name);
  if (entry == nullptr) {
    Refuse(checkpoint->model_dir(), "tensor \"" + name + "\"", "is missing",
           "check model_type and num_hidden_layers in config.json");
  }
  if (entry->shape != shape) {
    Refuse(checkpoint->FileOf(*entry), "tensor \"" + name + "\"",
           "has shape " + ShapeText(entry->shape) + " where config.json needs " + ShapeText(shape),
           "check that the files belong together");
  }
  if (entry->dtype != "BF16" && entry->dtype != "F16" && entry->dtype != "F32") {
    Refuse(checkpoint->FileOf(*entry), "tensor \"" + name + "\"", "dtype " + entry->dtype + " is not supported",
           "F32, F16 and BF16 are");
  }
}

void RequireLayer(Checkpoint* checkpoint, const ModelConfig& config, int32_t layer) {
  const LayerNames& names = config.architecture->layer;
  const std::string prefix = std::string(config.architecture->layer_prefix) + std::to_string(layer) + ".";
  const auto weight = [&](std::string_view name, const std::vector<int64_t>& shape) {
    Require(checkpoint, prefix + std::string(name) + ".weight", shape);
  };
  const auto bias = [&](bool wanted, std::string_view name, int64_t extent) {
    if (wanted) Require(checkpoint, prefix + std::string(name) + ".bias", {extent});
  };
  const int64_t hidden = config.hidden_size;
  const int64_t inner = config.intermediate_size;
  const int64_t q_rows = int64_t{config.num_qo_heads} * config.head_dim;
  const int64_t kv_rows = int64_t{config.num_kv_heads} * config.head_dim;
  weight(names.input_norm, {hidden});
  weight(names.q, {q_rows, hidden});
  weight(names.k, {kv_rows, hidden});
  weight(names.v, {kv_rows, hidden});
  bias(config.qkv_bias, names.q, q_rows);
  bias(config.qkv_bias, names.k, kv_rows);
  bias(config.qkv_bias, names.v, kv_rows);
  if (config.qk_norm) {
    weight(names.q_norm, {config.head_dim});
    weight(names.k_norm, {config.head_dim});
  }
  weight(names.output, {hidden, q_rows});
  bias(config.output_bias, names.output, hidden);
  weight(names.post_attention_norm, {hidden});
  weight(names.gate, {inner, hidden});
  weight(names.up, {inner, hidden});
  bias(config.mlp_bias, names.gate, inner);
  bias(config.mlp_bias, names.up, inner);
  weight(names.down, {hidden, inner});
  bias(config.mlp_bias, names.down, hidden);
}

}  // namespace

void CheckWeights(Checkpoint* checkpoint, const ModelConfig& config) {
  const ArchitectureRow& row = *config.architecture;
  const std::vector<int64_t> table = {config.vocabulary_size, config.hidden_size};
  const std::string head = std::string(row.head) + ".weight";
  Require(checkpoint, std::string(row.embedding) + ".weight", table);
  Require(checkpoint, std::string(row.final_norm) + ".weight", {config.hidden_size});
  // A tied checkpoint may still hold a copy of the head; transformers ignores it, and so it is not an unread tensor.
  if (config.tied_embeddings) {
    checkpoint->Find(head);
  } else {
    Require(checkpoint, head, table);
  }
  for (int32_t layer = 0; layer < config.num_layers; ++layer) RequireLayer(checkpoint, config, layer);
  // Old checkpoints hold RoPE's frequencies, which follow from config.json.
  for (int32_t layer = 0; layer < config.num_layers; ++layer)
    checkpoint->Find(std::string(row.layer_prefix) + std::to_string(layer) + ".self_attn.rotary_emb.inv_freq");
  checkpoint->RefuseUnread();
}

}  // namespace headscope::model
