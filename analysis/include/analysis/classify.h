// SPDX-License-Identifier: Apache-2.0
// The head's class from its numbers.
//
// A head with more than 1 - kClassTarget of its mass outside a cut trace has no class: where that mass lies is not
// known. Of the others the first that holds (docs/analysis.md says why); line masses count only above what lines hit by
// a single row could hold:
// - retrieval-like: retrieval_peak >= 0.6, and neither the best columns nor the best slashes hold half of
//   retrieval_mass
// - vertical-slash: the best columns, or the best slashes, hold half of the far mass, and there is some (>= 0.15)
// - where less than a third of the mass is far: sink or local, if the first tokens or the rest of the window hold at
//   least two thirds of what is near; else sink+local
// - diffuse: more than 40 % of the attended pairs are needed for 0.95 of each row's mass
// - block: the best key blocks hold what an even spread would give them and at least half of the rest
// - diffuse: otherwise
#pragma once

#include "analysis/class_rules.h"
#include "analysis/types/class_evidence.h"
#include "analysis/types/head_statistics.h"

namespace headscope::analysis {

// The CRA target whose sparsity tells a dense head.
inline constexpr double kClassTarget = kQuotedCra;

// Sets the class, its reason, confidence and nearest alternative from the evidence and the other fields. Does nothing
// where the sparsity at kClassTarget is not among them.
void Classify(const ClassEvidence& evidence, const ClassRules& rules, HeadStatistics* statistics);

}  // namespace headscope::analysis
