// SPDX-License-Identifier: Apache-2.0
#include "network/weights.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <stdexcept>
#include <string>

#include "base/progress_meter.h"
#include "checkpoint/expected_weights.h"
#include "network/architecture.h"

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
  at::Tensor LoadIf(bool wanted, const std::string& name) { return wanted ? Load(name) : at::Tensor(); }

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

at::Tensor Stack(std::initializer_list<at::Tensor> parts) {
  return parts.begin()->defined() ? at::cat(at::ITensorListRef(at::TensorList(parts)), 0) : at::Tensor();
}

LayerWeights LoadLayer(Loader* loader, const ModelConfig& config, int32_t layer) {
  const LayerNames& names = config.architecture->layer;
  const std::string prefix = std::string(config.architecture->layer_prefix) + std::to_string(layer) + ".";
  const auto weight = [&](std::string_view name) { return prefix + std::string(name) + ".weight"; };
  const auto bias = [&](std::string_view name) { return prefix + std::string(name) + ".bias"; };
  LayerWeights out;
  out.input_norm = loader->Load(weight(names.input_norm));
  out.qkv.weight = Stack({loader->Load(weight(names.q)), loader->Load(weight(names.k)), loader->Load(weight(names.v))});
  out.qkv.bias = Stack({loader->LoadIf(config.qkv_bias, bias(names.q)), loader->LoadIf(config.qkv_bias, bias(names.k)),
                        loader->LoadIf(config.qkv_bias, bias(names.v))});
  out.q_norm = loader->LoadIf(config.qk_norm, weight(names.q_norm));
  out.k_norm = loader->LoadIf(config.qk_norm, weight(names.k_norm));
  out.output = {loader->Load(weight(names.output)), loader->LoadIf(config.output_bias, bias(names.output))};
  out.post_attention_norm = loader->Load(weight(names.post_attention_norm));
  out.gate_up.weight = Stack({loader->Load(weight(names.gate)), loader->Load(weight(names.up))});
  out.gate_up.bias =
      Stack({loader->LoadIf(config.mlp_bias, bias(names.gate)), loader->LoadIf(config.mlp_bias, bias(names.up))});
  out.down = {loader->Load(weight(names.down)), loader->LoadIf(config.mlp_bias, bias(names.down))};
  return out;
}

}  // namespace

ModelWeights LoadWeights(Checkpoint* checkpoint, const ModelConfig& config, at::ScalarType type,
                         const at::Device& device, const ProgressFunction& progress) {
  CheckWeights(checkpoint, config);
  Loader loader(checkpoint, type, device, progress);
  const ArchitectureRow& row = *config.architecture;
  ModelWeights weights;
  weights.embedding = loader.Load(std::string(row.embedding) + ".weight");
  weights.final_norm = loader.Load(std::string(row.final_norm) + ".weight");
  weights.head = config.tied_embeddings ? weights.embedding : loader.Load(std::string(row.head) + ".weight");
  for (int32_t layer = 0; layer < config.num_layers; ++layer)
    weights.layers.push_back(LoadLayer(&loader, config, layer));
  return weights;
}

}  // namespace headscope::model
