// SPDX-License-Identifier: Apache-2.0
#include "families/family_list.h"

namespace headscope::model {

const Family& Ministral() {
  static constexpr Family family = [] {
    Family row = LlamaLayout();
    row.model_type = "ministral";
    row.window = WindowRule::kByPattern;  // without layer_types, every layer has it
    row.absent_max_positions = 131072;
    row.absent_num_kv_heads = 8;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
