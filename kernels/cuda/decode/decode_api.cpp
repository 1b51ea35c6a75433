// SPDX-License-Identifier: Apache-2.0
// Checks, scratch layout and dispatch of the decode calls (kernels/cuda_decode.h).
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <string>

#include "decode/decode_check.h"
#include "decode/decode_launch.h"
#include "decode/dense_plan.h"
#include "decode/operands_of.h"
#include "decode/sparq_plan.h"
#include "decode/sparq_upkeep.h"
#include "kernels/cuda_decode.h"
#include "kernels/cuda_resources.h"
#include "refusals.h"

namespace headscope::kernels {
namespace {

using decode::DecodeDevice;
using decode::DenseParams;
using decode::SparqParams;
using decode::SparqPlan;
using decode::WithSinks;

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

// The problem over the tokens of its window alone.
AttentionProblem OfWindow(AttentionProblem problem) {
  const int32_t hidden = problem.window > 0 ? std::max(problem.seq_k - problem.window, 0) : 0;
  problem.window = 0;
  const auto skip = [&](StridedTensor<const void>* tensor) {
    tensor->data = static_cast<const char*>(tensor->data) + hidden * tensor->row_stride * SizeOf(problem.dtype);
  };
  if (hidden == 0) return problem;  // a single token's stride may be anything
  skip(&problem.k);
  skip(&problem.v);
  problem.seq_k -= hidden;
  problem.first_position -= hidden;
  return problem;
}

}  // namespace

size_t DecodeWorkspaceBytes(const AttentionProblem& problem, const SparqCudaOptions& options) {
  if (!decode::CheckDecodeShape(problem).ok()) return 0;  // the call itself will name the field
  const DecodeDevice device = DeviceOrHopper();
  SparqPlan plan;
  // A plan that is refused needs no scratch; the call will say why.
  const bool planned = decode::PlanSparq(problem, options, false, device, &plan).ok();
  decode::DensePlan dense;
  return std::max(decode::PlanDense(problem, device, &dense).ok() ? dense.total : 0,
                  planned ? decode::LayOutScratch(problem, device, plan).total : 0);
}

Status DecodeDenseCuda(const AttentionProblem& whole, const AttentionOutput& output, void* workspace,
                       size_t workspace_bytes, void* stream) {
  if (Status status = decode::CheckDecode(whole, output); !status.ok()) return status;
  const AttentionProblem problem = OfWindow(whole);
  DecodeDevice device;
  if (Status status = decode::FindDecodeDevice(&device); !status.ok()) return status;
  decode::DensePlan plan;
  if (Status status = decode::PlanDense(problem, device, &plan); !status.ok()) return status;
  if (Status status = decode::CheckWorkspace(workspace, workspace_bytes, plan.total, "DecodeWorkspaceBytes");
      !status.ok())
    return status;
  if (Status status = decode::CheckDecodeOnDevice(problem, output, {}, nullptr, nullptr, workspace, stream);
      !status.ok()) {
    return status;
  }
  WithSinks<DenseParams> params{plan.params, SinksOf(problem)};
  params.x = decode::OperandsOf(problem, output);
  params.lse = output.lse;
  params.row_max = output.row_max;
  params.messages = static_cast<char*>(workspace) + plan.messages;
  params.soft_cap = problem.soft_cap;
  const cudaError_t error = Dispatch(problem, [&]<typename T, int D>() {
    return decode::LaunchDense<T, D>(params, static_cast<cudaStream_t>(stream));
  });
  return CudaStatus(error, Describe("DenseKernel", problem));
}

Status DecodeSparqCuda(const AttentionProblem& problem, const SparqCudaOptions& options,
                       const TransposedKeys& transposed, const float* mean_value, const AttentionOutput& output,
                       int32_t* chosen_tokens, void* workspace, size_t workspace_bytes, void* stream) {
  if (Status status = decode::CheckDecode(problem, output); !status.ok()) return status;
  if (Status status = decode::CheckSparq(problem, options, transposed, mean_value); !status.ok()) return status;
  if (output.row_max != nullptr)
    return UnsupportedStatus("output.row_max is set: SparQ's launch leaves no largest scores; leave it null");
  DecodeDevice device;
  if (Status status = decode::FindDecodeDevice(&device); !status.ok()) return status;
  SparqParams params{};
  if (Status status = decode::PlanSparq(problem, options, transposed.data == nullptr, device, &params.plan);
      !status.ok())
    return status;
  const decode::SparqScratch layout = decode::LayOutScratch(problem, device, params.plan);
  if (Status status = decode::CheckWorkspace(workspace, workspace_bytes, layout.total, "DecodeWorkspaceBytes");
      !status.ok())
    return status;
  if (Status status = decode::CheckDecodeOnDevice(
          problem, output, transposed, options.mean_value ? mean_value : nullptr, chosen_tokens, workspace, stream);
      !status.ok()) {
    return status;
  }
  char* scratch = static_cast<char*>(workspace);
  params.x = decode::OperandsOf(problem, output);
  params.kt = transposed.data;
  params.kt_batch = transposed.batch_stride;
  params.kt_head = transposed.head_stride;
  params.kt_component = transposed.component_stride;
  params.mean_value = options.mean_value ? mean_value : nullptr;
  params.chosen = chosen_tokens;
  params.rank = options.rank;
  params.num_tokens = options.num_tokens;
  params.finished = static_cast<uint32_t*>(workspace);
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

Status AppendTokenCuda(const AttentionProblem& problem, const TransposedKeys& transposed, float* mean_value,
                       void* stream) {
  if (Status status = decode::CheckAppend(problem, transposed, mean_value); !status.ok()) return status;
  DecodeDevice device;
  if (Status status = decode::FindDecodeDevice(&device); !status.ok()) return status;
  if (Status status = decode::CheckAppendOnDevice(problem, transposed, mean_value, nullptr, stream); !status.ok())
    return status;
  const decode::AppendParams params = decode::AppendOperandsOf(problem, transposed, mean_value);
  auto* on = static_cast<cudaStream_t>(stream);
  const cudaError_t error = problem.dtype == DType::kBFloat16 ? decode::LaunchAppend<__nv_bfloat16>(params, on)
                                                              : decode::LaunchAppend<__half>(params, on);
  return CudaStatus(error, Describe("AppendKernel", problem));
}

size_t UpdateSparqWorkspaceBytes(const AttentionProblem& problem) {
  if (!decode::CheckDecodeShape(problem).ok()) return 0;  // the call itself will name the field
  const int64_t lists = int64_t{problem.batch} * problem.num_kv_heads;
  return static_cast<size_t>(lists * decode::MostParts(problem.seq_k) * problem.head_dim * int64_t{sizeof(float)});
}

Status UpdateSparqCuda(const AttentionProblem& problem, int32_t first_token, const TransposedKeys& transposed,
                       float* mean_value, void* workspace, size_t workspace_bytes, void* stream) {
  if (Status status = decode::CheckAppend(problem, transposed, mean_value); !status.ok()) return status;
  if (Status status = decode::CheckFirstToken(problem, first_token); !status.ok()) return status;
  if (first_token > 0 && first_token == problem.seq_k - 1)
    return AppendTokenCuda(problem, transposed, mean_value, stream);
  if (mean_value != nullptr) {
    if (Status status = decode::CheckWorkspace(workspace, workspace_bytes, UpdateSparqWorkspaceBytes(problem),
                                               "UpdateSparqWorkspaceBytes");
        !status.ok()) {
      return status;
    }
  }
  DecodeDevice device;
  if (Status status = decode::FindDecodeDevice(&device); !status.ok()) return status;
  if (Status status = decode::CheckAppendOnDevice(problem, transposed, mean_value,
                                                  mean_value != nullptr ? workspace : nullptr, stream);
      !status.ok()) {
    return status;
  }
  decode::UpkeepParams params{decode::AppendOperandsOf(problem, transposed, mean_value)};
  params.partial = static_cast<float*>(workspace);
  params.first_token = first_token;
  decode::PlanUpkeep(&params);
  auto* on = static_cast<cudaStream_t>(stream);
  const cudaError_t error = problem.dtype == DType::kBFloat16 ? decode::LaunchUpkeep<__nv_bfloat16>(params, on)
                                                              : decode::LaunchUpkeep<__half>(params, on);
  return CudaStatus(error, Describe("UpkeepKernel", problem));
}

}  // namespace headscope::kernels
