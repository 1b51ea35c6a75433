// SPDX-License-Identifier: Apache-2.0
#include "analysis/classify.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "analysis/types/number_text.h"

namespace headscope::analysis {
namespace {

double InHundredths(double share) {
  return std::round(100 * share) / 100;
}

std::vector<SparsityAtCra>::const_iterator SparsityAt(const HeadStatistics& statistics, double target) {
  return std::find_if(statistics.sparsity.begin(), statistics.sparsity.end(),
                      [target](const SparsityAtCra& at) { return at.target == target; });
}

// A rule: its class, how far inside (positive) or outside it a head is, and what is said where it decides.
struct Rule {
  HeadClass head_class = HeadClass::kUnknown;
  double margin = 0;  // of the condition that is nearest to failing
  std::string reason;
  // A class that this rule gives in other cases, and how far this head is from being one: none where it gives one only.
  HeadClass sibling = head_class;
  double sibling_margin = std::numeric_limits<double>::infinity();
};

// Of what is near, the sinks hold `sink`, the rest of the window `window`.
Rule NearRule(double sink, double window, const ClassRules& rules) {
  const double near = sink + window, enough = rules.near_share * near;
  Rule rule{HeadClass::kSinkLocal, near - rules.near_mass, {}};
  if (sink >= enough) {
    rule.head_class = HeadClass::kSink;
    rule.sibling = window >= enough ? HeadClass::kLocal : HeadClass::kSinkLocal;
    rule.sibling_margin = sink - enough;
  } else if (window >= enough) {
    rule.head_class = HeadClass::kLocal;
    rule.sibling = window - enough <= enough - sink ? HeadClass::kSinkLocal : HeadClass::kSink;
    rule.sibling_margin = std::min(window - enough, enough - sink);
  } else {
    rule.sibling = sink >= window ? HeadClass::kSink : HeadClass::kLocal;
    rule.sibling_margin = enough - std::max(sink, window);
  }
  // local_mass counts sinks inside the window again, and rounding could be off by 0.01: the second share is what the
  // first leaves of the sum, all three as they are printed.
  const double printed = InHundredths(sink), sum = InHundredths(near);
  rule.reason =
      Format("sink %.2f and the rest of the window %.2f hold %.2f", printed, std::max(0.0, sum - printed), sum);
  return rule;
}

// What the numbers say of every rule, in the order in which they decide; the last one always holds.
std::vector<Rule> RulesOf(const ClassEvidence& evidence, const ClassRules& rules, const HeadStatistics& statistics) {
  const double line_mass =
      std::max(0.0, std::max(statistics.vertical_mass, statistics.slash_mass) - evidence.line_chance);
  const char* line_name = statistics.vertical_mass >= statistics.slash_mass ? "columns" : "slashes";
  const double near_mass = 1.0 - statistics.outside_mass - evidence.learned_sink_mass - evidence.far_mass;
  const double sparsity = SparsityAt(statistics, kClassTarget)->sparsity;
  const double beyond_chance = evidence.far_mass - evidence.block_chance;
  const double lift = beyond_chance > 0 ? (statistics.block_mass - evidence.block_chance) / beyond_chance : 0;
  return {
      {HeadClass::kUnknown,
       // A whole trace has nothing outside, and is not near to having it.
       statistics.outside_mass > 0 ? statistics.outside_mass - rules.outside_mass
                                   : -std::numeric_limits<double>::infinity(),
       Format("%.2f of the mass lies on tokens that this part of a trace does not hold", statistics.outside_mass)},
      {HeadClass::kRetrieval,
       std::min(statistics.retrieval_peak - rules.retrieval_peak,
                rules.retrieval_lines * statistics.retrieval_mass - line_mass),
       Format("its sharpest rows put %.2f on a few far tokens, which are not always the same (best %s %.2f of %.2f)",
              statistics.retrieval_peak, line_name, line_mass, statistics.retrieval_mass)},
      {HeadClass::kVerticalSlash,
       std::min(evidence.far_mass - rules.far_mass, line_mass - rules.line_share * evidence.far_mass),
       Format("the best %s hold %.2f of the %.2f outside sink and window", line_name, line_mass, evidence.far_mass)},
      NearRule(statistics.sink_mass, near_mass - statistics.sink_mass, rules),
      {HeadClass::kDiffuse, rules.dense_sparsity - sparsity,
       Format("needs %.0f %% of the pairs for %.2f of the mass; entropy %.1f nats", 100 * (1 - sparsity), kClassTarget,
              statistics.entropy)},
      {HeadClass::kBlock, lift - rules.block_lift,
       Format("the best blocks hold %.2f of the %.2f outside sink and window; an even spread would give them %.2f",
              statistics.block_mass, evidence.far_mass, evidence.block_chance)},
      {HeadClass::kDiffuse, std::numeric_limits<double>::infinity(),
       Format("%.2f outside sink and window without lines or blocks; entropy %.1f nats", evidence.far_mass,
              statistics.entropy)},
  };
}

// On the threshold itself hold the rules that say "at least".
bool Holds(const Rule& rule) {
  const bool at_least = rule.head_class != HeadClass::kUnknown && rule.head_class != HeadClass::kRetrieval &&
                        rule.head_class != HeadClass::kDiffuse;
  return at_least ? rule.margin >= 0 : rule.margin > 0;
}

}  // namespace

void Classify(const ClassEvidence& evidence, const ClassRules& rules, HeadStatistics* statistics) {
  if (SparsityAt(*statistics, kClassTarget) == statistics->sparsity.end()) return;
  const std::vector<Rule> all = RulesOf(evidence, rules, *statistics);
  const auto decides = std::find_if(all.begin(), all.end(), Holds);
  statistics->head_class = decides->head_class;
  statistics->class_reason = decides->reason;
  // What is nearest: an earlier rule that would come to hold, or, were this one to fail, the next that does. Where the
  // other rule has the same class, nothing changes.
  double least = std::numeric_limits<double>::infinity();
  const auto consider = [&](HeadClass other, double margin) {
    if (other == decides->head_class || margin >= least) return;
    least = margin;
    statistics->class_alternative = other;
  };
  statistics->class_alternative = decides->head_class;
  for (auto earlier = all.begin(); earlier != decides; ++earlier) consider(earlier->head_class, -earlier->margin);
  consider(decides->sibling, decides->sibling_margin);
  if (decides + 1 != all.end()) consider(std::find_if(decides + 1, all.end(), Holds)->head_class, decides->margin);
  statistics->class_confidence =
      rules.sure_margin > 0 ? std::clamp(least / rules.sure_margin, 0.0, 1.0) : (least > 0 ? 1.0 : 0.0);
}

}  // namespace headscope::analysis
