// SPDX-License-Identifier: Apache-2.0
// InfLLM-V2's two stages (MiniCPM4's sparse attention), as a selector.
//
// Source: InfLLM-V2: Dense-Sparse Switchable Attention for Seamless Short-to-Long Adaptation, section 3. Keys in
// windows of 32, 16 apart, stood for by their mean; a query's softmax over them, summed over the query heads of a KV
// head; a block of 64 keys has the largest share of the windows that overlap it; kept are the newest blocks, a window
// of them with the query's own, and the top_k best of the others, the first ones among these. The defaults are
// MiniCPM4's (top_k 64, one first block, a window of 2048: 96 blocks in all). Up to a length of 8192 its models attend
// densely, which is a matter of when one applies the method.
//
// Where the source is silent: windows that have not ended are not scored. A list of headscope's index belongs to 64
// rows: `rows` says how they agree.
#include "common_parameters.h"
#include "compressed_keys.h"
#include "registry.h"
#include "selector.h"

namespace headscope::kernels {
namespace {

MethodSpec InfllmV2Spec() {
  return {
      .name = "infllm-v2",
      .title = "InfLLM-V2",
      .family = "dynamic pattern",
      .paper = "InfLLM-V2: Dense-Sparse Switchable Attention for Seamless Short-to-Long Adaptation, section 3",
      .summary = "Keeps the first blocks, a window, and the blocks of 64 keys whose means get most attention.",
      .always_keeps = "the first n_first blocks and the window n_local",
      .selection_cost = "scores of every query for a mean key of every 16 tokens, 2 S^2 d / 16 FLOPs, a query head",
      .phase = Phase::kPrefill,
      .chosen_per = ChosenPer::kKvHead,
      .parameters =
          {
              {.name = "top_k",
               .default_value = 64,
               .minimum = 0,
               .maximum = 1 << 14,
               .step = 1,
               .logarithmic = true,
               .unit = Unit::kBlocks,
               .help = "key blocks per query beside the window's, the first among them",
               .cost = "64 more pairs per row and block",
               .role = ParameterRole::kBudget,
               .tokens_per_unit = 64,
               .scaled_floor = 2},
              {.name = "n_first",
               .default_value = 1,
               .minimum = 0,
               .maximum = 1 << 14,
               .step = 1,
               .unit = Unit::kBlocks,
               .help = "first key blocks that every row keeps",
               .cost = "64 more pairs per row and block",
               .tokens_per_unit = 64},
              {.name = "n_local",
               .default_value = 2048,
               .minimum = 1,
               .maximum = 1 << 20,
               .step = 64,
               .logarithmic = true,
               .unit = Unit::kTokens,
               .help = "window in whole blocks, rounded up, the query's own among them",
               .cost = "one more pair per row and token",
               .scaled_floor = 64},
              internal::RowsSharing(),
          },
  };
}

class InfLlmV2Method final : public internal::PrefillSelector {
 public:
  InfLlmV2Method() : PrefillSelector(InfllmV2Spec()) {}

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                SparseIndex* index) const override {
    internal::CompressedChoice choice;
    choice.maximum = true;
    choice.n_blocks = values.Integer("top_k");
    choice.n_first = values.Integer("n_first");
    choice.n_own = (values.Integer("n_local") + choice.block - 1) / choice.block;
    choice.own_counts = false;
    choice.union_of_rows = values.Choice<internal::RowsAgree>("rows") == internal::RowsAgree::kUnion;
    return internal::SelectByCompressedKeys(problem, choice, options, index);
  }
};

}  // namespace

const PrefillMethod& InfLlmV2() {
  static const InfLlmV2Method method;
  return method;
}

}  // namespace headscope::kernels
