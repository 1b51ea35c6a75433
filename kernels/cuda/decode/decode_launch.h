// Typed launchers, one translation unit per (element type, head_dim), so that each compiles in seconds and changes
// alone.
#pragma once

#include <cuda_runtime_api.h>

#include "decode/dense_kernels.cuh"
#include "decode/sparq_kernels.cuh"

namespace headscope::kernels::decode {

// params.group is 1, 2, 4 or 8 for SparQ, 1 to 8 for dense. The first CUDA error, or cudaSuccess.
template <typename T, int D>
cudaError_t LaunchDense(const DenseParams& params, int batch, cudaStream_t stream);
template <typename T, int D>
cudaError_t LaunchSparq(const SparqParams& params, int batch, cudaStream_t stream);

}  // namespace headscope::kernels::decode
