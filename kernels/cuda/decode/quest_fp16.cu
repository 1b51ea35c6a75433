// SPDX-License-Identifier: Apache-2.0
// Quest's bounds and scores, fp16.
#include "decode/quest_kernels.cuh"

namespace headscope::kernels::decode {

template cudaError_t LaunchPageBounds<__half>(const QuestParams&, int, cudaStream_t);
template cudaError_t LaunchPageScores<__half>(const QuestParams&, int, cudaStream_t);

}  // namespace headscope::kernels::decode
