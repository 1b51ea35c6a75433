#include "decode/decode_launch.cuh"

namespace headscope::kernels::decode {

template cudaError_t LaunchDense<__nv_bfloat16, 128>(const DenseParams&, int, cudaStream_t);
template cudaError_t LaunchSparq<__nv_bfloat16, 128>(const SparqParams&, int, cudaStream_t);

}  // namespace headscope::kernels::decode
