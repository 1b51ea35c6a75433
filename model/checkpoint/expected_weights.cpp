// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/expected_weights.h"

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/quoted_text.h"
#include "families/family.h"
#include "model/input_file.h"

namespace headscope::model {
namespace {

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

void Require(Checkpoint* checkpoint, const std::string& name, const std::vector<int64_t>& shape, bool bytes = false) {
  const TensorEntry* entry = checkpoint->Find(name);
  if (entry == nullptr) {
    Refuse(checkpoint->model_dir(), "tensor " + Quoted(name), "is missing",
           "check model_type and num_hidden_layers in config.json, fetch the folder again if a file of it is missing, "
           "or use " +
               std::string(kRecordFromPython));
  }
  if (entry->shape != shape) {
    Refuse(checkpoint->FileOf(*entry), "tensor " + Quoted(name),
           "has shape " + ShapeText(entry->shape) + " where config.json needs " + ShapeText(shape),
           "check that the files belong together");
  }
  if (bytes ? entry->dtype == "U8" : StoredType(entry->dtype).has_value()) return;
  Refuse(checkpoint->FileOf(*entry), "tensor " + Quoted(name), "dtype " + entry->dtype + " is not supported",
         std::string(bytes ? "U8 is here" : "F32, F16 and BF16 are") + "; a model with any other is recorded with " +
             std::string(kRecordFromPython));
}

// What one layer of a model holds.
class LayerCheck {
 public:
  LayerCheck(Checkpoint* checkpoint, const ModelConfig& config, int32_t layer)
      : checkpoint_(checkpoint),
        config_(config),
        family_(*config.family),
        facts_(config.layers[static_cast<size_t>(layer)]),
        inner_size_(InnerSize(config, layer)),
        prefix_(LayerPrefix(*checkpoint, family_, layer)),
        has_experts_(config.experts.num_experts > 0 && config.experts.layers[static_cast<size_t>(layer)]) {}

  void Run() const {
    const LayerNames& names = family_.layer;
    const int64_t hidden = config_.hidden_size;
    Norm(names.input_norm, hidden, family_.norm_bias);
    if (facts_.other_mixer)
      Mixer();
    else
      Attention();
    Norm(names.attention_output_norm, hidden, family_.norm_bias);
    Norm(names.mlp_norm, hidden, family_.norm_bias);
    if (has_experts_) Experts();
    if (!has_experts_ || config_.experts.beside_mlp) Mlp();
    Norm(names.mlp_output_norm, hidden, family_.norm_bias);
    if (const int64_t size = config_.layer_inputs.size; size > 0) {
      Projection(family_.layer_input.gate, size, hidden, false);
      Projection(family_.layer_input.output, hidden, size, false);
      Norm(family_.layer_input.output_norm, hidden, false);
    }
    if (!names.factor.empty()) Tensor(names.factor, {1});
    if (const int64_t rank = config_.laurel_rank; rank > 0) {
      Projection(names.laurel_left, rank, hidden, false);
      Projection(names.laurel_right, hidden, rank, false);
      Norm(names.laurel_norm, hidden, false);
    }
    if (config_.altup.inputs > 0) AltUp();
  }

 private:
  void Tensor(std::string_view name, const std::vector<int64_t>& shape, bool bytes = false) const {
    Require(checkpoint_, prefix_ + std::string(name), shape, bytes);
  }
  void Projection(std::string_view name, int64_t rows, int64_t columns, bool has_bias) const {
    const std::string whole(name);
    Tensor(whole + ".weight", family_.transposed ? std::vector{columns, rows} : std::vector{rows, columns});
    if (has_bias) Tensor(whole + ".bias", {rows});
  }
  void Norm(std::string_view name, int64_t extent, bool has_bias) const {
    if (name.empty()) return;
    Tensor(std::string(name) + ".weight", {extent});
    if (has_bias) Tensor(std::string(name) + ".bias", {extent});
  }

