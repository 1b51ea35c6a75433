// SPDX-License-Identifier: Apache-2.0
// Quest's step in one launch, fp16.
#include "decode/quest_cluster.cuh"

namespace headscope::kernels::decode {

template cudaError_t LaunchQuestStep<__half>(const WithSinks<QuestStepParams>&, int, const QuestStepDevice&,
                                             cudaStream_t, bool*);

}  // namespace headscope::kernels::decode
