#include "problem_checks.h"

#include <cmath>
#include <string>

namespace headscope::kernels {
namespace {

Status Invalid(const std::string& message) {
  return {StatusCode::kInvalidArgument, message};
}

Status CheckTensor(const StridedTensor<const void>& tensor, const char* name, int64_t batch, int64_t heads,
                   int64_t rows, int64_t head_dim) {
  if (batch == 0 || heads == 0 || rows == 0) return {};
  if (tensor.data == nullptr) return Invalid(std::string(name) + ".data is null: give the tensor's first element");
  // A negative stride is a legal view; rows that overlap without being equal are not.
  if (rows > 1 && tensor.row_stride != 0 && std::abs(tensor.row_stride) < head_dim) {
    return Invalid(std::string(name) + ".row_stride " + std::to_string(tensor.row_stride) +
                   " is shorter than head_dim " + std::to_string(head_dim) + ": strides count elements");
  }
  return {};
}

}  // namespace

Status CheckProblem(const AttentionProblem& problem, bool needs_values) {
  const auto check_count = [](int32_t value, int32_t minimum, const char* name) -> Status {
    if (value >= minimum) return {};
    return Invalid(std::string(name) + " " + std::to_string(value) + ": must be at least " + std::to_string(minimum));
  };
  if (Status s = check_count(problem.batch, 0, "batch"); !s.ok()) return s;
  if (Status s = check_count(problem.num_kv_heads, 1, "num_kv_heads"); !s.ok()) return s;
  if (Status s = check_count(problem.num_qo_heads, 1, "num_qo_heads"); !s.ok()) return s;
  if (Status s = check_count(problem.seq_q, 0, "seq_q"); !s.ok()) return s;
  if (Status s = check_count(problem.seq_k, 0, "seq_k"); !s.ok()) return s;
  if (Status s = check_count(problem.first_position, 0, "first_position"); !s.ok()) return s;
  if (problem.num_qo_heads % problem.num_kv_heads != 0) {
    return Invalid("num_qo_heads " + std::to_string(problem.num_qo_heads) + ": must be a multiple of num_kv_heads " +
                   std::to_string(problem.num_kv_heads));
  }
  if (problem.head_dim < 8 || problem.head_dim > 256 || problem.head_dim % 8 != 0) {
    return {StatusCode::kUnsupported,
            "head_dim " + std::to_string(problem.head_dim) + ": the CPU executors take multiples of 8 from 8 to 256"};
  }
  if (problem.dtype != DType::kFloat32 && problem.dtype != DType::kBFloat16 && problem.dtype != DType::kFloat16) {
    return Invalid("dtype " + std::to_string(static_cast<int>(problem.dtype)) + ": must be fp32, bf16 or fp16");
  }
  if (!std::isfinite(problem.scale)) return Invalid("scale is not finite: give a number, or 0 for head_dim^-0.5");
  if (!std::isfinite(problem.soft_cap) || problem.soft_cap < 0) {
    return Invalid("soft_cap " + std::to_string(problem.soft_cap) + ": must be positive, or 0 for none");
  }
  if (Status s = CheckTensor(problem.q, "q", problem.batch, problem.num_qo_heads, problem.seq_q, problem.head_dim);
      !s.ok())
    return s;
  if (Status s = CheckTensor(problem.k, "k", problem.batch, problem.num_kv_heads, problem.seq_k, problem.head_dim);
      !s.ok())
    return s;
  if (!needs_values) return {};
  return CheckTensor(problem.v, "v", problem.batch, problem.num_kv_heads, problem.seq_k, problem.head_dim);
}

float EffectiveScale(const AttentionProblem& problem) {
  return problem.scale != 0.0f ? problem.scale : 1.0f / std::sqrt(static_cast<float>(problem.head_dim));
}

}  // namespace headscope::kernels
