// SPDX-License-Identifier: Apache-2.0
// The list of statistics that are means over rows: a new one is a file in this folder that defines a function of this
// shape, and one line here.
#pragma once

#include "analysis/types/row_statistic.h"

// What a build of its own adds (tests/extension): nothing here.
#ifndef HEADSCOPE_MORE_ROW_STATISTICS
#define HEADSCOPE_MORE_ROW_STATISTICS(STATISTIC)
#endif

#define HEADSCOPE_ROW_STATISTICS(STATISTIC) \
  STATISTIC(QueryKurtosis)                  \
  STATISTIC(QueryKurtosisPreRope)           \
  STATISTIC(LargestLogit)                   \
  STATISTIC(RowMaximum)                     \
  STATISTIC(MeanLse)                        \
  STATISTIC(NumEffectiveKeys)               \
  STATISTIC(PreviousToken)                  \
  STATISTIC(DuplicateToken)                 \
  STATISTIC(Induction)                      \
  STATISTIC(SpikeMass)                      \
  STATISTIC(ScatterMass)                    \
  STATISTIC(NearestNonzero)                 \
  STATISTIC(LearnedSinkMass)                \
  HEADSCOPE_MORE_ROW_STATISTICS(STATISTIC)

namespace headscope::analysis {

#define HEADSCOPE_DECLARE(name) const RowStatistic& name();
HEADSCOPE_ROW_STATISTICS(HEADSCOPE_DECLARE)
#undef HEADSCOPE_DECLARE

}  // namespace headscope::analysis
