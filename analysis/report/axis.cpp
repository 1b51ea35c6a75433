// SPDX-License-Identifier: Apache-2.0
#include "report/axis.h"

namespace headscope::analysis {

std::string GroupThousands(int64_t value) {
  std::string text = std::to_string(value < 0 ? -value : value);
  for (auto place = static_cast<int64_t>(text.size()) - 3; place > 0; place -= 3)
    text.insert(static_cast<size_t>(place), ",");
  return value < 0 ? "-" + text : text;
}

}  // namespace headscope::analysis
