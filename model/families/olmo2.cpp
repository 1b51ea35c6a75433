// SPDX-License-Identifier: Apache-2.0
// OLMo 2: norms after attention and MLP only, one norm of all heads of q, and of k.
#include "families/norms_behind_layout.h"

namespace headscope::model {

const Family& Olmo2() {
  static constexpr Family family = OlmoLayout("olmo2");
  return family;
}

}  // namespace headscope::model
