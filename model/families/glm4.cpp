// SPDX-License-Identifier: Apache-2.0
// GLM 4 of 2025: glm with norms of what attention and MLP add.
#include "families/glm_layout.h"

namespace headscope::model {

const Family& Glm4() {
  static constexpr Family family = [] {
    Family row = GlmLayout("glm4");
    row.layer.attention_output_norm = "post_self_attn_layernorm";
    row.layer.mlp_output_norm = "post_mlp_layernorm";
    return row;
  }();
  return family;
}

}  // namespace headscope::model
