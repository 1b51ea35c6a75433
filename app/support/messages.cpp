// SPDX-License-Identifier: Apache-2.0
#include "support/messages.h"

#include <cstdio>
#include <string>

#include "analysis/types/printable.h"

namespace headscope::app {

void Say(std::string_view sentence) {
  const std::string line = "headscope: " + analysis::Printable(sentence) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace headscope::app
