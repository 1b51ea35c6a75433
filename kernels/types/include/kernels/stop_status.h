// SPDX-License-Identifier: Apache-2.0
// What a call returns that was asked to stop.
#pragma once

#include "kernels/status.h"

namespace headscope::kernels {

inline Status Stopped() {
  return {StatusCode::kCancelled, "interrupted"};
}

}  // namespace headscope::kernels
