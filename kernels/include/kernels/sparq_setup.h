// SPDX-License-Identifier: Apache-2.0
// SparQ's decode step (kernels/cuda_decode.h) as the method's parameters have it.
#pragma once

#include <cstdint>

#include "kernels/attention_problem.h"
#include "kernels/cuda_decode.h"
#include "kernels/method_spec.h"

namespace headscope::kernels {

// The parameters of the method "sparq" for one problem: no more components than head_dim, no more tokens than seq_k,
// and the local window as its share of these tokens, rounded down. The selector on the CPU and the kernel on the GPU
// read them alike.
SparqCudaOptions SparqOptions(const ParameterValues& values, const AttentionProblem& problem);

// Whether these values of it have K once more, by components; without that copy the estimate reads whole keys.
bool SparqHasTwoCopies(const ParameterValues& values);

// Elements between two components of a component-major copy of seq_k keys: whole lines of 128 bytes.
int64_t ComponentStride(int64_t seq_k);

}  // namespace headscope::kernels
