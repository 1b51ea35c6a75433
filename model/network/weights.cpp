// SPDX-License-Identifier: Apache-2.0
#include "network/weights.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/progress_meter.h"
#include "base/stop.h"
#include "checkpoint/expected_weights.h"
#include "families/family.h"
#include "network/mxfp4.h"
#include "network/torch_runtime.h"

namespace headscope::model {
namespace {

class Loader {
 public:
  Loader(Checkpoint* checkpoint, at::ScalarType type, const at::Device& device, int64_t total,
         const ProgressFunction& progress, const std::stop_token& stop)
      : checkpoint_(checkpoint),
        type_(type),
        device_(device),
        meter_("loading model", ProgressUnit::kBytes, total, progress),
        stop_(stop) {}

  // Of a weight that CheckWeights has seen.
  at::Tensor Load(const std::string& name) { return Ready(LoadStored(name)); }

  // As it is stored, on the host.
  at::Tensor LoadStored(const std::string& name) {
    const TensorEntry* entry = checkpoint_->Find(name);
    if (entry == nullptr) throw std::logic_error("the weight " + name + " was not looked for");
    const at::Tensor stored = at::empty(entry->shape, StoredType(*entry));
    checkpoint_->Read(*entry, stored.data_ptr(), stop_);
    done_ += entry->end - entry->begin;
    meter_.Report(done_);
    return stored;
  }

  at::Tensor Ready(const at::Tensor& stored) const { return stored.to(device_, type_); }
  void MoveTo(const at::Device& device) { device_ = device; }  // of what is loaded from now on
  bool HasPackedExperts(const Family& family, const std::string& prefix) const {
    return model::HasPackedExperts(*checkpoint_, family, prefix);
  }
  bool PacksInputsFirst(const ModelConfig& config, const std::string& prefix) const {
    return model::PacksInputsFirst(checkpoint_, config, prefix);
  }
  void StopIfAsked() const { headscope::StopIfAsked(stop_); }

 private:
  static at::ScalarType StoredType(const TensorEntry& entry) {
    const std::optional<ElementType> type = model::StoredType(entry.dtype);
    return type ? ScalarTypeOf(*type) : at::kByte;  // U8, the other type that RequireTensors lets through
  }
  Checkpoint* checkpoint_;
  at::ScalarType type_;
  at::Device device_;
  ProgressMeter meter_;
  const std::stop_token stop_;
  int64_t done_ = 0;
};

class LayerLoader {
 public:
  LayerLoader(Loader* loader, const ModelConfig& config, int32_t layer, std::string prefix)
      : loader_(*loader),
        config_(config),
        family_(*config.family),
        facts_(config.layers[static_cast<size_t>(layer)]),
        prefix_(std::move(prefix)),
        has_experts_(config.experts.num_experts > 0 && config.experts.layers[static_cast<size_t>(layer)]) {}

  LayerWeights Load() {
    const LayerNames& names = family_.layer;
    LayerWeights out;
    out.input_norm = LoadNorm(names.input_norm);
    if (facts_.other_mixer) {
      LoadMixer(&out);
    } else {
      if (family_.qkv_layout == QkvLayout::kLatent)
        LoadLatents(&out);
      else
        out.qkv = LoadQkv();
      if (facts_.qk_norm != QkNorm::kNone) {
        out.q_norm = LoadNorm(names.q_norm, false);
        if (facts_.kv_layer < 0) out.k_norm = LoadNorm(names.k_norm, false);
      }
      out.output = LoadProjection(names.output, config_.output_bias);
    }
    out.attention_output_norm = LoadNorm(names.attention_output_norm);
    out.mlp_norm = LoadNorm(names.mlp_norm);
    if (has_experts_) LoadExperts(&out.experts);
    if (!has_experts_ || config_.experts.beside_mlp) LoadMlp(&out);
    out.mlp_output_norm = LoadNorm(names.mlp_output_norm);
    if (config_.layer_inputs.size > 0) {
      out.layer_input = {LoadProjection(family_.layer_input.gate, false),
                         LoadProjection(family_.layer_input.output, false), LoadNorm(family_.layer_input.output_norm)};
    }
    if (!names.factor.empty()) out.factor = Part(names.factor, "");
    if (config_.laurel_rank > 0) {
      out.laurel = {LoadProjection(names.laurel_left, false), LoadProjection(names.laurel_right, false),
                    LoadNorm(names.laurel_norm)};
    }
    if (config_.altup.inputs > 0) {
      const AltUpNames& altup = family_.altup;
      out.altup = {LoadProjection(altup.router, false), LoadNorm(altup.router_norm),
                   LoadProjection(altup.prediction, false), LoadProjection(altup.correction, false),
                   Part(altup.output_scale, "")};
    }
    return out;
  }

