// SPDX-License-Identifier: Apache-2.0
// The best blocks by exact attention: an upper bound for every method that keeps blocks of 64 x 64.
//
// The blocks of 64 keys to which a block of 64 query rows gives the largest exact mass: no other choice of as many
// blocks keeps more mass on average over these rows (the least row may do better elsewhere). It costs as much as dense
// attention; no claim of speed is made.
#include "common_parameters.h"
#include "exact_mass.h"
#include "registry.h"
#include "selector.h"
#include "top_k.h"

namespace headscope::kernels {
namespace {

MethodSpec OracleBlocksSpec() {
  return {
      .name = "oracle-blocks",
      .title = "Oracle blocks",
      .family = "oracle",
      .paper = "none: the upper bound of block-sparse methods (MInference 1.0, section 3.2, has its pattern)",
      .summary = "Keeps, per block of 64 queries, the blocks of 64 keys with the largest exact attention mass.",
      .always_keeps = "nothing",
      .selection_cost = "exact scores of every pair: as much as dense attention",
      .phase = Phase::kPrefill,
      .chosen_per = ChosenPer::kQueryHead,
      .parameters = {internal::KeyBlocksKept(internal::kOracleBlock)},
  };
}

class OracleBlocksMethod final : public internal::PrefillSelector {
 public:
  OracleBlocksMethod() : PrefillSelector(OracleBlocksSpec()) {}

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                SparseIndex* index) const override {
    return internal::SelectByExactMass(
        problem, options,
        [&](const internal::QueryBlock&, const std::vector<float>& mass, std::vector<int32_t>* blocks) {
          *blocks = internal::TopK(mass, values.Integer("n_blocks"));
        },
        index);
  }
};

}  // namespace

const PrefillMethod& OracleBlocks() {
  static const OracleBlocksMethod method;
  return method;
}

}  // namespace headscope::kernels
