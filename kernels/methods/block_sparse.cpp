// SPDX-License-Identifier: Apache-2.0
// MInference block-sparse: the key blocks whose pooled score with a pooled query block is largest.
//
// Source: MInference 1.0, Algorithm 3. Q and K are mean-pooled in blocks of 64; every query block keeps its n_blocks
// best causal key blocks. Scale and softmax are left out of the estimate: neither changes the order inside a row.
// Nothing is forced, neither the diagonal nor the first block.
//
// Choices where the paper is silent: a ragged last block is the mean of its valid rows; future blocks are never listed,
// so a query block with fewer than n_blocks causal blocks keeps them all; equal scores go to the earlier block.
#include <algorithm>

#include "common_parameters.h"
#include "head_groups.h"
#include "kernels/cpu_scores.h"
#include "key_blocks.h"
#include "registry.h"
#include "selector.h"
#include "top_k.h"

namespace headscope::kernels {
namespace {

constexpr int32_t kBlock = 64;

MethodSpec BlockSparseSpec() {
  return {
      .name = "block-sparse",
      .title = "MInference block-sparse",
      .family = "dynamic pattern",
      .paper =
          "MInference 1.0: Accelerating Pre-filling for Long-Context LLMs via Dynamic Sparse Attention, Algorithm 3",
      .summary = "Keeps, per block of 64 queries, the blocks of 64 keys with the largest pooled score.",
      .always_keeps = "nothing, the diagonal included",
      .selection_cost = "the means of blocks of 64, S d elements read, and 2 (S / 64)^2 d FLOPs, a head",
      .phase = Phase::kPrefill,
      .chosen_per = ChosenPer::kQueryHead,
      .minference = {.name = "block_sparse", .first = "n_blocks"},
      .parameters = {internal::KeyBlocksKept(kBlock)},
  };
}

class BlockSparseMethod final : public internal::PrefillSelector {
 public:
  BlockSparseMethod() : PrefillSelector(BlockSparseSpec()) {}

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                SparseIndex* index) const override {
    return internal::SelectByHead(
        problem, options,
        [&](const internal::HeadGroup& group, SparseIndexBuilder* builder) {
          const PackedKeys keys = internal::PoolVisibleKeys(problem, group.sequence, group.kv_head, kBlock);
          for (int32_t i = 0; i < group.num_heads && !options.stop.stop_requested(); ++i) {
            AddLists(problem, options, keys, group.sequence, group.first_head + i, values.Integer("n_blocks"), builder);
          }
        },
        index);
  }

 private:
  static void AddLists(const AttentionProblem& problem, const RunOptions& options, const PackedKeys& keys,
                       int32_t sequence, int32_t head, int32_t num_kept, SparseIndexBuilder* builder) {
    const int64_t q_offset = sequence * problem.q.batch_stride + head * problem.q.head_stride;
    const std::vector<float> queries =
        internal::PoolRows(problem.q, problem.dtype, q_offset, problem.seq_q, problem.head_dim, kBlock);
    std::vector<float> scores(2 * static_cast<size_t>(keys.seq_k()));
    const int32_t num_query_blocks = (problem.seq_q + kBlock - 1) / kBlock;
    for (int32_t first_block = 0; first_block < num_query_blocks; first_block += 2) {
      if (options.stop.stop_requested()) return;
      const int32_t num_halves = std::min(2, num_query_blocks - first_block);
      ScoreBlock(queries.data() + int64_t{first_block} * problem.head_dim, problem.head_dim, num_halves, keys, 0,
                 keys.seq_k(), 1.0f, 0.0f, scores.data(), keys.seq_k());
      for (int32_t half = 0; half < num_halves; ++half) {
        const int32_t end_row = std::min((first_block + half + 1) * kBlock, problem.seq_q);
        const size_t num_causal = static_cast<size_t>((problem.first_position + end_row - 1) / kBlock) + 1;
        const float* const row = scores.data() + int64_t{half} * keys.seq_k();
        for (const int32_t block : internal::TopK({row, num_causal}, num_kept)) {
          builder->AddRange(int64_t{block} * kBlock, (int64_t{block} + 1) * kBlock,
                            half == 0 ? kRunUpperHalf : kRunLowerHalf);
        }
      }
      builder->FinishList();
    }
  }
};

}  // namespace

const PrefillMethod& BlockSparse() {
  static const BlockSparseMethod method;
  return method;
}

}  // namespace headscope::kernels
