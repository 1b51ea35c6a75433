// SPDX-License-Identifier: Apache-2.0
// Dense, A-shape and S2-Attention: closed forms that read no tensor.
#include <string>

#include "select/selection_call.h"

namespace headscope::kernels::selection {

namespace {

Status SelectRule(Call* call, const ElementRule& rule) {
  call->view.rule = rule;
  const ListArrays arrays = TakeLists(call, call->view.NumRowTiles(), kMostRuleRuns, 0);
  if (!call->launches) return {};
  return LaunchStatus(LaunchRuleLists(rule, ShapeOfLists(*call), arrays, call->stream), "WriteRuleListsKernel", *call);
}

}  // namespace

Status SelectDense(Call* call) {
  call->view.keeps_everything = true;
  return SelectRule(call, {MaskKind::kCausal, 0, 0});
}

Status SelectAShape(Call* call) {
  return SelectRule(call, {MaskKind::kCausalWindow, call->values.Integer("n_local"), call->values.Integer("n_sink")});
}

Status SelectS2Attention(Call* call) {
  const ParameterValues& values = call->values;
  if (call->problem.layer >= 0 && call->problem.layer < values.Integer("dense_layers")) return SelectDense(call);
  if (const int32_t far_factor = values.Integer("far_factor"); far_factor != 1) {
    return {StatusCode::kUnsupported, "far_factor is " + std::to_string(far_factor) +
                                          ": the GPU selector has one stride for all distances; select on the CPU."};
  }
  if (const int32_t local_stride = values.Integer("local_stride"); local_stride != 1) {
    return {StatusCode::kUnsupported, "local_stride is " + std::to_string(local_stride) +
                                          ": the GPU selector keeps every local block; select on the CPU."};
  }
  ShardLists lists;
  lists.local_blocks = values.Integer("local_blocks");
  lists.stride = values.Integer("vertical_stride");
  lists.head_step = values.Integer("head_step");
  const bool per_kv_head = values.Flag("per_kv_head");
  lists.heads_per_number = per_kv_head ? call->problem.GroupSize() : 1;
  // The offset of query head 0, whose number in its layer need not be 0.
  const int64_t first_number = per_kv_head ? call->problem.first_kv_head : call->problem.first_qo_head;
  lists.offset = static_cast<int32_t>((first_number * lists.head_step + values.Integer("offset")) % lists.stride);
  lists.subtract_offset = values.Flag("subtract_offset");
  lists.max_distance = values.Integer("max_distance");
  // A half's blocks are those of at most two query blocks of one residue: apart from the local ones, neighbours only
  // when the stride is 1, so at most V / 64 / stride + 1 distant runs, split once more where the halves differ, and the
  // local blocks' runs of the two halves with their cuts at the diagonal.
  const int64_t key_blocks = (int64_t{call->NumVisibleKeys()} + kHalfRows - 1) / kHalfRows;
  const int64_t capacity = key_blocks / lists.stride + 12;
  const ListArrays arrays =
      TakeLists(call, int64_t{call->problem.num_qo_heads} * call->view.NumRowTiles(), capacity, 0);
  if (!call->launches) return {};
  return LaunchStatus(LaunchShardLists(lists, ShapeOfLists(*call), arrays, call->stream), "WriteShardListsKernel",
                      *call);
}

}  // namespace headscope::kernels::selection
