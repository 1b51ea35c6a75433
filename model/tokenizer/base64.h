// SPDX-License-Identifier: Apache-2.0
// Bytes written in base 64.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace headscope::model {

// nullopt for what is not base 64 with its filling, whole groups of four characters.
std::optional<std::string> FromBase64(std::string_view text);

}  // namespace headscope::model
