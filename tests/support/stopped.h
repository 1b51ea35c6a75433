// SPDX-License-Identifier: Apache-2.0
// A request to stop that was made before anything began.
#pragma once

#include <stop_token>

namespace headscope {

inline std::stop_token StoppedToken() {
  std::stop_source source;
  source.request_stop();
  return source.get_token();
}

}  // namespace headscope
