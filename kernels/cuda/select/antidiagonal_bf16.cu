// SPDX-License-Identifier: Apache-2.0
#include "select/antidiagonal.cuh"

namespace headscope::kernels::selection {

cudaError_t LaunchAntidiagonalBf16(const AntidiagonalParams& params, int num_multiprocessors, cudaStream_t stream) {
  return LaunchAntidiagonal<true>(params, num_multiprocessors, stream);
}

}  // namespace headscope::kernels::selection
