// SPDX-License-Identifier: Apache-2.0
// What is not attention: places, embeddings, the order of a layer's parts, MLPs and logits.
#include "network/decoder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/silu.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/errors.h"
#include "base/stop.h"
#include "families/family.h"
#include "model/pass_memory.h"
#include "network/activations.h"
#include "network/alternating_updates.h"
#include "network/experts.h"
#include "network/linear.h"
#include "network/norms.h"
#include "network/short_convolution.h"

namespace headscope::model {

Decoder::Decoder(const std::string& model_dir, const SessionOptions& options, const ProgressFunction& progress,
                 const std::stop_token& stop_loading)
    : config(ReadModelConfig(model_dir)),
      checkpoint_summary(),
      chunk_tokens(options.chunk_tokens),
      dense(options.dense_executor) {
  FindPlaces(options);
  SetTorchThreads(options.num_threads);
  Checkpoint checkpoint(model_dir);
  checkpoint_summary = Summarize(&checkpoint, config);
  types = ChooseNumberTypes(options.dtype, checkpoint_summary.dtype, FirstDevice());
  std::vector<at::Device> layer_devices;
  for (const size_t place : place_of_layer) layer_devices.push_back(places[place].device);
  is_read.resize(config.layers.size());
  for (const AttentionLayer& layer : config.layers)
    if (layer.kv_layer >= 0) is_read[static_cast<size_t>(layer.kv_layer)] = true;
  weights = LoadWeights(&checkpoint, &config, ScalarTypeOf(types.compute), layer_devices,
                        /*with_logits=*/!options.last_layer, progress, stop_loading);
  RunFirst(weights.layers.size());
  // Once, so that one prompt's passes are those of the next.
  if (places.size() == 1 && FirstDevice().is_cuda()) free_bytes = FreeMemory(FirstDevice());
}

void Decoder::FindPlaces(const SessionOptions& options) {
  const int32_t last_layer = options.last_layer.value_or(config.num_layers - 1);
  if (last_layer < 0 || last_layer >= config.num_layers)
    throw std::invalid_argument("the model has no layer " + std::to_string(last_layer));
  const size_t num_loaded = static_cast<size_t>(last_layer) + 1;
  std::vector<Device> wanted = options.layer_devices;
  if (wanted.empty()) wanted.assign(num_loaded, options.device);
  if (wanted.size() != num_loaded) throw std::invalid_argument("layer_devices is one for each layer that is loaded");
  // Number types are those of a GPU where one has layers; it then has the first.
  const bool any_gpu = std::ranges::any_of(wanted, &Device::is_gpu);
  if (any_gpu && !wanted.front().is_gpu()) throw std::invalid_argument("the first layer lies on a GPU if any does");
  for (const Device& one : wanted) {
    auto place = std::ranges::find(places, one, &Place::wanted);
    if (place == places.end()) {
      places.push_back({one, OpenDevice(one), {}});
      place = places.end() - 1;
      for (const RopeConfig& rope : config.ropes) place->rotary.emplace_back(rope, place->device);
    }
    place_of_layer.push_back(static_cast<size_t>(place - places.begin()));
  }
}

void Decoder::RunFirst(size_t layers) {
  num_run = layers;
  cache.assign(weights.layers.size(), {});
  for (size_t layer = 0; layer < num_run; ++layer)
    if (!config.layers[layer].other_mixer) cache[SourceOf(layer)].of_place[place_of_layer[layer]] = {};
  capacity = 0;
}

void Decoder::Grow(int64_t needed) {
  if (needed <= capacity) return;
  constexpr int64_t kLeast = 1024;
  const int64_t grown = std::max({needed, 2 * capacity, kLeast});
  const auto grow = [&](at::Tensor* kept, size_t place, int32_t heads, int32_t dim) {
    const at::TensorOptions options = at::TensorOptions(places[place].device).dtype(ScalarTypeOf(types.compute));
    at::Tensor larger = at::empty({heads, grown, dim}, options);
    if (length > 0) larger.narrow(1, 0, length).copy_(kept->narrow(1, 0, length));
    *kept = larger;
  };
  for (size_t layer = 0; layer < num_run; ++layer) {
    const AttentionLayer& facts = config.layers[layer];
    for (auto& [place, kept] : cache[layer].of_place) {
      grow(&kept.k, place, facts.num_kv_heads, facts.head_dim);
      grow(&kept.v, place, facts.num_kv_heads, facts.v_head_dim);
    }
    if (facts.selected > 0) grow(&cache[layer].index_k, place_of_layer[layer], 1, config.index.dim);
  }
  capacity = grown;
}

size_t Decoder::SourceOf(size_t layer) const {
  const int32_t other = config.layers[layer].kv_layer;
  return other < 0 ? layer : static_cast<size_t>(other);
}

KeysAndValues& Decoder::KeysOf(size_t layer) {
  return cache[SourceOf(layer)].of_place.at(place_of_layer[layer]);
}

void Decoder::ForgetPass() {
  BeginPassCopies();
  for (LayerCache& layer : cache) layer.raw_k = layer.plain_k = at::Tensor();
}

at::Tensor Decoder::TokenTensor(std::span<const int32_t> tokens) const {
  for (const int32_t token : tokens) {
    if (token < 0 || token >= config.vocabulary_size) {
      throw BadInputError(
          {.field = "token id",
           .value = std::to_string(token),
           .problem = "it is outside the model's vocabulary of " + std::to_string(config.vocabulary_size),
           .remedy = "use the tokenizer of the same folder"});
    }
  }
  const at::Tensor ids = at::empty({static_cast<int64_t>(tokens.size())}, at::kInt);
  std::memcpy(ids.data_ptr(), tokens.data(), tokens.size_bytes());
  return ids.to(FirstDevice(), at::kLong);
}

at::Tensor Decoder::Norm(const at::Tensor& x, const NormWeights& norm) const {
  return Normalised(config.family->norm, x, norm, config.norm_eps);
}

at::Tensor Decoder::Mlp(const at::Tensor& x, size_t layer) const {
  const LayerWeights& w = weights.layers[layer];
  const bool has_experts = w.experts.router.weight.defined();
  if (has_experts && !config.experts.beside_mlp) return MixExperts(x, x, w.experts, config.experts, config.activation);
  const double sparsity = config.gate_sparsity.empty() ? 0 : config.gate_sparsity[layer];
  return w.has_gate ? GatedMlp(x, w.gate_up, w.down, config.activation, sparsity)
                    : Apply(w.down, Activated(config.activation, Apply(w.gate_up, x)));
}

at::Tensor Decoder::Beside(const at::Tensor& x, const ExpertWeights& w) const {
  const double scale = 1 / std::sqrt(static_cast<double>(config.hidden_size));
  const at::Tensor routed = RmsNormWithoutWeight(x, config.norm_eps) * w.router_scale * scale;
  return Norm(MixExperts(Norm(x, w.input_norm), routed, w, config.experts, config.activation), w.output_norm);
}

at::Tensor Decoder::FromInput(const at::Tensor& x, const LayerInputWeights& w, const at::Tensor& input) const {
  const at::Tensor gate = Activated(config.activation, Apply(w.gate, x));
  return Norm(Apply(w.output, gate * input), w.output_norm);
}

at::Tensor Decoder::Plus(const at::Tensor& x, const at::Tensor& added) const {
  return config.residual_multiplier == 1 ? x + added : x + added * config.residual_multiplier;
}

at::Tensor Decoder::Layer(const at::Tensor& x, const at::Tensor& input, size_t layer,
                          const std::vector<RotaryEmbedding::Tables>& positions, HeadSink* sink) {
  StopIfAsked(stop);
  const LayerWeights& w = weights.layers[layer];
  const bool after = config.norms_after;
  const at::Tensor read = after ? x : Norm(x, w.input_norm);
  const at::Tensor attended =
      Norm(config.layers[layer].other_mixer ? TokenMixer(read, layer) : Attention(x, read, layer, positions, sink),
           w.attention_output_norm);
  if (config.parallel) {
    const at::Tensor mlp = Norm(Mlp(w.mlp_norm.defined() ? Norm(x, w.mlp_norm) : read, layer), w.mlp_output_norm);
    return Plus(Plus(x, attended), mlp);
  }
  if (after) {
    const at::Tensor between = Norm(Plus(x, attended), w.input_norm);
    return Norm(Plus(between, Mlp(between, layer)), w.mlp_norm);
  }
  const at::Tensor between = Plus(x, attended);
  at::Tensor mlp = Mlp(Norm(between, w.mlp_norm), layer);
  if (config.experts.beside_mlp) mlp = Norm(mlp, w.experts.mlp_norm) + Beside(between, w.experts);
  at::Tensor out = Plus(between, Norm(mlp, w.mlp_output_norm));
  if (input.defined()) out = out + FromInput(out, w.layer_input, input);
  return w.factor.defined() ? out * w.factor : out;
}

at::Tensor Decoder::LayerOfStates(const at::Tensor& states, const at::Tensor& input, size_t layer,
                                  const std::vector<RotaryEmbedding::Tables>& positions, HeadSink* sink) {
  StopIfAsked(stop);
  const LayerWeights& w = weights.layers[layer];
  const at::Tensor predicted = PredictStates(states, w.altup, config);
  const at::Tensor x = predicted.select(0, config.altup.active);
  const at::Tensor read = Norm(x, w.input_norm);
  const at::Tensor attended = Norm(Attention(x, read, layer, positions, sink), w.attention_output_norm);
  const at::Tensor laurel = read + Norm(Apply(w.laurel.right, Apply(w.laurel.left, read)), w.laurel.norm);
  const at::Tensor between = (x + attended + laurel) * (1 / std::numbers::sqrt2);
  const at::Tensor made = between + Norm(Mlp(Norm(between, w.mlp_norm), layer), w.mlp_output_norm);
  at::Tensor corrected = CorrectStates(predicted, made, w.altup, config);
  at::Tensor active = corrected.select(0, config.altup.active);
  if (config.altup.scaled_output) active = active * w.altup.output_scale;
  const at::Tensor added = FromInput(active, w.layer_input, input);
  corrected.narrow(0, 1, config.altup.inputs - 1).add_(added);
  return corrected;
}

at::Tensor Decoder::TokenMixer(const at::Tensor& x, size_t layer) {
  const LayerWeights& w = weights.layers[layer];
  if (config.mixer.kind == MixerKind::kShortConvolution)
    return Apply(w.output, ShortConvolution(x, w.mixer, &cache[layer].state.tail));
  const at::Tensor mixed = GatedDeltaRule(x, w.mixer, config.mixer, config.activation, &cache[layer].state, stop);
  const at::Tensor normal = Normalised(NormKind::kRms, mixed, w.mixer.norm, config.norm_eps);
  const at::Tensor gate = DeltaGate(x, w.mixer, config.mixer);
  const at::Tensor gated = normal.to(at::kFloat).mul(at::silu(gate.to(at::kFloat))).to(x.scalar_type());
  return Apply(w.output, gated.flatten(1));
}

at::Tensor Decoder::Embedded(std::span<const int32_t> tokens) const {
  at::Tensor x = at::embedding(weights.embedding, TokenTensor(tokens));
  if (weights.embedding_in.weight.defined()) x = Apply(weights.embedding_in, x);
  if (weights.position_embedding.defined()) x = x + weights.position_embedding.narrow(0, length, x.size(0));
  if (weights.token_type.defined()) x = x + weights.token_type;
  x = Norm(x, weights.embedding_norm);
  // By a number of x's own type, as transformers' modules do.
  return config.embedding_multiplier == 1 ? x : x * at::full({}, config.embedding_multiplier, x.options());
}

at::Tensor Decoder::LayerInputs(std::span<const int32_t> tokens, const at::Tensor& x) const {
  const LayerInputRules& rules = config.layer_inputs;
  if (rules.size == 0) return {};
  std::vector<int32_t> known(tokens.begin(), tokens.end());
  for (int32_t& token : known) {
    if (token < rules.vocabulary) continue;
    if (rules.others_as_first) {
      token = 0;
      continue;
    }
    throw BadInputError(
        {.field = "token id",
         .value = std::to_string(token),
         .problem = "it is outside the " + std::to_string(rules.vocabulary) + " tokens of vocab_size_per_layer_input",
         .remedy = "use the tokenizer of the same folder"});
  }
  const std::vector<int64_t> shape = {x.size(0), config.num_layers, rules.size};
  const at::Tensor own = at::embedding(weights.layer_embedding, TokenTensor(known));
  const at::Tensor scale = at::full({}, std::sqrt(static_cast<double>(rules.size)), x.options());
  const at::Tensor projected =
      Apply(weights.layer_projection, x) * (1 / std::sqrt(static_cast<double>(config.hidden_size)));
  return (Norm(projected.view(shape), weights.layer_projection_norm) + (own * scale).view(shape)) *
         (1 / std::numbers::sqrt2);
}

at::Tensor Decoder::Logits(const at::Tensor& x) const {
  at::Tensor last = Norm(x, weights.final_norm);
  if (weights.embedding_out.weight.defined()) last = Apply(weights.embedding_out, last);
  if (!config.has_head) return last.to(at::kCPU, at::kFloat).contiguous();
  at::Tensor logits = Linear(last, weights.head).to(at::kCPU, at::kFloat);
  if (config.logit_multiplier != 1) logits = logits * config.logit_multiplier;
  if (config.logit_soft_cap != 0) logits = (logits / config.logit_soft_cap).tanh_() * config.logit_soft_cap;
  return logits.contiguous();
}

}  // namespace headscope::model
