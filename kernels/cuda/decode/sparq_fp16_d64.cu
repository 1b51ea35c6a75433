// SPDX-License-Identifier: Apache-2.0
#include "decode/sparq_launch.cuh"

namespace headscope::kernels::decode {

template cudaError_t LaunchSparq<__half, 64>(const SparqParams&, cudaStream_t);

}  // namespace headscope::kernels::decode
