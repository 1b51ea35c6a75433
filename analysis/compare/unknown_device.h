// SPDX-License-Identifier: Apache-2.0
// What every device of a comparison says of a name that it does not have.
#pragma once

#include <string>

#include "kernels/status.h"

namespace headscope::analysis {

// CompareOptions::device is neither "cpu" nor "cuda".
inline kernels::Status UnknownDevice(const std::string& device) {
  return {kernels::StatusCode::kInvalidArgument, "device '" + device + "' is unknown: choose cpu or cuda"};
}

}  // namespace headscope::analysis
