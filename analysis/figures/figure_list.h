// SPDX-License-Identifier: Apache-2.0
// The list of figures.
#pragma once

#include "analysis/figures.h"

// What a build of its own adds (tests/extension): nothing here.
#ifndef HEADSCOPE_MORE_FIGURES
#define HEADSCOPE_MORE_FIGURES(FIGURE)
#endif

#define HEADSCOPE_FIGURES(FIGURE) \
  FIGURE(TopKMassFigure)          \
  FIGURE(KurtosisFigure)          \
  FIGURE(QueryDensityFigure)      \
  FIGURE(AgreementFigure)         \
  FIGURE(ProjectionsFigure)       \
  FIGURE(CoverageFigure)          \
  FIGURE(ValueCorrelationFigure)  \
  FIGURE(ValueAxesFigure)         \
  FIGURE(SparsityFigure)          \
  FIGURE(SparsityByLengthFigure)  \
  FIGURE(StripesFigure)           \
  FIGURE(CraThresholdFigure)      \
  FIGURE(ThresholdMapFigure)      \
  FIGURE(LineSumsFigure)          \
  FIGURE(ColumnRecallFigure)      \
  FIGURE(IndexTransferFigure)     \
  FIGURE(IndexReuseFigure)        \
  FIGURE(PatternRecallFigure)     \
  FIGURE(KernelSparsityFigure)    \
  FIGURE(CompressionFigure)       \
  FIGURE(NearestNonzeroFigure)    \
  FIGURE(HeadPatternsFigure)      \
  FIGURE(DistanceFigure)          \
  FIGURE(LogitsFigure)            \
  FIGURE(MemoryFigure)            \
  FIGURE(IntensityFigure)         \
  FIGURE(AttentionTimeFigure)     \
  FIGURE(LatencyBreakdownFigure)  \
  FIGURE(PrefillTimeFigure)       \
  HEADSCOPE_MORE_FIGURES(FIGURE)

namespace headscope::analysis {

#define HEADSCOPE_DECLARE(name) const FigureMaker& name();
HEADSCOPE_FIGURES(HEADSCOPE_DECLARE)
#undef HEADSCOPE_DECLARE

}  // namespace headscope::analysis
