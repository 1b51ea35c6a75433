// SPDX-License-Identifier: Apache-2.0
// SparQ's selection on the CPU as a generation runs it, step by step: what it keeps beside its KV cache (K once more,
// component-major, and the running mean of V) is made once and moved on with every token, and is no part of a step.
//
// The copy is what lets the estimate read r of head_dim components and no more: where a token's components lie side by
// side, r of them scattered over a row touch nearly all of its cache lines. A step then moves r components of every
// key, and k rows of K and of V.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/attention_problem.h"
#include "kernels/cuda_decode.h"
#include "kernels/decode_selection.h"
#include "kernels/run_options.h"
#include "kernels/status.h"

namespace headscope::kernels {

// Makes the component-major copy of all keys of `problem` (q and v are not looked at), with room for `capacity` tokens
// (0: for these): *memory holds it, *keys points into it. The first tokens of it serve any step before the last; tokens
// from `first` on are keys->data moved by as many elements. Errors: those of the problem, kCancelled, kOutOfMemory.
Status TransposeKeysCpu(const AttentionProblem& problem, const RunOptions& options, std::vector<std::byte>* memory,
                        TransposedKeys* keys, int64_t capacity = 0);

// The mean of all rows of V, fp32 [batch, num_kv_heads, v_head_dim]. Reads all of V.
Status MeanValueCpu(const AttentionProblem& problem, const RunOptions& options, float* mean);

// The write side of a step, as AppendTokenCuda: the row at position seq_k - 1 goes into the copy, which has room for
// it, and the mean moves on: mean += (v - mean) / seq_k. Either may be left out (null), not both.
Status AppendTokenCpu(const AttentionProblem& problem, const TransposedKeys& keys, float* mean);

// What the method "sparq" keeps for one step. keys.data null: the estimate reads whole rows of K. mean null, where
// options.mean_value asks for it: it is made here, from all of V, which costs as much as a dense step saves.
Status SelectSparqCpu(const AttentionProblem& problem, const SparqCudaOptions& sparq, const TransposedKeys& keys,
                      const float* mean, const RunOptions& options, DecodeSelection* selection);

}  // namespace headscope::kernels
