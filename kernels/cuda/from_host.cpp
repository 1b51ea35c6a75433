// SPDX-License-Identifier: Apache-2.0
// Host data on the GPU: indices that a CPU selector made, and whole problems for the application.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "current_device.h"
#include "device_memory.h"
#include "kernels/contiguous.h"
#include "kernels/cuda_executor.h"
#include "kernels/cuda_resources.h"
#include "problem_check.h"

namespace headscope::kernels {
namespace {

// Of a contiguous [batch, heads, rows, dim], and of an array of it.
int64_t DenseBytes(const AttentionProblem& problem, int32_t heads, int32_t rows, int32_t dim) {
  return ArrayBytes(int64_t{problem.batch} * heads * rows * dim * SizeOf(problem.dtype));
}

Status TimedAttend(const AttentionProblem& problem, const SparseIndexView& index, const AttentionOutput& output,
                   int32_t repeats, double* attend_ms) {
  auto attend = [&] { return AttendCuda(problem, index, output, nullptr); };
  // The first launch loads the kernel and warms the clocks; it is not among the timed ones.
  if (Status status = attend(); !status.ok()) return status;
  if (repeats > 0 && attend_ms != nullptr) {
    CudaEvent start, stop;
    if (Status status = MakeEvent(&start); !status.ok()) return status;
    if (Status status = MakeEvent(&stop); !status.ok()) return status;
    std::vector<double> times;
    for (int32_t i = 0; i < repeats; ++i) {
      cudaEventRecord(start.get());
      if (Status status = attend(); !status.ok()) return status;
      cudaEventRecord(stop.get());
      double ms = 0;
      Status status = CudaStatus(cudaEventSynchronize(stop.get()), "attending on the GPU");
      if (status.ok()) status = MillisecondsBetween(start, stop, &ms);
      if (!status.ok()) return status;
      times.push_back(ms);
    }
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    *attend_ms = times[times.size() / 2];
  }
  return CudaStatus(cudaDeviceSynchronize(), "attending on the GPU (" + Describe(problem) + ")");
}

}  // namespace

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
  buffers->view.run_begin = reinterpret_cast<const int64_t*>(base + parts[0].offset);
  buffers->view.run_count = reinterpret_cast<const int32_t*>(base + parts[1].offset);
  buffers->view.column_begin = reinterpret_cast<const int64_t*>(base + parts[2].offset);
  buffers->view.column_count = reinterpret_cast<const int32_t*>(base + parts[3].offset);
  buffers->view.runs = reinterpret_cast<const KeyRun*>(base + parts[4].offset);
  buffers->view.columns = reinterpret_cast<const int32_t*>(base + parts[5].offset);
  buffers->allocation = std::move(memory);
  return {};
}

void FreeDevice::operator()(void* memory) const {
  cudaFree(memory);
}

Status AttendCudaFromHost(const AttentionProblem& host_problem, const SparseIndexView& host_index,
                          const AttentionOutput& host_output, int32_t repeats, double* attend_ms) {
  if (Status status = CheckProblem(host_problem, host_index, host_output); !status.ok()) return status;
  CurrentDevice current;
  if (Status status = FindCurrentDevice(&current); !status.ok()) return status;

  CudaIndexBuffers index;
  if (Status status = UploadIndex(host_index, &index); !status.ok()) return status;

  AttentionProblem problem = host_problem;
  const int32_t heads = problem.num_qo_heads, kv_heads = problem.num_kv_heads;
  const int32_t dim = problem.head_dim, value_dim = problem.ValueDim();
  const int64_t q_bytes = DenseBytes(problem, heads, problem.seq_q, dim);
  const int64_t k_bytes = DenseBytes(problem, kv_heads, problem.seq_k, dim);
  const int64_t v_bytes = DenseBytes(problem, kv_heads, problem.seq_k, value_dim);
  const int64_t o_bytes = DenseBytes(problem, heads, problem.seq_q, value_dim);
  const int64_t num_rows = int64_t{problem.batch} * heads * problem.seq_q;
  DeviceMemory memory;
  if (Status status = AllocateOnDevice(q_bytes + k_bytes + v_bytes + o_bytes + num_rows * 4, "Q, K, V and O", &memory);
      !status.ok()) {
    return status;
  }
  char* const q = static_cast<char*>(memory.get());
  char* const k = q + q_bytes;
  char* const v = k + k_bytes;
  char* const o = v + v_bytes;
  SetContiguousTensors(q, k, v, &problem);
  AttentionOutput output;
  output.o = ContiguousTensor<void>(o, heads, problem.seq_q, value_dim);
  output.lse = reinterpret_cast<float*>(o + o_bytes);

  Status status = UploadTensor(problem, heads, problem.seq_q, dim, host_problem.q, q);
  if (status.ok()) status = UploadTensor(problem, kv_heads, problem.seq_k, dim, host_problem.k, k);
  if (status.ok()) status = UploadTensor(problem, kv_heads, problem.seq_k, value_dim, host_problem.v, v);
  if (status.ok()) status = TimedAttend(problem, index.view, output, repeats, attend_ms);
  if (status.ok()) status = DownloadTensor(problem, heads, problem.seq_q, value_dim, o, host_output.o);
  if (status.ok() && host_output.lse != nullptr) {
    status =
        CudaStatus(cudaMemcpy(host_output.lse, output.lse, static_cast<size_t>(num_rows) * 4, cudaMemcpyDeviceToHost),
                   "copying the LSE from the GPU");
  }
  return status;
}

}  // namespace headscope::kernels
