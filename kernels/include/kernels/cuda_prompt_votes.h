// SPDX-License-Identifier: Apache-2.0
// SnapKV's choice of a prompt's tokens on the GPU (SnapKV: LLM Knows What You are Looking for Before Generation,
// section 4; docs/methods.md): all KV heads in each launch, without the host; it can be captured in a CUDA graph. Every
// pointer is a device pointer; nothing synchronises or allocates.
//
// Method: the rows' LSE (RowLseCuda, unless it is given), the sums of their probabilities per key (LineMassCuda, in
// fixed point), the mean over a group and the smoothing, and the best by a halving of the bits, ties by lower token.
//
// Errors: as those of kernels/cuda_statistics.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention_problem.h"
#include "kernels/prompt_votes.h"
#include "kernels/status.h"

namespace headscope::kernels {

// Bytes of scratch memory, aligned to 256 bytes; any contents. 16 bytes per query head and token, and little more.
size_t PromptVotesWorkspaceBytes(const AttentionProblem& prompt, const PromptVotes& votes);

// prompt: K of all seq_k tokens and, as its only rows, the last min(window, seq_k) queries (seq_q, first_position
// seq_k - seq_q); v is not read; bf16 or fp16. lse: [batch, num_qo_heads, seq_q] of those rows, natural log, or null:
// that of the causal softmax over all keys. tokens: int32 [batch, num_kv_heads, votes.kept], ascending.
Status KeepByPromptVotesCuda(const AttentionProblem& prompt, const PromptVotes& votes, const float* lse,
                             int32_t* tokens, void* workspace, size_t workspace_bytes, void* stream);

}  // namespace headscope::kernels
