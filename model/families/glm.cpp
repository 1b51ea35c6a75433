// SPDX-License-Identifier: Apache-2.0
// GLM 4 of 2024, in transformers' layout: half of each head is turned, in interleaved pairs.
#include "families/glm_layout.h"

namespace headscope::model {

const Family& Glm() {
  static constexpr Family family = GlmLayout("glm");
  return family;
}

}  // namespace headscope::model
