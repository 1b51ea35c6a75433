#include "network/weights.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <string>

#include "base/progress_meter.h"
#include "network/architecture.h"

namespace headscope::model {
namespace {

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

class Loader {
 public:
  Loader(Checkpoint* checkpoint, at::ScalarType type, const at::Device& device, const ProgressFunction& progress)
      : checkpoint_(checkpoint),
        type_(type),
        device_(device),
        meter_("loading model", "bytes", checkpoint->TensorBytes(), progress) {}

  at::Tensor Load(const std::string& name, const std::vector<int64_t>& shape) {
    const TensorEntry* entry = checkpoint_->Find(name);
    if (entry == nullptr) {
      Refuse(checkpoint_->model_dir(), "tensor \"" + name + "\"", "is missing",
             "check model_type and num_hidden_layers in config.json");
    }
    if (entry->shape != shape) {
      Refuse(checkpoint_->FileOf(*entry), "tensor \"" + name + "\"",
             "has shape " + ShapeText(entry->shape) + " where config.json needs " + ShapeText(shape),
             "check that the files belong together");
    }
    const at::Tensor stored = at::empty(shape, StoredType(*entry));
    checkpoint_->Read(*entry, stored.data_ptr());
    done_ += entry->end - entry->begin;
    meter_.Report(done_);
    return stored.to(device_, type_);
  }
  at::Tensor LoadIf(bool wanted, const std::string& name, const std::vector<int64_t>& shape) {
    return wanted ? Load(name, shape) : at::Tensor();
  }
  bool Has(const std::string& name) { return checkpoint_->Find(name) != nullptr; }

 private:
  at::ScalarType StoredType(const TensorEntry& entry) {
    if (entry.dtype == "BF16") return at::kBFloat16;
    if (entry.dtype == "F16") return at::kHalf;
    if (entry.dtype == "F32") return at::kFloat;
    Refuse(checkpoint_->FileOf(entry), "tensor \"" + entry.name + "\"", "dtype " + entry.dtype + " is not supported",
           "F32, F16 and BF16 are");
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
  const int64_t hidden = config.hidden_size;
  const int64_t inner = config.intermediate_size;
  const int64_t q_rows = int64_t{config.num_qo_heads} * config.head_dim;
  const int64_t kv_rows = int64_t{config.num_kv_heads} * config.head_dim;
  LayerWeights out;
  out.input_norm = loader->Load(weight(names.input_norm), {hidden});
  out.qkv.weight =
      Stack({loader->Load(weight(names.q), {q_rows, hidden}), loader->Load(weight(names.k), {kv_rows, hidden}),
             loader->Load(weight(names.v), {kv_rows, hidden})});
  out.qkv.bias = Stack({loader->LoadIf(config.qkv_bias, bias(names.q), {q_rows}),
                        loader->LoadIf(config.qkv_bias, bias(names.k), {kv_rows}),
                        loader->LoadIf(config.qkv_bias, bias(names.v), {kv_rows})});
  out.q_norm = loader->LoadIf(config.qk_norm, weight(names.q_norm), {config.head_dim});
  out.k_norm = loader->LoadIf(config.qk_norm, weight(names.k_norm), {config.head_dim});
  out.output = {loader->Load(weight(names.output), {hidden, q_rows}),
                loader->LoadIf(config.output_bias, bias(names.output), {hidden})};
  out.post_attention_norm = loader->Load(weight(names.post_attention_norm), {hidden});
  out.gate_up.weight =
      Stack({loader->Load(weight(names.gate), {inner, hidden}), loader->Load(weight(names.up), {inner, hidden})});
  out.gate_up.bias = Stack({loader->LoadIf(config.mlp_bias, bias(names.gate), {inner}),
                            loader->LoadIf(config.mlp_bias, bias(names.up), {inner})});
  out.down = {loader->Load(weight(names.down), {hidden, inner}),
              loader->LoadIf(config.mlp_bias, bias(names.down), {hidden})};
  return out;
}

}  // namespace

ModelWeights LoadWeights(Checkpoint* checkpoint, const ModelConfig& config, at::ScalarType type,
                         const at::Device& device, const ProgressFunction& progress) {
  Loader loader(checkpoint, type, device, progress);
  const ArchitectureRow& row = *config.architecture;
  ModelWeights weights;
  const std::vector<int64_t> table = {config.vocabulary_size, config.hidden_size};
  weights.embedding = loader.Load(std::string(row.embedding) + ".weight", table);
  weights.final_norm = loader.Load(std::string(row.final_norm) + ".weight", {config.hidden_size});
  const std::string head = std::string(row.head) + ".weight";
  // A tied checkpoint may still hold a copy of the head; transformers ignores it, and so it is not an unread tensor.
  weights.head = config.tied_embeddings ? weights.embedding : loader.Load(head, table);
  if (config.tied_embeddings) loader.Has(head);
  for (int32_t layer = 0; layer < config.num_layers; ++layer)
    weights.layers.push_back(LoadLayer(&loader, config, layer));
  // Old checkpoints hold RoPE's frequencies, which follow from config.json.
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    loader.Has(std::string(row.layer_prefix) + std::to_string(layer) + ".self_attn.rotary_emb.inv_freq");
  }
  checkpoint->RefuseUnread();
  return weights;
}

}  // namespace headscope::model
