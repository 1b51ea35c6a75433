// SPDX-License-Identifier: Apache-2.0
// SelectCuda: checks, memory, and the two walks of a call.
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "current_device.h"
#include "device_pointers.h"
#include "index/checks.h"
#include "kernels/cuda_select.h"
#include "refusals.h"
#include "select/selection_call.h"

namespace headscope::kernels {
namespace selection {

ListArrays TakeLists(Call* call, int64_t num_slots, int64_t run_capacity, int64_t column_capacity) {
  const int64_t num_lists = call->view.NumLists();
  ListArrays arrays;
  arrays.run_begin = call->index.Take<int64_t>(num_lists);
  arrays.run_count = call->index.Take<int32_t>(num_lists);
  arrays.column_begin = call->index.Take<int64_t>(num_lists);
  arrays.column_count = call->index.Take<int32_t>(num_lists);
  arrays.runs = call->index.Take<KeyRun>(num_slots * run_capacity);
  arrays.columns = call->index.Take<int32_t>(num_slots * column_capacity);
  arrays.run_capacity = static_cast<int32_t>(run_capacity);
  arrays.column_capacity = static_cast<int32_t>(column_capacity);
  call->view.run_begin = arrays.run_begin;
  call->view.run_count = arrays.run_count;
  call->view.column_begin = arrays.column_begin;
  call->view.column_count = arrays.column_count;
  call->view.runs = arrays.runs;
  call->view.columns = arrays.columns;
  call->view.runs_size = num_slots * run_capacity;
  call->view.columns_size = num_slots * column_capacity;
  return arrays;
}

ListShape ShapeOfLists(const Call& call) {
  const SparseIndexView& view = call.view;
  return {view.batch, view.num_qo_heads, view.seq_q, view.seq_k, view.first_position, view.NumRowTiles()};
}

namespace {

bool IsAligned(const StridedTensor<const void>& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.data) % 16 == 0 && tensor.batch_stride % 8 == 0 &&
         tensor.head_stride % 8 == 0 && tensor.row_stride % 8 == 0;
}

Status CheckTensors(const AttentionProblem& problem) {
  if (problem.dtype == DType::kFloat32) {
    return UnsupportedStatus("dtype is fp32: this GPU selector takes bf16 and fp16; convert, or select on the CPU.");
  }
  if (problem.head_dim != 64 && problem.head_dim != 96 && problem.head_dim != 128 && problem.head_dim != 256) {
    return UnsupportedStatus("head_dim is " + std::to_string(problem.head_dim) +
                             ": this GPU selector takes 64, 96, 128 and 256; select on the CPU.");
  }
  for (const auto& [name, tensor] : {std::pair{"q", problem.q}, std::pair{"k", problem.k}}) {
    if (!IsAligned(tensor)) {
      return UnsupportedStatus(
          std::string(name) +
          " is not aligned to 16 bytes in its base and its strides: copy it, or select on the CPU.");
    }
  }
  return {};
}

// Of methods that choose by place alone no tensor is looked at.
bool ReadsTensors(const CudaSelector& selector) {
  return !selector.spec->IsStatic();
}

Status Check(const CudaSelector& selector, const AttentionProblem& problem, const ParameterValues& values) {
  Status status = internal::CheckProblem(problem, /*reads_v=*/false);
  if (status.ok()) status = internal::CheckPositions(problem);
  if (status.ok()) status = internal::CheckValues(*selector.spec, values);
  if (status.ok() && ReadsTensors(selector)) status = CheckTensors(problem);
  if (!status.ok()) return status;
  const int64_t num_tiles = (int64_t{problem.seq_q} + kTileRows - 1) / kTileRows;
  const int64_t most = std::numeric_limits<int32_t>::max() / 32;
  if (int64_t{problem.batch} * problem.num_qo_heads > most / num_tiles) {
    return UnsupportedStatus(
        "batch * num_qo_heads is " + std::to_string(int64_t{problem.batch} * problem.num_qo_heads) +
        ": the GPU selectors take " + std::to_string(most) + " row tiles in all; split the batch.");
  }
  return {};
}

Status Run(const CudaSelector& selector, Call* call) {
  SparseIndexView& view = call->view;
  view.batch = call->problem.batch;
  view.num_qo_heads = call->problem.num_qo_heads;
  view.seq_q = call->problem.seq_q;
  view.seq_k = call->problem.seq_k;
  view.first_position = call->problem.first_position;
  view.tile_rows = kTileRows;
  return selector.select(call);
}

Status CheckBuffer(const char* name, const void* data, size_t bytes, size_t needed) {
  const std::string field = std::string("buffers.") + name;
  if (needed > 0 && data == nullptr) {
    return {StatusCode::kInvalidArgument, field + " is null: it needs " + std::to_string(needed) + " bytes."};
  }
  if (reinterpret_cast<uintptr_t>(data) % 16 != 0) {
    return {StatusCode::kInvalidArgument, field + " is not aligned to 16 bytes."};
  }
  if (bytes < needed) {
    return {StatusCode::kInvalidArgument, field + "_bytes is " + std::to_string(bytes) + ": it needs " +
                                              std::to_string(needed) + " (SelectCudaBufferSizes says so)."};
  }
  return {};
}

// Of a problem that Check() let pass; touches no memory.
Status Measure(const CudaSelector& selector, const AttentionProblem& problem, const ParameterValues& values,
               CudaSelectSizes* sizes) {
  Call call{problem, values, Arena(nullptr), Arena(nullptr)};
  if (Status status = Run(selector, &call); !status.ok()) return status;
  *sizes = {call.index.used(), call.workspace.used()};
  return {};
}

}  // namespace
}  // namespace selection

