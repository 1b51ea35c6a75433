// SPDX-License-Identifier: Apache-2.0
#include "families/family_list.h"

namespace headscope::model {

const Family& Llama() {
  static constexpr Family family = [] {
    Family row = LlamaLayout();
    row.model_type = "llama";
    row.qkv_bias = BiasRule::kByAttentionBias;
    row.output_bias = BiasRule::kByAttentionBias;
    row.mlp_bias = BiasRule::kByMlpBias;
    row.absent_max_positions = 2048;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
