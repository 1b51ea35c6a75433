// SPDX-License-Identifier: Apache-2.0
#include "statistics/classify.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace headscope::analysis {
namespace {

constexpr double kPeak = 0.6;
constexpr double kLineShare = 0.5;
constexpr double kSomeFarMass = 0.15;
constexpr double kNearMass = 2.0 / 3.0;
constexpr double kDenseSparsity = 0.6;
constexpr double kBlockLift = 0.5;

template <typename... Values>
std::string Text(const char* format, Values... values) {
  char text[200];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

double InHundredths(double share) {
  return std::round(100 * share) / 100;
}

double SparsityAt(const HeadStatistics& statistics, double target) {
  const auto entry = std::find_if(statistics.sparsity.begin(), statistics.sparsity.end(),
                                  [target](const SparsityAtCra& at) { return at.target == target; });
  return entry->sparsity;
}

}  // namespace

void Classify(const ClassEvidence& evidence, HeadStatistics* statistics) {
  const auto set = [statistics](HeadClass head_class, std::string reason) {
    statistics->head_class = head_class;
    statistics->class_reason = std::move(reason);
  };
  const double line_mass =
      std::max(0.0, std::max(statistics->vertical_mass, statistics->slash_mass) - evidence.line_chance);
  const char* line_name = statistics->vertical_mass >= statistics->slash_mass ? "columns" : "diagonals";
  const double near_mass = 1.0 - statistics->outside_mass - evidence.learned_sink_mass - evidence.far_mass;
  const double sparsity = SparsityAt(*statistics, kClassTarget);
  const double beyond_chance = evidence.far_mass - evidence.block_chance;
  const double lift = beyond_chance > 0 ? (statistics->block_mass - evidence.block_chance) / beyond_chance : 0;

  if (statistics->outside_mass > 1 - kClassTarget) {
    return set(HeadClass::kUnknown, Text("%.2f of the mass lies on tokens that this part of a trace does not hold",
                                         statistics->outside_mass));
  }
  if (statistics->retrieval_peak >= kPeak && line_mass < kLineShare * statistics->retrieval_mass) {
    return set(
        HeadClass::kRetrieval,
        Text("its sharpest rows put %.2f on a few far tokens, which are not always the same (best %s %.2f of %.2f)",
             statistics->retrieval_peak, line_name, line_mass, statistics->retrieval_mass));
  }
  if (evidence.far_mass >= kSomeFarMass && line_mass >= kLineShare * evidence.far_mass) {
    return set(HeadClass::kVerticalSlash, Text("the best %s hold %.2f of the %.2f outside sink and window", line_name,
                                               line_mass, evidence.far_mass));
  }
  if (near_mass >= kNearMass) {
    // local_mass counts sinks inside the window again, and rounding could be off by 0.01: the second share is what the
    // first leaves of the sum, all three as they are printed.
    const double sink = InHundredths(statistics->sink_mass), near = InHundredths(near_mass);
    return set(HeadClass::kSinkLocal,
               Text("sink %.2f and the rest of the window %.2f hold %.2f", sink, std::max(0.0, near - sink), near));
  }
  if (sparsity < kDenseSparsity) {
    return set(HeadClass::kDiffuse, Text("needs %.0f %% of the pairs for %.2f of the mass; entropy %.1f nats",
                                         100 * (1 - sparsity), kClassTarget, statistics->entropy));
  }
  if (lift >= kBlockLift) {
    return set(
        HeadClass::kBlock,
        Text("the best blocks hold %.2f of the %.2f outside sink and window; an even spread would give them %.2f",
             statistics->block_mass, evidence.far_mass, evidence.block_chance));
  }
  set(HeadClass::kDiffuse, Text("%.2f outside sink and window without lines or blocks; entropy %.1f nats",
                                evidence.far_mass, statistics->entropy));
}

}  // namespace headscope::analysis
