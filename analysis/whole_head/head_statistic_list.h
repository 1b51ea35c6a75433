// SPDX-License-Identifier: Apache-2.0
// The list of statistics of whole heads: a new one is a file in this folder that defines a function of this shape, and
// one line here.
#pragma once

#include "analysis/types/head_statistic.h"

// What a build of its own adds (tests/extension): nothing here.
#ifndef HEADSCOPE_MORE_HEAD_STATISTICS
#define HEADSCOPE_MORE_HEAD_STATISTICS(STATISTIC)
#endif

#define HEADSCOPE_HEAD_STATISTICS(STATISTIC) \
  STATISTIC(PooledKurtosis)                  \
  STATISTIC(GaussianKurtosis)                \
  STATISTIC(PooledKurtosisPreRope)           \
  STATISTIC(GaussianKurtosisPreRope)         \
  STATISTIC(QueryOutliers)                   \
  STATISTIC(QueryOutliersPreRope)            \
  STATISTIC(ValueCorrelation)                \
  HEADSCOPE_MORE_HEAD_STATISTICS(STATISTIC)

namespace headscope::analysis {

#define HEADSCOPE_DECLARE(name) const HeadStatistic& name();
HEADSCOPE_HEAD_STATISTICS(HEADSCOPE_DECLARE)
#undef HEADSCOPE_DECLARE

}  // namespace headscope::analysis
