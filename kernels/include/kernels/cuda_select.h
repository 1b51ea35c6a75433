// SPDX-License-Identifier: Apache-2.0
// Prefill selectors on the GPU: from Q and K in device memory to a SparseIndex in device memory, all heads of a batch
// in a constant number of launches. The definition of every method, its parameters and their defaults are those of the
// registry (method.h); the index keeps what the CPU selector's keeps, up to rounding of scores that tie, in runs that
// may be cut elsewhere.
//
// Nothing synchronises with the host and nothing is allocated, so a call can be captured in a CUDA graph, before
// AttendCuda on the same stream. The same input gives the same index, bit for bit: no sum depends on the order of
// atomics.
//
// Lists are slots of fixed capacity (begin[L] = L * capacity), so their place is known without a count pass. The
// capacity is the most that a list of the method can hold whatever the scores are, so no list can overflow.
// Vertical-slash with s slashes, v columns and V visible keys: min(min(3 s, 4 (V / 65 + 2)) + 2 v + 2, V + 2) runs of 8
// bytes and min(v, V) columns of 4 bytes per list; the other methods need far less.
#pragma once

#include <cstddef>

#include "kernels/attention_problem.h"
#include "kernels/method.h"
#include "kernels/method_spec.h"
#include "kernels/sparse_index.h"
#include "kernels/status.h"

namespace headscope::kernels {

// Device memory of one call, both 16-byte aligned (cudaMalloc's is). The index's arrays lie in `index` and live as long
// as the index is read; `workspace` is free again when the call's work on the stream is done. Neither needs clearing.
struct CudaSelectBuffers {
  void* index = nullptr;
  size_t index_bytes = 0;
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
};

struct CudaSelectSizes {
  size_t index_bytes = 0;
  size_t workspace_bytes = 0;  // may be 0
};

namespace selection {
struct Call;
}

// A method's GPU selector, as the registry (kernels/methods/registry.h) has it beside the method's own on the CPU.
struct CudaSelector {
  const MethodSpec* spec = nullptr;
  Status (*select)(selection::Call*) = nullptr;
};

// Null where the method has none, which is a method that selects on the CPU, and of every method in a build without
// CUDA.
const CudaSelector* FindCudaSelector(const PrefillMethod& method);

// Bytes that SelectCuda needs for this problem and these values. Looks at no pointer of the problem but counts on its
// shape; asks the current device for nothing. Errors as SelectCuda's.
Status SelectCudaBufferSizes(const CudaSelector& selector, const AttentionProblem& problem,
                             const ParameterValues& values, CudaSelectSizes* sizes);

// Makes the index of every sequence and query head of `problem` (q and k: device pointers; v is not read).
// *index: a view into buffers.index with device pointers, complete when the work on `stream` (a cudaStream_t) is.
// Methods that choose by the tensors read bf16 or fp16 with head_dim 64, 96, 128 or 256 and tensors aligned to 16 bytes
// in base and strides; static ones read neither q nor k and take any. vertical-slash takes at most 32767 heads over all
// sequences. Errors, before anything is launched: kInvalidArgument (a field, parameter or buffer
// that is out of range), kUnsupported (dtype, head_dim, alignment, a size above a method's limit),
// kDeviceMissing. After a launch failed: kDeviceError with the kernel's name and the shapes.
Status SelectCuda(const CudaSelector& selector, const AttentionProblem& problem, const ParameterValues& values,
                  const CudaSelectBuffers& buffers, SparseIndexView* index, void* stream);

// Copies an index from the device to the host, without the gaps between its slots. Waits for `stream`. Allocates
// device memory for the time of the call.
Status DownloadIndex(const SparseIndexView& device_index, SparseIndex* host_index, void* stream);

}  // namespace headscope::kernels
