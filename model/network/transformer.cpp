// SPDX-License-Identifier: Apache-2.0
#include "model/transformer.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/stack.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/device.h"
#include "base/errors.h"
#include "base/stop.h"
#include "families/family.h"
#include "model/checkpoint.h"
#include "network/activations.h"
#include "network/attention.h"
#include "network/delta_rule.h"
#include "network/experts.h"
#include "network/norms.h"
#include "network/rope.h"
#include "network/short_convolution.h"
#include "network/token_index.h"
#include "network/torch_library.h"
#include "network/torch_runtime.h"
#include "network/weights.h"

namespace headscope::model {
namespace {

// Keys [num_kv_heads, capacity, head_dim] and values [.., v_head_dim] of one layer, grown by doubling; or what a layer
// without attention remembers. Of a layer that reads another one's: nothing.
struct LayerCache {
  at::Tensor k, v;
  at::Tensor index_k;         // [1, capacity, index.dim], of a layer with an index
  at::Tensor raw_k, plain_k;  // of the pass that runs (Projected), where other layers read this one's
  DeltaState state;
};

// q, k and v of a pass as attention's input, and before their positions are turned in; the gates of its output. k and v
// are undefined where the layer reads another one's.
struct Projected {
  at::Tensor raw_q, raw_k;      // [heads, rows, head_dim], as projected
  at::Tensor plain_q, plain_k;  // and normalised
  at::Tensor q, k, v;
  at::Tensor gate;    // [rows, num_qo_heads * v_head_dim], or undefined
  at::Tensor latent;  // q's, [rows, q_rank], or undefined
};

// A device that has layers, and what each of them needs to know of positions there.
struct Place {
  Device wanted;
  c10::Device device;
  std::vector<RotaryEmbedding> rotary;  // of config.ropes
};

// The model and its steps. Its errors are LibTorch's own; TorchTransformer puts them into words.
struct Decoder {
  Decoder(const std::string& model_dir, const SessionOptions& options, const ProgressFunction& progress,
          const std::stop_token& stop_loading)
      : config(ReadModelConfig(model_dir)), checkpoint_summary(), chunk_tokens(std::max(1, options.chunk_tokens)) {
    FindPlaces(options);
    SetTorchThreads(options.num_threads);
    Checkpoint checkpoint(model_dir);
    checkpoint_summary = Summarize(checkpoint, config);
    types = ChooseNumberTypes(options.dtype, checkpoint_summary.dtype, FirstDevice());
    std::vector<at::Device> layer_devices;
    for (const size_t place : place_of_layer) layer_devices.push_back(places[place].device);
    is_read.resize(config.layers.size());
    for (const AttentionLayer& layer : config.layers)
      if (layer.kv_layer >= 0) is_read[static_cast<size_t>(layer.kv_layer)] = true;
    weights = LoadWeights(&checkpoint, &config, ScalarTypeOf(types.compute), layer_devices, progress, stop_loading);
    cache.resize(weights.layers.size());
  }

