// SPDX-License-Identifier: Apache-2.0
// The naive executors' work on one row: float64, one key at a time (reference.cpp). Arguments were checked.
#pragma once

#include <cstdint>

#include "kernels/attention_problem.h"
#include "kernels/decode_selection.h"
#include "kernels/sparse_index.h"

namespace headscope::kernels {

// Writes O and, where they are asked for, the LSE and the largest score of one query row over what the index keeps of
// it.
void AttendRow(const AttentionProblem& problem, const SparseIndexView& index, int32_t sequence, int32_t head,
               int32_t row, const AttentionOutput& output);

// The same of one query head of a decode step.
void DecodeHead(const AttentionProblem& problem, const DecodeSelection& selection, int32_t sequence, int32_t head,
                const AttentionOutput& output);

// Natural-log LSE of one query row over the keys [begin, end), and its sink; -inf where there is neither.
float LseOfRow(const AttentionProblem& problem, int32_t sequence, int32_t head, int32_t row, int32_t begin,
               int32_t end);

}  // namespace headscope::kernels
