// SPDX-License-Identifier: Apache-2.0
#include "decode/decode_check.h"

#include <cstdint>
#include <string>

#include "decode/decode_params.h"
#include "decode/selection_params.h"
#include "device_pointers.h"
#include "problem_check.h"
#include "refusals.h"

namespace headscope::kernels::decode {
namespace {

constexpr int64_t kVector = 8;  // elements of 16 bytes, the widest load

// One dimension of a tensor that the kernels step through.
struct Dimension {
  const char* name;
  int64_t stride;
  int64_t extent;
};

// Every dimension of more than one element has a stride of at least `least` elements, a multiple of kVector; the
// others' strides are never used.
template <typename... Dimensions>
Status CheckStrides(const std::string& tensor, int64_t least, const Dimensions&... dimensions) {
  for (const Dimension& dimension : {dimensions...}) {
    if (dimension.extent <= 1) continue;
    const std::string field = tensor + "." + dimension.name + " " + std::to_string(dimension.stride);
    if (dimension.stride < least) return InvalidStatus(field + ": it must be at least " + std::to_string(least));
    if (dimension.stride % kVector != 0) {
      return InvalidStatus(field + ": it must be a multiple of " + std::to_string(kVector) + " elements (16 bytes)");
    }
  }
  return {};
}

// Keys or values of the cache.
Status CheckCache(const std::string& name, const StridedTensor<const void>& tensor, const AttentionProblem& problem,
                  int32_t dim) {
  if (Status status = CheckPointer(name + ".data", tensor.data, 16); !status.ok()) return status;
  return CheckStrides(name, dim, Dimension{"row_stride", tensor.row_stride, problem.seq_k},
                      Dimension{"head_stride", tensor.head_stride, problem.num_kv_heads},
                      Dimension{"batch_stride", tensor.batch_stride, problem.batch});
}

Status CheckTransposed(const AttentionProblem& problem, const TransposedKeys& transposed) {
  if (Status status = CheckPointer("transposed.data", transposed.data, 16); !status.ok()) return status;
  // Eight tokens of a component are read at a time.
  const int64_t padded = (int64_t{problem.seq_k} + kVector - 1) / kVector * kVector;
  if (Status status = CheckStrides("transposed", padded,
                                   Dimension{"component_stride", transposed.component_stride, problem.head_dim});
      !status.ok()) {
    return status;
  }
  const int64_t head = (int64_t{problem.head_dim} - 1) * transposed.component_stride + padded;
  return CheckStrides("transposed", head, Dimension{"head_stride", transposed.head_stride, problem.num_kv_heads},
                      Dimension{"batch_stride", transposed.batch_stride, problem.batch});
}

}  // namespace

namespace {

// One query row a sequence, the newest token, and no more lists than a grid has room for.
Status CheckStep(const AttentionProblem& problem) {
  if (Status status = CheckShape(problem); !status.ok()) return status;
  const auto number = [](int64_t value) { return std::to_string(value); };
  if (problem.seq_q != 1) {
    return InvalidStatus("seq_q " + number(problem.seq_q) + ": decode takes one query row per sequence");
  }
  if (problem.first_position != problem.seq_k - 1) {
    return InvalidStatus("first_position " + number(problem.first_position) +
                         ": decode's query is the newest token and stands at seq_k - 1 (" + number(problem.seq_k - 1) +
                         ")");
  }
  const int64_t lists = int64_t{problem.batch} * problem.num_kv_heads;
  if (lists > 65535) return UnsupportedStatus("batch * num_kv_heads " + number(lists) + ": at most 65535 a call");
  return {};
}

// q, k, v and o: present, aligned as the kernels read them, heads and sequences of o apart.
Status CheckTensors(const AttentionProblem& problem, const AttentionOutput& output) {
  if (Status status = CheckPointer("q.data", problem.q.data, 16); !status.ok()) return status;
  if (Status status =
          CheckStrides("q", problem.head_dim, Dimension{"head_stride", problem.q.head_stride, problem.num_qo_heads},
                       Dimension{"batch_stride", problem.q.batch_stride, problem.batch});
      !status.ok()) {
    return status;
  }
  if (Status status = CheckCache("k", problem.k, problem, problem.head_dim); !status.ok()) return status;
  if (Status status = CheckCache("v", problem.v, problem, problem.ValueDim()); !status.ok()) return status;
  const auto element = static_cast<size_t>(SizeOf(problem.dtype));
  if (Status status = CheckPointer("output.o.data", output.o.data, element); !status.ok()) return status;
  if (Status status = CheckRowOutputs(output); !status.ok()) return status;
  return CheckDisjoint("output.o", output.o, problem);
}

}  // namespace

Status CheckKeysShape(const AttentionProblem& problem) {
  if (Status status = CheckStep(problem); !status.ok()) return status;
  if (problem.head_dim != 64 && problem.head_dim != 128) {
    return UnsupportedStatus("head_dim " + std::to_string(problem.head_dim) +
                             ": the CUDA decode executor takes 64 or 128");
  }
  if (problem.dtype == DType::kFloat32) {
    return UnsupportedStatus("dtype fp32: the CUDA decode executor takes bf16 or fp16");
  }
  return {};
}

Status CheckDecodeShape(const AttentionProblem& problem) {
  if (Status status = CheckKeysShape(problem); !status.ok()) return status;
  if (problem.ValueDim() == problem.head_dim) return {};
  return UnsupportedStatus("v_head_dim " + std::to_string(problem.v_head_dim) +
                           ": the CUDA decode executor takes head_dim (" + std::to_string(problem.head_dim) +
                           "); AttendSelectionCuda takes others");
}

Status CheckSelectionShape(const AttentionProblem& problem) {
  if (Status status = CheckStep(problem); !status.ok()) return status;
  if (problem.head_dim % kVector != 0 || problem.head_dim > kMaxSelectionDim) {
    return UnsupportedStatus("head_dim " + std::to_string(problem.head_dim) +
                             ": the CUDA executor of decode selections takes multiples of 8 up to " +
                             std::to_string(kMaxSelectionDim));
  }
  if (problem.ValueDim() % kVector != 0 || problem.ValueDim() > kMaxSelectionValueDim) {
    return UnsupportedStatus((problem.v_head_dim > 0 ? "v_head_dim " : "head_dim, of values as well, ") +
                             std::to_string(problem.ValueDim()) +
                             ": the CUDA executor of decode selections takes values of multiples of 8 up to " +
                             std::to_string(kMaxSelectionValueDim));
  }
  return {};
}

Status CheckDecode(const AttentionProblem& problem, const AttentionOutput& output) {
  if (Status status = CheckDecodeShape(problem); !status.ok()) return status;
  return CheckTensors(problem, output);
}

Status CheckKeys(const AttentionProblem& problem) {
  return CheckCache("k", problem.k, problem, problem.head_dim);
}

Status CheckSelectionStep(const AttentionProblem& problem, const AttentionOutput& output) {
  if (Status status = CheckSelectionShape(problem); !status.ok()) return status;
  return CheckTensors(problem, output);
}

Status CheckQuestShape(const AttentionProblem& problem, const QuestCudaOptions& options) {
  if (Status status = CheckKeysShape(problem); !status.ok()) return status;
  if (Status status = CheckSelectionShape(problem); !status.ok()) return status;
  if (Status status = CheckNoWindow(problem); !status.ok()) return status;
  if (options.page_size < 1 || options.page_size > 1024)
    return InvalidStatus("page_size " + std::to_string(options.page_size) + ": it must lie in 1 .. 1024");
  if (options.budget < 1) return InvalidStatus("budget " + std::to_string(options.budget) + ": it must be at least 1");
  return {};
}

Status CheckSparqShape(const AttentionProblem& problem, const SparqCudaOptions& options) {
  if (Status status = CheckDecodeShape(problem); !status.ok()) return status;
  if (Status status = CheckNoWindow(problem); !status.ok()) return status;
  if (options.rank < 1 || options.rank > problem.head_dim) {
    return InvalidStatus("rank " + std::to_string(options.rank) + ": it must lie in 1 .. head_dim (" +
                         std::to_string(problem.head_dim) + ")");
  }
  if (options.num_tokens < 1 || options.num_tokens > kMaxKept) {
    return InvalidStatus("num_tokens " + std::to_string(options.num_tokens) + ": it must lie in 1 .. " +
                         std::to_string(kMaxKept));
  }
  if (options.num_local < 0) {
    return InvalidStatus("num_local " + std::to_string(options.num_local) + ": it must not be negative");
  }
  if (options.num_local > options.num_tokens) {
    return InvalidStatus("num_local " + std::to_string(options.num_local) + ": it must be at most num_tokens (" +
                         std::to_string(options.num_tokens) + "), which counts the local window");
  }
  if (problem.soft_cap != 0) return UnsupportedStatus("soft_cap: SparQ's estimate is not defined for capped scores");
  if (problem.sinks != nullptr) return UnsupportedStatus("sinks: SparQ's kernel does not know them");
  return {};
}

Status CheckSparq(const AttentionProblem& problem, const SparqCudaOptions& options, const TransposedKeys& transposed,
                  const float* mean_value) {
  if (Status status = CheckSparqShape(problem, options); !status.ok()) return status;
  if (options.mean_value) {
    if (mean_value == nullptr) return InvalidStatus("mean_value is null although options.mean_value is on");
    if (Status status = CheckPointer("mean_value", mean_value, sizeof(float)); !status.ok()) return status;
  }
  return transposed.data == nullptr ? Status{} : CheckTransposed(problem, transposed);
}

Status CheckAppend(const AttentionProblem& problem, const TransposedKeys& transposed, const float* mean_value) {
  if (Status status = CheckDecodeShape(problem); !status.ok()) return status;
  if (Status status = CheckNoWindow(problem); !status.ok()) return status;
  if (transposed.data == nullptr && mean_value == nullptr) {
    return InvalidStatus("transposed and mean_value are both null: there is nothing to append to");
  }
  if (transposed.data != nullptr) {
    if (Status status = CheckKeys(problem); !status.ok()) return status;
    if (Status status = CheckTransposed(problem, transposed); !status.ok()) return status;
  }
  if (mean_value != nullptr) {
    if (Status status = CheckCache("v", problem.v, problem, problem.ValueDim()); !status.ok()) return status;
    if (Status status = CheckPointer("mean_value", mean_value, sizeof(float)); !status.ok()) return status;
  }
  return {};
}

Status CheckFirstToken(const AttentionProblem& problem, int32_t first_token) {
  if (first_token >= 0 && first_token < problem.seq_k) return {};
  return InvalidStatus("first_token " + std::to_string(first_token) + ": it must lie in 0 .. seq_k - 1 (" +
                       std::to_string(problem.seq_k - 1) + ")");
}

Status CheckKept(const AttentionProblem& problem, const CudaKept& kept) {
  if (kept.capacity < problem.seq_k) {
    return InvalidStatus("kept.capacity " + std::to_string(kept.capacity) + ": it must be at least seq_k (" +
                         std::to_string(problem.seq_k) + ")");
  }
  return CheckPointer("kept.memory", kept.memory, 256);
}

Status CheckWorkspace(const void* workspace, size_t bytes, size_t needed, const char* bytes_from) {
  if (workspace == nullptr || bytes < needed)
    return InvalidStatus("workspace: " + std::to_string(needed) + " bytes are needed (" + bytes_from + ")");
  return CheckPointer("workspace", workspace, 256);
}

Status CheckDecodeOnDevice(const AttentionProblem& problem, const AttentionOutput& output,
                           const TransposedKeys& transposed, const float* mean_value, const int32_t* chosen_tokens,
                           const void* workspace, void* stream) {
  return CheckOnDevice({{"q.data", problem.q.data},
                        {"k.data", problem.k.data},
                        {"v.data", problem.v.data},
                        {"output.o.data", output.o.data},
                        {"output.lse", output.lse},
                        {"output.row_max", output.row_max},
                        {"transposed.data", transposed.data},
                        {"mean_value", mean_value},
                        {"chosen_tokens", chosen_tokens},
                        {"workspace", workspace}},
                       stream);
}

Status CheckAppendOnDevice(const AttentionProblem& problem, const TransposedKeys& transposed, const float* mean_value,
                           const void* workspace, void* stream) {
  return CheckOnDevice({{"k.data", transposed.data != nullptr ? problem.k.data : nullptr},
                        {"v.data", mean_value != nullptr ? problem.v.data : nullptr},
                        {"transposed.data", transposed.data},
                        {"mean_value", mean_value},
                        {"workspace", workspace}},
                       stream);
}

}  // namespace headscope::kernels::decode
