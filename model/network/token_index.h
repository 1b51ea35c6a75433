// SPDX-License-Identifier: Apache-2.0
// DeepSeek's index ("DeepSeek-V3.2", section 2.1): of each row, the keys that its attention sees. A token's key has one
// score for a row, the sum over the index's heads of weight * relu(q.k); the best of those up to the row are chosen.
#pragma once

#include <ATen/core/Tensor.h>

#include <stop_token>

#include "model/model_config.h"
#include "network/rope.h"
#include "network/row_blocks.h"
#include "network/weights.h"

namespace headscope::model {

// Of one pass.
struct IndexVectors {
  at::Tensor q;        // [heads, rows, dim]
  at::Tensor k;        // [1, rows, dim]
  at::Tensor weights;  // [heads, rows] fp32
};

// x [rows, hidden] is what attention reads, latent [rows, q_rank] q's latent behind its norm. The published code also
// turns both vectors by a Hadamard matrix and rounds them to FP8: products stay the same, but for that rounding.
IndexVectors MakeIndexVectors(const at::Tensor& x, const at::Tensor& latent, const IndexWeights& w,
                              const IndexRules& rules, const RotaryEmbedding::Tables& positions);

// Of the keys [tokens, dim] of all tokens so far, those of the pass the last: tokens [rows, min(count, tokens)] int32,
// rising, filled up with -1. Of equal scores, which relu makes where all products are negative, the first tokens count:
// the choice is the same in whatever passes a text is fed, and in whatever blocks of rows: of `block_scores` scores, or
// one row's. Throws CancelledError between two blocks.
at::Tensor ChooseTokens(const IndexVectors& of_pass, const at::Tensor& keys, int64_t count, const std::stop_token& stop,
                        int64_t block_scores = kBlockScores);

}  // namespace headscope::model
