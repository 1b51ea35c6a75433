// SPDX-License-Identifier: Apache-2.0
// The list of figures.
#pragma once

#include "analysis/figures.h"

#define HEADSCOPE_FIGURES(FIGURE) \
  FIGURE(TopKMassFigure)          \
  FIGURE(KurtosisFigure)          \
  FIGURE(AgreementFigure)         \
  FIGURE(CoverageFigure)          \
  FIGURE(ValueCorrelationFigure)  \
  FIGURE(SparsityFigure)          \
  FIGURE(SparsityByLengthFigure)  \
  FIGURE(StripesFigure)           \
  FIGURE(ColumnRecallFigure)      \
  FIGURE(IndexTransferFigure)     \
  FIGURE(IndexReuseFigure)        \
  FIGURE(PatternRecallFigure)     \
  FIGURE(CompressionFigure)       \
  FIGURE(NearestNonzeroFigure)    \
  FIGURE(HeadPatternsFigure)      \
  FIGURE(DistanceFigure)          \
  FIGURE(LogitsFigure)            \
  FIGURE(MemoryFigure)            \
  FIGURE(IntensityFigure)

namespace headscope::analysis {

#define HEADSCOPE_DECLARE(name) const FigureMaker& name();
HEADSCOPE_FIGURES(HEADSCOPE_DECLARE)
#undef HEADSCOPE_DECLARE

}  // namespace headscope::analysis
