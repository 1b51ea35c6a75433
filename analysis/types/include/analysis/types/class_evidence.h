// SPDX-License-Identifier: Apache-2.0
// What classes a head beside its statistics (analysis/classify.h): kept with them, so that other thresholds need no
// other pass.
#pragma once

namespace headscope::analysis {

struct ClassEvidence {
  double far_mass = 0;      // mean mass outside sinks and local window
  double block_chance = 0;  // what block_mass would be if that mass lay evenly
  // Mass that as many columns or diagonals could hold with one sharp row each: below it, line masses say nothing, and
  // with few analysed rows it is not small.
  double line_chance = 0;
  double learned_sink_mass = 0;  // mean mass that no token gets
};

}  // namespace headscope::analysis
