// SPDX-License-Identifier: Apache-2.0
#include "base/version.h"

namespace headscope {

const char* Version() {
  return HEADSCOPE_VERSION;
}

}  // namespace headscope
