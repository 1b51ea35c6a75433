// SPDX-License-Identifier: Apache-2.0
// Comparisons on the GPU in a build without CUDA: a sentence.
#include "compare/decode_device.h"
#include "compare/live_gpu.h"
#include "compare/prefill_device.h"
#include "kernels/cuda_executor.h"

namespace headscope::analysis {

using kernels::Status;

Status MakeGpuPrefill(MeasuredHeadsPtr, const CompareOptions&, std::unique_ptr<PrefillDevice>*) {
  kernels::CudaDeviceInfo info;
  return kernels::QueryCudaDevice(0, &info);  // always refuses here
}

Status MakeLiveGpu(const HeadTensorsPtr&, std::unique_ptr<LiveGpu>*) {
  kernels::CudaDeviceInfo info;
  return kernels::QueryCudaDevice(0, &info);
}

Status MakeGpuDecode(MeasuredHeadsPtr, const DecodeSteps&, const CompareOptions&, std::unique_ptr<DecodeDevice>*) {
  kernels::CudaDeviceInfo info;
  return kernels::QueryCudaDevice(0, &info);
}

}  // namespace headscope::analysis
