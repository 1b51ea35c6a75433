// SPDX-License-Identifier: Apache-2.0
// AttendSelectionCuda as part of a longer chain of launches.
#pragma once

#include <cstddef>

#include "kernels/cuda_decode_selection.h"

namespace headscope::kernels::decode {

// chained: behind a kernel of the call that makes the lists; where the tensor cores take the step, it is launched
// before that kernel has ended (dependent_launch.cuh).
Status AttendSelection(const AttentionProblem& problem, const CudaSelection& selection, const AttentionOutput& output,
                       void* workspace, size_t workspace_bytes, bool chained, void* stream);

}  // namespace headscope::kernels::decode