  // The place of each layer, by the options: as many places as there are devices among them.
  void FindPlaces(const SessionOptions& options) {
    std::vector<Device> wanted = options.layer_devices;
    if (wanted.empty()) wanted.assign(config.layers.size(), options.device);
    if (wanted.size() != config.layers.size()) throw std::invalid_argument("layer_devices is one for each layer");
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

  // Of embeddings, head and the first layer.
  const c10::Device& FirstDevice() const { return places.front().device; }

  void Grow(int64_t needed) {
    if (needed <= capacity) return;
    constexpr int64_t kLeast = 1024;
    const int64_t grown = std::max({needed, 2 * capacity, kLeast});
    for (size_t layer = 0; layer < cache.size(); ++layer) {
      const AttentionLayer& facts = config.layers[layer];
      if (facts.linear || facts.kv_layer >= 0) continue;
      const auto grow = [&](at::Tensor* kept, int32_t heads, int32_t dim) {
        const c10::Device& device = places[place_of_layer[layer]].device;
        at::Tensor larger =
            at::empty({heads, grown, dim}, at::TensorOptions(device).dtype(ScalarTypeOf(types.compute)));
        if (length > 0) larger.narrow(1, 0, length).copy_(kept->narrow(1, 0, length));
        *kept = larger;
      };
      grow(&cache[layer].k, facts.num_kv_heads, facts.head_dim);
      grow(&cache[layer].v, facts.num_kv_heads, facts.v_head_dim);
      if (facts.selected > 0) grow(&cache[layer].index_k, 1, config.index.dim);
    }
    capacity = grown;
  }

  // Of the layer whose keys and values this one reads.
  LayerCache& CacheOf(size_t layer) {
    const int32_t other = config.layers[layer].kv_layer;
    return cache[other < 0 ? layer : static_cast<size_t>(other)];
  }

  at::Tensor TokenTensor(std::span<const int32_t> tokens) const {
    for (const int32_t token : tokens) {
      if (token < 0 || token >= config.vocabulary_size) {
        throw BadInputError("token id " + std::to_string(token) + " is outside the model's vocabulary of " +
                            std::to_string(config.vocabulary_size) + "; use the tokenizer of the same folder");
      }
    }
    const at::Tensor ids = at::empty({static_cast<int64_t>(tokens.size())}, at::kInt);
    std::memcpy(ids.data_ptr(), tokens.data(), tokens.size_bytes());
    return ids.to(FirstDevice(), at::kLong);
  }

  at::Tensor Norm(const at::Tensor& x, const NormWeights& norm) const {
    return Normalised(config.family->norm, x, norm, config.norm_eps);
  }

  // q or k, [rows, heads * head_dim], by heads [heads, rows, head_dim], normalised as far as that is done before RoPE.
  at::Tensor Heads(const at::Tensor& rows, int64_t heads, int64_t dim, QkNorm place, const NormWeights& norm) const {
    const at::Tensor x = place == QkNorm::kAllHeads ? Norm(rows, norm) : rows;
    const at::Tensor by_head = x.view({x.size(0), heads, dim}).transpose(0, 1);
    return place == QkNorm::kEachHead ? Norm(by_head, norm) : by_head;
  }

  // Queries [heads, rows, head_dim] of the tokens behind the cache. Behind RoPE, as in transformers: what is recorded
  // before RoPE is without the factor, and the same from Python.
  at::Tensor Grown(const at::Tensor& heads, const QueryGrowth& growth) const {
    if (growth.rate == 0) return heads;
    const at::Tensor factors =
        at::arange(length + growth.shift, length + growth.shift + heads.size(1), heads.options().dtype(at::kLong))
            .floor_divide(growth.length)
            .to(at::kFloat)
            .log1p_()
            .mul_(growth.rate)
            .add_(1);
    return heads * factors.to(heads.scalar_type()).unsqueeze(1);
  }

  at::Tensor BehindRope(const at::Tensor& heads, const NormWeights& norm) const {
    return config.family->unit_head_norms ? OfUnitSize(heads, config.norm_eps) : Norm(heads, norm);
  }

  at::Tensor Turned(const at::Tensor& heads, const AttentionLayer& facts,
                    const std::vector<RotaryEmbedding::Tables>& positions) const {
    return facts.rope < 0 ? heads : RotaryEmbedding::Rotate(heads, positions[static_cast<size_t>(facts.rope)]);
  }

  Projected Project(const at::Tensor& x, size_t layer, const std::vector<RotaryEmbedding::Tables>& positions) const {
    const LayerWeights& w = weights.layers[layer];
    const AttentionLayer& facts = config.layers[layer];
    const int64_t q_size = int64_t{facts.num_qo_heads} * facts.head_dim;
    const int64_t k_size = int64_t{facts.num_kv_heads} * facts.head_dim;
    const int64_t v_size = int64_t{facts.num_kv_heads} * facts.v_head_dim;
    const at::Tensor qkv = Apply(w.qkv, x);
    const auto by_head = [&](const at::Tensor& rows, int64_t heads) {
      return rows.view({x.size(0), heads, facts.head_dim}).transpose(0, 1);
    };
    const bool after_rope = facts.qk_norm == QkNorm::kEachHeadAfterRope;
    Projected out;
    out.raw_q = by_head(qkv.narrow(1, 0, q_size), facts.num_qo_heads);
    out.plain_q = Heads(qkv.narrow(1, 0, q_size), facts.num_qo_heads, facts.head_dim, facts.qk_norm, w.q_norm);
    out.q = Turned(out.plain_q, facts, positions);
    if (after_rope) out.q = BehindRope(out.q, w.q_norm);
    out.q = Grown(out.q, facts.growth);
    if (facts.kv_layer >= 0) return out;
    out.raw_k = by_head(qkv.narrow(1, q_size, k_size), facts.num_kv_heads);
    out.plain_k = Heads(qkv.narrow(1, q_size, k_size), facts.num_kv_heads, facts.head_dim, facts.qk_norm, w.k_norm);
    out.k = Turned(out.plain_k, facts, positions);
    if (after_rope) out.k = BehindRope(out.k, w.k_norm);
    out.v = facts.v_is_projected_k ? out.raw_k
                                   : qkv.narrow(1, q_size + k_size, v_size)
                                         .view({x.size(0), facts.num_kv_heads, facts.v_head_dim})
                                         .transpose(0, 1);
    if (config.family->unit_values) out.v = OfUnitSize(out.v, config.norm_eps);
    if (config.value_multiplier != 1) out.v = out.v * config.value_multiplier;
    if (facts.output_gate) out.gate = qkv.narrow(1, q_size + k_size + v_size, q_size);
    return out;
  }

  // DeepSeek's way: q, k and v from latents, with the turned components of k shared by all heads. The cache holds what
  // attention reads, heads and all, and no latents.
  Projected ProjectByLatents(const at::Tensor& x, size_t layer,
                             const std::vector<RotaryEmbedding::Tables>& positions) const {
    constexpr double kLatentEps = 1e-6;  // whatever the configuration says of the other norms
    const LatentWeights& w = weights.layers[layer].latent;
    const LatentRules& rules = config.latent;
    const AttentionLayer& facts = config.layers[layer];
    const int64_t rows = x.size(0), heads = facts.num_qo_heads;
    const auto norm = [&](const at::Tensor& latent, const NormWeights& weight) {
      return Normalised(config.family->norm, latent, weight, kLatentEps);
    };
    const auto by_head = [&](const at::Tensor& t) { return t.view({rows, heads, -1}).transpose(0, 1); };
    Projected out;
    if (w.q_a.weight.defined()) out.latent = norm(Apply(w.q_a, x), w.q_norm);
    out.plain_q = by_head(Apply(w.q_b, out.latent.defined() ? out.latent : x));
    const at::Tensor compressed = Apply(w.kv_a, x);
    const at::Tensor shared = compressed.narrow(1, rules.kv_rank, rules.rope_dim).unsqueeze(0);
    const at::Tensor kv = by_head(Apply(w.kv_b, norm(compressed.narrow(1, 0, rules.kv_rank), w.kv_norm)));
    out.plain_k = at::cat({kv.narrow(2, 0, rules.nope_dim), shared.expand({heads, rows, rules.rope_dim})}, 2);
    out.raw_q = out.plain_q;
    out.raw_k = out.plain_k;
    out.v = kv.narrow(2, rules.nope_dim, facts.v_head_dim);
    out.q = Turned(out.plain_q, facts, positions);
    out.k = Turned(out.plain_k, facts, positions);
    return out;
  }

  // `input`: the layer's, of which `x` is what attention reads.
  at::Tensor Attention(const at::Tensor& input, const at::Tensor& x, size_t layer,
                       const std::vector<RotaryEmbedding::Tables>& positions, HeadSink* sink) {
    const LayerWeights& w = weights.layers[layer];
    const AttentionLayer& facts = config.layers[layer];
    const int64_t rows = x.size(0);
    Projected made = config.latent.kv_rank > 0 ? ProjectByLatents(x, layer, positions) : Project(x, layer, positions);
    const at::Tensor q = Captured(made.q);
    LayerCache& kept = CacheOf(layer);
    at::Tensor k, v;
    if (facts.kv_layer < 0) {
      k = Captured(made.k);
      v = Captured(made.v);
      kept.k.narrow(1, length, rows).copy_(k);
      kept.v.narrow(1, length, rows).copy_(v);
      if (is_read[layer]) {
        kept.raw_k = made.raw_k;
        kept.plain_k = made.plain_k;
      }
    } else {
      k = kept.k.narrow(1, length, rows);
      v = kept.v.narrow(1, length, rows).to(q.device());
      made.raw_k = kept.raw_k;
      made.plain_k = kept.plain_k;
    }
    // Another layer's may lie on another device.
    const at::Tensor all_k = kept.k.narrow(1, 0, length + rows).to(q.device());
    const at::Tensor all_v = kept.v.narrow(1, 0, length + rows).to(q.device());
    const at::Tensor output = at::empty({facts.num_qo_heads, rows, facts.v_head_dim}, q.options());
    const at::Tensor lse = at::empty({facts.num_qo_heads, rows}, q.options().dtype(at::kFloat));
    const auto tensor = [](const at::Tensor& t) {
      return AttentionCall::Tensor{t.const_data_ptr(), t.stride(0), t.stride(1)};
    };
    AttentionCall call;
    call.layer = static_cast<int32_t>(layer);
    call.num_layers = config.num_layers;
    call.facts = &facts;
    call.type = types.compute;
    call.on_device = q.is_cuda();
    call.device_ordinal = q.is_cuda() ? q.get_device() : 0;
    call.of_prompt = length + rows <= prompt_end;
    if (call.of_prompt) call.prompt_tokens = prompt_end;
    call.num_rows = rows;
    call.num_tokens = length + rows;
    call.q = tensor(q);
    call.k = tensor(all_k);
    call.v = tensor(all_v);
    call.o = output.data_ptr();
    call.lse = lse.data_ptr<float>();
    const bool is_recorded = sink != nullptr && sink->Wants(static_cast<int32_t>(layer));
    call.wants_lse = is_recorded;
    call.stop = stop;
    IndexVectors index;
    at::Tensor selected;
    if (facts.selected > 0) {
      index =
          MakeIndexVectors(x, made.latent, w.index, config.index, positions[static_cast<size_t>(config.index.rope)]);
      index.q = Captured(index.q);
      index.k = Captured(index.k);
      kept.index_k.narrow(1, length, rows).copy_(index.k);
      selected = ChooseTokens(index, kept.index_k.narrow(1, 0, length + rows).squeeze(0), facts.selected, stop);
      call.selected = selected.const_data_ptr<int32_t>();
      call.num_selected = selected.size(1);
    }
    if (facts.rope >= 0) call.rope = &config.ropes[static_cast<size_t>(facts.rope)];
    at::Tensor plain_q, norms;  // until the call is over
    const AttentionExtras wanted = attention->Wants();
    if (wanted.q_pre_rope) {
      if (facts.qk_norm == QkNorm::kEachHeadAfterRope) {
        throw UsageError("the method looks at queries before RoPE, behind which " + config.model_type +
                         " has a norm of them; choose another method");
      }
      plain_q = Captured(made.plain_q).cpu();
      call.q_pre_rope = tensor(plain_q);
    }
    if (wanted.value_norms) {
      norms = ValueNorms(layer, v).cpu().contiguous();
      call.value_norms = norms.const_data_ptr<float>();
    }
    attention->Attend(call);
    StopIfAsked(stop);
    at::Tensor all = output.transpose(0, 1).reshape({rows, int64_t{facts.num_qo_heads} * facts.v_head_dim});
    if (made.gate.defined()) all = all * made.gate.sigmoid();
    if (is_recorded) Hand(static_cast<int32_t>(layer), {input, made, q, k, v, lse, index, selected, all}, sink);
    return Apply(w.output, all);
  }

  // Contiguous, in the compute type, holding numbers of the captured type.
  at::Tensor Captured(const at::Tensor& heads) const {
    return heads.to(ScalarTypeOf(types.captured)).to(ScalarTypeOf(types.compute)).contiguous();
  }

  // What there is of a layer's attention in one pass.
  struct Attended {
    const at::Tensor& input;
    const Projected& made;
    const at::Tensor &q, &k, &v, &lse;
    const IndexVectors& index;   // of a layer with an index; else undefined
    const at::Tensor& selected;  // likewise
    const at::Tensor& output;    // [rows, num_qo_heads * v_head_dim], what the output projection gets
  };

  // |W_o v| [num_qo_heads, rows] fp32: a head's part of the output projection, of its KV head's values.
  at::Tensor ValueNorms(size_t layer, const at::Tensor& v) const {
    const AttentionLayer& facts = config.layers[layer];
    const at::Tensor w = weights.layers[layer].output.weight.to(at::kFloat);
    std::vector<at::Tensor> norms;
    for (int64_t head = 0; head < facts.num_qo_heads; ++head) {
      const at::Tensor values = v.select(0, head / (facts.num_qo_heads / facts.num_kv_heads)).to(at::kFloat);
      norms.push_back(at::linear(values, w.narrow(1, head * facts.v_head_dim, facts.v_head_dim)).norm(2, -1));
    }
    return at::stack(norms);
  }

  void Hand(int32_t layer, const Attended& attended, HeadSink* sink) {
    const AttentionLayer& facts = config.layers[static_cast<size_t>(layer)];
    const LayerCache& kept = CacheOf(static_cast<size_t>(layer));
    const int64_t rows = attended.q.size(1);
    std::vector<at::Tensor> on_host;  // until the sink has taken them
    const auto host = [&](const at::Tensor& t) {
      on_host.push_back(t.cpu().contiguous());
      return on_host.back();
    };
    const auto view = [&](const at::Tensor& t) {
      const at::Tensor at = host(t);
      return LayerHeads::Heads{at.const_data_ptr(), at.stride(0), at.stride(1)};
    };
    LayerHeads heads;
    heads.layer = layer;
    heads.first_token = length;
    heads.num_tokens = rows;
    heads.type = types.compute;
    heads.captured = types.captured;
    heads.q = view(attended.q);
    heads.k = view(attended.k);
    heads.v = view(attended.v);
    heads.lse = host(attended.lse).const_data_ptr<float>();
    if (facts.selected > 0) {
      heads.selected = host(attended.selected).const_data_ptr<int32_t>();
      heads.num_selected = attended.selected.size(1);
      heads.index_q = view(attended.index.q);
      heads.index_k = view(attended.index.k);
      heads.index_weights = host(attended.index.weights).const_data_ptr<float>();
    }
    for (const CapturePointInfo& info : kCapturePoints) {
      if (!sink->WantsPoint(info.point)) continue;
      switch (info.point) {
        case CapturePoint::kPreRope:
          heads.q_pre_rope = view(Captured(attended.made.plain_q));
          heads.k_pre_rope = view(Captured(attended.made.plain_k));
          break;
        case CapturePoint::kValueNorms:
          heads.value_norms = host(ValueNorms(static_cast<size_t>(layer), attended.v)).const_data_ptr<float>();
          break;
        case CapturePoint::kHiddenNorms:
          heads.hidden_norms = host(attended.input.to(at::kFloat).norm(2, -1)).const_data_ptr<float>();
          break;
        case CapturePoint::kProjection:
          heads.q_projection = view(Captured(attended.made.raw_q));
          heads.k_projection = view(Captured(attended.made.raw_k));
          break;
        case CapturePoint::kCache:
          heads.cache_k = view(kept.k.narrow(1, length, rows));
          heads.cache_v = view(kept.v.narrow(1, length, rows));
          break;
        case CapturePoint::kResidual:
          heads.residual = view(Captured(attended.input).unsqueeze(0));
          break;
        case CapturePoint::kHeadOutputs:
          heads.head_outputs =
              view(Captured(attended.output.view({rows, facts.num_qo_heads, facts.v_head_dim}).transpose(0, 1)));
          break;
      }
    }
    sink->Take(heads);
  }

  at::Tensor Mlp(const at::Tensor& x, const LayerWeights& w) const {
    const bool has_experts = w.experts.router.weight.defined();
    if (has_experts && !config.experts.beside_mlp)
      return MixExperts(x, x, w.experts, config.experts, config.activation);
    return w.has_gate ? GatedMlp(x, w.gate_up, w.down, config.activation)
                      : Apply(w.down, Activated(config.activation, Apply(w.gate_up, x)));
  }

  // What experts beside an MLP give, from what the MLP's norm reads.
  at::Tensor Beside(const at::Tensor& x, const ExpertWeights& w) const {
    const double scale = 1 / std::sqrt(static_cast<double>(config.hidden_size));
    const at::Tensor routed = OfUnitSize(x, config.norm_eps) * w.router_scale * scale;
    return Norm(MixExperts(Norm(x, w.input_norm), routed, w, config.experts, config.activation), w.output_norm);
  }

  // x with what the layer gets of the tokens beside it.
  at::Tensor WithInput(const at::Tensor& x, const LayerInputWeights& w, const at::Tensor& input) const {
    const at::Tensor gate = Activated(config.activation, Apply(w.gate, x));
    return x + Norm(Apply(w.output, gate * input), w.output_norm);
  }

  // x with `added` on it.
  at::Tensor Plus(const at::Tensor& x, const at::Tensor& added) const {
    return config.residual_multiplier == 1 ? x + added : x + added * config.residual_multiplier;
  }

  // `input`: what the layer gets of the tokens beside x (LayerInputRules), or undefined.
  at::Tensor Layer(const at::Tensor& x, const at::Tensor& input, size_t layer,
                   const std::vector<RotaryEmbedding::Tables>& positions, HeadSink* sink) {
    StopIfAsked(stop);
    const LayerWeights& w = weights.layers[layer];
    const bool after = config.norms_after;
    const at::Tensor read = after ? x : Norm(x, w.input_norm);
    const at::Tensor attended =
        Norm(config.layers[layer].linear ? Linear(read, layer) : Attention(x, read, layer, positions, sink),
             w.attention_output_norm);
    if (config.parallel) {
      const at::Tensor mlp = Norm(Mlp(w.mlp_norm.defined() ? Norm(x, w.mlp_norm) : read, w), w.mlp_output_norm);
      return Plus(Plus(x, attended), mlp);
    }
    if (after) {
      const at::Tensor between = Norm(Plus(x, attended), w.input_norm);
      return Norm(Plus(between, Mlp(between, w)), w.mlp_norm);
    }
    const at::Tensor between = Plus(x, attended);
    at::Tensor mlp = Mlp(Norm(between, w.mlp_norm), w);
    if (config.experts.beside_mlp) mlp = Norm(mlp, w.experts.mlp_norm) + Beside(between, w.experts);
    at::Tensor out = Plus(between, Norm(mlp, w.mlp_output_norm));
    if (input.defined()) out = WithInput(out, w.layer_input, input);
    return w.factor.defined() ? out * w.factor : out;
  }

  // What stands in place of attention.
  at::Tensor Linear(const at::Tensor& x, size_t layer) {
    const LayerWeights& w = weights.layers[layer];
    if (config.linear.kind == LinearKind::kShortConvolution)
      return Apply(w.output, ShortConvolution(x, w.linear, &cache[layer].state.tail));
    const at::Tensor mixed = GatedDeltaRule(x, w.linear, config.linear, config.activation, &cache[layer].state, stop);
    const at::Tensor normal = Normalised(NormKind::kRms, mixed, w.linear.norm, config.norm_eps);
    const at::Tensor gate = DeltaGate(x, w.linear, config.linear);
    const at::Tensor gated = normal.to(at::kFloat).mul(at::silu(gate.to(at::kFloat))).to(x.scalar_type());
    return Apply(w.output, gated.flatten(1));
  }

  at::Tensor Embedded(std::span<const int32_t> tokens) const {
    at::Tensor x = at::embedding(weights.embedding, TokenTensor(tokens));
    if (weights.embedding_in.weight.defined()) x = Apply(weights.embedding_in, x);
    if (weights.position_embedding.defined()) x = x + weights.position_embedding.narrow(0, length, x.size(0));
    if (weights.token_type.defined()) x = x + weights.token_type;
    x = Norm(x, weights.embedding_norm);
    // By a number of x's own type, as transformers' modules do.
    return config.embedding_multiplier == 1 ? x : x * at::full({}, config.embedding_multiplier, x.options());
  }

  // What the layers get of the tokens beside their hidden states [rows, num_layers, size]; x: the embedded tokens.
  at::Tensor LayerInputs(std::span<const int32_t> tokens, const at::Tensor& x) const {
    const LayerInputRules& rules = config.layer_inputs;
    if (rules.size == 0) return {};
    for (const int32_t token : tokens) {
      if (token < rules.vocabulary) continue;
      throw BadInputError("token id " + std::to_string(token) + " is outside the " + std::to_string(rules.vocabulary) +
                          " tokens of vocab_size_per_layer_input; use the tokenizer of the same folder");
    }
    const std::vector<int64_t> shape = {x.size(0), config.num_layers, rules.size};
    const at::Tensor own = at::embedding(weights.layer_embedding, TokenTensor(tokens));
    const at::Tensor scale = at::full({}, std::sqrt(static_cast<double>(rules.size)), x.options());
    const at::Tensor projected =
        Apply(weights.layer_projection, x) * (1 / std::sqrt(static_cast<double>(config.hidden_size)));
    return (Norm(projected.view(shape), weights.layer_projection_norm) + (own * scale).view(shape)) *
           (1 / std::numbers::sqrt2);
  }

  // Logits [rows, vocabulary_size], fp32 on the host; of a model without a head the hidden states.
  at::Tensor Logits(const at::Tensor& x) const {
    at::Tensor last = Norm(x, weights.final_norm);
    if (weights.embedding_out.weight.defined()) last = Apply(weights.embedding_out, last);
    if (!config.has_head) return last.to(at::kCPU, at::kFloat).contiguous();
    at::Tensor logits = at::linear(last, weights.head).to(at::kCPU, at::kFloat);
    if (config.logit_multiplier != 1) logits = logits * config.logit_multiplier;
    if (config.logit_soft_cap != 0) logits = (logits / config.logit_soft_cap).tanh_() * config.logit_soft_cap;
    return logits.contiguous();
  }

  ModelConfig config;
  std::vector<Place> places;           // that of the first layer first
  std::vector<size_t> place_of_layer;  // of each layer
  CheckpointSummary checkpoint_summary;
  const int64_t chunk_tokens;
  NumberTypes types;
  ModelWeights weights;
  std::vector<LayerCache> cache;
  DenseAttention dense;
  AttentionBackend* attention = &dense;
  std::vector<int32_t> fed;   // of a model with layers without attention: all tokens so far
  bool stale = false;         // and its state is not what they made: they are fed anew before the next pass
  std::vector<bool> is_read;  // [layers], whether another layer reads its keys
  int64_t capacity = 0;       // tokens
  int64_t length = 0;         // tokens fed
  std::stop_token stop;       // of the pass that runs
  int64_t prompt_end = 0;     // position after the prompt that is being fed in chunks
};

class TorchTransformer final : public Transformer {
 public:
  TorchTransformer(const std::string& model_dir, const SessionOptions& options, const ProgressFunction& progress,
                   const std::stop_token& stop)
      : decoder_(model_dir, options, progress, stop) {}

