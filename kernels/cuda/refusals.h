// SPDX-License-Identifier: Apache-2.0
// What a call says of arguments that it does not take, in a sentence of its own.
#pragma once

#include <string>

#include "kernels/status.h"

namespace headscope::kernels {

inline Status InvalidStatus(const std::string& message) {
  return {StatusCode::kInvalidArgument, message};
}
inline Status UnsupportedStatus(const std::string& message) {
  return {StatusCode::kUnsupported, message};
}

}  // namespace headscope::kernels
