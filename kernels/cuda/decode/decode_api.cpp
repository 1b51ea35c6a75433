// Checks, scratch layout and dispatch of the decode calls (kernels/cuda_decode.h).
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "cuda_error.h"
#include "decode/decode_launch.h"
#include "decode/dense_plan.h"
#include "decode/sparq_plan.h"
#include "kernels/cuda_decode.h"

namespace headscope::kernels {
namespace {

using decode::DecodeDevice;
using decode::DecodeOperands;
using decode::DenseParams;
using decode::SparqParams;
using decode::SparqPlan;

Status Refuse(StatusCode code, std::string message) {
  return Status(code, std::move(message));
}

bool Misaligned(const StridedTensor<const void>& tensor) {
  return (reinterpret_cast<uintptr_t>(tensor.data) % 16) != 0 || tensor.row_stride % 8 != 0 ||
         tensor.head_stride % 8 != 0 || tensor.batch_stride % 8 != 0;
}

Status CheckShape(const AttentionProblem& problem) {
  const auto number = [](int64_t value) { return std::to_string(value); };
  if (problem.seq_q != 1)
    return Refuse(StatusCode::kInvalidArgument,
                  "seq_q " + number(problem.seq_q) + ": decode takes one query row per sequence");
  if (problem.seq_k < 1)
    return Refuse(StatusCode::kInvalidArgument, "seq_k " + number(problem.seq_k) + ": at least one key is needed");
  if (problem.batch < 1)
    return Refuse(StatusCode::kInvalidArgument, "batch " + number(problem.batch) + ": at least one sequence is needed");
  if (problem.head_dim != 64 && problem.head_dim != 128) {
    return Refuse(StatusCode::kUnsupported,
                  "head_dim " + number(problem.head_dim) + ": the CUDA decode executor takes 64 or 128");
  }
  if (problem.dtype == DType::kFloat32)
    return Refuse(StatusCode::kUnsupported, "dtype fp32: the CUDA decode executor takes bf16 or fp16");
  if (problem.num_kv_heads < 1 || problem.num_qo_heads < 1 || problem.num_qo_heads % problem.num_kv_heads != 0) {
    return Refuse(StatusCode::kInvalidArgument, "num_qo_heads " + number(problem.num_qo_heads) +
                                                    " is not a multiple of num_kv_heads " +
                                                    number(problem.num_kv_heads));
  }
  if (int64_t{problem.batch} * problem.num_kv_heads > 65535) {
    return Refuse(
        StatusCode::kUnsupported,
        "batch * num_kv_heads " + number(int64_t{problem.batch} * problem.num_kv_heads) + ": at most 65535 a call");
  }
  return Status();
}

Status Check(const AttentionProblem& problem, const AttentionOutput& output) {
  if (Status status = CheckShape(problem); !status.ok()) return status;
  for (const auto& [name, tensor] : {std::pair("q", problem.q), std::pair("k", problem.k), std::pair("v", problem.v)}) {
    if (tensor.data == nullptr) return Refuse(StatusCode::kInvalidArgument, std::string(name) + " is null");
    if (Misaligned(tensor))
      return Refuse(StatusCode::kInvalidArgument,
                    std::string(name) + ": rows must be 16-byte aligned (strides a multiple of 8 elements)");
  }
  if (output.o.data == nullptr) return Refuse(StatusCode::kInvalidArgument, "output.o is null");
  return Status();
}

float Scale(const AttentionProblem& problem) {
  return problem.scale != 0 ? problem.scale : 1.0f / std::sqrt(static_cast<float>(problem.head_dim));
}

DecodeOperands Operands(const AttentionProblem& problem, const AttentionOutput& output) {
  DecodeOperands x{};
  x.q = problem.q.data;
  x.k = problem.k.data;
  x.v = problem.v.data;
  x.o = output.o.data;
  x.q_batch = problem.q.batch_stride;
  x.q_head = problem.q.head_stride;
  x.k_batch = problem.k.batch_stride;
  x.k_head = problem.k.head_stride;
  x.k_row = problem.k.row_stride;
  x.v_batch = problem.v.batch_stride;
  x.v_head = problem.v.head_stride;
  x.v_row = problem.v.row_stride;
  x.o_batch = output.o.batch_stride;
  x.o_head = output.o.head_stride;
  x.num_kv_heads = problem.num_kv_heads;
  x.group = problem.GroupSize();
  x.seq_k = problem.seq_k;
  x.scale = Scale(problem);
  return x;
}

std::string Describe(const char* kernel, const AttentionProblem& problem) {
  return std::string(kernel) + " (batch " + std::to_string(problem.batch) + ", heads " +
         std::to_string(problem.num_qo_heads) + ":" + std::to_string(problem.num_kv_heads) + ", seq_k " +
         std::to_string(problem.seq_k) + ", head_dim " + std::to_string(problem.head_dim) + ")";
}

// What the workspace is reckoned for: the current GPU or, where there is none, an H200.
DecodeDevice DeviceOrHopper() {
  DecodeDevice device;
  return decode::FindDecodeDevice(&device).ok() ? device : DecodeDevice{};
}

// Calls f with a value of the element type and the head dimension as a constant.
template <typename F>
cudaError_t Dispatch(const AttentionProblem& problem, F&& f) {
  const bool bf16 = problem.dtype == DType::kBFloat16;
  if (problem.head_dim == 64)
    return bf16 ? f.template operator()<__nv_bfloat16, 64>() : f.template operator()<__half, 64>();
  return bf16 ? f.template operator()<__nv_bfloat16, 128>() : f.template operator()<__half, 128>();
}

}  // namespace

size_t DecodeWorkspaceBytes(const AttentionProblem& problem, const SparqCudaOptions& options) {
  if (!CheckShape(problem).ok()) return 0;  // the call itself will name the field
  const DecodeDevice device = DeviceOrHopper();
  SparqPlan plan;
  // A plan that is refused needs no scratch; the SparQ call will say why.
  const bool planned = decode::PlanSparq(problem, options, false, device, &plan).ok();
  return std::max(decode::PlanDense(problem, device).total, planned ? decode::LayOutScratch(problem, plan).total : 0);
}

Status DecodeDenseCuda(const AttentionProblem& problem, const AttentionOutput& output, void* workspace,
                       size_t workspace_bytes, void* stream) {
  if (Status status = Check(problem, output); !status.ok()) return status;
  DecodeDevice device;
  if (Status status = decode::FindDecodeDevice(&device); !status.ok()) return status;
  decode::DensePlan plan = decode::PlanDense(problem, device);
  if (workspace == nullptr || workspace_bytes < plan.total) {
    return Refuse(StatusCode::kInvalidArgument,
                  "workspace: " + std::to_string(plan.total) + " bytes are needed (DecodeWorkspaceBytes)");
  }
  DenseParams& params = plan.params;
  params.x = Operands(problem, output);
  params.lse = output.lse;
  params.finished = static_cast<uint32_t*>(workspace);
  params.partial = reinterpret_cast<float*>(static_cast<char*>(workspace) + plan.partial);
  params.soft_cap = problem.soft_cap;
  const cudaError_t error = Dispatch(problem, [&]<typename T, int D>() {
    return decode::LaunchDense<T, D>(params, static_cast<cudaStream_t>(stream));
  });
  return CudaStatus(error, Describe("DenseKernel", problem));
}

Status DecodeSparqCuda(const AttentionProblem& problem, const SparqCudaOptions& options,
                       const TransposedKeys& transposed, const float* mean_value, const AttentionOutput& output,
                       int32_t* chosen_tokens, void* workspace, size_t workspace_bytes, void* stream) {
  if (Status status = Check(problem, output); !status.ok()) return status;
  DecodeDevice device;
  if (Status status = decode::FindDecodeDevice(&device); !status.ok()) return status;
  const auto refuse = [](const std::string& message) { return Refuse(StatusCode::kInvalidArgument, message); };
  if (options.rank < 1 || options.rank > problem.head_dim) {
    return refuse("rank " + std::to_string(options.rank) + ": it must lie in 1 .. head_dim (" +
                  std::to_string(problem.head_dim) + ")");
  }
  if (options.num_tokens < 1 || options.num_tokens > decode::kMaxKept) {
    return refuse("num_tokens " + std::to_string(options.num_tokens) + ": it must lie in 1 .. " +
                  std::to_string(decode::kMaxKept));
  }
  if (options.num_local < 0)
    return refuse("num_local " + std::to_string(options.num_local) + ": it must not be negative");
  if (options.mean_value && mean_value == nullptr)
    return refuse("mean_value is null although options.mean_value is on");
  if (problem.soft_cap != 0)
    return Refuse(StatusCode::kUnsupported, "soft_cap: SparQ's estimate is not defined for capped scores");
  if (transposed.data != nullptr) {
    const int64_t padded = (int64_t{problem.seq_k} + 7) / 8 * 8;
    if (reinterpret_cast<uintptr_t>(transposed.data) % 16 != 0 || transposed.component_stride % 8 != 0 ||
        transposed.head_stride % 8 != 0 || transposed.batch_stride % 8 != 0 || transposed.component_stride < padded) {
      return refuse(
          "transposed: rows must be 16-byte aligned, strides multiples of 8 elements, component_stride at least " +
          std::to_string(padded));
    }
  }
  SparqParams params{};
  if (Status status = decode::PlanSparq(problem, options, transposed.data == nullptr, device, &params.plan);
      !status.ok())
    return status;
  const decode::SparqScratch layout = decode::LayOutScratch(problem, params.plan);
  if (workspace == nullptr || workspace_bytes < layout.total) {
    return refuse("workspace: " + std::to_string(layout.total) + " bytes are needed (DecodeWorkspaceBytes)");
  }
  char* scratch = static_cast<char*>(workspace);
  params.x = Operands(problem, output);
  params.kt = transposed.data;
  params.kt_batch = transposed.batch_stride;
  params.kt_head = transposed.head_stride;
  params.kt_component = transposed.component_stride;
  params.mean_value = options.mean_value ? mean_value : nullptr;
  params.chosen = chosen_tokens;
  params.rank = options.rank;
  params.num_tokens = options.num_tokens;
  params.finished = reinterpret_cast<uint32_t*>(scratch + layout.finished);
  params.candidate_key = reinterpret_cast<uint32_t*>(scratch + layout.key);
  params.candidate_token = reinterpret_cast<int32_t*>(scratch + layout.token);
  params.candidate_value = reinterpret_cast<float*>(scratch + layout.value);
  params.span_softmax = reinterpret_cast<float4*>(scratch + layout.softmax);
  params.local_share = reinterpret_cast<float*>(scratch + layout.local_share);
  const cudaError_t error = Dispatch(problem, [&]<typename T, int D>() {
    return decode::LaunchSparq<T, D>(params, static_cast<cudaStream_t>(stream));
  });
  return CudaStatus(error, Describe("SparqKernel", problem));
}

Status AppendTokenCuda(const AttentionProblem& problem, void* transposed_keys, const TransposedKeys& layout,
                       float* mean_value, void* stream) {
  if (problem.k.data == nullptr || problem.v.data == nullptr)
    return Refuse(StatusCode::kInvalidArgument, "k or v is null");
  if (problem.seq_k < 1)
    return Refuse(StatusCode::kInvalidArgument,
                  "seq_k " + std::to_string(problem.seq_k) + ": the appended token must be counted");
  if (problem.dtype == DType::kFloat32)
    return Refuse(StatusCode::kUnsupported, "dtype fp32: the CUDA decode executor takes bf16 or fp16");
  decode::AppendParams params{};
  params.k = problem.k.data;
  params.v = problem.v.data;
  params.k_batch = problem.k.batch_stride;
  params.k_head = problem.k.head_stride;
  params.k_row = problem.k.row_stride;
  params.v_batch = problem.v.batch_stride;
  params.v_head = problem.v.head_stride;
  params.v_row = problem.v.row_stride;
  params.kt = transposed_keys;
  params.kt_batch = layout.batch_stride;
  params.kt_head = layout.head_stride;
  params.kt_component = layout.component_stride;
  params.mean = mean_value;
  params.lists = problem.batch * problem.num_kv_heads;
  params.num_kv_heads = problem.num_kv_heads;
  params.head_dim = problem.head_dim;
  params.seq_k = problem.seq_k;
  auto* on = static_cast<cudaStream_t>(stream);
  const cudaError_t error = problem.dtype == DType::kBFloat16 ? decode::LaunchAppend<__nv_bfloat16>(params, on)
                                                              : decode::LaunchAppend<__half>(params, on);
  return CudaStatus(error, Describe("AppendKernel", problem));
}

}  // namespace headscope::kernels
