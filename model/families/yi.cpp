// SPDX-License-Identifier: Apache-2.0
// Yi as it was first published: llama under another name, with other names of its norms. Later files say llama.
#include "families/family_list.h"

namespace headscope::model {

const Family& Yi() {
  static constexpr Family family = [] {
    Family row = LlamaLayout();
    row.model_type = "Yi";
    row.layer.input_norm = "ln1";
    row.layer.mlp_norm = "ln2";
    row.rope = {.absent_theta = 5e6};
    row.absent_norm_eps = 1e-5;
    row.absent_max_positions = 4096;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
