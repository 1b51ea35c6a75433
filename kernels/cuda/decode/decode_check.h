// SPDX-License-Identifier: Apache-2.0
// What the decode calls ask of their arguments before they launch anything. Nothing here looks at device memory.
#pragma once

#include "kernels/cuda_decode.h"
#include "kernels/cuda_decode_step.h"
#include "kernels/cuda_quest.h"

namespace headscope::kernels::decode {

// Sizes that the decode kernels take: one query row at the last position, bf16 or fp16, head_dim 64 or 128. Looks at no
// tensor. Errors: kInvalidArgument, kUnsupported, naming the field, its value and what is allowed.
Status CheckKeysShape(const AttentionProblem& problem);
// And values of the same head_dim. Errors as above.
Status CheckDecodeShape(const AttentionProblem& problem);

// The shape, and q, k, v, o: present, aligned as the kernels read them, heads and sequences of o apart. Errors as
// above.
Status CheckDecode(const AttentionProblem& problem, const AttentionOutput& output);

// The cache's keys alone, of a shape that passed: present and aligned. Errors as above.
Status CheckKeys(const AttentionProblem& problem);

// The same for a step over any selection: fp32 as well, and other sizes (selection_params.h). Errors as above.
Status CheckSelectionShape(const AttentionProblem& problem);
Status CheckSelectionStep(const AttentionProblem& problem, const AttentionOutput& output);

// What Quest takes. Errors as above.
Status CheckQuestShape(const AttentionProblem& problem, const QuestCudaOptions& options);

// What SparQ takes, and what it asks for besides. Errors as above.
Status CheckSparqShape(const AttentionProblem& problem, const SparqCudaOptions& options);
Status CheckSparq(const AttentionProblem& problem, const SparqCudaOptions& options, const TransposedKeys& transposed,
                  const float* mean_value);

// The appended token's operands. Errors as above.
Status CheckAppend(const AttentionProblem& problem, const TransposedKeys& transposed, const float* mean_value);

// The first of the tokens by which something kept beside the cache moves on. Errors: kInvalidArgument.
Status CheckFirstToken(const AttentionProblem& problem, int32_t first_token);

// What a step keeps: there, and with room for the problem's tokens. Errors: kInvalidArgument.
Status CheckKept(const AttentionProblem& problem, const CudaKept& kept);

// The caller's scratch memory: large enough, and aligned as cudaMalloc aligns. `bytes_from` is who says how much that
// is. Errors: kInvalidArgument.
Status CheckWorkspace(const void* workspace, size_t bytes, size_t needed, const char* bytes_from);

// Where the arrays of a call that passed the checks above lie (device_pointers.h): needs a GPU, comes last. Null: left
// out. Errors: kInvalidArgument.
Status CheckDecodeOnDevice(const AttentionProblem& problem, const AttentionOutput& output,
                           const TransposedKeys& transposed, const float* mean_value, const int32_t* chosen_tokens,
                           const void* workspace, void* stream);
Status CheckAppendOnDevice(const AttentionProblem& problem, const TransposedKeys& transposed, const float* mean_value,
                           const void* workspace, void* stream);

}  // namespace headscope::kernels::decode
