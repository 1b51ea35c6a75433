// SPDX-License-Identifier: Apache-2.0
// CPU executors: any SparseIndex, any DecodeSelection, vectorised, on all cores; fp32, bf16 and fp16 input, fp32
// accumulation.
//
// Method: one tile of query rows per task, longest first. Query rows lie in vector lanes, keys pass by in blocks of
// 128: Q K^T, one online-softmax step, P V. Long fp32 runs are read where they lie; short runs and single columns are
// collected into full blocks; partial runs come last and only they pay for a mask. The order of additions is fixed:
// results have the same bits with any number of threads. Sinks join at the end; a window that the problem has masks
// what the index keeps. Limits: head_dim and v_head_dim multiples of 8 up to 256; positions up to 2^30. A key that no
// row of a tile keeps is never read. A NaN or infinity in the *value* of a key that one row keeps may reach the other
// rows of its tile (0 * NaN). Weights below 2^-126 of a row's largest are 0.
#pragma once

#include "kernels/attention_problem.h"
#include "kernels/decode_selection.h"
#include "kernels/run_options.h"
#include "kernels/sparse_index.h"
#include "kernels/status.h"

namespace headscope::kernels {

// O = softmax(scale * Q K^T on the kept set) V, and the LSE and largest score of every row. `output.o` is fp32 whatever
// the problem's dtype. A row that keeps nothing gives O = 0, LSE and largest score -inf. A refused problem writes
// nothing; after kCancelled or kOutOfMemory the outputs are unspecified.
Status AttendCpu(const AttentionProblem& problem, const SparseIndexView& index, const AttentionOutput& output,
                 const RunOptions& options);

// One decode step: attention over the selected tokens, plus the mean-value term (output.lse and row_max are those
// of the tokens alone). problem.seq_q == 1; `output.o` is fp32. Same errors as AttendCpu.
Status DecodeCpu(const AttentionProblem& problem, const DecodeSelection& selection, const AttentionOutput& output,
                 const RunOptions& options);

// The naive twins: one row, one key at a time, float64, straight from AppendKeptRanges. For tests and for `--check`; no
// vector code is shared.
Status AttendReference(const AttentionProblem& problem, const SparseIndexView& index, const AttentionOutput& output);
Status DecodeReference(const AttentionProblem& problem, const DecodeSelection& selection,
                       const AttentionOutput& output);

}  // namespace headscope::kernels
