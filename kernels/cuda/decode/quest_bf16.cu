// SPDX-License-Identifier: Apache-2.0
// Quest's bounds and scores, bf16.
#include "decode/quest_kernels.cuh"

namespace headscope::kernels::decode {

template cudaError_t LaunchPageBounds<__nv_bfloat16>(const QuestParams&, int, cudaStream_t);
template cudaError_t LaunchPageScores<__nv_bfloat16>(const QuestParams&, int, cudaStream_t);

}  // namespace headscope::kernels::decode
