// SPDX-License-Identifier: Apache-2.0
#include "statistics/row_lse_hopper.cuh"

namespace headscope::kernels::statistics {

cudaError_t LaunchRowLseBf16D64(const RowLseParams& params, int num_multiprocessors, cudaStream_t stream) {
  return LaunchRowLse<RowLseTraits<true, 64, 4, 6>>(params, num_multiprocessors, stream);
}
cudaError_t LaunchRowLseBf16D128(const RowLseParams& params, int num_multiprocessors, cudaStream_t stream) {
  return LaunchRowLse<RowLseTraits<true, 128, 4, 3>>(params, num_multiprocessors, stream);
}
cudaError_t LaunchRowLseBf16D256(const RowLseParams& params, int num_multiprocessors, cudaStream_t stream) {
  return LaunchRowLse<RowLseTraits<true, 256, 3, 2>>(params, num_multiprocessors, stream);
}

}  // namespace headscope::kernels::statistics
