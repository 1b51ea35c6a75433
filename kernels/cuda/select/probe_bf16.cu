// SPDX-License-Identifier: Apache-2.0
#include "select/probe.cuh"

namespace headscope::kernels::selection {

cudaError_t LaunchProbeBf16(const ProbeParams& params, int32_t batch, cudaStream_t stream) {
  return LaunchProbeOf<true>(params, batch, stream);
}

}  // namespace headscope::kernels::selection
