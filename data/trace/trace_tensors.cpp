// SPDX-License-Identifier: Apache-2.0
#include "trace/trace_tensors.h"

#include <algorithm>

namespace headscope::data {

using Heads = TensorSpec::Heads;
using Width = TensorSpec::Width;
using Type = TensorSpec::Type;

namespace {

constexpr std::array<TensorSpec, kNumTraceTensors> kSpecs = {{
    {TraceTensor::kQ, "q", "qo_head", "1", Heads::kQo, true, Width::kHeadDim, Type::kEncoding},
    {TraceTensor::kK, "k", "kv_head", "1", Heads::kKv, false, Width::kHeadDim, Type::kEncoding},
    {TraceTensor::kV, "v", "kv_head", "1", Heads::kKv, false, Width::kValueDim, Type::kEncoding},
    {TraceTensor::kLse, "lse", "qo_head", "nat", Heads::kQo, true, Width::kScalar, Type::kFloat32},
    {TraceTensor::kQPreRope, "q_pre_rope", "qo_head", "1", Heads::kQo, true, Width::kHeadDim, Type::kEncoding},
    {TraceTensor::kKPreRope, "k_pre_rope", "kv_head", "1", Heads::kKv, false, Width::kHeadDim, Type::kEncoding},
    {TraceTensor::kValueNorms, "value_norms", "qo_head", "1", Heads::kQo, false, Width::kScalar, Type::kFloat32},
    {TraceTensor::kHiddenNorms, "hidden_norms", "hidden", "1", Heads::kOne, false, Width::kScalar, Type::kFloat32},
    {TraceTensor::kSelection, "selection", "set", "block", Heads::kSets, true, Width::kIds, Type::kInt32},
    {TraceTensor::kIndexQ, "index_q", "index_head", "1", Heads::kIndex, true, Width::kIndexDim, Type::kEncoding},
    {TraceTensor::kIndexK, "index_k", "index_kv_head", "1", Heads::kIndexKv, false, Width::kIndexDim, Type::kEncoding},
    {TraceTensor::kIndexWeights, "index_weights", "index_head", "1", Heads::kIndex, true, Width::kScalar,
     Type::kFloat32},
    {TraceTensor::kQProjection, "q_projection", "qo_head", "1", Heads::kQo, true, Width::kHeadDim, Type::kEncoding},
    {TraceTensor::kKProjection, "k_projection", "kv_head", "1", Heads::kKv, false, Width::kHeadDim, Type::kEncoding},
    {TraceTensor::kCacheK, "cache_k", "kv_head", "1", Heads::kKv, false, Width::kHeadDim, Type::kEncoding},
    {TraceTensor::kCacheV, "cache_v", "kv_head", "1", Heads::kKv, false, Width::kValueDim, Type::kEncoding},
    {TraceTensor::kResidual, "residual", "hidden", "1", Heads::kOne, false, Width::kHidden, Type::kEncoding},
    {TraceTensor::kHeadOutput, "head_output", "qo_head", "1", Heads::kQo, true, Width::kValueDim, Type::kEncoding},
    {TraceTensor::kValueNormsL1, "value_norms_l1", "qo_head", "1", Heads::kQo, false, Width::kScalar, Type::kFloat32},
}};

// A tensor that is missing or out of order does not compile.
consteval bool HasEveryTensorInOrder() {
  for (size_t i = 0; i < kSpecs.size(); ++i) {
    if (kSpecs[i].name == nullptr || kSpecs[i].tensor != static_cast<TraceTensor>(i)) return false;
  }
  return true;
}
static_assert(HasEveryTensorInOrder());

}  // namespace

const std::array<TensorSpec, kNumTraceTensors> kTensorSpecs = kSpecs;

int64_t NumHeads(const TensorSpec& spec, const LayerFacts& facts) {
  switch (spec.heads) {
    case Heads::kQo:
      return static_cast<int64_t>(facts.qo_heads.size());
    case Heads::kKv:
      return static_cast<int64_t>(facts.kv_heads.size());
    case Heads::kSets:
      return facts.selection.sets;
    case Heads::kIndex:
      return facts.selection.index_heads;
    case Heads::kIndexKv:
      return facts.selection.index_kv_heads;
    case Heads::kOne:
      break;
  }
  return 1;
}

int64_t NumComponents(const TensorSpec& spec, const LayerFacts& facts) {
  switch (spec.width) {
    case Width::kHeadDim:
      return facts.head_dim;
    case Width::kValueDim:
      return facts.v_head_dim;
    case Width::kIds:
      return facts.selection.ids;
    case Width::kIndexDim:
      return facts.selection.index_dim;
    case Width::kHidden:
      return facts.hidden_size;
    case Width::kScalar:
      break;
  }
  return 1;
}

int64_t ComponentBytes(const TensorSpec& spec, ElementType encoding) {
  return spec.type == Type::kEncoding ? SizeOf(encoding) : 4;
}

size_t KeySource(const TraceLayout& layout, size_t slot) {
  const LayerFacts& facts = layout.facts[slot];
  const auto found = std::lower_bound(layout.layers.begin(), layout.layers.end(), facts.kv_layer);
  if (facts.kv_layer < 0 || found == layout.layers.end() || *found != facts.kv_layer) return slot;
  const auto source = static_cast<size_t>(found - layout.layers.begin());
  const LayerFacts& other = layout.facts[source];
  const bool same = other.kv_heads == facts.kv_heads && other.head_dim == facts.head_dim &&
                    other.v_head_dim == facts.v_head_dim && other.v_is_k == facts.v_is_k && other.kv_layer < 0;
  return same ? source : slot;
}

bool StoresKeys(const TraceLayout& layout, size_t slot) {
  return KeySource(layout, slot) == slot;
}

bool Stores(const TraceLayout& layout, size_t slot, TraceTensor tensor) {
  const LayerFacts& facts = layout.facts[slot];
  switch (tensor) {
    case TraceTensor::kQ:
    case TraceTensor::kLse:
      return true;
    case TraceTensor::kK:
      return StoresKeys(layout, slot);
    case TraceTensor::kV:
      return !facts.v_is_k && StoresKeys(layout, slot);
    case TraceTensor::kQPreRope:
    case TraceTensor::kKPreRope:
      return facts.has_pre_rope;
    case TraceTensor::kValueNorms:
      return facts.has_value_norms;
    case TraceTensor::kHiddenNorms:
      return facts.has_hidden_norms;
    case TraceTensor::kSelection:
      return facts.selection.sets > 0;
    case TraceTensor::kIndexQ:
    case TraceTensor::kIndexK:
    case TraceTensor::kIndexWeights:
      return facts.selection.index_heads > 0;
    case TraceTensor::kQProjection:
    case TraceTensor::kKProjection:
      return facts.has_projection;
    case TraceTensor::kCacheK:
    case TraceTensor::kCacheV:
      return facts.has_cache;
    case TraceTensor::kResidual:
      return facts.has_residual;
    case TraceTensor::kHeadOutput:
      return facts.has_head_outputs;
    case TraceTensor::kValueNormsL1:
      return facts.has_value_norms_l1;
  }
  return false;
}

bool SameShape(const TraceLayout& layout, size_t a, size_t b) {
  const LayerFacts &one = layout.facts[a], &other = layout.facts[b];
  if (one.qo_heads != other.qo_heads || one.kv_heads != other.kv_heads) return false;
  return std::all_of(kTensorSpecs.begin(), kTensorSpecs.end(), [&](const TensorSpec& spec) {
    const bool stored = Stores(layout, a, spec.tensor);
    if (stored != Stores(layout, b, spec.tensor)) return false;
    return !stored ||
           (NumHeads(spec, one) == NumHeads(spec, other) && NumComponents(spec, one) == NumComponents(spec, other));
  });
}

std::vector<std::vector<int32_t>> PartsOf(const TraceLayout& layout) {
  std::vector<std::vector<int32_t>> parts;
  for (size_t slot = 0; slot < layout.layers.size(); ++slot) {
    const auto part = std::find_if(parts.begin(), parts.end(), [&](const std::vector<int32_t>& one) {
      return SameShape(layout, static_cast<size_t>(one.front()), slot);
    });
    if (part == parts.end()) {
      parts.push_back({static_cast<int32_t>(slot)});
    } else {
      part->push_back(static_cast<int32_t>(slot));
    }
  }
  return parts;
}

}  // namespace headscope::data
