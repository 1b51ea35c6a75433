// SPDX-License-Identifier: Apache-2.0
// GLM 4.7 Flash: DeepSeek V3 by another name, with fewer and smaller experts.
#include "families/deepseek.h"

namespace headscope::model {

const Family& Glm4MoeLite() {
  static constexpr Family family = [] {
    Family row = DeepSeekV3Layout("glm4_moe_lite");
    row.read = [](const JsonFields& root, ModelConfig* config) {
      ReadSigmoidRouter(root, {.factor = 1.8, .groups = 1, .kept = 1}, config);
    };
    row.absent_norm_eps = 1e-5;
    row.absent_max_positions = 202752;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
