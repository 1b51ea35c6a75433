// SPDX-License-Identifier: Apache-2.0
// What every CUDA executor asks of its arguments before it launches anything. All errors name the field, its value and
// what is allowed: kInvalidArgument, and kUnsupported for what the CPU takes.
#pragma once

#include <cstddef>
#include <string>

#include "kernels/attention_problem.h"
#include "kernels/sparse_index.h"
#include "kernels/status.h"

namespace headscope::kernels {

// Sizes, heads, positions, scale and soft cap are positive and in range, the dtype is one that is known, and sinks are
// finite and of no more heads than a launch takes (head_sinks.h). Looks at no tensor.
Status CheckShape(const AttentionProblem& problem);

// kUnsupported where the problem has a window, for what takes none.
Status CheckNoWindow(const AttentionProblem& problem);

// The index is of the problem's shape, its arrays are there and aligned to their elements. Looks at no device memory:
// lists are checked by Validate() where they are made.
Status CheckIndex(const AttentionProblem& problem, const SparseIndexView& index);

// Both, and the tensors: present, aligned to their elements, rows of q, k and v apart from the rows beside them, and
// all rows of the output apart from one another.
Status CheckProblem(const AttentionProblem& problem, const SparseIndexView& index, const AttentionOutput& output);

// Where the arrays of a call that passed the checks above lie (device_pointers.h), the last question before a launch:
// it takes a GPU to answer.
Status CheckIndexOnDevice(const SparseIndexView& index, void* stream);
Status CheckProblemOnDevice(const AttentionProblem& problem, const SparseIndexView& index,
                            const AttentionOutput& output, void* stream);

// A pointer that the GPU reads or writes in words of `alignment` bytes. The kernel that met another would end with
// cudaErrorMisalignedAddress, which no later call of the process survives.
Status CheckPointer(const std::string& field, const void* pointer, size_t alignment);

// What an executor writes of a row beside O: aligned, where it is wanted.
Status CheckRowOutputs(const AttentionOutput& output);

// An output of the problem's [batch, num_qo_heads, seq_q, v_head_dim], no two rows of which share memory: what is
// written must not be written twice.
Status CheckDisjoint(const std::string& field, const StridedTensor<void>& tensor, const AttentionProblem& problem);

// "batch 1, 32:8 heads, 4096 x 4096, head_dim 128", for messages.
std::string Describe(const AttentionProblem& problem);

}  // namespace headscope::kernels
