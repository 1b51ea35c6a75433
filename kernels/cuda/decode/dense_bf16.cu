// SPDX-License-Identifier: Apache-2.0
#include "decode/dense_launch.cuh"

namespace headscope::kernels::decode {

template cudaError_t LaunchDense<__nv_bfloat16, 64>(const WithSinks<DenseParams>&, cudaStream_t);
template cudaError_t LaunchDense<__nv_bfloat16, 128>(const WithSinks<DenseParams>&, cudaStream_t);

}  // namespace headscope::kernels::decode