  void AltUp() const {
    const AltUpNames& names = family_.altup;
    const int64_t inputs = config_.altup.inputs, hidden = config_.hidden_size;
    Projection(names.router, inputs, hidden, false);
    Norm(names.router_norm, hidden, false);
    Projection(names.prediction, inputs * inputs, inputs, false);
    Projection(names.correction, inputs, inputs, false);
    Tensor(names.output_scale, {hidden});
  }

  // Of q, or of k.
  void HeadNorm(std::string_view name, int64_t heads) const {
    if (name.empty() || facts_.qk_norm == QkNorm::kNone) return;
    const std::string weight = std::string(name) + ".weight";
    if (facts_.qk_norm == QkNorm::kAllHeads)
      Tensor(weight, {heads * facts_.head_dim});
    else if (family_.head_norms_apart)
      Tensor(weight, {heads, facts_.head_dim});
    else
      Tensor(weight, {facts_.head_dim});
  }

  void Attention() const {
    const LayerNames& names = family_.layer;
    const int64_t hidden = config_.hidden_size;
    const bool gate_in_q = facts_.output_gate && names.gate_of_output.empty();
    const int64_t q_rows = int64_t{facts_.num_qo_heads} * facts_.head_dim * (gate_in_q ? 2 : 1);
    const int64_t k_rows = int64_t{facts_.num_kv_heads} * facts_.head_dim;
    const int64_t v_rows = int64_t{facts_.num_kv_heads} * facts_.v_head_dim;
    switch (family_.qkv_layout) {
      case QkvLayout::kApart:
        Projection(names.q, q_rows, hidden, config_.qkv_bias);
        if (facts_.kv_layer < 0) {
          Projection(names.k, k_rows, hidden, config_.qkv_bias);
          if (!facts_.v_is_projected_k) Projection(names.v, v_rows, hidden, config_.qkv_bias);
        }
        if (!names.gate_of_output.empty()) Projection(names.gate_of_output, q_rows, hidden, config_.qkv_bias);
        break;
      case QkvLayout::kStacked:
      case QkvLayout::kByKvHead:
        Projection(names.qkv, q_rows + k_rows + v_rows, hidden, config_.qkv_bias);
        break;
      case QkvLayout::kLatent:
        Latents(q_rows);
        break;
    }
    HeadNorm(names.q_norm, facts_.num_qo_heads);
    if (facts_.kv_layer < 0) HeadNorm(names.k_norm, facts_.num_kv_heads);
    if (HasSinks(family_, facts_)) Tensor(names.sinks, {facts_.num_qo_heads});
    Projection(names.output, hidden, int64_t{facts_.num_qo_heads} * facts_.v_head_dim, config_.output_bias);
  }

  void Latents(int64_t q_rows) const {
    const LayerNames& names = family_.layer;
    const LatentRules& latent = config_.latent;
    const int64_t hidden = config_.hidden_size;
    if (latent.q_rank == 0) {
      Projection(names.q, q_rows, hidden, false);
    } else {
      Projection(names.q_a, latent.q_rank, hidden, latent.bias);
      Norm(names.q_a_norm, latent.q_rank, false);
      Projection(names.q_b, q_rows, latent.q_rank, false);
    }
    Projection(names.kv_a, int64_t{latent.kv_rank} + latent.rope_dim, hidden, latent.bias);
    Norm(names.kv_a_norm, latent.kv_rank, false);
    Projection(names.kv_b, int64_t{facts_.num_kv_heads} * (latent.nope_dim + facts_.v_head_dim), latent.kv_rank, false);
    if (facts_.selected == 0) return;
    Projection(names.index_q, int64_t{config_.index.heads} * config_.index.dim, latent.q_rank, false);
    Projection(names.index_k, config_.index.dim, hidden, false);
    Norm(names.index_k_norm, config_.index.dim, true);
    Projection(names.index_weights, config_.index.heads, hidden, false);
  }

