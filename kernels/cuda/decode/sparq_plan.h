// How a SparQ call is cut into spans, stages and shared memory.
#pragma once

#include <cstddef>

#include "decode/decode_params.h"
#include "kernels/attention_problem.h"
#include "kernels/cuda_decode.h"
#include "kernels/status.h"

namespace headscope::kernels::decode {

// kUnsupported where the scores of a grouped KV head do not fit the shared memory of one cluster. The part that decides
// about the workspace (spans, capacity, selected, local) is filled even then. whole_rows: without the second copy of K.
Status PlanSparq(const AttentionProblem& problem, const SparqCudaOptions& options, bool whole_rows, SparqPlan* plan);

// Byte offsets of the scratch arrays of SparqParams.
struct SparqScratch {
  size_t finished, key, token, value, local, softmax, total;
};
SparqScratch LayOutScratch(const AttentionProblem& problem, const SparqPlan& plan);

}  // namespace headscope::kernels::decode