  // The layer's logits that have no value, fp32; empty: none.
  std::vector<float> Sinks() {
    if (!HasSinks(family_, facts_)) return {};
    const at::Tensor sinks = Part(family_.layer.sinks, "").to(at::kCPU, at::kFloat).contiguous();
    const auto* first = sinks.const_data_ptr<float>();
    return {first, first + sinks.numel()};
  }

 private:
  at::Tensor Part(std::string_view name, const char* kind) { return loader_.Load(prefix_ + std::string(name) + kind); }

  NormWeights LoadNorm(std::string_view name, bool may_have_bias = true) {
    if (name.empty()) return {};
    return {Part(name, ".weight"), may_have_bias && family_.norm_bias ? Part(name, ".bias") : at::Tensor()};
  }

  Projection LoadProjection(std::string_view name, bool has_bias) {
    const at::Tensor weight = Part(name, ".weight");
    return {family_.transposed ? weight.t().contiguous() : weight, has_bias ? Part(name, ".bias") : at::Tensor()};
  }

  Projection LoadStacked(const std::vector<std::string_view>& names, bool has_bias) {
    std::vector<at::Tensor> weights, biases;
    for (const std::string_view name : names) {
      const Projection one = LoadProjection(name, has_bias);
      weights.push_back(one.weight);
      if (has_bias) biases.push_back(one.bias);
    }
    return {at::cat(weights, 0), has_bias ? at::cat(biases, 0) : at::Tensor()};
  }

  Projection LoadQkv() {
    const LayerNames& names = family_.layer;
    if (family_.qkv_layout == QkvLayout::kApart) {
      std::vector<std::string_view> parts = {names.q};
      if (facts_.kv_layer < 0) parts.push_back(names.k);
      if (facts_.kv_layer < 0 && !facts_.v_is_projected_k) parts.push_back(names.v);
      if (!names.gate_of_output.empty()) {
        parts.push_back(names.gate_of_output);
        return LoadStacked(parts, config_.qkv_bias);
      }
      const Projection all = LoadStacked(parts, config_.qkv_bias);
      return facts_.output_gate ? Projection{GatesLast(all.weight), config_.qkv_bias ? GatesLast(all.bias) : all.bias}
                                : all;
    }
    Projection fused = LoadProjection(names.qkv, config_.qkv_bias);
    if (family_.qkv_layout == QkvLayout::kStacked) return fused;
    return {RowsOfHeads(fused.weight), config_.qkv_bias ? RowsOfHeads(fused.bias) : at::Tensor()};
  }

  // From KV head by KV head to all rows of q, of k, of v.
  at::Tensor RowsOfHeads(const at::Tensor& by_kv_head) const {
    const int64_t kv_heads = facts_.num_kv_heads, group = facts_.num_qo_heads / kv_heads;
    const int64_t columns = by_kv_head.dim() == 2 ? by_kv_head.size(1) : 1;
    const at::Tensor rows = by_kv_head.view({kv_heads, -1, columns});
    const int64_t sizes[] = {group * facts_.head_dim, facts_.head_dim, facts_.v_head_dim};
    std::vector<at::Tensor> parts;
    int64_t first = 0;
    for (const int64_t size : sizes) {
      parts.push_back(rows.narrow(1, first, size).reshape({-1, columns}));
      first += size;
    }
    const at::Tensor all = at::cat(parts, 0);
    return by_kv_head.dim() == 2 ? all : all.view({-1});
  }

