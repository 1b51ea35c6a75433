// SPDX-License-Identifier: Apache-2.0
// What a file's name says of its format.
#pragma once

#include <string>

namespace headscope::data {

// "json", "csv", "h5", ...: what follows the last dot of the name, in lower case; empty when there is none.
std::string Extension(const std::string& path);

}  // namespace headscope::data
