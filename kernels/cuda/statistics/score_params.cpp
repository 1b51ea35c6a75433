// SPDX-License-Identifier: Apache-2.0
#include "statistics/score_params.h"

#include <cuda_runtime_api.h>

#include <limits>
#include <numbers>
#include <string>

#include "current_device.h"
#include "device_pointers.h"
#include "kernels/cuda_resources.h"
#include "problem_check.h"

namespace headscope::kernels::statistics {
namespace {

Status Invalid(const std::string& field, const std::string& value, const std::string& allowed) {
  return {StatusCode::kInvalidArgument, field + " is " + value + ": " + allowed + "."};
}

Status CheckArguments(const AttentionProblem& problem, int32_t window) {
  if (Status status = CheckShape(problem); !status.ok()) return status;
  if (Status status = CheckNoWindow(problem); !status.ok()) return status;  // it is an argument of its own
  if (problem.seq_k > std::numeric_limits<int32_t>::max() - kTileKeys) {
    return Invalid("seq_k", std::to_string(problem.seq_k), "must be at most 2147483583");
  }
  if (window < 0) return Invalid("window", std::to_string(window), "must be 0 (none) or more");
  const auto element = static_cast<size_t>(SizeOf(problem.dtype));
  Status status = CheckPointer("q.data", problem.q.data, element);
  return status.ok() ? CheckPointer("k.data", problem.k.data, element) : status;
}

Status Unsupported(const std::string& what) {
  return {StatusCode::kUnsupported, what + "; compute this on the CPU."};
}

Status CheckTensor(const char* name, const StridedTensor<const void>& tensor, int32_t batch, int32_t heads,
                   int32_t rows, int32_t head_dim) {
  if (reinterpret_cast<uintptr_t>(tensor.data) % 16 != 0) {
    return Unsupported(std::string(name) + ".data is not 16-byte aligned, as the GPU's statistics need it");
  }
  struct Stride {
    const char* field;
    int64_t value;
    int64_t count;  // a stride over one element is never used
  };
  for (const Stride& stride : {Stride{".row_stride", tensor.row_stride, rows},
                               {".head_stride", tensor.head_stride, heads},
                               {".batch_stride", tensor.batch_stride, batch}}) {
    if (stride.count == 1) continue;
    if (stride.value < head_dim) {
      return Invalid(std::string(name) + stride.field, std::to_string(stride.value),
                     "must be at least head_dim (" + std::to_string(head_dim) + " elements)");
    }
    if (stride.value % 8 != 0) {
      return Unsupported(std::string(name) + stride.field + " is " + std::to_string(stride.value) +
                         ": the GPU's statistics take multiples of 8 elements");
    }
  }
  return {};
}

Status CheckFormat(const AttentionProblem& problem) {
  if (problem.dtype == DType::kFloat32) {
    return Unsupported("dtype is fp32: the GPU's statistics take bf16 and fp16, and rounding would change the numbers");
  }
  if (problem.head_dim % 16 != 0 || problem.head_dim > 256) {
    return Unsupported("head_dim is " + std::to_string(problem.head_dim) +
                       ": the GPU's statistics take multiples of 16 up to 256");
  }
  if (Status status = CheckTensor("q", problem.q, problem.batch, problem.num_qo_heads, problem.seq_q, problem.head_dim);
      !status.ok()) {
    return status;
  }
  return CheckTensor("k", problem.k, problem.batch, problem.num_kv_heads, problem.seq_k, problem.head_dim);
}

}  // namespace

Status MakeScoreParams(const AttentionProblem& problem, int32_t window, int64_t extra_shared_bytes,
                       std::initializer_list<NamedPointer> arrays, void* stream, ScoreParams* params) {
  if (Status status = CheckArguments(problem, window); !status.ok()) return status;
  for (const NamedPointer& array : arrays) {
    if (Status status = CheckPointer(array.name, array.pointer, array.alignment); !status.ok()) return status;
  }
  if (Status status = CheckFormat(problem); !status.ok()) return status;
  CurrentDevice device;
  if (Status status = FindCurrentDevice(&device); !status.ok()) return status;
  // A call without arrays asks for sizes or about tensors to be copied, and launches nothing.
  if (arrays.size() > 0) {
    if (Status status = CheckOnDevice({{"q.data", problem.q.data}, {"k.data", problem.k.data}}, stream); !status.ok()) {
      return status;
    }
    for (const NamedPointer& array : arrays) {
      if (Status status = CheckOnDevice({{array.name, array.pointer}}, stream); !status.ok()) return status;
    }
  }
  int shared_limit = 0;
  if (Status status =
          CudaStatus(cudaDeviceGetAttribute(&shared_limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device.ordinal),
                     "asking for the GPU's shared memory");
      !status.ok()) {
    return status;
  }

  constexpr auto kLog2E = std::numbers::log2e_v<float>;
  const float scale = problem.EffectiveScale();
  if (int64_t{problem.batch} * problem.num_qo_heads > std::numeric_limits<int32_t>::max()) {
    return Unsupported("batch times num_qo_heads is " + std::to_string(int64_t{problem.batch} * problem.num_qo_heads) +
                       ": the GPU's statistics take fewer heads over all sequences at a time");
  }
  ScoreParams made{};
  made.q = static_cast<const uint16_t*>(problem.q.data);
  made.k = static_cast<const uint16_t*>(problem.k.data);
  made.q_batch_stride = problem.q.batch_stride;
  made.q_head_stride = problem.q.head_stride;
  made.q_row_stride = problem.q.row_stride;
  made.k_batch_stride = problem.k.batch_stride;
  made.k_head_stride = problem.k.head_stride;
  made.k_row_stride = problem.k.row_stride;
  made.num_sequence_heads = problem.batch * problem.num_qo_heads;
  made.num_qo_heads = problem.num_qo_heads;
  made.group_size = problem.GroupSize();
  made.head_dim = problem.head_dim;
  made.seq_q = problem.seq_q;
  made.seq_k = problem.seq_k;
  made.first_position = problem.first_position;
  made.window = window;
  made.factor = problem.soft_cap > 0 ? scale / problem.soft_cap : scale * kLog2E;
  made.cap = problem.soft_cap * kLog2E;
  made.bfloat16 = problem.dtype == DType::kBFloat16;
  made.key_stages = 2;
  if (made.SharedBytes(extra_shared_bytes) > shared_limit) made.key_stages = 1;
  if (made.SharedBytes(extra_shared_bytes) > shared_limit) {
    return Unsupported("head_dim is " + std::to_string(problem.head_dim) + ": this needs " +
                       std::to_string(made.SharedBytes(extra_shared_bytes)) + " bytes of shared memory, the GPU has " +
                       std::to_string(shared_limit));
  }
  if (made.NumRowTiles() * made.num_sequence_heads > std::numeric_limits<int32_t>::max()) {
    return Unsupported("the problem has " + std::to_string(made.num_sequence_heads) +
                       " heads over all sequences: the GPU's statistics take fewer at a time");
  }
  *params = made;
  return {};
}

}  // namespace headscope::kernels::statistics
