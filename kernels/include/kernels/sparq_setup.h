// SPDX-License-Identifier: Apache-2.0
// What a caller of SparQ's decode step (kernels/cuda_decode.h) prepares on the host.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention_problem.h"
#include "kernels/cuda_decode.h"
#include "kernels/method_spec.h"

namespace headscope::kernels {

// The parameters of the method "sparq" for one problem: no more components than head_dim, no more tokens than seq_k,
// and the local window as its share of these tokens, rounded down. The selector on the CPU and the kernel on the GPU
// read them alike.
SparqCudaOptions SparqOptions(const ParameterValues& values, const AttentionProblem& problem);

// Elements between two components of a component-major copy of seq_k keys: whole lines of 128 bytes.
int64_t ComponentStride(int64_t seq_k);

// The component-major copy: k [num_lists, seq_k, head_dim] of 2-byte elements, contiguous, as [num_lists, head_dim,
// ComponentStride(seq_k)]; zeros behind the last token. A list is one KV head of one sequence. num_threads 0: all
// cores.
std::vector<uint16_t> ComponentMajorKeys(const void* k, int64_t num_lists, int64_t seq_k, int64_t head_dim,
                                         int32_t num_threads);

}  // namespace headscope::kernels
