#include "problem_check.h"

#include <cmath>
#include <limits>
#include <string>

namespace headscope::kernels {
namespace {

Status Invalid(const std::string& field, const std::string& value, const std::string& allowed) {
  return {StatusCode::kInvalidArgument, field + " is " + value + ": " + allowed + "."};
}

Status AtLeastOne(const char* field, int32_t value) {
  return value >= 1 ? Status{} : Invalid(field, std::to_string(value), "must be 1 or more");
}

// Rows of one head may interleave with other heads' ([batch, row, head, dim] storage), but must not overlap each other.
template <typename Void>
Status CheckTensor(const char* name, const StridedTensor<Void>& tensor, const AttentionProblem& problem, int32_t heads,
                   int32_t rows) {
  const std::string field = name;
  if (tensor.data == nullptr) return Invalid(field + ".data", "null", "must point to device memory");
  if (rows > 1 && tensor.row_stride < problem.head_dim) {
    return Invalid(field + ".row_stride", std::to_string(tensor.row_stride),
                   "must be at least head_dim (" + std::to_string(problem.head_dim) + " elements)");
  }
  if (heads > 1 && tensor.head_stride < problem.head_dim) {
    return Invalid(field + ".head_stride", std::to_string(tensor.head_stride), "heads would overlap");
  }
  if (problem.batch > 1 && tensor.batch_stride < problem.head_dim) {
    return Invalid(field + ".batch_stride", std::to_string(tensor.batch_stride), "sequences would overlap");
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
  return "batch " + std::to_string(problem.batch) + ", " + std::to_string(problem.num_qo_heads) + ":" +
         std::to_string(problem.num_kv_heads) + " heads, " + std::to_string(problem.seq_q) + " x " +
         std::to_string(problem.seq_k) + ", head_dim " + std::to_string(problem.head_dim);
}

Status CheckShape(const AttentionProblem& problem) {
  for (const Status& status :
       {AtLeastOne("batch", problem.batch), AtLeastOne("num_qo_heads", problem.num_qo_heads),
        AtLeastOne("num_kv_heads", problem.num_kv_heads), AtLeastOne("head_dim", problem.head_dim),
        AtLeastOne("seq_q", problem.seq_q), AtLeastOne("seq_k", problem.seq_k)}) {
    if (!status.ok()) return status;
  }
  if (problem.num_qo_heads % problem.num_kv_heads != 0) {
    return Invalid("num_qo_heads", std::to_string(problem.num_qo_heads),
                   "must be a multiple of num_kv_heads (" + std::to_string(problem.num_kv_heads) + ")");
  }
  if (problem.first_position < 0 ||
      int64_t{problem.first_position} + problem.seq_q > std::numeric_limits<int32_t>::max()) {
    return Invalid("first_position", std::to_string(problem.first_position),
                   "positions must lie between 0 and 2147483647");
  }
  if (!std::isfinite(problem.scale) || problem.scale < 0) {
    return Invalid("scale", std::to_string(problem.scale), "must be positive and finite, or 0 for head_dim^-0.5");
  }
  if (!std::isfinite(problem.soft_cap) || problem.soft_cap < 0) {
    return Invalid("soft_cap", std::to_string(problem.soft_cap), "must be positive and finite, or 0 for none");
  }
  return {};
}

Status CheckProblem(const AttentionProblem& problem, const SparseIndexView& index, const AttentionOutput& output) {
  if (Status status = CheckShape(problem); !status.ok()) return status;
  for (const Status& status : {CheckTensor("q", problem.q, problem, problem.num_qo_heads, problem.seq_q),
                               CheckTensor("k", problem.k, problem, problem.num_kv_heads, problem.seq_k),
                               CheckTensor("v", problem.v, problem, problem.num_kv_heads, problem.seq_k),
                               CheckTensor("output.o", output.o, problem, problem.num_qo_heads, problem.seq_q)}) {
    if (!status.ok()) return status;
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
  if (index.rule.kind == MaskKind::kCausalWindow && (index.rule.window < 1 || index.rule.num_sinks < 0)) {
    return Invalid(
        "index.rule",
        "window " + std::to_string(index.rule.window) + " with " + std::to_string(index.rule.num_sinks) + " sinks",
        "a causal window needs window >= 1 and num_sinks >= 0");
  }
  if (index.run_begin == nullptr || index.run_count == nullptr) {
    return Invalid("index.run_begin or run_count", "null", "must point to device memory");
  }
  if (index.column_begin == nullptr || index.column_count == nullptr) {
    return Invalid("index.column_begin or column_count", "null", "must point to device memory");
  }
  if (index.runs == nullptr && index.runs_size > 0) {
    return Invalid("index.runs", "null", "runs_size is " + std::to_string(index.runs_size));
  }
  if (index.columns == nullptr && index.columns_size > 0) {
    return Invalid("index.columns", "null", "columns_size is " + std::to_string(index.columns_size));
  }
  return {};
}

}  // namespace headscope::kernels
