// SPDX-License-Identifier: Apache-2.0
// Kimi K2: DeepSeek V3 by another name, with more experts and fewer heads.
#include "families/deepseek.h"

namespace headscope::model {

const Family& KimiK2() {
  static constexpr Family family = DeepSeekV3Layout("kimi_k2");
  return family;
}

}  // namespace headscope::model