  void Mixer() const {
    const MixerNames& names = family_.mixer;
    const MixerRules& rules = config_.mixer;
    const int64_t hidden = config_.hidden_size;
    if (rules.kind == MixerKind::kShortConvolution) {
      Projection(names.in, 3 * hidden, hidden, rules.bias);
      Tensor(std::string(names.convolution) + ".weight", {hidden, 1, rules.kernel});
      if (rules.bias) Tensor(std::string(names.convolution) + ".bias", {hidden});
      Projection(names.output, hidden, hidden, rules.bias);
      return;
    }
    const int64_t keys = int64_t{rules.num_key_heads} * rules.key_dim;
    const int64_t values = int64_t{rules.num_value_heads} * rules.value_dim;
    if (names.qkvz.empty()) {
      Projection(names.qkv, 2 * keys + values, hidden, false);
      Projection(names.z, values, hidden, false);
      Projection(names.b, rules.num_value_heads, hidden, false);
      Projection(names.a, rules.num_value_heads, hidden, false);
    } else {
      Projection(names.qkvz, 2 * keys + 2 * values, hidden, false);
      Projection(names.ba, 2 * int64_t{rules.num_value_heads}, hidden, false);
    }
    Tensor(std::string(names.convolution) + ".weight", {2 * keys + values, 1, rules.kernel});
    Tensor(names.decay, {rules.num_value_heads});
    Tensor(names.step_bias, {rules.num_value_heads});
    Norm(names.norm, rules.value_dim, false);
    Projection(names.output, hidden, values, false);
  }

  void Mlp() const {
    const LayerNames& names = family_.layer;
    const int64_t hidden = config_.hidden_size, inner = inner_size_;
    if (!names.gate_up.empty()) Projection(names.gate_up, 2 * inner, hidden, config_.mlp_bias);
    if (!names.gate.empty()) Projection(names.gate, inner, hidden, config_.mlp_bias);
    if (!names.up.empty()) Projection(names.up, inner, hidden, config_.mlp_bias);
    Projection(names.down, hidden, inner, config_.mlp_bias);
  }

  void Experts() const {
    const ExpertNames& names = family_.experts;
    const ExpertRules& rules = config_.experts;
    const int64_t hidden = config_.hidden_size, inner = rules.inner_size, count = rules.num_experts;
    const bool packed = HasPackedExperts(*checkpoint_, family_, prefix_);
    Projection(names.router, count, hidden, packed && !names.packed_as_linear);
    if (!names.correction.empty()) Tensor(names.correction, {count});
    if (!names.router_scale.empty()) Tensor(names.router_scale, {hidden});
    if (!names.expert_scale.empty()) Tensor(names.expert_scale, {count});
    if (rules.beside_mlp) {
      for (const std::string_view norm : {names.input_norm, names.output_norm, names.mlp_norm})
        Norm(norm, hidden, false);
    }
    if (packed) {
      Packed(names.packed_gate_up, hidden, 2 * inner);
      Packed(names.packed_down, inner, hidden);
    }
    for (int64_t expert = 0; !packed && expert < count; ++expert) {
      const std::string each = std::string(names.each) + std::to_string(expert) + ".";
      Projection(each + std::string(names.gate), inner, hidden, false);
      Projection(each + std::string(names.up), inner, hidden, false);
      Projection(each + std::string(names.down), hidden, inner, false);
    }
    if (rules.shared_size == 0) return;
    Projection(names.shared_gate, rules.shared_size, hidden, false);
    Projection(names.shared_up, rules.shared_size, hidden, false);
    Projection(names.shared_down, hidden, rules.shared_size, false);
    if (!names.shared_weight.empty()) Projection(names.shared_weight, 1, hidden, false);
  }

