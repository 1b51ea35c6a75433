// SPDX-License-Identifier: Apache-2.0
#include "hopper/attend_hopper.h"

#include <limits>
#include <string>

#include "hopper/fill_params.h"
#include "hopper/instances.h"
#include "hopper/kernel_params.h"
#include "hopper/tensor_map.h"
#include "hopper/work_queue.h"
#include "kernels/cuda_resources.h"
#include "problem_check.h"

namespace headscope::kernels::hopper {
namespace {

const Instance* FindInstance(DType dtype, int32_t head_dim, int32_t value_dim) {
  // A head_dim between two kernels' is padded with zeros in shared memory.
  const auto padded = [](int32_t dim) { return dim == 96 ? 128 : dim; };
  if (head_dim != value_dim && (head_dim == 96 || value_dim == 96)) return nullptr;
  for (const Instance& instance : Instances()) {
    const bool fits = instance.head_dim == padded(head_dim) && instance.value_dim == padded(value_dim);
    if (instance.dtype == dtype && fits) return &instance;
  }
  return nullptr;
}

Status EncodeMaps(const AttentionProblem& problem, const AttentionOutput& output, const Instance& instance,
                  KernelParams* params) {
  const TensorMapShape rows{"q",           problem.dtype,    problem.batch,          problem.num_qo_heads,
                            problem.seq_q, problem.head_dim, instance.rows_of_q_copy};
  TensorMapShape out = rows;
  out.name = "output.o";
  out.head_dim = problem.ValueDim();
  out.box_rows = kOutputRows;
  Status status = EncodeTensorMap(rows, problem.q, &params->q);
  if (status.ok()) status = EncodeTensorMap(out, Const(output.o), &params->o);
  const int32_t box_rows[kBoxKinds] = {instance.tile_columns, 2 * kSegmentRows, kSegmentRows};
  for (int kind = 0; kind < kBoxKinds; ++kind) {
    TensorMapShape keys{"k",           problem.dtype,    problem.batch, problem.num_kv_heads,
                        problem.seq_k, problem.head_dim, box_rows[kind]};
    if (status.ok()) status = EncodeTensorMap(keys, problem.k, &params->k_boxes[kind]);
    keys.name = "v";
    keys.head_dim = problem.ValueDim();
    if (status.ok()) status = EncodeTensorMap(keys, problem.v, &params->v_boxes[kind]);
  }
  return status;
}

}  // namespace

std::string WhyNot(const AttentionProblem& problem, const SparseIndexView& index, const AttentionOutput& output,
                   const CurrentDevice& device) {
  if (device.compute_capability != 90) {
    return "the GPU has compute capability " + std::to_string(device.compute_capability / 10) + "." +
           std::to_string(device.compute_capability % 10) + ": the Hopper kernel needs 9.0";
  }
  int has_pools = 0;
  if (cudaDeviceGetAttribute(&has_pools, cudaDevAttrMemoryPoolsSupported, device.ordinal) != cudaSuccess ||
      has_pools == 0) {
    cudaGetLastError();
    return "the GPU's driver has no memory pools: the Hopper kernel takes its work order's memory from one";
  }
  if (problem.dtype == DType::kFloat32) return "dtype is fp32: the Hopper kernel takes bf16 and fp16";
  if (FindInstance(problem.dtype, problem.head_dim, problem.ValueDim()) == nullptr) {
    std::string sizes = "head_dim is " + std::to_string(problem.head_dim);
    if (problem.ValueDim() != problem.head_dim) sizes += " and v_head_dim " + std::to_string(problem.ValueDim());
    return sizes + ": the Hopper kernel takes 64, 96, 128 and 256, and 192 with a v_head_dim of 128";
  }
  struct Tensor {
    const char* name;
    StridedTensor<const void> tensor;
    int32_t heads;
    int32_t rows;
  };
  for (const Tensor& t : {Tensor{"q", problem.q, problem.num_qo_heads, problem.seq_q},
                          Tensor{"k", problem.k, problem.num_kv_heads, problem.seq_k},
                          Tensor{"v", problem.v, problem.num_kv_heads, problem.seq_k},
                          Tensor{"output.o", Const(output.o), problem.num_qo_heads, problem.seq_q}}) {
    if (!IsTmaAligned(t.tensor, problem.batch, t.heads, t.rows)) {
      return std::string(t.name) + " is not aligned to 16 bytes in its base and its strides";
    }
  }
  const int64_t items_per_head = (int64_t{index.seq_q} + kItemRows - 1) / kItemRows;
  if (items_per_head * problem.num_qo_heads * problem.batch > std::numeric_limits<int32_t>::max() / 64) {
    return "there are " + std::to_string(items_per_head * problem.num_qo_heads * problem.batch) +
           " row tiles: the Hopper kernel takes 33 million";
  }
  return {};
}

Status Attend(const AttentionProblem& problem, const SparseIndexView& index, const AttentionOutput& output,
              const CurrentDevice& device, cudaStream_t stream) {
  const Instance* const instance = FindInstance(problem.dtype, problem.head_dim, problem.ValueDim());
  KernelParams params{};
  if (Status status = EncodeMaps(problem, output, *instance, &params); !status.ok()) return status;
  params.k_gather = Gather(problem.k);
  params.v_gather = Gather(problem.v);
  FillParams(problem, index, output, &params);

  const LaunchPair launch = problem.soft_cap > 0        ? LaunchPair{instance->rare, nullptr}
                            : output.row_max != nullptr ? instance->row_max
                                                        : instance->plain;
  const bool has_dense = launch.dense != nullptr;
  const bool is_dense = has_dense && index.keeps_everything && TakesDenseKernels(index);
  const bool ask_device = has_dense && instance->asks_the_device && !is_dense && MayKeepEverything(index);
  CUtensorMap dense_rows{};
  if (is_dense || ask_device) {
    const TensorMapShape rows{"q",           problem.dtype,    problem.batch,       problem.num_qo_heads,
                              problem.seq_q, problem.head_dim, instance->dense_rows};
    if (Status status = EncodeTensorMap(rows, problem.q, &dense_rows); !status.ok()) return status;
  }
  const int64_t bytes_per_kv_head =
      SizeOf(problem.dtype) * problem.seq_k * (int64_t{problem.head_dim} + problem.ValueDim());
  if (is_dense) {
    params.q = dense_rows;
    return LaunchOnEverything(problem, instance->dense_rows, bytes_per_kv_head, device, "AttendDenseKernel", stream,
                              &params, [&](int num_blocks) { return launch.dense(params, num_blocks, stream); });
  }
  return LaunchWithQueue(
      problem, index, bytes_per_kv_head, device, "AttendHopperKernel", stream, &params,
      [&](int num_blocks) {
        if (params.dense_sections != nullptr) {
          KernelParams dense_params = params;
          dense_params.q = dense_rows;
          const cudaError_t error = launch.dense(dense_params, num_blocks, stream);
          if (error != cudaSuccess) return error;
        }
        return launch.lists(params, num_blocks, stream);
      },
      ask_device);
}

}  // namespace headscope::kernels::hopper
