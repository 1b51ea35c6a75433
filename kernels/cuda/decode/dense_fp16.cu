// SPDX-License-Identifier: Apache-2.0
#include "decode/dense_launch.cuh"

namespace headscope::kernels::decode {

template cudaError_t LaunchDense<__half, 64>(const WithSinks<DenseParams>&, cudaStream_t);
template cudaError_t LaunchDense<__half, 128>(const WithSinks<DenseParams>&, cudaStream_t);

}  // namespace headscope::kernels::decode
