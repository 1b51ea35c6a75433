// SPDX-License-Identifier: Apache-2.0
// OLMo 3: as OLMo 2, with windows in three of four layers, whose positions are never stretched.
#include "families/common_keys.h"
#include "families/norms_behind_layout.h"

namespace headscope::model {
namespace {

void ReadRopes(const JsonFields& root, ModelConfig* config) {
  constexpr RopeKeys keys = {.absent_theta = 500000};
  ReadRopesByWindow(root, keys, keys, config);
}

}  // namespace

const Family& Olmo3() {
  static constexpr Family family = [] {
    Family row = OlmoLayout("olmo3");
    row.window = WindowRule::kByPattern;
    row.absent_window_pattern = 4;
    row.read_ropes = &ReadRopes;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
