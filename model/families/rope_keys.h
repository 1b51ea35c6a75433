// SPDX-License-Identifier: Apache-2.0
// How a family spells its rotary positions at the top level of config.json, and what an absent key means. In
// rope_parameters the keys of all families are rope_theta and partial_rotary_factor.
#pragma once

#include <cstdint>
#include <string_view>

namespace headscope::model {

struct RopeKeys {
  std::string_view theta = "rope_theta";
  std::string_view part = "partial_rotary_factor";
  double absent_theta = 10000;
  double absent_part = 1;
  int32_t absent_dim = 0;         // in place of absent_part: components that are turned, a whole number of pairs
  bool mrope_of_text = false;     // a kind "mrope", of three positions, is the default one for text
  bool yarn_is_longrope = false;  // a kind "yarn" is an old name of longrope
};

}  // namespace headscope::model
