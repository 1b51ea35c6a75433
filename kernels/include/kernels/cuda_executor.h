// CUDA executors and selectors. The header needs no CUDA: streams and events pass as void*. In a build without CUDA every call returns
// kDeviceMissing with a sentence that says how to get a build that has it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/attention_problem.h"
#include "kernels/method.h"
#include "kernels/sparse_index.h"
#include "kernels/status.h"

namespace headscope::kernels {

struct CudaDeviceInfo {
  std::string name;
  int32_t compute_capability = 0;  // 90 for Hopper
  int32_t num_multiprocessors = 0;
  int64_t total_memory = 0;  // bytes
};

bool BuiltWithCuda();
// kDeviceMissing when there is no usable GPU (or no CUDA in this build), with the reason.
Status QueryCudaDevice(int32_t device, CudaDeviceInfo* info);

// O and LSE of `problem` on the index's kept set. Every pointer (problem, index lists, output) is on the current device; `stream` is a
// cudaStream_t. bf16 and fp16, head_dim 64, 96, 128 or 256; output.o has the problem's dtype. Asynchronous: no host synchronisation.
// On compute capability 9.0 the warp-specialised sm_90a kernel runs, elsewhere a plain one (>= 8.0). Nothing is launched on error.
Status AttendCuda(const AttentionProblem& problem, const SparseIndexView& index, const AttentionOutput& output, void* stream);

// The simple executor, one thread block per row tile, whatever the GPU: the twin that the fast one is tested against.
Status AttendCudaSimple(const AttentionProblem& problem, const SparseIndexView& index, const AttentionOutput& output, void* stream);

// Copies a host index to the device (synchronous); Free releases it. For indices that a CPU selector made.
struct CudaIndexBuffers {
  SparseIndexView view;  // device pointers
  void* allocation = nullptr;
};
Status UploadIndex(const SparseIndexView& host_index, CudaIndexBuffers* buffers);
void FreeIndex(CudaIndexBuffers* buffers);

// Host-pointer convenience for the application: uploads, runs select (on the CPU's index) and attend, downloads. Times are CUDA-event
// milliseconds of the attend kernel alone, median of `repeats`.
Status AttendCudaFromHost(const AttentionProblem& host_problem, const SparseIndexView& host_index, const AttentionOutput& host_output, int32_t repeats,
                          double* attend_ms);

}  // namespace headscope::kernels