  // From q with a gate after each head's rows, k, v to q, k, v, gates.
  at::Tensor GatesLast(const at::Tensor& rows) const {
    const int64_t q_rows = int64_t{facts_.num_qo_heads} * facts_.head_dim;
    const int64_t columns = rows.dim() == 2 ? rows.size(1) : 1;
    const at::Tensor q = rows.narrow(0, 0, 2 * q_rows).view({facts_.num_qo_heads, 2, facts_.head_dim, columns});
    const auto part = [&](int64_t which) {
      const at::Tensor flat = q.select(1, which).reshape({q_rows, columns});
      return rows.dim() == 2 ? flat : flat.view({-1});
    };
    return at::cat({part(0), rows.narrow(0, 2 * q_rows, rows.size(0) - 2 * q_rows), part(1)}, 0);
  }

  void LoadLatents(LayerWeights* layer) {
    LatentWeights* out = &layer->latent;
    const LayerNames& names = family_.layer;
    const LatentRules& rules = config_.latent;
    if (rules.q_rank == 0) {
      out->q_b = LoadProjection(names.q, false);
    } else {
      out->q_a = LoadProjection(names.q_a, rules.bias);
      out->q_norm = LoadNorm(names.q_a_norm);
      out->q_b = LoadProjection(names.q_b, false);
    }
    out->kv_a = LoadProjection(names.kv_a, rules.bias);
    out->kv_norm = LoadNorm(names.kv_a_norm);
    out->kv_b = LoadProjection(names.kv_b, false);
    if (facts_.selected == 0) return;
    layer->index.q = LoadProjection(names.index_q, false);
    layer->index.k = LoadProjection(names.index_k, false);
    layer->index.k_norm = {Part(names.index_k_norm, ".weight"), Part(names.index_k_norm, ".bias")};
    layer->index.weights = LoadProjection(names.index_weights, false);
  }

  // Of projections whose rows stand head by head: for each key head its rows of the first, of the second, and so on.
  at::Tensor ByKeyHead(const std::vector<at::Tensor>& projections) const {
    std::vector<at::Tensor> parts;
    for (const at::Tensor& rows : projections)
      parts.push_back(rows.view({config_.mixer.num_key_heads, -1, rows.size(1)}));
    return at::cat(parts, 1).view({-1, parts.front().size(2)});
  }

  void LoadMixer(LayerWeights* out) {
    const MixerNames& names = family_.mixer;
    MixerWeights& mixer = out->mixer;
    mixer.convolution.weight = Part(names.convolution, ".weight");
    if (config_.mixer.kind == MixerKind::kShortConvolution) {
      const bool bias = config_.mixer.bias;
      if (bias) mixer.convolution.bias = Part(names.convolution, ".bias");
      mixer.in = LoadProjection(names.in, bias);
      out->output = LoadProjection(names.output, bias);
      return;
    }
    if (names.qkvz.empty()) {
      const MixerRules& rules = config_.mixer;
      const int64_t keys = int64_t{rules.num_key_heads} * rules.key_dim;
      const at::Tensor qkv = Part(names.qkv, ".weight");
      mixer.qkvz.weight = ByKeyHead({qkv.narrow(0, 0, keys), qkv.narrow(0, keys, keys),
                                     qkv.narrow(0, 2 * keys, qkv.size(0) - 2 * keys), Part(names.z, ".weight")});
      mixer.ba.weight = ByKeyHead({Part(names.b, ".weight"), Part(names.a, ".weight")});
    } else {
      mixer.qkvz = LoadProjection(names.qkvz, false);
      mixer.ba = LoadProjection(names.ba, false);
    }
    mixer.decay = Part(names.decay, "").to(at::kFloat);
    mixer.step_bias = Part(names.step_bias, "").to(at::kFloat);
    mixer.norm = LoadNorm(names.norm);
    out->output = LoadProjection(names.output, false);
  }

  void LoadMlp(LayerWeights* out) {
    const LayerNames& names = family_.layer;
    out->has_gate = !names.gate_up.empty() || !names.gate.empty();
    out->gate_up = !names.gate_up.empty() ? LoadProjection(names.gate_up, config_.mlp_bias)
                   : out->has_gate        ? LoadStacked({names.gate, names.up}, config_.mlp_bias)
                                          : LoadProjection(names.up, config_.mlp_bias);
    out->down = LoadProjection(names.down, config_.mlp_bias);
  }

