// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/expected_weights.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "families/family.h"

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
  const Family& family = *config.family;
  const LayerNames& names = family.layer;
  const AttentionLayer& facts = config.layers[static_cast<size_t>(layer)];
  const std::string prefix = std::string(family.layer_prefix) + std::to_string(layer) + ".";
  const auto projection = [&](std::string_view name, int64_t rows, int64_t columns, bool has_bias) {
    Require(checkpoint, prefix + std::string(name) + ".weight", {rows, columns});
    if (has_bias) Require(checkpoint, prefix + std::string(name) + ".bias", {rows});
  };
  const auto norm = [&](std::string_view name, int64_t extent, bool has_bias) {
    if (name.empty()) return;
    Require(checkpoint, prefix + std::string(name) + ".weight", {extent});
    if (has_bias) Require(checkpoint, prefix + std::string(name) + ".bias", {extent});
  };
  const int64_t hidden = config.hidden_size, inner = config.intermediate_size;
  const int64_t q_rows = int64_t{facts.num_qo_heads} * facts.head_dim;
  const int64_t k_rows = int64_t{facts.num_kv_heads} * facts.head_dim;
  const int64_t v_rows = int64_t{facts.num_kv_heads} * facts.v_head_dim;
  norm(names.input_norm, hidden, family.norm_bias);
  if (family.qkv_layout == QkvLayout::kApart) {
    projection(names.q, q_rows, hidden, config.qkv_bias);
    projection(names.k, k_rows, hidden, config.qkv_bias);
    projection(names.v, v_rows, hidden, config.qkv_bias);
  } else {
    projection(names.qkv, q_rows + k_rows + v_rows, hidden, config.qkv_bias);
  }
  const bool each_head = family.qk_norm == QkNorm::kEachHead;
  norm(names.q_norm, each_head ? facts.head_dim : q_rows, false);
  norm(names.k_norm, each_head ? facts.head_dim : k_rows, false);
  projection(names.output, hidden, int64_t{facts.num_qo_heads} * facts.v_head_dim, config.output_bias);
  norm(names.attention_output_norm, hidden, family.norm_bias);
  norm(names.mlp_norm, hidden, family.norm_bias);
  if (!names.gate_up.empty()) projection(names.gate_up, 2 * inner, hidden, config.mlp_bias);
  if (!names.gate.empty()) projection(names.gate, inner, hidden, config.mlp_bias);
  if (!names.up.empty()) projection(names.up, inner, hidden, config.mlp_bias);
  projection(names.down, hidden, inner, config.mlp_bias);
  norm(names.mlp_output_norm, hidden, family.norm_bias);
}

}  // namespace

void CheckWeights(Checkpoint* checkpoint, const ModelConfig& config) {
  const Family& row = *config.family;
  const std::vector<int64_t> table = {config.vocabulary_size, config.hidden_size};
  const std::string head = std::string(row.head) + ".weight";
  Require(checkpoint, std::string(row.embedding) + ".weight", table);
  Require(checkpoint, std::string(row.final_norm) + ".weight", {config.hidden_size});
  if (row.norm_bias) Require(checkpoint, std::string(row.final_norm) + ".bias", {config.hidden_size});
  // A tied checkpoint may still hold a copy of the head; transformers ignores it, and so it is not an unread tensor.
  if (config.tied_embeddings) {
    checkpoint->Find(head);
  } else {
    Require(checkpoint, head, table);
  }
  for (int32_t layer = 0; layer < config.num_layers; ++layer) RequireLayer(checkpoint, config, layer);
  // Old checkpoints hold RoPE's frequencies and masks, which follow from config.json.
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    for (const std::string_view name : row.derived)
      if (!name.empty())
        checkpoint->Find(std::string(row.layer_prefix) + std::to_string(layer) + "." + std::string(name));
  }
  checkpoint->RefuseUnread();
}

}  // namespace headscope::model
