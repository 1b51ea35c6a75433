// SPDX-License-Identifier: Apache-2.0
// What a comparison runs and times: the heads of one layer side by side, as a model attends, or one head by itself.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "analysis/head_tensors.h"
#include "analysis/types/measured_scope.h"
#include "data/trace_reader.h"
#include "kernels/attention_problem.h"

namespace headscope::analysis {

// Query heads of one layer with consecutive numbers, and their KV heads, each stored once. Tensors are fp32 and
// contiguous.
struct MeasuredHeads : HeadFrame {
  int32_t layer = 0;
  int32_t first_qo_head = 0, first_kv_head = 0;
  int32_t num_qo_heads = 0, num_kv_heads = 0;  // the second divides the first
  int32_t heads_of_layer = 0;                  // query heads that the model has in the layer; 0: one head by itself
  // Why these are fewer heads than the layer has; empty where they are not.
  std::string why_fewer;
  std::span<const float> q;    // [num_qo_heads, num_rows, head_dim]
  std::span<const float> k;    // [num_kv_heads, num_tokens, head_dim]
  std::span<const float> v;    // [num_kv_heads, num_tokens, v_head_dim]
  std::span<const float> lse;  // [num_qo_heads, num_rows], as in HeadTensors
  // As in HeadTensors; empty: not recorded.
  std::span<const float> q_pre_rope;   // [num_qo_heads, num_rows, head_dim]
  std::span<const float> value_norms;  // [num_qo_heads, num_tokens]
  bool l1_value_norms = false;
  std::vector<float> sinks;  // [num_qo_heads], or empty: none
  std::shared_ptr<const void> owner;
  // Heads that are in memory anyway, and so are not made again by Head().
  std::vector<HeadTensorsPtr> known;
  // The same heads of lower layers, whose choices a decode method takes (WithLowerLayers). One without heads: a layer
  // that the trace has, with another number of KV heads.
  std::vector<std::shared_ptr<const MeasuredHeads>> lower;

  int32_t GroupSize() const { return num_qo_heads / num_kv_heads; }
  bool Holds(HeadId head) const {
    return head.layer == layer && head.head >= first_qo_head && head.head < first_qo_head + num_qo_heads;
  }
  // Numbers of all heads' outputs.
  size_t OutputSize() const { return static_cast<size_t>(num_qo_heads * num_rows * ValueDim()); }
  // One batch.
  kernels::AttentionProblem Problem() const;
  // One of the heads, which Holds() has: the known one, or a copy.
  HeadTensorsPtr Head(HeadId head, const Device& device = kCpu) const;
  MeasuredScope Scope() const;
  // "layer 5: 8 heads", as ScopeText says it.
  std::string Name() const;
};
using MeasuredHeadsPtr = std::shared_ptr<const MeasuredHeads>;

// The head by itself: one query head, one KV head. Shares its tensors, and knows it.
MeasuredHeadsPtr AloneHead(HeadTensorsPtr head);

// Which query heads and KV heads LayerOf() would read, without reading them.
struct LayerPart {
  int32_t first_qo_head = 0, num_qo_heads = 0;
  int32_t first_kv_head = 0, num_kv_heads = 0;
  std::string why_fewer;
};
// A comparison holds Q and up to three outputs of each query head, and K and V of each KV head, in fp32: bytes of a
// part of the layer. What methods need besides (indices) is not in it.
int64_t MeasuredBytes(const data::TraceReader& trace, int32_t layer, int32_t num_qo_heads, int32_t num_kv_heads);
// The part of the head's layer that is measured with it: every KV head whose whole group of query heads is recorded, as
// far as their numbers are consecutive round the head; where the head's own group is not recorded whole, the recorded
// heads of that group round it. Where that takes more than `most_bytes`, as many whole KV groups round the head as fit,
// and at least its own. Throws UsageError when the head is not in the trace.
LayerPart PartOfLayer(const data::TraceReader& trace, HeadId head, int64_t most_bytes);
// Half of the memory that this machine has available now.
int64_t MostMeasuredBytes();
// Reads that part. Throws as LoadHead.
MeasuredHeadsPtr LoadLayer(const data::TraceReader& trace, HeadId head, int64_t most_bytes = MostMeasuredBytes());
// `heads`, and beside them the heads of the same numbers in those of `layers` that the trace holds, as far as they have
// the same KV heads. Throws as LoadHead.
MeasuredHeadsPtr WithLowerLayers(const data::TraceReader& trace, const MeasuredHeadsPtr& heads,
                                 const std::vector<int32_t>& layers);

}  // namespace headscope::analysis
