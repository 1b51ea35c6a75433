// SPDX-License-Identifier: Apache-2.0
// The fewest blocks that hold a share of the exact attention: what methods that keep a share of an estimated mass in
// blocks (FlexPrefill, XAttention, SpargeAttn, ..) aim at.
//
// Per block of 64 query rows the fewest blocks of 64 keys that together have the share p of these rows' exact mass: no
// choice of fewer blocks for the 64 rows has as much on average over them. It bounds neither a row's own mass nor the
// output's error, nor what a choice row by row keeps. It costs as much as dense attention; no claim of speed is made.
#include <cstdint>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "exact_mass.h"
#include "kernels/several_settings.h"
#include "mass_share.h"
#include "registry.h"
#include "selector.h"

namespace headscope::kernels {
namespace {

MethodSpec OracleTopPSpec() {
  return {
      .name = "oracle-top-p",
      .title = "Oracle top-p",
      .family = "oracle",
      .paper =
          "none: block-sparse methods with a share of mass, had they known it (XAttention, section 2.2, has the rule)",
      .summary =
          "Keeps, per block of 64 queries, the fewest blocks of 64 keys that have the share p of the exact mass.",
      .always_keeps = "nothing",
      .selection_cost = "exact scores of every pair: as much as dense attention",
      .phase = Phase::kPrefill,
      .chosen_per = ChosenPer::kQueryHead,
      .parameters = {{.name = "p",
                      .type = ParameterType::kReal,
                      .default_value = 0.95,
                      .step = 0.01,
                      .unit = Unit::kShareOfMass,
                      .help = "share of the exact mass that every block of query rows keeps",
                      .cost = "more blocks, and many more near 1",
                      .role = ParameterRole::kMassShare}},
  };
}

internal::ChooseByMass WithShare(double share) {
  return [share](const internal::QueryBlock&, const std::vector<float>& mass, std::vector<int32_t>* blocks) {
    *blocks = internal::TopShare(mass, share);
  };
}

class OracleTopPMethod final : public internal::PrefillSelector, public SelectsSeveral {
 public:
  OracleTopPMethod() : PrefillSelector(OracleTopPSpec()) {}

  Status SelectEach(const AttentionProblem& problem, std::span<const ParameterValues> settings,
                    const RunOptions& options, std::vector<SparseIndex>* indices) const override try {
    std::vector<internal::ChooseByMass> choices;
    for (const ParameterValues& values : settings) {
      if (Status status = CheckSelect(problem, values); !status.ok()) return status;
      choices.push_back(WithShare(values.Real("p")));
    }
    if (int64_t{problem.batch} * problem.num_qo_heads == 1)
      return internal::SelectByExactMass(problem, options, choices, indices);
    std::vector<SparseIndex> made(settings.size());
    for (size_t i = 0; i < made.size(); ++i) {
      if (Status status = Select(problem, settings[i], options, &made[i]); !status.ok()) return status;
    }
    *indices = std::move(made);
    return {};
  } catch (const std::bad_alloc&) {
    return {StatusCode::kOutOfMemory, "not enough memory for the mass of all blocks or the results of this selection"};
  }

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                SparseIndex* index) const override {
    return internal::SelectByExactMass(problem, options, WithShare(values.Real("p")), index);
  }
};

}  // namespace

const PrefillMethod& OracleTopP() {
  static const OracleTopPMethod method;
  return method;
}

}  // namespace headscope::kernels
