// SPDX-License-Identifier: Apache-2.0
// The FP8 executor's host side: layout, checks, quantisation and launch.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <limits>
#include <numbers>
#include <string>

#include "current_device.h"
#include "device_pointers.h"
#include "fp8/fp8_instances.h"
#include "fp8/fp8_params.h"
#include "fp8/quantise_fp8.h"
#include "hopper/tensor_map.h"
#include "hopper/work_queue.h"
#include "kernels/cuda_fp8.h"
#include "kernels/cuda_resources.h"
#include "problem_check.h"
#include "refusals.h"

namespace headscope::kernels {
namespace {

constexpr size_t kAlignment = 256;

// What this executor does not take of a checked shape.
Status CheckFp8(const AttentionProblem& problem) {
  if (problem.head_dim != fp8::kHeadDim || problem.ValueDim() != fp8::kHeadDim) {
    std::string sizes = "head_dim is " + std::to_string(problem.head_dim);
    if (problem.ValueDim() != problem.head_dim) sizes += " and v_head_dim " + std::to_string(problem.ValueDim());
    return UnsupportedStatus(sizes + ": FP8 attention takes 128; use AttendCuda.");
  }
  if (problem.dtype == DType::kFloat32) return UnsupportedStatus("dtype is fp32: FP8 attention takes bf16 and fp16.");
  if (problem.soft_cap > 0) {
    return UnsupportedStatus("soft_cap is " + std::to_string(problem.soft_cap) +
                             ": FP8 attention takes none; use AttendCuda.");
  }
  if (problem.sinks != nullptr) return UnsupportedStatus("sinks are given: FP8 attention takes none; use AttendCuda.");
  if (Status status = CheckNoWindow(problem); !status.ok()) return status;
  const int64_t heads = int64_t{problem.batch} * problem.num_qo_heads;
  if (heads > 65535) {
    return UnsupportedStatus("there are " + std::to_string(heads) +
                             " heads over all sequences: FP8 attention takes 65535.");
  }
  if (problem.seq_q > 1 << 28 || problem.seq_k > 1 << 28) {
    return UnsupportedStatus("seq_q is " + std::to_string(problem.seq_q) + " and seq_k " +
                             std::to_string(problem.seq_k) + ": FP8 attention takes up to 2^28.");
  }
  return {};
}

Status CheckGpu(CurrentDevice* device) {
  if (Status status = FindCurrentDevice(device); !status.ok()) return status;
  if (device->compute_capability != 90) {
    return UnsupportedStatus("the GPU has compute capability " + std::to_string(device->compute_capability / 10) + "." +
                             std::to_string(device->compute_capability % 10) +
                             ": FP8 attention needs 9.0; use AttendCuda.");
  }
  return {};
}

Status CheckMemory(const void* tensors, size_t bytes, const Fp8Layout& layout) {
  if (Status status = CheckPointer("tensors", tensors, kAlignment); !status.ok()) return status;
  if (bytes >= layout.bytes) return {};
  return {StatusCode::kInvalidArgument, "bytes is " + std::to_string(bytes) + ": the quantised tensors take " +
                                            std::to_string(layout.bytes) + " (LayOutFp8)."};
}

Status CheckSource(const char* name, const StridedTensor<const void>& tensor, const AttentionProblem& problem,
                   int32_t heads, int32_t rows) {
  if (Status status = CheckPointer(std::string(name) + ".data", tensor.data, 16); !status.ok()) return status;
  if (hopper::IsTmaAligned(tensor, problem.batch, heads, rows)) return {};
  return {StatusCode::kInvalidArgument, std::string(name) + " has strides of " + std::to_string(tensor.row_stride) +
                                            ", " + std::to_string(tensor.head_stride) + " and " +
                                            std::to_string(tensor.batch_stride) +
                                            " elements: they must be multiples of 8."};
}

}  // namespace

Status LayOutFp8(const AttentionProblem& problem, Fp8Layout* layout) {
  if (layout == nullptr) return {StatusCode::kInvalidArgument, "LayOutFp8: layout is null."};
  if (Status status = CheckShape(problem); !status.ok()) return status;
  if (Status status = CheckFp8(problem); !status.ok()) return status;
  const auto whole_tiles = [](int32_t rows) {
    constexpr int32_t kPieces = hopper::kItemRows / fp8::kPieceTokens;
    return (rows + hopper::kItemRows - 1) / hopper::kItemRows * kPieces;
  };
  const auto heads = static_cast<size_t>(problem.batch) * static_cast<size_t>(problem.num_qo_heads);
  const auto kv_heads = static_cast<size_t>(problem.batch) * static_cast<size_t>(problem.num_kv_heads);
  *layout = {};
  layout->q_pieces = whole_tiles(problem.seq_q);
  layout->k_pieces = (problem.seq_k + fp8::kPieceTokens - 1) / fp8::kPieceTokens + fp8::kZeroPieces;
  const auto take = [&](size_t bytes) {
    const size_t begin = layout->bytes;
    layout->bytes += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return begin;
  };
  const size_t key_bytes = kv_heads * static_cast<size_t>(layout->k_pieces) * fp8::kPieceBytes;
  layout->q_scale = take(heads * sizeof(float));
  layout->k_scale = take(kv_heads * sizeof(float));
  layout->v_scale = take(kv_heads * sizeof(float));
  // The dense kernel's last item of a head may read pieces behind its whole tiles: of the last head, the keys'.
  layout->q = take(heads * static_cast<size_t>(layout->q_pieces) * fp8::kPieceBytes);
  layout->k = take(key_bytes);
  layout->v_rows = take(key_bytes);
  layout->v_columns = take(key_bytes);
  return {};
}

Status QuantiseFp8Cuda(const AttentionProblem& problem, void* tensors, size_t bytes, void* stream) {
  Fp8Layout layout;
  if (Status status = LayOutFp8(problem, &layout); !status.ok()) return status;
  if (Status status = CheckMemory(tensors, bytes, layout); !status.ok()) return status;
  for (const Status& status : {CheckSource("q", problem.q, problem, problem.num_qo_heads, problem.seq_q),
                               CheckSource("k", problem.k, problem, problem.num_kv_heads, problem.seq_k),
                               CheckSource("v", problem.v, problem, problem.num_kv_heads, problem.seq_k)}) {
    if (!status.ok()) return status;
  }
  CurrentDevice device;
  if (Status status = CheckGpu(&device); !status.ok()) return status;
  if (Status status = CheckOnDevice(
          {{"q.data", problem.q.data}, {"k.data", problem.k.data}, {"v.data", problem.v.data}, {"tensors", tensors}},
          stream);
      !status.ok()) {
    return status;
  }
  auto* const base = static_cast<uint8_t*>(tensors);
  const auto quantise = [&](const StridedTensor<const void>& tensor, int32_t heads, int32_t rows, size_t scales,
                            int32_t pieces, size_t image, uint8_t* columns) {
    const fp8::Source source{tensor.data, tensor.batch_stride, tensor.head_stride, tensor.row_stride, heads, rows};
    return CudaStatus(
        fp8::LaunchQuantise(source, problem.dtype, problem.batch * heads, reinterpret_cast<float*>(base + scales),
                            pieces, base + image, columns, static_cast<cudaStream_t>(stream)),
        "QuantiseKernel (" + Describe(problem) + ")");
  };
  Status status =
      quantise(problem.q, problem.num_qo_heads, problem.seq_q, layout.q_scale, layout.q_pieces, layout.q, nullptr);
  if (status.ok()) {
    status =
        quantise(problem.k, problem.num_kv_heads, problem.seq_k, layout.k_scale, layout.k_pieces, layout.k, nullptr);
  }
  if (status.ok()) {
    status = quantise(problem.v, problem.num_kv_heads, problem.seq_k, layout.v_scale, layout.k_pieces, layout.v_rows,
                      base + layout.v_columns);
  }
  return status;
}

Status AttendFp8Cuda(const AttentionProblem& problem, const void* tensors, size_t bytes, const SparseIndexView& index,
                     const AttentionOutput& output, void* stream) {
  Fp8Layout layout;
  if (Status status = LayOutFp8(problem, &layout); !status.ok()) return status;
  if (Status status = CheckMemory(tensors, bytes, layout); !status.ok()) return status;
  if (Status status = CheckIndex(problem, index); !status.ok()) return status;
  if (Status status = CheckPointer("output.o.data", output.o.data, 16); !status.ok()) return status;
  if (Status status = CheckDisjoint("output.o", output.o, problem); !status.ok()) return status;
  const StridedTensor<const void> o{output.o.data, output.o.batch_stride, output.o.head_stride, output.o.row_stride};
  if (Status status = CheckSource("output.o", o, problem, problem.num_qo_heads, problem.seq_q); !status.ok()) {
    return status;
  }
  if (Status status = CheckRowOutputs(output); !status.ok()) return status;
  CurrentDevice device;
  if (Status status = CheckGpu(&device); !status.ok()) return status;
  if (Status status = CheckIndexOnDevice(index, stream); !status.ok()) return status;
  if (Status status = CheckOnDevice({{"tensors", tensors},
                                     {"output.o.data", output.o.data},
                                     {"output.lse", output.lse},
                                     {"output.row_max", output.row_max}},
                                    stream);
      !status.ok()) {
    return status;
  }

  fp8::Fp8Params params{};
  hopper::TensorMapShape rows{"output.o",    problem.dtype,    problem.batch,      problem.num_qo_heads,
                              problem.seq_q, problem.head_dim, hopper::kOutputRows};
  if (Status status = hopper::EncodeTensorMap(rows, o, &params.o); !status.ok()) return status;
  hopper::CountItems(problem, index, &params);
  params.index = index;
  params.lse = output.lse;
  params.row_max = output.row_max;
  params.scale_log2 = problem.EffectiveScale() * std::numbers::log2e_v<float>;
  const auto* const base = static_cast<const uint8_t*>(tensors);
  params.q_image = base + layout.q;
  params.k_image = base + layout.k;
  params.v_columns = base + layout.v_columns;
  params.v_rows = base + layout.v_rows;
  params.q_scale = reinterpret_cast<const float*>(base + layout.q_scale);
  params.k_scale = reinterpret_cast<const float*>(base + layout.k_scale);
  params.v_scale = reinterpret_cast<const float*>(base + layout.v_scale);
  params.q_pieces = layout.q_pieces;
  params.k_pieces = layout.k_pieces;
  params.num_kv_heads = problem.num_kv_heads;
  params.half_output = problem.dtype == DType::kFloat16;
  const int64_t bytes_per_kv_head = int64_t{2} * layout.k_pieces * fp8::kPieceBytes;
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  if (output.row_max != nullptr) {
    return hopper::LaunchWithQueue(problem, index, bytes_per_kv_head, device, "AttendFp8ListsKernel", cuda_stream,
                                   &params,
                                   [&](int num_blocks) { return fp8::LaunchFp8Rare(params, num_blocks, cuda_stream); });
  }
  const auto launch = [&](int num_blocks) {
    if (params.dense_sections != nullptr) {
      const cudaError_t error = fp8::LaunchFp8Dense(params, num_blocks, cuda_stream);
      if (error != cudaSuccess) return error;
    }
    return fp8::LaunchFp8Lists(params, num_blocks, cuda_stream);
  };
  if (index.keeps_everything && hopper::TakesDenseKernels(index)) {
    return hopper::LaunchOnEverything(
        problem, fp8::kDenseRows, bytes_per_kv_head, device, "AttendFp8DenseKernel", cuda_stream, &params,
        [&](int num_blocks) { return fp8::LaunchFp8Dense(params, num_blocks, cuda_stream); });
  }
  return hopper::LaunchWithQueue(problem, index, bytes_per_kv_head, device, "AttendFp8ListsKernel", cuda_stream,
                                 &params, launch, hopper::MayKeepEverything(index));
}

}  // namespace headscope::kernels