  // All experts' weights in one tensor, which takes `in` numbers to `out`.
  void Packed(std::string_view name, int64_t in, int64_t out) const {
    const std::string whole(name);
    const int64_t count = config_.experts.num_experts;
    if (family_.experts.packed_as_linear) {
      const bool inputs_first = PacksInputsFirst(checkpoint_, config_, prefix_);
      Tensor(whole, inputs_first ? std::vector{count, in, out} : std::vector{count, out, in});
      return;
    }
    if (config_.experts.mxfp4) {
      constexpr int64_t kBlock = 32;
      if (in % kBlock != 0) {
        Refuse(checkpoint_->model_dir(), "tensor " + Quoted(prefix_ + whole + "_blocks"),
               "would hold rows of " + std::to_string(in) + " numbers in blocks of 32", "correct config.json");
      }
      Tensor(whole + "_blocks", {count, out, in / kBlock, kBlock / 2}, /*bytes=*/true);
      Tensor(whole + "_scales", {count, out, in / kBlock}, /*bytes=*/true);
    } else {
      Tensor(whole, {count, in, out});
    }
    Tensor(whole + "_bias", {count, out});
  }

  Checkpoint* checkpoint_;
  const ModelConfig& config_;
  const Family& family_;
  const AttentionLayer& facts_;
  const int64_t inner_size_;
  const std::string prefix_;
  const bool has_experts_;
};

}  // namespace

std::string WeightPrefix(const Checkpoint& checkpoint, const Family& family) {
  for (const std::string_view prefix : family.prefixes) {
    if (checkpoint.Has(std::string(prefix) + std::string(family.embedding) + ".weight")) return std::string(prefix);
  }
  return std::string(family.prefixes.front());
}

std::string LayerPrefix(const Checkpoint& checkpoint, const Family& family, int32_t layer) {
  return WeightPrefix(checkpoint, family) + std::string(family.layer_prefix) + std::to_string(layer) + ".";
}

std::string HeadName(const Checkpoint& checkpoint, const Family& family) {
  const bool other = !family.other_head.empty() && checkpoint.Has(std::string(family.other_head) + ".weight");
  return std::string(other ? family.other_head : family.head);
}

bool PacksInputsFirst(Checkpoint* checkpoint, const ModelConfig& config, const std::string& prefix) {
  const ExpertNames& names = config.family->experts;
  const int64_t hidden = config.hidden_size, inner = config.experts.inner_size;
  if (!names.packed_from_in) return false;
  // The one of the two that is no square.
  const bool by_down = hidden != inner;
  const TensorEntry* entry = checkpoint->Find(prefix + std::string(by_down ? names.packed_down : names.packed_gate_up));
  return entry != nullptr && entry->shape.size() == 3 && entry->shape[1] == (by_down ? inner : hidden);
}

bool HasPackedExperts(const Checkpoint& checkpoint, const Family& family, const std::string& prefix) {
  const ExpertNames& names = family.experts;
  if (names.each.empty() || names.packed_down.empty()) return names.each.empty();
  return checkpoint.Has(prefix + std::string(names.packed_down));
}

bool LoadsHead(const ModelConfig& config, bool with_logits) {
  return config.has_head && !config.tied_embeddings && with_logits;
}

int64_t HeadBesideEmbeddings(const Checkpoint& checkpoint, const ModelConfig& config) {
  if (!config.has_head || !config.tied_embeddings) return 0;
  const bool is_there = checkpoint.Has(HeadName(checkpoint, *config.family) + ".weight");
  return is_there ? int64_t{config.vocabulary_size} * config.embedding_size : 0;
}

bool HasSinks(const Family& family, const AttentionLayer& layer) {
  return !family.layer.sinks.empty() && !layer.other_mixer && (layer.window > 0 || !family.sinks_of_windows);
}

void SkipUnused(Checkpoint* checkpoint, const ModelConfig& config) {
  const Family& row = *config.family;
  const auto skip = [&](const std::string& prefix, std::string_view name) {
    if (!name.empty()) checkpoint->SkipOne(prefix + std::string(name));
  };
  // A copy of the embeddings, as a rule; only what makes logits looks at it (LoadWeights).
  if (config.tied_embeddings) checkpoint->SkipOne(HeadName(*checkpoint, row) + ".weight");
  // Old checkpoints hold RoPE's frequencies and masks, which follow from config.json.
  for (const std::string_view name : row.derived_of_model) skip(WeightPrefix(*checkpoint, row), name);
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    const std::string prefix = LayerPrefix(*checkpoint, row, layer);
    for (const std::string_view name : row.derived) skip(prefix, name);
    if (config.layers[static_cast<size_t>(layer)].kv_layer < 0) continue;
    for (const std::string_view name : {row.layer.k, row.layer.v, row.layer.k_norm}) {
      for (const char* kind : {".weight", ".bias"}) skip(prefix, std::string(name) + kind);
    }
  }
  for (int32_t layer = 0; layer < config.num_skipped_layers; ++layer)
    checkpoint->Skip(LayerPrefix(*checkpoint, row, config.num_layers + layer));
  for (const std::string_view prefix : row.skipped)
    if (!prefix.empty()) checkpoint->Skip(prefix);
}

