// SPDX-License-Identifier: Apache-2.0
// Reads model/rope_config.h's structure from config.json.
#pragma once

#include <cstdint>

#include "checkpoint/strict_json.h"
#include "model/rope_config.h"

namespace headscope::model {

// Throws BadInputError.
RopeConfig ReadRopeConfig(const JsonFields& root, int32_t head_dim, int64_t max_positions);

}  // namespace headscope::model
