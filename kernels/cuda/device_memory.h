// SPDX-License-Identifier: Apache-2.0
// Memory of the current GPU that its owner frees, and tensors on their way to it and back.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/attention_problem.h"
#include "kernels/status.h"

namespace headscope::kernels {

struct FreeDevice {
  void operator()(void* memory) const { cudaFree(memory); }
};
using DeviceMemory = std::unique_ptr<void, FreeDevice>;

// Errors: kOutOfMemory, naming `what` and how much it needs.
Status AllocateOnDevice(int64_t bytes, const std::string& what, DeviceMemory* memory);

// [batch, heads, rows, head_dim] of the problem's batch, head_dim and dtype: from host memory of any strides to
// contiguous device memory, and the other way. Returns when the copy is done; a download has then waited for all
// kernels before it on the default stream, and their errors come out here.
Status UploadTensor(const AttentionProblem& problem, int32_t heads, int32_t rows, const StridedTensor<const void>& host,
                    void* device);
Status DownloadTensor(const AttentionProblem& problem, int32_t heads, int32_t rows, const void* device,
                      const StridedTensor<void>& host);

}  // namespace headscope::kernels