  std::vector<float> Forward(std::span<const int32_t> tokens, LogitsOf logits, HeadSink* sink,
                             const std::stop_token& stop) override;
  void BeginPrompt(int64_t end_position) override { decoder_.prompt_end = end_position; }
  void Reserve(int64_t num_tokens) override;
  void Rewind(int64_t num_tokens) override;
  void UseAttention(AttentionBackend* backend) override {
    decoder_.attention = backend != nullptr ? backend : &decoder_.dense;
    decoder_.attention->Rewind(0);  // what it knows is of another sequence
  }
  int64_t num_tokens() const override { return decoder_.length; }
  const ModelConfig& config() const override { return decoder_.config; }
  const CheckpointSummary& summary() const override { return decoder_.checkpoint_summary; }
  ElementType captured_type() const override { return decoder_.types.captured; }

 private:
  bool IsRecurrent() const { return decoder_.config.linear.kernel > 0; }
  void Refeed(const std::stop_token& stop);

  Decoder decoder_;
};

std::vector<float> TorchTransformer::Forward(std::span<const int32_t> tokens, LogitsOf logits, HeadSink* sink,
                                             const std::stop_token& stop) {
  Decoder& m = decoder_;
  if (m.stale) Refeed(stop);
  m.stop = stop;
  if (tokens.empty()) throw std::invalid_argument("a forward pass needs at least one token");
  const auto rows = static_cast<int64_t>(tokens.size());
  if (m.length + rows > m.config.max_positions) {
    throw UsageError("the prompt needs " + std::to_string(m.length + rows) + " positions and the model has " +
                     PositionsText(m.config) + "; use a shorter prompt or fewer decode tokens");
  }
  if (m.length > 0 && !m.config.family->causal)
    throw UsageError("an encoder reads a text in one pass; feed the whole text at once");
  const c10::InferenceMode no_gradients;
  try {
    m.Grow(m.length + rows);
    std::vector<std::vector<RotaryEmbedding::Tables>> positions(m.places.size());
    for (size_t place = 0; place < m.places.size(); ++place) {
      for (RotaryEmbedding& rotary : m.places[place].rotary)
        positions[place].push_back(rotary.At(m.length, rows, std::max(m.length + rows, m.prompt_end)));
    }
    at::Tensor x = m.Embedded(tokens);
    const at::Tensor inputs = m.LayerInputs(tokens, x);
    for (size_t layer = 0; layer < m.weights.layers.size(); ++layer) {
      const size_t place = m.place_of_layer[layer];
      const at::Device& device = m.places[place].device;
      const at::Tensor input = inputs.defined() ? inputs.select(1, static_cast<int64_t>(layer)).to(device) : inputs;
      x = m.Layer(x.to(device), input, layer, positions[place], sink);
    }
    for (LayerCache& layer : m.cache) layer.raw_k = layer.plain_k = at::Tensor();
    x = x.to(m.FirstDevice());
    std::vector<float> result;
    if (logits != LogitsOf::kNone) {
      const at::Tensor scores = m.Logits(logits == LogitsOf::kLastToken ? x.narrow(0, rows - 1, 1) : x);
      const auto* first = scores.const_data_ptr<float>();
      result.assign(first, first + scores.numel());
    }
    if (IsRecurrent()) m.fed.insert(m.fed.end(), tokens.begin(), tokens.end());
    m.length += rows;
    return result;
  } catch (...) {
    // What ends in its middle does not count; but a recurrence has taken its tokens in, down to some layer.
    m.stale = IsRecurrent();
    m.attention->Abandon(m.length);
    RethrowTorchError("a forward pass at position " + std::to_string(m.length));
  }
}

void TorchTransformer::Reserve(int64_t num_tokens) {
  const c10::InferenceMode no_gradients;
  try {
    decoder_.Grow(std::min(num_tokens, decoder_.config.max_positions));
  } catch (...) {
    RethrowTorchError("reserving memory for " + std::to_string(num_tokens) + " tokens");
  }
}

void TorchTransformer::Rewind(int64_t num_tokens) {
  Decoder& m = decoder_;
  if (num_tokens < 0 || num_tokens > m.length) throw std::invalid_argument("only tokens that were fed can be dropped");
  m.prompt_end = 0;
  if (IsRecurrent() && num_tokens < m.length) {
    m.fed.resize(static_cast<size_t>(num_tokens));
    m.stale = true;
  }
  m.length = num_tokens;
  m.attention->Rewind(num_tokens);
}

// A recurrence remembers all of its tokens at once: those that stay are fed anew, in chunks as a prompt is. Where that
// ends early, they stay to be fed by the next call.
void TorchTransformer::Refeed(const std::stop_token& stop) {
  Decoder& m = decoder_;
  std::vector<int32_t> kept = std::move(m.fed);
  const int64_t announced = m.prompt_end;
  const auto num_tokens = static_cast<int64_t>(kept.size());
  m.stale = false;
  m.fed.clear();
  m.length = 0;
  m.prompt_end = num_tokens;
  try {
    for (LayerCache& layer : m.cache) layer.state = {};
    m.attention->Rewind(0);
    for (int64_t done = 0; done < num_tokens;) {
      const int64_t count = std::min(m.chunk_tokens, num_tokens - done);
      Forward(std::span(kept).subspan(static_cast<size_t>(done), static_cast<size_t>(count)), LogitsOf::kNone, nullptr,
              stop);
      done += count;
    }
  } catch (...) {
    m.fed = std::move(kept);
    m.length = num_tokens;
    m.prompt_end = announced;
    m.stale = true;
    throw;
  }
  m.prompt_end = announced;
}

}  // namespace

std::unique_ptr<Transformer> on_torch::OpenTransformer(const std::string& model_dir, const SessionOptions& options,
                                                       const ProgressFunction& progress, const std::stop_token& stop) {
  const c10::InferenceMode no_gradients;
  try {
    return std::make_unique<TorchTransformer>(model_dir, options, progress, stop);
  } catch (...) {
    RethrowTorchError("loading " + model_dir);
  }
}

ElementType on_torch::CapturedType(const std::string& model_dir, const SessionOptions& options) {
  const std::string stored = Checkpoint(model_dir).MainDType();
  return ChooseNumberTypes(options.dtype, stored, OpenDevice(options.device)).captured;
}

}  // namespace headscope::model
