// SPDX-License-Identifier: Apache-2.0
// Numbers as axes show them.
#pragma once

#include <cstdint>
#include <string>

namespace headscope::analysis {

std::string GroupThousands(int64_t value);  // 131072 -> "131,072"

}  // namespace headscope::analysis
