// SPDX-License-Identifier: Apache-2.0
#include "device_memory.h"

#include <algorithm>

namespace headscope::kernels {

void FreeDevice::operator()(void* memory) const {
  cudaFree(memory);
}

Status UploadTensor(const AttentionProblem& problem, int32_t heads, int32_t rows, int32_t dim,
                    const StridedTensor<const void>& host, void* device) {
  const int64_t size = SizeOf(problem.dtype), width = dim * size;
  // A single row may carry any stride; the copy wants a pitch no smaller than the row.
  const int64_t pitch = std::max(host.row_stride * size, width);
  char* to = static_cast<char*>(device);
  for (int32_t sequence = 0; sequence < problem.batch; ++sequence) {
    for (int32_t head = 0; head < heads; ++head) {
      const char* const from =
          static_cast<const char*>(host.data) + (sequence * host.batch_stride + head * host.head_stride) * size;
      Status status =
          CudaStatus(cudaMemcpy2D(to, static_cast<size_t>(width), from, static_cast<size_t>(pitch),
                                  static_cast<size_t>(width), static_cast<size_t>(rows), cudaMemcpyHostToDevice),
                     "copying a head");
      if (!status.ok()) return status;
      to += rows * width;
    }
  }
  return {};
}

}  // namespace headscope::kernels
