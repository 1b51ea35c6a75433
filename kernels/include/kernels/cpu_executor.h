// CPU executors: any SparseIndex, any DecodeSelection, vectorised, on all cores, fp32 and bf16 input with fp32 accumulation.
//
// Method: one tile of query rows per task; key columns in blocks that fit the L1/L2 caches; full runs without mask code, partial runs with the
// element rule, gathered single columns last, in one online-softmax state. Tasks are handed out longest first. head_dim: any multiple of 8 up to 256.
#pragma once

#include "kernels/attention_problem.h"
#include "kernels/method.h"
#include "kernels/sparse_index.h"
#include "kernels/status.h"

namespace headscope::kernels {

// O = softmax(scale * Q K^T on the kept set) V and the LSE of every row. `output.o` is fp32 whatever the problem's dtype.
// A row that keeps nothing gives O = 0, LSE = -inf. On error (also kCancelled) the outputs are unspecified.
Status AttendCpu(const AttentionProblem& problem, const SparseIndexView& index, const AttentionOutput& output, const RunOptions& options);

// One decode step: attention over the selected tokens, plus the mean-value term. problem.seq_q == 1; `output.o` is fp32.
Status DecodeCpu(const AttentionProblem& problem, const DecodeSelection& selection, const AttentionOutput& output, const RunOptions& options);

// The naive twins: one row, one key at a time, float64, straight from AppendKeptRanges. For tests and for `--check`; no vector code is shared.
Status AttendReference(const AttentionProblem& problem, const SparseIndexView& index, const AttentionOutput& output);
Status DecodeReference(const AttentionProblem& problem, const DecodeSelection& selection, const AttentionOutput& output);

}  // namespace headscope::kernels