Status SelectCudaBufferSizes(const CudaSelector& selector, const AttentionProblem& problem,
                             const ParameterValues& values, CudaSelectSizes* sizes) {
  if (sizes == nullptr) return {StatusCode::kInvalidArgument, "SelectCudaBufferSizes: sizes is null."};
  // Sizes are asked for before tensors are there: an address that satisfies every check stands in.
  alignas(16) static const char placeholder[16] = {};
  AttentionProblem shape = problem;
  shape.q.data = shape.k.data = placeholder;
  if (Status status = selection::Check(selector, shape, values); !status.ok()) return status;
  return selection::Measure(selector, shape, values, sizes);
}

Status SelectCuda(const CudaSelector& selector, const AttentionProblem& problem, const ParameterValues& values,
                  const CudaSelectBuffers& buffers, SparseIndexView* index, void* stream) {
  if (index == nullptr) return {StatusCode::kInvalidArgument, "SelectCuda: index is null."};
  if (Status status = selection::Check(selector, problem, values); !status.ok()) return status;
  CudaSelectSizes sizes;
  Status status = selection::Measure(selector, problem, values, &sizes);
  if (status.ok()) status = selection::CheckBuffer("index", buffers.index, buffers.index_bytes, sizes.index_bytes);
  if (status.ok()) {
    status = selection::CheckBuffer("workspace", buffers.workspace, buffers.workspace_bytes, sizes.workspace_bytes);
  }
  CurrentDevice device;
  if (status.ok()) status = FindCurrentDevice(&device);
  if (status.ok() && selection::ReadsTensors(selector)) {
    status = CheckOnDevice({{"q.data", problem.q.data}, {"k.data", problem.k.data}}, stream);
  }
  if (status.ok()) {
    status = CheckOnDevice({{"buffers.index", sizes.index_bytes > 0 ? buffers.index : nullptr},
                            {"buffers.workspace", sizes.workspace_bytes > 0 ? buffers.workspace : nullptr}},
                           stream);
  }
  if (!status.ok()) return status;

  selection::Call call{problem, values, selection::Arena(buffers.index), selection::Arena(buffers.workspace)};
  call.stream = static_cast<cudaStream_t>(stream);
  call.launches = true;
  status = selection::Run(selector, &call);
  if (status.ok()) *index = call.view;
  return status;
}

}  // namespace headscope::kernels