void CheckWeights(Checkpoint* checkpoint, const ModelConfig& config) {
  SkipUnused(checkpoint, config);
  const Family& row = *config.family;
  const std::string prefix = WeightPrefix(*checkpoint, row);
  const auto require = [&](std::string_view name, const std::vector<int64_t>& shape) {
    Require(checkpoint, prefix + std::string(name), shape);
  };
  const std::vector<int64_t> table = {config.vocabulary_size, config.embedding_size};
  require(std::string(row.embedding) + ".weight", table);
  if (!row.position_embedding.empty()) {
    require(std::string(row.position_embedding) + ".weight",
            {config.max_positions + row.first_position, config.hidden_size});
  }
  if (!row.token_types.empty())
    require(std::string(row.token_types) + ".weight", {config.num_token_types, config.hidden_size});
  if (!row.embedding_norm.empty()) {
    require(std::string(row.embedding_norm) + ".weight", {config.hidden_size});
    if (row.norm_bias) require(std::string(row.embedding_norm) + ".bias", {config.hidden_size});
  }
  if (config.embedding_size != config.hidden_size) {
    require(std::string(row.embedding_in) + ".weight", {config.hidden_size, config.embedding_size});
    require(std::string(row.embedding_out) + ".weight", {config.embedding_size, config.hidden_size});
  }
  if (config.final_norm) {
    require(std::string(row.final_norm) + ".weight", {config.hidden_size});
    if (row.norm_bias) require(std::string(row.final_norm) + ".bias", {config.hidden_size});
  }
  if (const int64_t size = config.num_layers * int64_t{config.layer_inputs.size}; size > 0) {
    require(std::string(row.layer_input.embedding) + ".weight", {config.layer_inputs.vocabulary, size});
    require(std::string(row.layer_input.projection) + ".weight", {size, config.hidden_size});
    require(std::string(row.layer_input.projection_norm) + ".weight", {config.layer_inputs.size});
  }
  for (int32_t further = 0; further < config.altup.inputs - 1; ++further) {
    for (const std::string_view name : {row.altup.spread, row.altup.gather}) {
      const std::string whole = std::string(name) + std::to_string(further) + ".weight";
      require(whole, {config.hidden_size, config.hidden_size});
    }
  }
  const std::string head = HeadName(*checkpoint, row) + ".weight";
  if (config.has_head && (!config.tied_embeddings || checkpoint->Has(head))) Require(checkpoint, head, table);
  for (int32_t layer = 0; layer < config.num_layers; ++layer) LayerCheck(checkpoint, config, layer).Run();
  checkpoint->RefuseUnread();
}

}  // namespace headscope::model
