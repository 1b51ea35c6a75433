// SPDX-License-Identifier: Apache-2.0
// Kimi K2: DeepSeek V3 by another name, with more experts and fewer heads.
#include "families/deepseek.h"

namespace headscope::model {

const Family& KimiK2() {
  static constexpr Family family = [] {
    Family row = DeepSeekLayout("kimi_k2");
    row.experts.correction = "mlp.gate.e_score_correction_bias";
    row.absent_max_positions = 4096;
    row.read_ropes = &ReadLatentRopes;
    row.read = &ReadSigmoidRouter;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
