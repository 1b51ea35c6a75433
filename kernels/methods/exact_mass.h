// SPDX-License-Identifier: Apache-2.0
// The exact attention mass that a block of query rows gives to every key: what oracles choose by.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/attention_problem.h"
#include "kernels/run_options.h"
#include "kernels/sparse_index.h"
#include "key_blocks.h"

namespace headscope::kernels::internal {

// choose(rows, mass, blocks): from the mass that the rows give to each block of 64 keys (those of NumKeyBlocks) appends
// the blocks that they keep. Blocks of 64 rows. Cost: dense attention's scores.
using ChooseByMass =
    std::function<void(const QueryBlock& rows, const std::vector<float>& mass, std::vector<int32_t>* blocks)>;
Status SelectByExactMass(const AttentionProblem& problem, const RunOptions& options, const ChooseByMass& choose,
                         SparseIndex* index);

// The same by several choices, the mass summed once: an index for each of them. Of one head.
Status SelectByExactMass(const AttentionProblem& problem, const RunOptions& options,
                         const std::vector<ChooseByMass>& choices, std::vector<SparseIndex>* indices);

// A block's edge in tokens.
inline constexpr int32_t kOracleBlock = 64;

}  // namespace headscope::kernels::internal
