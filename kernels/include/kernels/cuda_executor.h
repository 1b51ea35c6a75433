// CUDA executors and selectors. The header needs no CUDA: streams and events pass as void*. In a build without CUDA
// every call returns kDeviceMissing with a sentence that says how to get a build that has it.
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

// Which kernel AttendCuda runs for a problem, and why not the fast one. kHopper: the warp-specialised sm_90a kernel,
// for bf16 and fp16, head_dim 64, 96, 128 or 256, 16-byte aligned tensors, on compute capability 9.0. kSimple:
// everything else that AttendCudaSimple takes.
enum class CudaKernel { kHopper, kSimple };
struct CudaKernelChoice {
  CudaKernel kernel = CudaKernel::kSimple;
  std::string reason;  // empty for kHopper; else the field that ruled it out, e.g. "head_dim is 80: the Hopper kernel
                       // takes 64, 96, 128 and 256"
};
// Errors are those of AttendCuda.
Status ChooseCudaKernel(const AttentionProblem& problem, const SparseIndexView& index, const AttentionOutput& output,
                        CudaKernelChoice* choice);

// O and LSE of `problem` on the index's kept set. Every pointer (problem, index lists, output) is on the current
// device; `stream` is a cudaStream_t. output.o has the problem's dtype. Asynchronous: no host synchronisation; can be
// captured in a CUDA graph. Runs the kernel that ChooseCudaKernel names. Nothing is launched on error. The lists are
// trusted: Validate() them where they are made (UploadIndex does). Memory: 12 bytes per list, from a pool that belongs
// to the stream's order.
Status AttendCuda(const AttentionProblem& problem, const SparseIndexView& index, const AttentionOutput& output,
                  void* stream);

// The simple executor, whatever the GPU (compute capability 8.0 or newer): fp32, bf16 and fp16, head_dim any multiple
// of 8 up to 256. fp32 arithmetic without tensor cores: the twin that the fast one is tested against.
Status AttendCudaSimple(const AttentionProblem& problem, const SparseIndexView& index, const AttentionOutput& output,
                        void* stream);

// Copies a host index to the device (synchronous); Free releases it. For indices that a CPU selector made.
struct CudaIndexBuffers {
  SparseIndexView view;  // device pointers
  void* allocation = nullptr;
};
Status UploadIndex(const SparseIndexView& host_index, CudaIndexBuffers* buffers);
void FreeIndex(CudaIndexBuffers* buffers);

// Host-pointer convenience for the application: uploads problem and index, runs AttendCuda, downloads O (the problem's
// dtype) and LSE. Validates the index. attend_ms (may be null): median over `repeats` further runs of AttendCuda's time
// in CUDA-event milliseconds, planning included.
Status AttendCudaFromHost(const AttentionProblem& host_problem, const SparseIndexView& host_index,
                          const AttentionOutput& host_output, int32_t repeats, double* attend_ms);

}  // namespace headscope::kernels
