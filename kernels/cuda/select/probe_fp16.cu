// SPDX-License-Identifier: Apache-2.0
#include "select/probe.cuh"

namespace headscope::kernels::selection {

cudaError_t LaunchProbeFp16(const ProbeParams& params, int32_t batch, cudaStream_t stream) {
  return LaunchProbeOf<false>(params, batch, stream);
}

}  // namespace headscope::kernels::selection
