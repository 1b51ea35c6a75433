// SPDX-License-Identifier: Apache-2.0
// Who shares a decode method's choice of keys.
#pragma once

#include <string>

#include "analysis/measured_heads.h"
#include "kernels/decode_method.h"

namespace headscope::analysis {

// MethodResult::chosen_per where these heads decode together. SparQ Attention, section 4: over grouped queries it sums
// |q| and the approximate scores within a group, and so makes one choice per KV head. Alone, a head is a group of one.
inline std::string ChosenPer(const kernels::DecodeMethod& method, const MeasuredHeads& heads) {
  if (method.spec().IsStatic()) return "place";
  return heads.GroupSize() > 1 ? "KV head" : "query head";
}

}  // namespace headscope::analysis
