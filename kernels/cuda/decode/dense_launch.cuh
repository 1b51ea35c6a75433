// SPDX-License-Identifier: Apache-2.0
// Definition of LaunchDense (decode_launch.h); included by each of its translation units.
#pragma once

#include "decode/decode_launch.cuh"
#include "decode/decode_launch.h"
#include "decode/dense_kernels.cuh"

namespace headscope::kernels::decode {

template <typename T, int D>
cudaError_t LaunchDense(const WithSinks<DenseParams>& params, cudaStream_t stream) {
  const DenseParams& without = params;
  if (params.sinks.count == 0) {
    return Launch(DenseKernel<T, D, DenseParams>, without, params.blocks, params.warps * 32, params.shared_bytes,
                  /*together=*/true, stream);
  }
  return Launch(DenseKernel<T, D, WithSinks<DenseParams>>, params, params.blocks, params.warps * 32,
                params.shared_bytes, /*together=*/true, stream);
}

}  // namespace headscope::kernels::decode