  void LoadExperts(ExpertWeights* out) {
    const ExpertNames& names = family_.experts;
    const ExpertRules& rules = config_.experts;
    const bool packed = loader_.HasPackedExperts(family_, prefix_);
    out->router = LoadProjection(names.router, packed && !names.packed_as_linear);
    if (!names.correction.empty()) out->correction = Part(names.correction, "").to(at::kFloat);
    if (!names.router_scale.empty()) out->router_scale = Part(names.router_scale, "");
    if (!names.expert_scale.empty()) out->expert_scale = Part(names.expert_scale, "").to(at::kFloat);
    if (rules.beside_mlp) {
      out->input_norm = LoadNorm(names.input_norm);
      out->output_norm = LoadNorm(names.output_norm);
      out->mlp_norm = LoadNorm(names.mlp_norm);
    }
    if (packed && names.packed_as_linear) {
      out->gate_up = LoadLinearPack(names.packed_gate_up);
      out->down = LoadLinearPack(names.packed_down);
    } else if (packed) {
      out->gate_up = LoadPacked(names.packed_gate_up, /*in_turn=*/true);
      out->down = LoadPacked(names.packed_down, /*in_turn=*/false);
    } else {
      for (int32_t expert = 0; expert < rules.num_experts; ++expert) {
        const std::string each = std::string(names.each) + std::to_string(expert) + ".";
        const std::string gate = each + std::string(names.gate), up = each + std::string(names.up);
        out->gate_up.push_back(LoadStacked({gate, up}, false));
        out->down.push_back(LoadProjection(each + std::string(names.down), false));
      }
    }
    if (rules.shared_size == 0) return;
    out->shared_gate_up = LoadStacked({names.shared_gate, names.shared_up}, false);
    out->shared_down = LoadProjection(names.shared_down, false);
    if (!names.shared_weight.empty()) out->shared_weight = LoadProjection(names.shared_weight, false);
  }

  std::vector<Projection> LoadLinearPack(std::string_view name) {
    at::Tensor all = Part(name, "");
    if (loader_.PacksInputsFirst(config_, prefix_)) all = all.transpose(1, 2).contiguous();
    std::vector<Projection> out;
    for (int64_t expert = 0; expert < all.size(0); ++expert) out.push_back({all.select(0, expert), {}});
    return out;
  }

  // `in_turn`: rows of gate and up stand in turn.
  std::vector<Projection> LoadPacked(std::string_view name, bool in_turn) {
    const std::string whole(name);
    const bool is_mxfp4 = config_.experts.mxfp4;
    const at::Tensor biases = Part(whole, "_bias");
    const at::Tensor stored = is_mxfp4 ? loader_.LoadStored(prefix_ + whole + "_blocks") : Part(whole, "");
    const at::Tensor scales = is_mxfp4 ? loader_.LoadStored(prefix_ + whole + "_scales") : at::Tensor();
    std::vector<Projection> out;
    for (int64_t expert = 0; expert < stored.size(0); ++expert) {
      loader_.StopIfAsked();
      const at::Tensor bias = biases.select(0, expert);
      // One expert's at a time: all of them in fp32 would be eight times what the file holds.
      const at::Tensor weight = is_mxfp4 ? loader_.Ready(FromMxfp4(stored.select(0, expert), scales.select(0, expert)))
                                         : stored.select(0, expert).t();
      out.push_back(in_turn ? Projection{at::cat({weight.slice(0, 0, {}, 2), weight.slice(0, 1, {}, 2)}, 0),
                                         at::cat({bias.slice(0, 0, {}, 2), bias.slice(0, 1, {}, 2)}, 0)}
                            : Projection{weight.contiguous(), bias});
    }
    return out;
  }

