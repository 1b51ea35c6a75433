// SPDX-License-Identifier: Apache-2.0
#include "problem_check.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <sstream>
#include <string>
#include <utility>

#include "device_pointers.h"
#include "head_sinks.h"

namespace headscope::kernels {
namespace {

Status Invalid(const std::string& field, const std::string& value, const std::string& allowed) {
  return {StatusCode::kInvalidArgument, field + " is " + value + ": " + allowed + "."};
}

Status AtLeastOne(const char* field, int32_t value) {
  return value >= 1 ? Status{} : Invalid(field, std::to_string(value), "must be 1 or more");
}

// dim: components of a row, the problem's field `dim_name`.
template <typename Void>
Status CheckTensor(const char* name, const StridedTensor<Void>& tensor, const AttentionProblem& problem, int32_t heads,
                   int32_t rows, int32_t dim, const char* dim_name) {
  const std::string field = name;
  const auto alignment = static_cast<size_t>(SizeOf(problem.dtype));
  if (Status status = CheckPointer(field + ".data", tensor.data, alignment); !status.ok()) return status;
  if (rows > 1 && tensor.row_stride < dim) {
    return Invalid(field + ".row_stride", std::to_string(tensor.row_stride),
                   std::string("must be at least ") + dim_name + " (" + std::to_string(dim) + " elements)");
  }
  if (heads > 1 && tensor.head_stride < dim) {
    return Invalid(field + ".head_stride", std::to_string(tensor.head_stride), "heads would overlap");
  }
  if (problem.batch > 1 && tensor.batch_stride < dim) {
    return Invalid(field + ".batch_stride", std::to_string(tensor.batch_stride), "sequences would overlap");
  }
  return {};
}

Status CheckSinks(const AttentionProblem& problem) {
  if (problem.sinks == nullptr) return {};
  if (problem.num_qo_heads > kMaxSinkHeads) {
    return {StatusCode::kUnsupported, "num_qo_heads is " + std::to_string(problem.num_qo_heads) +
                                          ": with sinks the CUDA executors take at most " +
                                          std::to_string(kMaxSinkHeads) + "; attend fewer heads at a time"};
  }
  for (int32_t head = 0; head < problem.num_qo_heads; ++head) {
    if (std::isfinite(problem.sinks[head])) continue;
    return Invalid("sinks[" + std::to_string(head) + "]", std::to_string(problem.sinks[head]), "must be finite");
  }
  return {};
}

template <typename Value>
Status SameAs(const char* field, Value index_value, Value problem_value) {
  if (index_value == problem_value) return {};
  return Invalid(std::string("index.") + field, std::to_string(index_value),
                 "the problem has " + std::to_string(problem_value));
}

}  // namespace

std::string Describe(const AttentionProblem& problem) {
  std::string text = "batch " + std::to_string(problem.batch) + ", " + std::to_string(problem.num_qo_heads) + ":" +
                     std::to_string(problem.num_kv_heads) + " heads, " + std::to_string(problem.seq_q) + " x " +
                     std::to_string(problem.seq_k) + ", head_dim " + std::to_string(problem.head_dim);
  if (problem.ValueDim() != problem.head_dim) text += ", v_head_dim " + std::to_string(problem.ValueDim());
  return text;
}

Status CheckShape(const AttentionProblem& problem) {
  for (const Status& status :
       {AtLeastOne("batch", problem.batch), AtLeastOne("num_qo_heads", problem.num_qo_heads),
        AtLeastOne("num_kv_heads", problem.num_kv_heads), AtLeastOne("head_dim", problem.head_dim),
        AtLeastOne("seq_q", problem.seq_q), AtLeastOne("seq_k", problem.seq_k)}) {
    if (!status.ok()) return status;
  }
  if (problem.v_head_dim < 0) {
    return Invalid("v_head_dim", std::to_string(problem.v_head_dim), "must be 1 or more, or 0 for head_dim");
  }
  if (problem.window < 0) return Invalid("window", std::to_string(problem.window), "must be 1 or more, or 0 for none");
  if (problem.num_qo_heads % problem.num_kv_heads != 0) {
    return Invalid("num_qo_heads", std::to_string(problem.num_qo_heads),
                   "must be a multiple of num_kv_heads (" + std::to_string(problem.num_kv_heads) + ")");
  }
  // Kernels reckon in whole tiles of up to 256 rows, the last of which reaches past the last row.
  constexpr int32_t kPositionsEnd = std::numeric_limits<int32_t>::max() - 255;
  if (problem.first_position < 0 || int64_t{problem.first_position} + problem.seq_q > kPositionsEnd) {
    return Invalid("first_position", std::to_string(problem.first_position),
                   "positions must lie between 0 and " + std::to_string(kPositionsEnd - 1));
  }
  if (!std::isfinite(problem.scale) || problem.scale < 0) {
    return Invalid("scale", std::to_string(problem.scale), "must be positive and finite, or 0 for head_dim^-0.5");
  }
  if (!std::isfinite(problem.soft_cap) || problem.soft_cap < 0) {
    return Invalid("soft_cap", std::to_string(problem.soft_cap), "must be positive and finite, or 0 for none");
  }
  if (problem.dtype != DType::kFloat32 && problem.dtype != DType::kBFloat16 && problem.dtype != DType::kFloat16) {
    return Invalid("dtype", std::to_string(static_cast<int>(problem.dtype)), "must be fp32 (0), bf16 (1) or fp16 (2)");
  }
  return CheckSinks(problem);
}

Status CheckNoWindow(const AttentionProblem& problem) {
  if (problem.window == 0) return {};
  return {StatusCode::kUnsupported, "window is " + std::to_string(problem.window) +
                                        ": on a GPU only decode over all tokens or over a selection takes one; cut " +
                                        "the index, or begin the cache at the window's first token, and set 0"};
}

Status CheckPointer(const std::string& field, const void* pointer, size_t alignment) {
  if (pointer == nullptr) return Invalid(field, "null", "must point to device memory");
  if (reinterpret_cast<uintptr_t>(pointer) % alignment == 0) return {};
  std::ostringstream address;
  address << pointer;
  return Invalid(field, address.str(), "must be a multiple of " + std::to_string(alignment) + " bytes");
}

Status CheckRowOutputs(const AttentionOutput& output) {
  for (const auto& [field, numbers] : {std::pair{"output.lse", output.lse}, {"output.row_max", output.row_max}}) {
    if (numbers == nullptr) continue;
    if (Status status = CheckPointer(field, numbers, alignof(float)); !status.ok()) return status;
  }
  return {};
}

Status CheckDisjoint(const std::string& field, const StridedTensor<void>& tensor, const AttentionProblem& problem) {
  struct Dimension {
    const char* name;
    int64_t stride;
    int32_t count;
  };
  // Rows may lie inside heads or heads inside rows ([batch, row, head, dim] storage): in order of their strides, each
  // dimension must reach over all that lies inside it.
  std::array<Dimension, 3> dimensions = {Dimension{".row_stride", tensor.row_stride, problem.seq_q},
                                         {".head_stride", tensor.head_stride, problem.num_qo_heads},
                                         {".batch_stride", tensor.batch_stride, problem.batch}};
  std::ranges::stable_sort(dimensions, {}, &Dimension::stride);
  // In double, which no product of a stride and a count leaves: exact up to 2^53 elements, more than there is.
  double inside = problem.ValueDim();
  for (const Dimension& dimension : dimensions) {
    if (dimension.count == 1) continue;
    const auto stride = static_cast<double>(dimension.stride);
    if (stride < inside) {
      return Invalid(field + dimension.name, std::to_string(dimension.stride),
                     "rows of the output would overlap; it must be at least " +
                         std::to_string(static_cast<int64_t>(inside)) + " beside the other strides");
    }
    inside += stride * (dimension.count - 1);
  }
  return {};
}

Status CheckIndex(const AttentionProblem& problem, const SparseIndexView& index) {
  // A run's length has 28 bits, and kernels keep key numbers of tiles beyond the last key.
  if (problem.seq_k >= 1 << 28) {
    return Invalid("seq_k", std::to_string(problem.seq_k), "an index takes 1 to 2^28 - 1 keys");
  }
  if (index.tile_rows != 64 && index.tile_rows != 128) {
    return Invalid("index.tile_rows", std::to_string(index.tile_rows), "must be 64 or 128");
  }
  for (const Status& status :
       {SameAs("batch", index.batch, problem.batch), SameAs("num_qo_heads", index.num_qo_heads, problem.num_qo_heads),
        SameAs("seq_q", index.seq_q, problem.seq_q), SameAs("seq_k", index.seq_k, problem.seq_k),
        SameAs("first_position", index.first_position, problem.first_position)}) {
    if (!status.ok()) return status;
  }
  if (index.rule.kind != MaskKind::kNone && index.rule.kind != MaskKind::kCausal &&
      index.rule.kind != MaskKind::kCausalWindow) {
    return Invalid("index.rule.kind", std::to_string(static_cast<int>(index.rule.kind)),
                   "must be none (0), causal (1) or causal window (2)");
  }
  if (index.rule.kind == MaskKind::kCausalWindow && (index.rule.window < 1 || index.rule.num_sinks < 0)) {
    return Invalid(
        "index.rule",
        "window " + std::to_string(index.rule.window) + " with " + std::to_string(index.rule.num_sinks) + " sinks",
        "a causal window needs window >= 1 and num_sinks >= 0");
  }
  for (const Status& status : {CheckPointer("index.run_begin", index.run_begin, alignof(int64_t)),
                               CheckPointer("index.run_count", index.run_count, alignof(int32_t)),
                               CheckPointer("index.column_begin", index.column_begin, alignof(int64_t)),
                               CheckPointer("index.column_count", index.column_count, alignof(int32_t))}) {
    if (!status.ok()) return status;
  }
  // Without a single entry there need be no array.
  if (index.runs != nullptr || index.runs_size > 0) {
    if (Status status = CheckPointer("index.runs", index.runs, alignof(KeyRun)); !status.ok()) return status;
  }
  if (index.columns != nullptr || index.columns_size > 0) {
    if (Status status = CheckPointer("index.columns", index.columns, alignof(int32_t)); !status.ok()) return status;
  }
  return {};
}

Status CheckProblem(const AttentionProblem& problem, const SparseIndexView& index, const AttentionOutput& output) {
  if (Status status = CheckShape(problem); !status.ok()) return status;
  if (Status status = CheckNoWindow(problem); !status.ok()) return status;
  const int32_t keys = problem.head_dim, values = problem.ValueDim();
  const char* const value_name = problem.v_head_dim > 0 ? "v_head_dim" : "head_dim";
  for (const Status& status :
       {CheckTensor("q", problem.q, problem, problem.num_qo_heads, problem.seq_q, keys, "head_dim"),
        CheckTensor("k", problem.k, problem, problem.num_kv_heads, problem.seq_k, keys, "head_dim"),
        CheckTensor("v", problem.v, problem, problem.num_kv_heads, problem.seq_k, values, value_name),
        CheckTensor("output.o", output.o, problem, problem.num_qo_heads, problem.seq_q, values, value_name),
        CheckDisjoint("output.o", output.o, problem)}) {
    if (!status.ok()) return status;
  }
  if (Status status = CheckRowOutputs(output); !status.ok()) return status;
  return CheckIndex(problem, index);
}

Status CheckIndexOnDevice(const SparseIndexView& index, void* stream) {
  // An array without entries may begin where the memory that holds the others ends.
  return CheckOnDevice({{"index.run_begin", index.run_begin},
                        {"index.run_count", index.run_count},
                        {"index.column_begin", index.column_begin},
                        {"index.column_count", index.column_count},
                        {"index.runs", index.runs_size > 0 ? index.runs : nullptr},
                        {"index.columns", index.columns_size > 0 ? index.columns : nullptr}},
                       stream);
}

Status CheckProblemOnDevice(const AttentionProblem& problem, const SparseIndexView& index,
                            const AttentionOutput& output, void* stream) {
  Status status = CheckOnDevice({{"q.data", problem.q.data},
                                 {"k.data", problem.k.data},
                                 {"v.data", problem.v.data},
                                 {"output.o.data", output.o.data},
                                 {"output.lse", output.lse},
                                 {"output.row_max", output.row_max}},
                                stream);
  return status.ok() ? CheckIndexOnDevice(index, stream) : status;
}

}  // namespace headscope::kernels
