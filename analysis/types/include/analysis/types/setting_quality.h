// SPDX-License-Identifier: Apache-2.0
// What a method's setting does on a head: found by a search, or measured where nothing was chosen by.
#pragma once

#include <limits>

#include "analysis/types/mass_distribution.h"

namespace headscope::analysis {

struct SettingQuality {
  // False: not even the largest budgets reach the target (of a limit on pairs, time or work: the smallest). The rest
  // then describes those.
  bool reached = false;
  double kept_fraction = 0;  // kept pairs / pairs that the model sees
  MassDistribution mass;
  double relative_error = std::numeric_limits<double>::quiet_NaN();  // of the output; NaN: not measured
  // Selection and attention by dense attention's time, of all heads that share the setting; NaN: not measured.
  double time_share = std::numeric_limits<double>::quiet_NaN();
  // Pairs of the tiles that a block kernel computes (64 x 64, and 64 single columns at a time) by those that the model
  // sees, of targets for the work; NaN: not counted. Above 1 where everything is kept: tiles reach over the diagonal.
  double work_share = std::numeric_limits<double>::quiet_NaN();
};

}  // namespace headscope::analysis
