// What every CUDA executor asks of its arguments before it launches anything.
#pragma once

#include "kernels/attention_problem.h"
#include "kernels/sparse_index.h"
#include "kernels/status.h"

namespace headscope::kernels {

// Sizes, heads, positions, scale and soft cap are positive and in range. Looks at no tensor. Errors: kInvalidArgument,
// as below.
Status CheckShape(const AttentionProblem& problem);

// Pointers present, shapes positive and in range, index and problem of the same shape. Looks at no device memory: lists
// are checked by Validate() where they are made. Errors: kInvalidArgument, naming the field, its value and what is
// allowed.
Status CheckProblem(const AttentionProblem& problem, const SparseIndexView& index, const AttentionOutput& output);

// "batch 1, 32:8 heads, 4096 x 4096, head_dim 128", for messages.
std::string Describe(const AttentionProblem& problem);

}  // namespace headscope::kernels
