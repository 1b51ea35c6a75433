// SPDX-License-Identifier: Apache-2.0
// Indices that a CPU selector made, on the GPU.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>

#include "device_memory.h"
#include "kernels/cuda_executor.h"
#include "kernels/cuda_resources.h"

namespace headscope::kernels {
Status UploadIndex(const SparseIndexView& host_index, CudaIndexBuffers* buffers) {
  if (buffers == nullptr) return {StatusCode::kInvalidArgument, "UploadIndex: buffers is null."};
  // The kernels trust their lists, so no list gets to a GPU unchecked.
  if (Status status = Validate(host_index); !status.ok()) return status;
  const int64_t num_lists = host_index.NumLists();
  struct Part {
    const void* source;
    int64_t bytes;
    int64_t offset;
  };
  Part parts[] = {{host_index.run_begin, num_lists * 8, 0},       {host_index.run_count, num_lists * 4, 0},
                  {host_index.column_begin, num_lists * 8, 0},    {host_index.column_count, num_lists * 4, 0},
                  {host_index.runs, host_index.runs_size * 8, 0}, {host_index.columns, host_index.columns_size * 4, 0}};
  int64_t total = 0;
  for (Part& part : parts) {
    part.offset = total;
    total += ArrayBytes(part.bytes);
  }
  DeviceMemory memory;
  if (Status status = AllocateOnDevice(std::max(total, kArrayAlignment), "a sparse index", &memory); !status.ok())
    return status;
  char* const base = static_cast<char*>(memory.get());
  for (const Part& part : parts) {
    if (part.bytes == 0) continue;
    Status status =
        CudaStatus(cudaMemcpy(base + part.offset, part.source, static_cast<size_t>(part.bytes), cudaMemcpyHostToDevice),
                   "copying a sparse index to the GPU");
    if (!status.ok()) return status;
  }
  buffers->view = host_index;
  buffers->view.keeps_everything = KeepsEverything(host_index);
  buffers->view.run_begin = reinterpret_cast<const int64_t*>(base + parts[0].offset);
  buffers->view.run_count = reinterpret_cast<const int32_t*>(base + parts[1].offset);
  buffers->view.column_begin = reinterpret_cast<const int64_t*>(base + parts[2].offset);
  buffers->view.column_count = reinterpret_cast<const int32_t*>(base + parts[3].offset);
  buffers->view.runs = reinterpret_cast<const KeyRun*>(base + parts[4].offset);
  buffers->view.columns = reinterpret_cast<const int32_t*>(base + parts[5].offset);
  buffers->allocation = std::move(memory);
  return {};
}

}  // namespace headscope::kernels
