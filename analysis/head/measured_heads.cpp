// SPDX-License-Identifier: Apache-2.0
#include "analysis/measured_heads.h"

#include <algorithm>
#include <utility>

#include "base/host_memory.h"
#include "head/frame_problem.h"
#include "head/head_checks.h"
#include "head/read_tensors.h"

namespace headscope::analysis {
namespace {

struct LayerTensors {
  std::vector<float> q, k, v, lse, q_pre_rope, value_norms;
};

std::vector<float> Slice(std::span<const float> values, int64_t index, int64_t size) {
  const auto part = values.subspan(static_cast<size_t>(index * size), static_cast<size_t>(size));
  return {part.begin(), part.end()};
}

std::string Gigabytes(int64_t bytes) {
  const int64_t tenths = (bytes + 50'000'000) / 100'000'000;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " GB";
}

// Grows [*first, *first + *count) to both sides of its own numbers as long as `admits` takes the next.
template <typename Admits>
void GrowBothWays(int32_t lowest, int32_t end, const Admits& admits, int32_t* first, int32_t* count) {
  for (bool grown = true; grown;) {
    grown = false;
    if (*first > lowest && admits(*first - 1)) {
      --*first;
      ++*count;
      grown = true;
    }
    if (*first + *count < end && admits(*first + *count)) {
      ++*count;
      grown = true;
    }
  }
}

}  // namespace

kernels::AttentionProblem MeasuredHeads::Problem() const {
  kernels::AttentionProblem problem = FrameProblem(*this);
  problem.num_qo_heads = num_qo_heads;
  problem.num_kv_heads = num_kv_heads;
  problem.layer = layer;
  problem.first_qo_head = first_qo_head;
  problem.first_kv_head = first_kv_head;
  if (!sinks.empty()) problem.sinks = sinks.data();
  kernels::SetContiguousTensors(q.data(), k.data(), v.data(), &problem);
  return problem;
}

HeadTensorsPtr MeasuredHeads::Head(HeadId id, const Device& device) const {
  for (const HeadTensorsPtr& head : known) {
    if (head->id == id && (!device.is_gpu() || (head->gpu != nullptr && head->gpu_device.device == device)))
      return head;
  }
  const int64_t index = id.head - first_qo_head, kv_index = index / GroupSize();
  auto head = std::make_shared<HeadTensors>();
  static_cast<HeadFrame&>(*head) = *this;
  head->id = id;
  head->kv_head = first_kv_head + static_cast<int32_t>(kv_index);
  head->q = Slice(q, index, num_rows * head_dim);
  head->k = Slice(k, kv_index, num_tokens * head_dim);
  head->v = Slice(v, kv_index, num_tokens * ValueDim());
  if (!sinks.empty()) head->sink = sinks[static_cast<size_t>(index)];
  head->lse = Slice(lse, index, num_rows);
  if (!q_pre_rope.empty()) head->q_pre_rope = Slice(q_pre_rope, index, num_rows * head_dim);
  if (!value_norms.empty()) head->value_norms = Slice(value_norms, index, num_tokens);
  head->l1_value_norms = l1_value_norms;
  PutOn(device, head.get());
  return head;
}

MeasuredScope MeasuredHeads::Scope() const {
  return {.measure = heads_of_layer == 0 ? Measure::kHead : Measure::kLayer,
          .num_qo_heads = num_qo_heads,
          .num_kv_heads = num_kv_heads,
          .heads_of_layer = heads_of_layer};
}

std::string MeasuredHeads::Name() const {
  return ScopeText({layer, first_qo_head}, Scope());
}

MeasuredHeadsPtr AloneHead(HeadTensorsPtr head) {
  auto alone = std::make_shared<MeasuredHeads>();
  static_cast<HeadFrame&>(*alone) = *head;
  alone->layer = head->id.layer;
  alone->first_qo_head = head->id.head;
  alone->first_kv_head = head->kv_head;
  alone->num_qo_heads = alone->num_kv_heads = 1;
  alone->q = head->q;
  alone->k = head->k;
  alone->v = head->v;
  alone->lse = head->lse;
  alone->q_pre_rope = head->q_pre_rope;
  alone->value_norms = head->value_norms;
  alone->l1_value_norms = head->l1_value_norms;
  if (head->sink) alone->sinks = {*head->sink};
  alone->known = {std::move(head)};
  return alone;
}

int64_t MeasuredBytes(const data::TraceReader& trace, int32_t layer, int32_t num_qo_heads, int32_t num_kv_heads) {
  const data::LayerFacts& facts = trace.layer(trace.LayerSlot(layer));
  const int64_t q_dim = facts.head_dim, v_dim = facts.v_head_dim;
  return int64_t{sizeof(float)} *
         (num_qo_heads * trace.num_rows() * (q_dim + 3 * v_dim) + num_kv_heads * trace.num_tokens() * (q_dim + v_dim));
}

LayerPart PartOfLayer(const data::TraceReader& trace, HeadId head, int64_t most_bytes) {
  const HeadSlots slots = FindHead(trace, head);
  const data::LayerFacts& model = trace.layer(slots.layer);
  const int32_t group = model.GroupSize();
  const auto is_recorded = [&](int32_t qo_head) { return trace.QoHeadSlot(slots.layer, qo_head) >= 0; };
  const auto is_whole = [&](int32_t kv_head) {
    if (trace.KvHeadSlot(slots.layer, kv_head) < 0) return false;
    for (int32_t i = 0; i < group; ++i) {
      if (!is_recorded(kv_head * group + i)) return false;
    }
    return true;
  };
  LayerPart part;
  part.first_kv_head = slots.kv_number;
  part.num_kv_heads = 1;
  if (!is_whole(slots.kv_number)) {
    part.first_qo_head = head.head;
    part.num_qo_heads = 1;
    const int32_t first = slots.kv_number * group;
    GrowBothWays(first, first + group, is_recorded, &part.first_qo_head, &part.num_qo_heads);
    part.why_fewer = "the trace does not hold every query head of KV head " + std::to_string(slots.kv_number);
    return part;
  }
  GrowBothWays(0, model.num_kv_heads, is_whole, &part.first_kv_head, &part.num_kv_heads);
  if (part.num_kv_heads < model.num_kv_heads) part.why_fewer = "the trace does not hold the others";
  const int64_t wanted = MeasuredBytes(trace, head.layer, part.num_kv_heads * group, part.num_kv_heads);
  if (wanted > most_bytes) {
    const auto fits = [&](int32_t kv_heads) {
      return MeasuredBytes(trace, head.layer, kv_heads * group, kv_heads) <= most_bytes;
    };
    int32_t count = part.num_kv_heads;
    while (count > 1 && !fits(count)) --count;
    part.why_fewer = std::to_string(part.num_kv_heads * group) + " would take " + Gigabytes(wanted) +
                     " of memory, and half of what is free is " + Gigabytes(most_bytes);
    // Round the head's own group, as far as there are groups on both sides.
    const int32_t last_first = part.first_kv_head + part.num_kv_heads - count;
    part.first_kv_head = std::clamp(slots.kv_number - count / 2, part.first_kv_head, last_first);
    part.num_kv_heads = count;
  }
  part.first_qo_head = part.first_kv_head * group;
  part.num_qo_heads = part.num_kv_heads * group;
  return part;
}

int64_t MostMeasuredBytes() {
  return FreeHostBytes() / 2;
}

MeasuredHeadsPtr LoadLayer(const data::TraceReader& trace, HeadId id, int64_t most_bytes) {
  RequireCausal(trace, FindHead(trace, id).layer);
  const LayerPart part = PartOfLayer(trace, id, most_bytes);
  auto layer = std::make_shared<MeasuredHeads>();
  HeadTensors head;
  static_cast<HeadFrame&>(head) = ReadFrame(trace, FindHead(trace, id).layer);
  static_cast<HeadFrame&>(*layer) = head;
  layer->layer = id.layer;
  layer->first_qo_head = part.first_qo_head;
  layer->num_qo_heads = part.num_qo_heads;
  layer->first_kv_head = part.first_kv_head;
  layer->num_kv_heads = part.num_kv_heads;
  layer->heads_of_layer = trace.layer(trace.LayerSlot(id.layer)).num_qo_heads;
  layer->why_fewer = part.why_fewer;
  auto tensors = std::make_shared<LayerTensors>();
  tensors->q.reserve(static_cast<size_t>(part.num_qo_heads * head.num_rows * head.head_dim));
  tensors->k.reserve(static_cast<size_t>(part.num_kv_heads * head.num_tokens * head.head_dim));
  tensors->v.reserve(static_cast<size_t>(part.num_kv_heads * head.num_tokens * head.ValueDim()));
  for (int32_t i = 0; i < part.num_qo_heads; ++i) {
    head.id = {id.layer, part.first_qo_head + i};
    const HeadSlots slots = FindHead(trace, head.id);
    head.q = ReadQueries(trace, slots, head, head.id);
    if (i % layer->GroupSize() == 0) {
      head.k = ReadKeys(trace, slots, head, head.id);
      head.v = ReadValues(trace, slots, head, head.id);
      tensors->k.insert(tensors->k.end(), head.k.begin(), head.k.end());
      tensors->v.insert(tensors->v.end(), head.v.begin(), head.v.end());
    }
    if (const std::optional<float> sink = SinkOf(trace, head.id)) layer->sinks.push_back(*sink);
    ReadLogSumExp(trace, slots, &head);
    tensors->q.insert(tensors->q.end(), head.q.begin(), head.q.end());
    tensors->lse.insert(tensors->lse.end(), head.lse.begin(), head.lse.end());
    // A method that rotates them itself would miss a norm behind RoPE.
    const data::NormPlace norm = trace.layer(slots.layer).norm;
    const bool turned_last = norm != data::NormPlace::kHeadAfterRope && norm != data::NormPlace::kLayerAfterRope;
    const std::vector<float> plain =
        turned_last ? ReadQueriesPreRope(trace, slots, head, head.id) : std::vector<float>{};
    tensors->q_pre_rope.insert(tensors->q_pre_rope.end(), plain.begin(), plain.end());
    const std::vector<float> norms = ReadValueNorms(trace, slots, head, head.id);
    tensors->value_norms.insert(tensors->value_norms.end(), norms.begin(), norms.end());
  }
  layer->q = tensors->q;
  layer->k = tensors->k;
  layer->v = tensors->v;
  layer->lse = tensors->lse;
  layer->q_pre_rope = tensors->q_pre_rope;
  layer->value_norms = tensors->value_norms;
  layer->l1_value_norms = HasL1ValueNorms(trace, trace.LayerSlot(layer->layer));
  layer->owner = std::move(tensors);
  return layer;
}

MeasuredHeadsPtr WithLowerLayers(const data::TraceReader& trace, const MeasuredHeadsPtr& heads,
                                 const std::vector<int32_t>& layers) {
  if (layers.empty()) return heads;
  auto with = std::make_shared<MeasuredHeads>(*heads);
  const auto kv_heads_of_model = [&](int32_t slot) {
    return trace.layout().facts[static_cast<size_t>(slot)].num_kv_heads;
  };
  for (const int32_t layer : layers) {
    // The middle one: where not all fit, as many are read to both sides of it.
    const HeadId id{layer, heads->first_qo_head + heads->num_kv_heads / 2 * heads->GroupSize()};
    const int32_t slot = trace.LayerSlot(layer);
    if (slot < 0) continue;
    if (kv_heads_of_model(slot) != kv_heads_of_model(trace.LayerSlot(heads->layer))) {
      auto unlike = std::make_shared<MeasuredHeads>();
      unlike->layer = layer;
      with->lower.push_back(std::move(unlike));
      continue;
    }
    if (trace.QoHeadSlot(slot, id.head) < 0) continue;
    const int64_t bytes = MeasuredBytes(trace, layer, heads->num_qo_heads, heads->num_kv_heads);
    MeasuredHeadsPtr lower = heads->heads_of_layer == 0 ? AloneHead(LoadHead(trace, id)) : LoadLayer(trace, id, bytes);
    // Less of it may be recorded.
    if (lower->first_kv_head == heads->first_kv_head && lower->num_kv_heads == heads->num_kv_heads)
      with->lower.push_back(std::move(lower));
  }
  return with->lower.empty() ? heads : with;
}

}  // namespace headscope::analysis
