// SPDX-License-Identifier: Apache-2.0
// The thresholds by which a head gets its class, which a user can read and change.
#pragma once

#include <span>
#include <string>

namespace headscope::analysis {

// The first rule that holds decides (docs/analysis.md, "Class of a head"). All are shares, 0 to 1.
struct ClassRules {
  double outside_mass = 0.05;     // unknown: more than this lies outside a part of a trace
  double retrieval_peak = 0.6;    // retrieval-like: at least this on a few far tokens in the sharpest rows ..
  double retrieval_lines = 0.5;   // .. and the best lines hold less than this share of the retrieval mass
  double far_mass = 0.15;         // vertical-slash: at least this is far ..
  double line_share = 0.5;        // .. and the best lines hold at least this share of it
  double near_mass = 2.0 / 3.0;   // sink, local and sink+local: at least this is near ..
  double near_share = 2.0 / 3.0;  // .. and one of the two holds at least this share of it, or neither does
  double dense_sparsity = 0.6;    // diffuse: sparsity at 0.95 below this
  double block_lift = 0.5;        // block: the best blocks hold this share of what an even spread leaves
  double sure_margin = 0.1;       // a class is sure (confidence 1) where no number lies nearer to its threshold
};

// What a person calls a threshold.
struct ClassThreshold {
  const char* name;
  double ClassRules::*member;
  const char* help;  // one line
};
std::span<const ClassThreshold> ClassThresholds();
// Null: no class has such a threshold.
const ClassThreshold* FindClassThreshold(const std::string& name);

// As JSON, schema headscope-classes-1: every threshold with a line that says what it is.
std::string ClassRulesJson(const ClassRules& rules);
// Those of a JSON file; what it does not name keeps its default. Throws BadInputError that names file and field: no
// JSON, another schema, an unknown name, a number outside 0 to 1.
ClassRules ReadClassRules(const std::string& path);

}  // namespace headscope::analysis
