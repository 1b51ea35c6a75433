// SPDX-License-Identifier: Apache-2.0
// Reads model/rope_config.h's structure from config.json.
#pragma once

#include <cstdint>
#include <string_view>

#include "checkpoint/strict_json.h"
#include "families/rope_keys.h"
#include "model/rope_config.h"

namespace headscope::model {

// Positions that a configuration may claim: far above any real model, and no product of two leaves 64 bits.
inline constexpr int64_t kMaxPositions = int64_t{1} << 31;

// Whether a base of rotary positions is between 1 and 1e30: far above any real one, and no float of it overflows.
inline bool IsTheta(double theta) {
  return theta > 1 && theta <= 1e30;
}

// `keys`: the family's at the top level. `kind`: where the positions differ from layer to layer, the kind of layers
// whose they are ("full_attention"), which rope_parameters then has by that name; empty: they are those of all layers.
// Throws BadInputError.
RopeConfig ReadRopeConfig(const JsonFields& root, const RopeKeys& keys, int32_t head_dim, int64_t max_positions,
                          std::string_view kind = {});

}  // namespace headscope::model
