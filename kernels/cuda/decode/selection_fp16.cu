// SPDX-License-Identifier: Apache-2.0
// Decode over any selection, fp16.
#include "decode/selection_kernels.cuh"

namespace headscope::kernels::decode {

template cudaError_t LaunchSelection<__half>(const WithSinks<SelectionParams>&, cudaStream_t);

}  // namespace headscope::kernels::decode
