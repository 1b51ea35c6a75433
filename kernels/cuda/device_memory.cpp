// SPDX-License-Identifier: Apache-2.0
#include "device_memory.h"

#include <algorithm>
#include <array>
#include <limits>
#include <mutex>
#include <string>

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

Status FindScratchPool(int device, cudaMemPool_t* pool) {
  constexpr int kMaxDevices = 64;
  static std::array<cudaMemPool_t, kMaxDevices> pools{};
  static std::mutex mutex;
  if (device >= kMaxDevices) {
    return {StatusCode::kUnsupported, "GPU " + std::to_string(device) + ": executors take devices 0 to 63."};
  }
  const std::lock_guard lock(mutex);
  cudaMemPool_t& own = pools[static_cast<size_t>(device)];
  if (own == nullptr) {
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = device;
    cudaMemPool_t made = nullptr;
    if (Status status = CudaStatus(cudaMemPoolCreate(&made, &properties), "making a memory pool"); !status.ok()) {
      return status;
    }
    uint64_t keep = std::numeric_limits<uint64_t>::max();
    Status status =
        CudaStatus(cudaMemPoolSetAttribute(made, cudaMemPoolAttrReleaseThreshold, &keep), "setting up a memory pool");
    if (!status.ok()) return status;
    own = made;
  }
  *pool = own;
  return {};
}

}  // namespace headscope::kernels
