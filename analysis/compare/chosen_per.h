// SPDX-License-Identifier: Apache-2.0
// What a decode method did on the heads that decode together: who shares its choice of keys, and what its values meant.
#pragma once

#include <string>

#include "analysis/measured_heads.h"
#include "kernels/decode_method.h"

namespace headscope::analysis {

// MethodResult::chosen_per where these heads decode together. SparQ Attention, section 4: over grouped queries it sums
// |q| and the approximate scores within a group, and so makes one choice per KV head. Alone, a head is a group of one.
inline kernels::ChosenPer ChosenPerOf(const kernels::DecodeMethod& method, const MeasuredHeads& heads) {
  if (method.spec().IsStatic()) return kernels::ChosenPer::kPlace;
  return heads.GroupSize() > 1 ? kernels::ChosenPer::kKvHead : kernels::ChosenPer::kQueryHead;
}

// MethodResult::note of values that took effect as others; empty: as they were given.
inline std::string NoteOfUsed(const kernels::DecodeMethod& method, const kernels::ParameterValues& values,
                              const kernels::AttentionProblem& problem) {
  const std::string used = method.Used(values, problem).Difference(method.spec(), values);
  return used.empty() ? used : method.spec().name + " ran with " + used;
}

// MethodResult::note of a method by which the heads of a layer share a budget or a choice, where some of them are not
// here; else empty.
inline std::string NoteOfMissingHeads(const kernels::DecodeMethod& method, const kernels::ParameterValues& values,
                                      const MeasuredHeads& heads) {
  if (heads.num_qo_heads == heads.heads_of_layer) return {};
  if (method.ChoosesForLayer(values)) {
    return method.spec().name + " makes one choice for all heads of a layer: " +
           (heads.num_qo_heads == 1 ? "one by itself has its own"
                                    : "those that were measured made theirs by themselves");
  }
  // Where no KV head is missing, as in a layer that has but one, the budget is the layer's.
  if (!method.SharesLayerBudget(values) || heads.num_kv_heads == heads.layer_kv_heads) return {};
  return method.spec().name + " shares a layer's budget out between its KV heads: " +
         (heads.num_kv_heads == 1 ? "one by itself has an even share"
                                  : "those that were measured shared what an even share of theirs is");
}

// MethodResult::note of a method that weighs tokens by norms of W_o v, where they are not those of its source; else
// empty.
inline std::string NoteOfValueNorms(const kernels::DecodeMethod& method, const kernels::ParameterValues& values,
                                    const MeasuredHeads& heads) {
  if (!method.Inputs(values).value_norms || heads.l1_value_norms) return {};
  return method.spec().name +
         " took the Euclidean norms of W_o v, which the trace holds, for CriticalKV's sums of absolute values: capture "
         "with value-norms-l1 recorded";
}

}  // namespace headscope::analysis
