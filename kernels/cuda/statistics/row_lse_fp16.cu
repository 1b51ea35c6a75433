// SPDX-License-Identifier: Apache-2.0
#include "statistics/row_lse_hopper.cuh"

namespace headscope::kernels::statistics {

cudaError_t LaunchRowLseFp16D64(const RowLseParams& params, int num_multiprocessors, cudaStream_t stream) {
  return LaunchRowLse<RowLseTraits<false, 64, 4, 6>>(params, num_multiprocessors, stream);
}
cudaError_t LaunchRowLseFp16D128(const RowLseParams& params, int num_multiprocessors, cudaStream_t stream) {
  return LaunchRowLse<RowLseTraits<false, 128, 4, 3>>(params, num_multiprocessors, stream);
}
cudaError_t LaunchRowLseFp16D256(const RowLseParams& params, int num_multiprocessors, cudaStream_t stream) {
  return LaunchRowLse<RowLseTraits<false, 256, 3, 2>>(params, num_multiprocessors, stream);
}

}  // namespace headscope::kernels::statistics
