// SPDX-License-Identifier: Apache-2.0
#include "device_memory.h"

#include <algorithm>
namespace headscope::kernels {
namespace {

// Calls copy(host head, its pitch in bytes, offset of the head on the device) for every head.
template <typename Byte, typename Void, typename Copy>
Status ForEachHead(const AttentionProblem& problem, int32_t heads, int32_t rows, int32_t dim,
                   const StridedTensor<Void>& host, const Copy& copy) {
  const int64_t size = SizeOf(problem.dtype);
  const int64_t width = dim * size;
  // A single row may carry any stride; the copy wants a pitch no smaller than the row.
  const int64_t pitch = std::max(host.row_stride * size, width);
  int64_t offset = 0;
  for (int32_t sequence = 0; sequence < problem.batch; ++sequence) {
    for (int32_t head = 0; head < heads; ++head) {
      Byte* const first =
          static_cast<Byte*>(host.data) + (sequence * host.batch_stride + head * host.head_stride) * size;
      if (Status status = CudaStatus(copy(first, static_cast<size_t>(pitch), offset), "copying a head"); !status.ok()) {
        return status;
      }
      offset += rows * width;
    }
  }
  return {};
}

}  // namespace

Status UploadTensor(const AttentionProblem& problem, int32_t heads, int32_t rows, int32_t dim,
                    const StridedTensor<const void>& host, void* device) {
  const auto width = static_cast<size_t>(dim * SizeOf(problem.dtype));
  return ForEachHead<const char>(problem, heads, rows, dim, host, [&](const char* head, size_t pitch, int64_t offset) {
    return cudaMemcpy2D(static_cast<char*>(device) + offset, width, head, pitch, width, static_cast<size_t>(rows),
                        cudaMemcpyHostToDevice);
  });
}

Status DownloadTensor(const AttentionProblem& problem, int32_t heads, int32_t rows, int32_t dim, const void* device,
                      const StridedTensor<void>& host) {
  const auto width = static_cast<size_t>(dim * SizeOf(problem.dtype));
  return ForEachHead<char>(problem, heads, rows, dim, host, [&](char* head, size_t pitch, int64_t offset) {
    return cudaMemcpy2D(head, pitch, static_cast<const char*>(device) + offset, width, width, static_cast<size_t>(rows),
                        cudaMemcpyDeviceToHost);
  });
}

}  // namespace headscope::kernels
