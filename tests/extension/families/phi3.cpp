// SPDX-License-Identifier: Apache-2.0
// For the switches that it has: q, k and v in one tensor row by row, gate and up in another.
#include "families/family_list.h"

namespace headscope::model {

const Family& Phi3() {
  static constexpr Family family = [] {
    Family row = LlamaLayout();
    row.model_type = "phi3";
    row.layer.qkv = "self_attn.qkv_proj";
    row.layer.gate_up = "mlp.gate_up_proj";
    row.layer.q = row.layer.k = row.layer.v = row.layer.gate = row.layer.up = {};
    row.qkv_layout = QkvLayout::kStacked;
    row.window = WindowRule::kBySlidingWindow;
    row.absent_max_positions = 4096;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