  Loader& loader_;
  const ModelConfig& config_;
  const Family& family_;
  const AttentionLayer& facts_;
  const std::string prefix_;
  const bool has_experts_;
};

// Of the tensors that are read: none of layers that nothing runs, and of the head where it is asked for.
int64_t BytesToRead(const Checkpoint& checkpoint, const ModelConfig& config, size_t num_layers, bool with_logits) {
  const Family& row = *config.family;
  int64_t bytes = checkpoint.BytesUnder("");
  for (auto layer = static_cast<int32_t>(num_layers); layer < config.num_layers; ++layer)
    bytes -= checkpoint.BytesUnder(LayerPrefix(checkpoint, row, layer));
  if (!LoadsHead(config, with_logits)) bytes -= checkpoint.BytesUnder(HeadName(checkpoint, row) + ".weight");
  return bytes;
}

// A head that stands in the file although config.json says that it is the embeddings: transformers takes it where its
// numbers are others, so it is read to be compared.
at::Tensor HeadBesideEmbeddings(Loader* loader, const std::string& name, const at::Tensor& embedding) {
  at::Tensor head = loader->Load(name);
  return at::equal(head, embedding) ? embedding : head;
}

}  // namespace

ModelWeights LoadWeights(Checkpoint* checkpoint, ModelConfig* config, at::ScalarType type,
                         const std::vector<at::Device>& layer_devices, bool with_logits,
                         const ProgressFunction& progress, const std::stop_token& stop) {
  CheckWeights(checkpoint, *config);
  const size_t num_layers = layer_devices.size();
  const Family& row = *config->family;
  const std::string head = HeadName(*checkpoint, row) + ".weight";
  const bool has_two_tables = config->has_head && config->tied_embeddings && checkpoint->Has(head);
  int64_t bytes = BytesToRead(*checkpoint, *config, num_layers, with_logits);
  if (has_two_tables && with_logits) bytes += checkpoint->Find(head)->end - checkpoint->Find(head)->begin;
  Loader loader(checkpoint, type, layer_devices.front(), bytes, progress, stop);
  const std::string prefix = WeightPrefix(*checkpoint, row);
  const auto load = [&](std::string_view name, const char* kind = ".weight") {
    return loader.Load(prefix + std::string(name) + kind);
  };
  ModelWeights weights;
  weights.embedding = load(row.embedding);
  if (!row.position_embedding.empty())
    weights.position_embedding = load(row.position_embedding).narrow(0, row.first_position, config->max_positions);
  if (!row.token_types.empty()) weights.token_type = load(row.token_types).select(0, 0);
  if (!row.embedding_norm.empty())
    weights.embedding_norm = {load(row.embedding_norm),
                              row.norm_bias ? load(row.embedding_norm, ".bias") : at::Tensor()};
  if (config->embedding_size != config->hidden_size) {
    weights.embedding_in.weight = load(row.embedding_in);
    weights.embedding_out.weight = load(row.embedding_out);
  }
  if (config->final_norm)
    weights.final_norm = {load(row.final_norm), row.norm_bias ? load(row.final_norm, ".bias") : at::Tensor()};
  if (config->layer_inputs.size > 0) {
    weights.layer_embedding = load(row.layer_input.embedding);
    weights.layer_projection.weight = load(row.layer_input.projection);
    weights.layer_projection_norm.weight = load(row.layer_input.projection_norm);
  }
  for (int32_t further = 0; further < config->altup.inputs - 1; ++further) {
    weights.spread.push_back({load(row.altup.spread, (std::to_string(further) + ".weight").c_str()), {}});
    weights.gather.push_back({load(row.altup.gather, (std::to_string(further) + ".weight").c_str()), {}});
  }
  if (LoadsHead(*config, with_logits))
    weights.head = loader.Load(head);
  else if (has_two_tables && with_logits)
    weights.head = HeadBesideEmbeddings(&loader, head, weights.embedding);
  else if (config->tied_embeddings && !has_two_tables)
    weights.head = weights.embedding;
  for (size_t layer = 0; layer < num_layers; ++layer) {
    loader.MoveTo(layer_devices[layer]);
    const auto number = static_cast<int32_t>(layer);
    LayerLoader one(&loader, *config, number, LayerPrefix(*checkpoint, row, number));
    weights.layers.push_back(one.Load());
    config->layers[layer].sinks = one.Sinks();
  }
  return weights;
}

}  // namespace headscope::model
