// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace headscope {

// Of headscope: "0.1.0".
const char* Version();

}  // namespace headscope
