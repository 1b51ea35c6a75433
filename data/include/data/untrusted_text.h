// SPDX-License-Identifier: Apache-2.0
// Text files that other programs or people made: read whole, and no larger or deeper than what headscope has a use for.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace headscope::data {

// A parsed number of JSON takes some 16 times its text.
constexpr size_t kMostTextBytes = size_t{64} << 20;

// At most kMostTextBytes. Throws BadInputError naming file and `remedy`.
std::string ReadUntrustedText(const std::string& path, const std::string& remedy);

// Discarded (is_discarded()) where the file is not JSON. Nested 16 levels deep at most, so that whatever walks it may
// recurse, and without a name that an object has twice. Throws BadInputError naming file and `remedy`, or that name.
nlohmann::json ReadUntrustedJson(const std::string& path, const std::string& remedy);

}  // namespace headscope::data
