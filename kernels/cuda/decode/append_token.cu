// SPDX-License-Identifier: Apache-2.0
// The write side of a decode step: see AppendTokenCuda.
#include "decode/decode_common.cuh"
#include "decode/decode_launch.h"

namespace headscope::kernels::decode {
namespace {

// One block per KV head, one thread per component.
template <typename T>
__global__ void AppendKernel(const AppendParams p) {
  const int list = static_cast<int>(blockIdx.x), d = static_cast<int>(threadIdx.x);
  const int64_t sequence = list / p.num_kv_heads, head = list % p.num_kv_heads, token = p.seq_k - 1;
  if (p.kt != nullptr)
    static_cast<T*>(p.kt)[sequence * p.kt_batch + head * p.kt_head + d * p.kt_component + token] =
        static_cast<const T*>(p.k)[sequence * p.k_batch + head * p.k_head + token * p.k_row + d];
  if (p.mean != nullptr) {
    float* at = p.mean + int64_t{list} * p.head_dim + d;
    const float value =
        ToFloat(static_cast<const T*>(p.v)[sequence * p.v_batch + head * p.v_head + token * p.v_row + d]);
    *at += (value - *at) / static_cast<float>(p.seq_k);
  }
}

}  // namespace

template <typename T>
cudaError_t LaunchAppend(const AppendParams& params, cudaStream_t stream) {
  AppendKernel<T><<<static_cast<unsigned>(params.lists), static_cast<unsigned>(params.head_dim), 0, stream>>>(params);
  return cudaGetLastError();
}

template cudaError_t LaunchAppend<__nv_bfloat16>(const AppendParams&, cudaStream_t);
template cudaError_t LaunchAppend<__half>(const AppendParams&, cudaStream_t);

}  // namespace headscope::kernels::decode
