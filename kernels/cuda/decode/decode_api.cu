// Checks, scratch layout and dispatch of the decode calls (kernels/cuda_decode.h).
#include <algorithm>
#include <cmath>
#include <string>

#include "cuda_error.h"
#include "current_device.h"
#include "decode/decode_launch.h"
#include "kernels/cuda_decode.h"

namespace headscope::kernels {
namespace {

using decode::DenseParams;
using decode::kMaxKept;
using decode::kStride;
using decode::SparqParams;

constexpr int32_t kMaxCluster = 16;

Status Refuse(StatusCode code, std::string message) {
  return Status(code, std::move(message));
}

size_t Aligned(size_t bytes) {
  return (bytes + 255) / 256 * 256;
}

bool Misaligned(const StridedTensor<const void>& tensor) {
  return (reinterpret_cast<uintptr_t>(tensor.data) % 16) != 0 || tensor.row_stride % 8 != 0 ||
         tensor.head_stride % 8 != 0 || tensor.batch_stride % 8 != 0;
}

Status Check(const AttentionProblem& problem, const AttentionOutput& output) {
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
  const int32_t group = problem.GroupSize();
  if (group != 1 && group != 2 && group != 4 && group != 8) {
    return Refuse(
        StatusCode::kUnsupported,
        "group size " + number(group) + ": the CUDA decode executor takes 1, 2, 4 or 8 query heads per KV head");
  }
  if (int64_t{problem.batch} * problem.num_kv_heads > 65535) {
    return Refuse(
        StatusCode::kUnsupported,
        "batch * num_kv_heads " + number(int64_t{problem.batch} * problem.num_kv_heads) + ": at most 65535 a call");
  }
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

int32_t SparqPasses(const AttentionProblem& problem) {
  return decode::SpanPasses(problem.seq_k, problem.GroupSize());
}
int32_t SparqSpans(const AttentionProblem& problem) {
  const int32_t span = SparqPasses(problem) * kStride;
  return (problem.seq_k + span - 1) / span;
}

// Spans of the dense pass: as few and as long as fill the GPU with whole waves of its two resident blocks per
// multiprocessor.
int32_t DenseSpanTokens(const AttentionProblem& problem) {
  constexpr int64_t kResident = 2 * 132;
  const int64_t lists = int64_t{problem.batch} * problem.num_kv_heads;
  const int64_t spans = std::max<int64_t>(1, kResident / lists);
  const int64_t tokens = (problem.seq_k + spans - 1) / spans;
  return static_cast<int32_t>(std::max<int64_t>((tokens + 127) / 128 * 128, 256));
}

int32_t DenseSpans(const AttentionProblem& problem) {
  return (problem.seq_k + DenseSpanTokens(problem) - 1) / DenseSpanTokens(problem);
}

size_t DenseBytes(const AttentionProblem& problem) {
  return Aligned(size_t{4} * static_cast<size_t>(problem.batch) * static_cast<size_t>(problem.num_qo_heads) *
                 static_cast<size_t>(DenseSpans(problem)) * static_cast<size_t>(problem.head_dim + 2));
}

// Candidates that a span may leave: twice the tokens wanted, so that a loose threshold is soon found.
int32_t Capacity(const SparqCudaOptions& options) {
  return 2 * options.num_tokens;
}

struct SparqScratch {
  size_t finished, key, token, score, softmax, total;
};
SparqScratch LayOut(const AttentionProblem& problem, const SparqCudaOptions& options) {
  const size_t spans = static_cast<size_t>(problem.batch) * static_cast<size_t>(problem.num_kv_heads) *
                       static_cast<size_t>(SparqSpans(problem));
  const size_t candidates = spans * static_cast<size_t>(Capacity(options));
  SparqScratch layout{};
  layout.finished = 0;  // first, so that it lies at one place whatever the shape
  layout.key = Aligned(4 * static_cast<size_t>(problem.batch) * static_cast<size_t>(problem.num_kv_heads));
  layout.token = layout.key + Aligned(4 * candidates);
  layout.score = layout.token + Aligned(4 * candidates);
  layout.softmax = layout.score + Aligned(4 * candidates * static_cast<size_t>(problem.GroupSize()));
  layout.total = layout.softmax + Aligned(8 * spans);
  return layout;
}

std::string Describe(const char* kernel, const AttentionProblem& problem) {
  return std::string(kernel) + " (batch " + std::to_string(problem.batch) + ", heads " +
         std::to_string(problem.num_qo_heads) + ":" + std::to_string(problem.num_kv_heads) + ", seq_k " +
         std::to_string(problem.seq_k) + ", head_dim " + std::to_string(problem.head_dim) + ")";
}

// Thread-block clusters are Hopper's; older GPUs decode on the CPU.
Status CheckDevice() {
  CurrentDevice device;
  if (Status status = FindCurrentDevice(&device); !status.ok()) return status;
  if (device.compute_capability >= 90) return Status();
  return Refuse(StatusCode::kUnsupported, "compute capability " + std::to_string(device.compute_capability) +
                                              ": the CUDA decode kernels need 90 (Hopper); decode on the CPU");
}

// Calls f with a value of the element type and the head dimension as a constant.
template <typename F>
cudaError_t Dispatch(const AttentionProblem& problem, F&& f) {
  const bool bf16 = problem.dtype == DType::kBFloat16;
  if (problem.head_dim == 64)
    return bf16 ? f.template operator()<__nv_bfloat16, 64>() : f.template operator()<__half, 64>();
  return bf16 ? f.template operator()<__nv_bfloat16, 128>() : f.template operator()<__half, 128>();
}

template <typename T>
__global__ void AppendKernel(const T* k, const T* v, int64_t k_batch, int64_t k_head, int64_t k_row, int64_t v_batch,
                             int64_t v_head, int64_t v_row, T* kt, int64_t kt_batch, int64_t kt_head,
                             int64_t kt_component, float* mean, int num_kv_heads, int head_dim, int seq_k) {
  const int sequence = static_cast<int>(blockIdx.x) / num_kv_heads, head = static_cast<int>(blockIdx.x) % num_kv_heads;
  const int d = static_cast<int>(threadIdx.x);
  const int64_t token = seq_k - 1;
  if (kt != nullptr)
    kt[sequence * kt_batch + head * kt_head + d * kt_component + token] =
        k[sequence * k_batch + head * k_head + token * k_row + d];
  if (mean != nullptr) {
    float* at = mean + static_cast<int64_t>(blockIdx.x) * head_dim + d;
    const float value = decode::ToFloat(v[sequence * v_batch + head * v_head + token * v_row + d]);
    *at += (value - *at) / static_cast<float>(seq_k);
  }
}

}  // namespace

size_t DecodeWorkspaceBytes(const AttentionProblem& problem, const SparqCudaOptions& options) {
  return std::max(DenseBytes(problem), LayOut(problem, options).total);
}

Status DecodeDenseCuda(const AttentionProblem& problem, const AttentionOutput& output, void* workspace,
                       size_t workspace_bytes, void* stream) {
  if (Status status = Check(problem, output); !status.ok()) return status;
  if (Status status = CheckDevice(); !status.ok()) return status;
  if (workspace == nullptr || workspace_bytes < DenseBytes(problem)) {
    return Refuse(StatusCode::kInvalidArgument,
                  "workspace: " + std::to_string(DenseBytes(problem)) + " bytes are needed (DecodeWorkspaceBytes)");
  }
  DenseParams params{};
  params.q = problem.q.data;
  params.k = problem.k.data;
  params.v = problem.v.data;
  params.o = output.o.data;
  params.lse = output.lse;
  params.partial = static_cast<float*>(workspace);
  params.q_batch = problem.q.batch_stride;
  params.q_head = problem.q.head_stride;
  params.k_batch = problem.k.batch_stride;
  params.k_head = problem.k.head_stride;
  params.k_row = problem.k.row_stride;
  params.v_batch = problem.v.batch_stride;
  params.v_head = problem.v.head_stride;
  params.v_row = problem.v.row_stride;
  params.o_batch = output.o.batch_stride;
  params.o_head = output.o.head_stride;
  params.num_kv_heads = problem.num_kv_heads;
  params.group = problem.GroupSize();
  params.seq_k = problem.seq_k;
  params.span = DenseSpanTokens(problem);
  params.num_spans = DenseSpans(problem);
  params.scale = Scale(problem);
  params.soft_cap = problem.soft_cap;
  const cudaError_t error = Dispatch(problem, [&]<typename T, int D>() {
    return decode::LaunchDense<T, D>(params, problem.batch, static_cast<cudaStream_t>(stream));
  });
  return CudaStatus(error, Describe("DenseSpanKernel", problem));
}

Status DecodeSparqCuda(const AttentionProblem& problem, const SparqCudaOptions& options,
                       const TransposedKeys& transposed, const float* mean_value, const AttentionOutput& output,
                       int32_t* chosen_tokens, void* workspace, size_t workspace_bytes, void* stream) {
  if (Status status = Check(problem, output); !status.ok()) return status;
  if (Status status = CheckDevice(); !status.ok()) return status;
  const auto refuse = [](const std::string& message) { return Refuse(StatusCode::kInvalidArgument, message); };
  if (options.rank < 1 || options.rank > problem.head_dim) {
    return refuse("rank " + std::to_string(options.rank) + ": it must lie in 1 .. head_dim (" +
                  std::to_string(problem.head_dim) + ")");
  }
  if (options.num_tokens < 1 || options.num_tokens > kMaxKept) {
    return refuse("num_tokens " + std::to_string(options.num_tokens) + ": it must lie in 1 .. " +
                  std::to_string(kMaxKept));
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
  const int32_t spans = SparqSpans(problem);
  const int32_t group = problem.GroupSize();
  // The spans of a group's KV head form one cluster, and their scores lie in shared memory: [group, span] fp32.
  const int32_t max_passes = group == 8 ? 2 : decode::kMaxPasses;
  if (group > 1 && (spans > kMaxCluster || SparqPasses(problem) > max_passes)) {
    return Refuse(StatusCode::kUnsupported, "seq_k " + std::to_string(problem.seq_k) + ": with " +
                                                std::to_string(group) +
                                                " query heads per KV head SparQ on the GPU takes at most " +
                                                std::to_string(kMaxCluster * max_passes * kStride) + " tokens");
  }
  if (spans > 1 && int64_t{spans} * Capacity(options) > 64 * decode::kThreads) {
    return Refuse(StatusCode::kUnsupported, "seq_k " + std::to_string(problem.seq_k) + " with num_tokens " +
                                                std::to_string(options.num_tokens) +
                                                ": too many candidates to merge; lower num_tokens to " +
                                                std::to_string(32 * decode::kThreads / spans));
  }
  const SparqScratch layout = LayOut(problem, options);
  if (workspace == nullptr || workspace_bytes < layout.total) {
    return refuse("workspace: " + std::to_string(layout.total) + " bytes are needed (DecodeWorkspaceBytes)");
  }
  char* scratch = static_cast<char*>(workspace);
  SparqParams params{};
  params.q = problem.q.data;
  params.k = problem.k.data;
  params.v = problem.v.data;
  params.kt = transposed.data;
  params.mean_value = options.mean_value ? mean_value : nullptr;
  params.o = output.o.data;
  params.chosen = chosen_tokens;
  params.q_batch = problem.q.batch_stride;
  params.q_head = problem.q.head_stride;
  params.k_batch = problem.k.batch_stride;
  params.k_head = problem.k.head_stride;
  params.k_row = problem.k.row_stride;
  params.v_batch = problem.v.batch_stride;
  params.v_head = problem.v.head_stride;
  params.v_row = problem.v.row_stride;
  params.kt_batch = transposed.batch_stride;
  params.kt_head = transposed.head_stride;
  params.kt_component = transposed.component_stride;
  params.o_batch = output.o.batch_stride;
  params.o_head = output.o.head_stride;
  params.num_kv_heads = problem.num_kv_heads;
  params.group = group;
  params.seq_k = problem.seq_k;
  params.num_spans = spans;
  params.passes = SparqPasses(problem);
  params.rank = options.rank;
  params.num_tokens = options.num_tokens;
  params.capacity = Capacity(options);
  params.num_local = std::min(options.num_local, options.num_tokens);
  params.scale = Scale(problem);
  params.candidate_key = reinterpret_cast<uint32_t*>(scratch + layout.key);
  params.candidate_token = reinterpret_cast<int32_t*>(scratch + layout.token);
  params.candidate_score = reinterpret_cast<float*>(scratch + layout.score);
  params.finished = reinterpret_cast<uint32_t*>(scratch + layout.finished);
  params.span_softmax = reinterpret_cast<float2*>(scratch + layout.softmax);
  const cudaError_t error = Dispatch(problem, [&]<typename T, int D>() {
    return decode::LaunchSparq<T, D>(params, problem.batch, static_cast<cudaStream_t>(stream));
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
  const auto launch = [&]<typename T>(T) {
    AppendKernel<T><<<static_cast<unsigned>(problem.batch * problem.num_kv_heads),
                      static_cast<unsigned>(problem.head_dim), 0, static_cast<cudaStream_t>(stream)>>>(
        static_cast<const T*>(problem.k.data), static_cast<const T*>(problem.v.data), problem.k.batch_stride,
        problem.k.head_stride, problem.k.row_stride, problem.v.batch_stride, problem.v.head_stride,
        problem.v.row_stride, static_cast<T*>(transposed_keys), layout.batch_stride, layout.head_stride,
        layout.component_stride, mean_value, problem.num_kv_heads, problem.head_dim, problem.seq_k);
    return cudaGetLastError();
  };
  const cudaError_t error = problem.dtype == DType::kBFloat16 ? launch(__nv_bfloat16()) : launch(__half());
  return CudaStatus(error, Describe("AppendKernel", problem));
}

}  // namespace headscope::kernels
