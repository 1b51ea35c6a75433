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

struct TradeOffAxis {
  double begin = 0, end = 1;
  double Place(double value) const { return (value - begin) / (end - begin); }  // 0 to 1
};

// Axes that the points fill, with some room around them. A share ends at 1 at most, an error begins at 0, and a mass
// shows its `target`, too. No points: 0 to 1.
TradeOffAxis CostAxisOf(const std::vector<TradeOffPoint>& points, CostAxis cost);
TradeOffAxis QualityAxisOf(const std::vector<TradeOffPoint>& points, QualityAxis quality, double target);

// The points on the front by ascending cost.
std::vector<TradeOffPoint> Front(const std::vector<TradeOffPoint>& points);

}  // namespace headscope::ui
