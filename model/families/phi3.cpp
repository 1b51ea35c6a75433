// SPDX-License-Identifier: Apache-2.0
// Phi 3 and the Phi 4 models of its kind: q, k and v in one tensor row by row, gate and up in another.
#include "checkpoint/strict_json.h"
#include "families/family_list.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

// Without a length of its own, longrope would be another function.
void Read(const JsonFields& root, ModelConfig* config) {
  const RopeType type = config->ropes[0].type;
  if (type != RopeType::kDefault && type != RopeType::kLongRope) {
    root.RefuseUnsupported(root.Has("rope_parameters") ? "rope_parameters" : "rope_scaling",
                           "is not supported in this family", "default and longrope are");
  }
  if (type == RopeType::kLongRope && !root.Has("original_max_position_embeddings"))
    root.RefuseField("original_max_position_embeddings", "is missing, and longrope needs it", "add it to the file");
}

}  // namespace

const Family& Phi3() {
  static constexpr Family family = [] {
    Family row = LlamaLayout();
    row.model_type = "phi3";
    row.layer.qkv = "self_attn.qkv_proj";
    row.layer.gate_up = "mlp.gate_up_proj";
    row.layer.q = row.layer.k = row.layer.v = row.layer.gate = row.layer.up = {};
    row.qkv_layout = QkvLayout::kStacked;
    row.window = WindowRule::kBySlidingWindow;
    row.absent_window = 0;
    row.absent_norm_eps = 1e-5;
    row.absent_max_positions = 4096;
    row.rope = {.yarn_is_longrope = true};  // its oldest files say "yarn"
    row.read = &Read;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
