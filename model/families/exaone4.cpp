// SPDX-License-Identifier: Apache-2.0
// EXAONE 4: norms after attention and MLP only, norms of q and k; where it has windows, layers without one know no
// positions.
#include "checkpoint/read_rope_config.h"
#include "checkpoint/strict_json.h"
#include "families/common_keys.h"
#include "families/norms_behind_layout.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

void ReadRopes(const JsonFields& root, ModelConfig* config) {
  config->ropes = {ReadRopeConfig(root, {}, config->head_dim, config->max_positions)};
  if (!root.IsNull("sliding_window")) TurnOnlyWindows(config);
}

}  // namespace

const Family& Exaone4() {
  static constexpr Family family = [] {
    Family row = NormsBehindLayout("exaone4");
    row.qk_norm = QkNorm::kEachHead;
    row.window = WindowRule::kByPattern;
    row.absent_window_pattern = 4;
    row.absent_num_kv_heads = 32;
    row.read_ropes = &ReadRopes;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
