// SPDX-License-Identifier: Apache-2.0
// Measured runs as points of a trade-off: what a run costs against what it keeps, and which runs no other one beats.
// Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ui/workbench.h"

namespace headscope::ui {

enum class CostAxis { kKeptShare, kMilliseconds };
enum class QualityAxis { kCraFifth, kCraMean, kRelativeError };

struct TradeOffPoint {
  size_t run = 0;  // its place in what MakeTradeOff was given
  double cost = 0, quality = 0;
  bool on_front = false;  // no other run costs less and is better
};

// Less is better of a cost and of an error, more of a mass.
bool LessIsBetter(QualityAxis axis);
const char* CostName(CostAxis axis);  // with its unit
const char* QualityName(QualityAxis axis);

// The runs of one head and phase whose numbers are finite. Dense attention is a point, too: it keeps everything, and
// its milliseconds are those of the last run's baseline.
std::vector<TradeOffPoint> MakeTradeOff(const std::vector<analysis::MethodResult>& runs, analysis::HeadId head,
                                        kernels::Phase phase, CostAxis cost, QualityAxis quality);

// The points on the front by ascending cost.
std::vector<TradeOffPoint> Front(const std::vector<TradeOffPoint>& points);

}  // namespace headscope::ui
