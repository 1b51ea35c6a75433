// SPDX-License-Identifier: Apache-2.0
// CUDA executors and selectors. The header needs no CUDA: streams and events pass as void*. In a build without CUDA
// every call returns kDeviceMissing with a sentence that says how to get a build that has it.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/attention_problem.h"
#include "kernels/cuda_memory.h"
#include "kernels/sparse_index.h"
#include "kernels/status.h"

namespace headscope::kernels {

struct CudaDeviceInfo {
  std::string name;
  int32_t compute_capability = 0;  // 90 for Hopper
  int32_t num_multiprocessors = 0;
  int64_t total_memory = 0;  // bytes
};

// kDeviceMissing when there is no usable GPU (or no CUDA in this build), with the reason.
Status QueryCudaDevice(int32_t device, CudaDeviceInfo* info);

// Which kernel AttendCuda runs for a problem, and why not the fast one. kHopper: the warp-specialised sm_90a kernel,
// for bf16 and fp16, head_dim 64, 96, 128 or 256, or 192 with v_head_dim 128, 16-byte aligned tensors, on compute
// capability 9.0. kSimple: everything else that AttendCudaSimple takes.
enum class CudaKernel { kHopper, kSimple };
struct CudaKernelChoice {
  CudaKernel kernel = CudaKernel::kSimple;
  std::string reason;  // empty for kHopper; else the field that ruled it out, e.g. "head_dim is 80: the Hopper kernel
                       // takes 64, 96, 128 and 256, and 192 with a v_head_dim of 128"
};
// Errors are those of AttendCuda.
Status ChooseCudaKernel(const AttentionProblem& problem, const SparseIndexView& index, const AttentionOutput& output,
                        CudaKernelChoice* choice);

// O, LSE and, on request, the largest scores of `problem` on the index's kept set. Every pointer (problem, index lists,
// output) is on the current device; `stream` is a cudaStream_t. output.o has the problem's dtype. Runs the kernel that
// ChooseCudaKernel names; may be called from several threads at once, on one stream or many. Asynchronous: no host
// synchronisation. Results do not change from run to run.
//
// Sinks, of at most 128 query heads, are taken from host memory as the call launches; a captured graph keeps those of
// its capture. problem.window is 0: cut the index instead (kernels/index_window.h).
//
// Memory: 8 bytes per 128 query rows of a head, and a few more for each of its sections, from a pool of our own in the
// stream's order. In a CUDA graph that is captured from it, that becomes an allocation and a free node, with the limits
// that CUDA sets such graphs: no two launches of one instance at the same time, no clone.
//
// NaN and infinities: keys and values that no row keeps may hold anything. In a key that some row keeps, NaN in K
// reaches the rows that keep it, NaN or an infinity in V may reach any row of the same 128-row tile, or, where every
// head keeps everything, of the same 128 or 192 rows: a weight of 0 times it is NaN.
//
// Errors. kInvalidArgument names the field: a pointer that is null, misaligned or that the GPU cannot follow
// (registered and managed memory pass), a number out of range, an unknown dtype or rule, an output whose rows overlap,
// an index of another shape. kUnsupported: what AttendCudaSimple does not take, a GPU before compute capability 8.0.
// kDeviceMissing without a GPU or in a build without CUDA, kOutOfMemory, kDeviceError. Nothing is launched where
// arguments are refused. The lists themselves are trusted: Validate() them where they are made (UploadIndex does).
Status AttendCuda(const AttentionProblem& problem, const SparseIndexView& index, const AttentionOutput& output,
                  void* stream);

// The simple executor, whatever the GPU (compute capability 8.0 or newer): fp32, bf16 and fp16, head_dim and
// v_head_dim any multiples of 8 up to 256. fp32 arithmetic without tensor cores; the Hopper kernel is compared with it.
// Allocates nothing. NaN in K or V reaches the rows that keep that key, and no other.
//
// Errors as above; kUnsupported for another head_dim or v_head_dim and for more than 2^31 - 1 blocks of 32 query rows.
Status AttendCudaSimple(const AttentionProblem& problem, const SparseIndexView& index, const AttentionOutput& output,
                        void* stream);

// Copies a host index to the device (synchronous), and finds out whether it keeps everything. For indices that a CPU
// selector made.
struct CudaIndexBuffers {
  SparseIndexView view;  // device pointers
  DeviceMemory allocation;
};
Status UploadIndex(const SparseIndexView& host_index, CudaIndexBuffers* buffers);

}  // namespace headscope::kernels
