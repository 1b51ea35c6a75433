// SPDX-License-Identifier: Apache-2.0
// Quest's step in one launch, bf16.
#include "decode/quest_cluster.cuh"

namespace headscope::kernels::decode {

template cudaError_t LaunchQuestStep<__nv_bfloat16>(const WithSinks<QuestStepParams>&, int, const QuestStepDevice&,
                                                    cudaStream_t, bool*);

}  // namespace headscope::kernels::decode
