// SPDX-License-Identifier: Apache-2.0
// A layer's attention: what is projected, what the backend gets, what a sink is handed.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/stop.h"
#include "families/family.h"
#include "network/decoder.h"
#include "network/norms.h"
#include "network/pinned_copy.h"

namespace headscope::model {

at::Tensor Decoder::Heads(const at::Tensor& rows, int64_t heads, int64_t dim, QkNorm place,
                          const NormWeights& norm) const {
  const at::Tensor x = place == QkNorm::kAllHeads ? Norm(rows, norm) : rows;
  const at::Tensor by_head = x.view({x.size(0), heads, dim}).transpose(0, 1);
  return place == QkNorm::kEachHead ? Norm(by_head, norm) : by_head;
}

at::Tensor Decoder::Grown(const at::Tensor& heads, const QueryGrowth& growth) const {
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

at::Tensor Decoder::BehindRope(const at::Tensor& heads, const NormWeights& norm) const {
  return config.family->head_norms_without_weight ? RmsNormWithoutWeight(heads, config.norm_eps) : Norm(heads, norm);
}

at::Tensor Decoder::Turned(const at::Tensor& heads, const AttentionLayer& facts,
                           const std::vector<RotaryEmbedding::Tables>& positions) const {
  return facts.rope < 0 ? heads : RotaryEmbedding::Rotate(heads, positions[static_cast<size_t>(facts.rope)]);
}

Projected Decoder::Project(const at::Tensor& x, size_t layer,
                           const std::vector<RotaryEmbedding::Tables>& positions) const {
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
  if (config.family->norms_values) out.v = RmsNormWithoutWeight(out.v, config.norm_eps);
  if (config.value_multiplier != 1) out.v = out.v * config.value_multiplier;
  if (facts.output_gate) out.gate = qkv.narrow(1, q_size + k_size + v_size, q_size);
  return out;
}

Projected Decoder::ProjectByLatents(const at::Tensor& x, size_t layer,
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

at::Tensor Decoder::Attention(const at::Tensor& input, const at::Tensor& x, size_t layer,
                              const std::vector<RotaryEmbedding::Tables>& positions, HeadSink* sink) {
  const LayerWeights& w = weights.layers[layer];
  const AttentionLayer& facts = config.layers[layer];
  const int64_t rows = x.size(0);
  Projected made = config.latent.kv_rank > 0 ? ProjectByLatents(x, layer, positions) : Project(x, layer, positions);
  const at::Tensor q = Captured(made.q);
  LayerCache& source = cache[SourceOf(layer)];
  const KeysAndValues& kept = KeysOf(layer);
  at::Tensor k, v;
  if (facts.kv_layer < 0) {
    k = Captured(made.k);
    v = Captured(made.v);
    for (auto& [place, there] : source.of_place) {
      there.k.narrow(1, length, rows).copy_(k);
      there.v.narrow(1, length, rows).copy_(v);
    }
    if (is_read[layer]) {
      source.raw_k = made.raw_k;
      source.plain_k = made.plain_k;
    }
  } else {
    k = kept.k.narrow(1, length, rows);
    v = kept.v.narrow(1, length, rows);
    made.raw_k = source.raw_k;
    made.plain_k = source.plain_k;
  }
  const at::Tensor all_k = kept.k.narrow(1, 0, length + rows);
  const at::Tensor all_v = kept.v.narrow(1, 0, length + rows);
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
    index = MakeIndexVectors(x, made.latent, w.index, config.index, positions[static_cast<size_t>(config.index.rope)]);
    index.q = Captured(index.q);
    index.k = Captured(index.k);
    at::Tensor& index_k = cache[layer].index_k;
    index_k.narrow(1, length, rows).copy_(index.k);
    selected = ChooseTokens(index, index_k.narrow(1, 0, length + rows).squeeze(0), facts.selected, stop);
    call.selected = selected.const_data_ptr<int32_t>();
    call.num_selected = selected.size(1);
  }
  if (facts.rope >= 0) call.rope = &config.ropes[static_cast<size_t>(facts.rope)];
  at::Tensor plain_q, norms;  // until the call is over
  const AttentionExtras wanted = attention->Wants();
  if (wanted.q_pre_rope) {
    if (facts.qk_norm == QkNorm::kEachHeadAfterRope) {
      throw UsageError({.problem = "the method looks at queries before RoPE, behind which " + config.model_type +
                                   " has a norm of them",
                        .remedy = "choose another method"});
    }
    plain_q = Captured(made.plain_q).cpu();
    call.q_pre_rope = tensor(plain_q);
  }
  if (wanted.value_norms) {
    norms = ValueNorms(layer, v, 1).cpu().contiguous();
    call.value_norms = norms.const_data_ptr<float>();
  }
  attention->Attend(call);
  StopIfAsked(stop);
  at::Tensor all = output.transpose(0, 1).reshape({rows, int64_t{facts.num_qo_heads} * facts.v_head_dim});
  if (made.gate.defined()) all = all * made.gate.sigmoid();
  if (is_recorded) Hand(static_cast<int32_t>(layer), {input, made, q, k, v, lse, index, selected, all}, sink);
  return Apply(w.output, all);
}

at::Tensor Decoder::Captured(const at::Tensor& heads) const {
  return heads.to(ScalarTypeOf(types.captured)).to(ScalarTypeOf(types.compute)).contiguous();
}

at::Tensor Decoder::ValueNorms(size_t layer, const at::Tensor& v, int order) const {
  const AttentionLayer& facts = config.layers[layer];
  const at::Tensor w = weights.layers[layer].output.weight.to(at::kFloat);
  std::vector<at::Tensor> norms;
  for (int64_t head = 0; head < facts.num_qo_heads; ++head) {
    const at::Tensor values = v.select(0, head / (facts.num_qo_heads / facts.num_kv_heads)).to(at::kFloat);
    norms.push_back(at::linear(values, w.narrow(1, head * facts.v_head_dim, facts.v_head_dim)).norm(order, -1));
  }
  return at::stack(norms);
}

namespace {

// Rows of a pass whose copies take longer to ask for than to make.
constexpr int64_t kShortPass = 16;
// Bytes of such a pass that wait for its end: a part of what may wait in front of a writer.
constexpr int64_t kMostOfPass = int64_t{8} << 20;

// Whether a sink wants q, k, v and what goes with them of every layer, and no other points: those may be a layer's own
// hidden states, which change before the pass ends.
bool TakesHeadsAlone(const HeadSink& sink) {
  return std::ranges::none_of(kCapturePoints,
                              [&](const CapturePointInfo& info) { return sink.WantsPoint(info.point); });
}

}  // namespace

void Decoder::Hand(int32_t layer, const Attended& attended, HeadSink* sink) {
  const AttentionLayer& facts = config.layers[static_cast<size_t>(layer)];
  const KeysAndValues& kept = KeysOf(static_cast<size_t>(layer));
  const int64_t rows = attended.q.size(1);
  // Either until the sink has taken them, or as long as it likes.
  std::vector<at::Tensor> on_host;
  std::shared_ptr<PinnedCopy> copy;
  std::shared_ptr<PassCopies> of_pass;
  if (attended.q.is_cuda() && sink->TakesCopies()) {
    if (rows <= kShortPass && places.size() == 1 && TakesHeadsAlone(*sink)) {
      if (pass_copies == nullptr)
        pass_copies = std::make_shared<PassCopies>(CopyStream(attended.q.device()), pass_copy_bytes);
      of_pass = pass_copies;
    } else {
      copy = std::make_shared<PinnedCopy>(CopyStream(attended.q.device()));
    }
  }
  const int64_t bytes_before = of_pass != nullptr ? of_pass->bytes() : 0;
  const auto host = [&](const at::Tensor& t) -> const void* {
    if (of_pass != nullptr) return of_pass->Of(t);
    if (copy != nullptr) return copy->Of(t).const_data_ptr();
    on_host.push_back(t.cpu().contiguous());
    return on_host.back().const_data_ptr();
  };
  const auto view = [&](const at::Tensor& t) {  // [heads, rows, components]
    const void* const at = host(t);
    return LayerHeads::Heads{at, t.size(1) * t.size(2), t.size(2)};
  };
  const auto floats = [&](const at::Tensor& t) { return static_cast<const float*>(host(t)); };
  LayerHeads heads;
  heads.layer = layer;
  heads.first_token = length;
  heads.num_tokens = rows;
  heads.type = types.compute;
  heads.captured = types.captured;
  heads.q = view(attended.q);
  heads.k = view(attended.k);
  heads.v = view(attended.v);
  heads.lse = floats(attended.lse);
  if (facts.selected > 0) {
    heads.selected = static_cast<const int32_t*>(host(attended.selected));
    heads.num_selected = attended.selected.size(1);
    heads.index_q = view(attended.index.q);
    heads.index_k = view(attended.index.k);
    heads.index_weights = floats(attended.index.weights);
  }
  for (const CapturePointInfo& info : kCapturePoints) {
    if (!sink->WantsPoint(info.point)) continue;
    switch (info.point) {
      case CapturePoint::kPreRope:
        heads.q_pre_rope = view(Captured(attended.made.plain_q));
        heads.k_pre_rope = view(Captured(attended.made.plain_k));
        break;
      case CapturePoint::kValueNorms:
        heads.value_norms = floats(ValueNorms(static_cast<size_t>(layer), attended.v, 2));
        break;
      case CapturePoint::kValueNormsL1:
        heads.value_norms_l1 = floats(ValueNorms(static_cast<size_t>(layer), attended.v, 1));
        break;
      case CapturePoint::kHiddenNorms:
        heads.hidden_norms = floats(attended.input.to(at::kFloat).norm(2, -1));
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
  if (copy != nullptr) {
    copy->Begin();
    heads.copy = std::move(copy);
  }
  if (of_pass != nullptr) heads.copy = std::make_shared<PartOfPass>(of_pass, of_pass->bytes() - bytes_before);
  // The sink may wait for room that a copy which has not begun would never make.
  if (of_pass != nullptr && of_pass->bytes() > kMostOfPass) BeginPassCopies();
  sink->Take(heads);
}

void Decoder::BeginPassCopies() {
  const std::shared_ptr<PassCopies> copies = std::exchange(pass_copies, nullptr);
  if (copies == nullptr) return;
  pass_copy_bytes = copies->bytes();
  copies->Begin();
}

c10::Stream Decoder::CopyStream(c10::Device gpu) {
  const auto known = copy_streams.find(gpu.index());
  if (known != copy_streams.end()) return known->second;
  return copy_streams.emplace(gpu.index(), StreamOfCopies(gpu)).first->second;
}

}  // namespace headscope::model
