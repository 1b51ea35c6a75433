// SPDX-License-Identifier: Apache-2.0
#include "families/family_list.h"

namespace headscope::model {

const Family& Qwen2() {
  static constexpr Family family = [] {
    Family row = LlamaLayout();
    row.model_type = "qwen2";
    row.qkv_bias = BiasRule::kAlways;
    row.window = WindowRule::kByUseSlidingWindow;
    row.absent_max_positions = 32768;
    row.absent_num_kv_heads = 32;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
