// SPDX-License-Identifier: Apache-2.0
// NSA's choice of blocks, as a selector without training.
//
// Source: Native Sparse Attention: Hardware-Aligned and Natively Trainable Sparse Attention, section 3.3 (equations 8
// to 12) and section 4.1 (its settings). Keys in windows of 32, 16 apart; a query's softmax over them, summed over the
// query heads of a KV head, and over the windows of each block of 64; the 16 best blocks, the first and the two newest
// among them; and a window of 512 tokens.
//
// What is not here: the learned compression (the mean stands in for it, as in open implementations), the output of the
// compressed branch and the gates. The window is rounded out to whole blocks. Equation 9 as printed sums windows
// *before* a block (index - m - n); taken as + m - n, those that overlap it. A list of headscope's index belongs to 64
// rows: `rows` says how they agree.
#include "common_parameters.h"
#include "compressed_keys.h"
#include "registry.h"
#include "selector.h"

namespace headscope::kernels {
namespace {

MethodSpec NsaSpec() {
  return {
      .name = "nsa",
      .title = "NSA block selection",
      .family = "dynamic pattern",
      .paper = "Native Sparse Attention: Hardware-Aligned and Natively Trainable Sparse Attention, section 3.3",
      .summary = "Keeps the blocks of 64 keys with most attention to compressed keys, and a window (without training).",
      .always_keeps = "the first block, the two newest and the window n_local",
      .selection_cost = "scores of every query for a mean key of every 16 tokens, 2 S^2 d / 16 FLOPs, a query head",
      .phase = Phase::kPrefill,
      .chosen_per = ChosenPer::kKvHead,
      .parameters =
          {
              {.name = "n_blocks",
               .default_value = 16,
               .minimum = 3,
               .maximum = 1 << 14,
               .step = 1,
               .logarithmic = true,
               .unit = Unit::kBlocks,
               .help = "key blocks per query, the first and the two newest among them",
               .cost = "64 more pairs per row and block",
               .role = ParameterRole::kBudget,
               .tokens_per_unit = 64,
               .scaled_floor = 4},
              {.name = "n_local",
               .default_value = 512,
               .minimum = 0,
               .maximum = 1 << 20,
               .step = 64,
               .logarithmic = true,
               .unit = Unit::kTokens,
               .help = "newest tokens that every row keeps (NSA's third branch)",
               .cost = "one more pair per row and token",
               .scaled_floor = 64},
              internal::RowsSharing(),
          },
  };
}

class NsaMethod final : public internal::PrefillSelector {
 public:
  NsaMethod() : PrefillSelector(NsaSpec()) {}

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                SparseIndex* index) const override {
    internal::CompressedChoice choice;
    choice.n_blocks = values.Integer("n_blocks");
    choice.n_first = 1;
    choice.n_own = 2;
    choice.n_local = values.Integer("n_local");
    choice.union_of_rows = values.Choice<internal::RowsAgree>("rows") == internal::RowsAgree::kUnion;
    return internal::SelectByCompressedKeys(problem, choice, options, index);
  }
};

}  // namespace

const PrefillMethod& Nsa() {
  static const NsaMethod method;
  return method;
}

}  // namespace headscope::kernels
