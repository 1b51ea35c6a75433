// SPDX-License-Identifier: Apache-2.0
#include "network/weights.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "base/progress_meter.h"
#include "checkpoint/expected_weights.h"
#include "families/family.h"

namespace headscope::model {
namespace {

class Loader {
 public:
  Loader(Checkpoint* checkpoint, at::ScalarType type, const at::Device& device, const ProgressFunction& progress)
      : checkpoint_(checkpoint),
        type_(type),
        device_(device),
        meter_("loading model", "bytes", checkpoint->TensorBytes(), progress) {}

  // Of a weight that CheckWeights has seen.
  at::Tensor Load(const std::string& name) {
    const TensorEntry* entry = checkpoint_->Find(name);
    if (entry == nullptr) throw std::logic_error("the weight " + name + " was not looked for");
    const at::Tensor stored = at::empty(entry->shape, StoredType(*entry));
    checkpoint_->Read(*entry, stored.data_ptr());
    done_ += entry->end - entry->begin;
    meter_.Report(done_);
    return stored.to(device_, type_);
  }

 private:
  static at::ScalarType StoredType(const TensorEntry& entry) {
    return entry.dtype == "BF16" ? at::kBFloat16 : entry.dtype == "F16" ? at::kHalf : at::kFloat;
  }
  Checkpoint* checkpoint_;
  at::ScalarType type_;
  at::Device device_;
  ProgressMeter meter_;
  int64_t done_ = 0;
};

class LayerLoader {
 public:
  LayerLoader(Loader* loader, const ModelConfig& config, int32_t layer)
      : loader_(*loader),
        config_(config),
        family_(*config.family),
        facts_(config.layers[static_cast<size_t>(layer)]),
        prefix_(std::string(family_.layer_prefix) + std::to_string(layer) + ".") {}

  LayerWeights Load() {
    const LayerNames& names = family_.layer;
    LayerWeights out;
    out.input_norm = LoadNorm(names.input_norm);
    out.qkv = LoadQkv();
    out.q_norm = LoadNorm(names.q_norm, false);
    out.k_norm = LoadNorm(names.k_norm, false);
    out.output = LoadProjection(names.output, config_.output_bias);
    out.attention_output_norm = LoadNorm(names.attention_output_norm);
    out.mlp_norm = LoadNorm(names.mlp_norm);
    out.has_gate = !names.gate_up.empty() || !names.gate.empty();
    out.gate_up = !names.gate_up.empty() ? LoadProjection(names.gate_up, config_.mlp_bias)
                  : out.has_gate         ? LoadStacked({names.gate, names.up}, config_.mlp_bias)
                                         : LoadProjection(names.up, config_.mlp_bias);
    out.down = LoadProjection(names.down, config_.mlp_bias);
    out.mlp_output_norm = LoadNorm(names.mlp_output_norm);
    return out;
  }

 private:
  at::Tensor Part(std::string_view name, const char* kind) { return loader_.Load(prefix_ + std::string(name) + kind); }

  NormWeights LoadNorm(std::string_view name, bool may_have_bias = true) {
    if (name.empty()) return {};
    return {Part(name, ".weight"), may_have_bias && family_.norm_bias ? Part(name, ".bias") : at::Tensor()};
  }

  Projection LoadProjection(std::string_view name, bool has_bias) {
    return {Part(name, ".weight"), has_bias ? Part(name, ".bias") : at::Tensor()};
  }

  Projection LoadStacked(const std::vector<std::string_view>& names, bool has_bias) {
    std::vector<at::Tensor> weights, biases;
    for (const std::string_view name : names) {
      weights.push_back(Part(name, ".weight"));
      if (has_bias) biases.push_back(Part(name, ".bias"));
    }
    return {at::cat(weights, 0), has_bias ? at::cat(biases, 0) : at::Tensor()};
  }

  Projection LoadQkv() {
    const LayerNames& names = family_.layer;
    if (family_.qkv_layout == QkvLayout::kApart) return LoadStacked({names.q, names.k, names.v}, config_.qkv_bias);
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

  Loader& loader_;
  const ModelConfig& config_;
  const Family& family_;
  const AttentionLayer& facts_;
  const std::string prefix_;
};

}  // namespace

ModelWeights LoadWeights(Checkpoint* checkpoint, const ModelConfig& config, at::ScalarType type,
                         const at::Device& device, const ProgressFunction& progress) {
  CheckWeights(checkpoint, config);
  Loader loader(checkpoint, type, device, progress);
  const Family& row = *config.family;
  ModelWeights weights;
  weights.embedding = loader.Load(std::string(row.embedding) + ".weight");
  weights.final_norm = {loader.Load(std::string(row.final_norm) + ".weight"),
                        row.norm_bias ? loader.Load(std::string(row.final_norm) + ".bias") : at::Tensor()};
  weights.head = config.tied_embeddings ? weights.embedding : loader.Load(std::string(row.head) + ".weight");
  for (int32_t layer = 0; layer < config.num_layers; ++layer)
    weights.layers.push_back(LayerLoader(&loader, config, layer).Load());
  return weights;
}

}  // namespace headscope::model
