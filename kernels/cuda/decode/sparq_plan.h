// SPDX-License-Identifier: Apache-2.0
// How a SparQ call is cut into spans and shared memory.
#pragma once

#include <cstddef>

#include "decode/decode_params.h"
#include "decode/dense_plan.h"
#include "kernels/attention_problem.h"
#include "kernels/cuda_decode.h"
#include "kernels/status.h"

namespace headscope::kernels::decode {

// kUnsupported where a block's scores do not fit its shared memory, or the spans of a grouped KV head, which wait for
// each other, are more than the GPU is sure to run at once. whole_rows: without the second copy of K.
Status PlanSparq(const AttentionProblem& problem, const SparqCudaOptions& options, bool whole_rows,
                 const DecodeDevice& device, SparqPlan* plan);

// The microseconds that a step is expected to take longer than the dense one; negative: shorter, so that it pays. From
// the measured times of 2400 steps (docs/kernels/decode.md), which a step must beat with some room. whole_rows: as
// above.
double SparqBehindDense(const AttentionProblem& problem, const SparqCudaOptions& options, bool whole_rows);

// Byte offsets of the scratch arrays of SparqParams, but `finished`, with which the workspace begins.
struct SparqScratch {
  size_t key, token, value, softmax, local_share, total;
};
SparqScratch LayOutScratch(const AttentionProblem& problem, const DecodeDevice& device, const SparqPlan& plan);

}  // namespace headscope::kernels::decode
