// SPDX-License-Identifier: Apache-2.0
#include "index/checks.h"

#include <cmath>
#include <string>

namespace headscope::kernels::internal {
namespace {

Status Refuse(const std::string& message) {
  return {StatusCode::kInvalidArgument, message};
}

Status RefuseField(const char* field, int64_t value, const std::string& allowed) {
  return Refuse("attention problem: " + std::string(field) + " is " + std::to_string(value) + ", must be " + allowed);
}

Status CheckTensor(const char* name, const StridedTensor<const void>& tensor, int32_t head_dim, int32_t num_rows) {
  const std::string field = "attention problem: " + std::string(name);
  if (tensor.data == nullptr) return Refuse(field + ".data is null");
  if (num_rows > 1 && tensor.row_stride < head_dim) {
    return Refuse(field + ".row_stride is " + std::to_string(tensor.row_stride) + ", must be head_dim or more");
  }
  if (tensor.head_stride < 0 || tensor.batch_stride < 0)
    return Refuse(field + ".head_stride or .batch_stride is negative");
  return {};
}

// Whether the pages are strictly increasing and in [0, num_pages). Without a branch in its loop: the list of a dense
// step is as long as its keys, and vector code walks over it in little of the step's time.
bool IsAscending(const int32_t* pages, int64_t count, int64_t num_pages) {
  if (count == 0) return true;
  int32_t unordered = 0;
  for (int64_t i = 1; i < count; ++i) unordered |= static_cast<int32_t>(pages[i] <= pages[i - 1]);
  return unordered == 0 && pages[0] >= 0 && pages[count - 1] < num_pages;
}

Status CheckPages(const AttentionProblem& problem, const DecodeSelection& selection) {
  if (selection.page_size < 1) {
    return Refuse("decode selection: page_size is " + std::to_string(selection.page_size) + ", must be 1 or more");
  }
  const size_t num_lists = static_cast<size_t>(problem.batch) * static_cast<size_t>(problem.num_kv_heads);
  const auto size = static_cast<int64_t>(selection.pages.size());
  if (selection.page_begin.size() != num_lists + 1 || selection.page_begin.front() != 0 ||
      selection.page_begin.back() != size) {
    return Refuse(
        "decode selection: page_begin must hold batch * num_kv_heads + 1 offsets from 0 to the number of pages");
  }
  const int64_t num_pages = (int64_t{problem.seq_k} + selection.page_size - 1) / selection.page_size;
  for (size_t list = 0; list < num_lists; ++list) {
    const int64_t begin = selection.page_begin[list];
    const int64_t end = selection.page_begin[list + 1];
    if (begin > end || end > size)
      return Refuse("decode selection: page_begin of list " + std::to_string(list) + " is larger than its end");
    if (IsAscending(selection.pages.data() + begin, end - begin, num_pages)) continue;
    for (int64_t i = begin; i < end; ++i) {
      const int32_t page = selection.pages[static_cast<size_t>(i)];
      if (page < 0 || page >= num_pages || (i > begin && page <= selection.pages[static_cast<size_t>(i - 1)])) {
        const std::string kind = selection.page_size == 1 ? "token " : "page ";
        return Refuse("decode selection: " + kind + std::to_string(page) + " of list " + std::to_string(list) +
                      " lies outside the cache or is not larger than the preceding one");
      }
    }
  }
  return {};
}

Status CheckComponents(const AttentionProblem& problem, const DecodeSelection& selection) {
  if (selection.components_end < 0 || selection.components_end > problem.seq_k) {
    return Refuse("decode selection: components_end is " + std::to_string(selection.components_end) +
                  ", must be 0 to seq_k");
  }
  const auto size = static_cast<int64_t>(selection.components.size());
  if (selection.components_end == 0) {
    if (size == 0 && selection.component_begin.empty()) return {};
    return Refuse("decode selection: there are components although components_end is 0");
  }
  const size_t num_lists = static_cast<size_t>(problem.batch) * static_cast<size_t>(problem.num_kv_heads);
  const std::vector<int64_t>& begins = selection.component_begin;
  if (begins.size() != num_lists + 1 || begins.front() != 0 || begins.back() != size)
    return Refuse("decode selection: component_begin must hold batch * num_kv_heads + 1 offsets from 0 on");
  for (size_t list = 0; list < num_lists; ++list) {
    const int64_t begin = begins[list], end = begins[list + 1];
    if (begin >= end || end > size ||
        !IsAscending(selection.components.data() + begin, end - begin, problem.head_dim)) {
      return Refuse("decode selection: components of list " + std::to_string(list) +
                    " must be one or more of head_dim, strictly increasing");
    }
  }
  return {};
}

Status CheckWeights(const AttentionProblem& problem, const DecodeSelection& selection) {
  if (selection.weight_rows != 1 && selection.weight_rows != problem.GroupSize()) {
    return Refuse("decode selection: weight_rows is " + std::to_string(selection.weight_rows) +
                  ", must be 1 or num_qo_heads / num_kv_heads");
  }
  if (selection.weights.empty()) return {};
  const size_t rows = static_cast<size_t>(selection.weight_rows), page = static_cast<size_t>(selection.page_size);
  if (selection.weights.size() != rows * selection.pages.size() * page) {
    return Refuse("decode selection: weights holds " + std::to_string(selection.weights.size()) +
                  " numbers, must be weight_rows * pages * page_size, or none");
  }
  for (const float weight : selection.weights) {
    if (!std::isfinite(weight) || weight < 0) {
      return Refuse("decode selection: a weight is " + std::to_string(weight) + ", must be finite and 0 or more");
    }
  }
  return {};
}

}  // namespace

Status CheckProblem(const AttentionProblem& problem, bool reads_v) {
  if (problem.batch < 1) return RefuseField("batch", problem.batch, "1 or more");
  if (problem.num_kv_heads < 1) return RefuseField("num_kv_heads", problem.num_kv_heads, "1 or more");
  if (problem.num_qo_heads < 1 || problem.num_qo_heads % problem.num_kv_heads != 0) {
    return RefuseField("num_qo_heads", problem.num_qo_heads, "a multiple of num_kv_heads");
  }
  if (problem.head_dim < 1) return RefuseField("head_dim", problem.head_dim, "1 or more");
  if (problem.v_head_dim < 0) return RefuseField("v_head_dim", problem.v_head_dim, "1 or more, or 0 for head_dim");
  if (problem.window < 0) return RefuseField("window", problem.window, "1 or more, or 0 for none");
  for (int32_t head = 0; problem.sinks != nullptr && head < problem.num_qo_heads; ++head) {
    if (std::isfinite(problem.sinks[head])) continue;
    return Refuse("attention problem: sinks[" + std::to_string(head) + "] is " + std::to_string(problem.sinks[head]) +
                  ", must be finite");
  }
  if (problem.seq_q < 1) return RefuseField("seq_q", problem.seq_q, "1 or more");
  if (problem.seq_k < 1 || problem.seq_k >= (1 << 28)) return RefuseField("seq_k", problem.seq_k, "1 to 2^28 - 1");
  if (problem.first_position < 0) return RefuseField("first_position", problem.first_position, "0 or more");
  if (problem.dtype != DType::kFloat32 && problem.dtype != DType::kBFloat16 && problem.dtype != DType::kFloat16) {
    return RefuseField("dtype", static_cast<int64_t>(problem.dtype), "fp32 (0), bf16 (1) or fp16 (2)");
  }
  if (!std::isfinite(problem.scale) || problem.scale < 0 || !std::isfinite(problem.soft_cap) || problem.soft_cap < 0) {
    return Refuse("attention problem: scale is " + std::to_string(problem.scale) + " and soft_cap " +
                  std::to_string(problem.soft_cap) + ", must be finite and 0 or more");
  }
  Status status = CheckTensor("q", problem.q, problem.head_dim, problem.seq_q);
  if (status.ok()) status = CheckTensor("k", problem.k, problem.head_dim, problem.seq_k);
  if (status.ok() && reads_v) status = CheckTensor("v", problem.v, problem.ValueDim(), problem.seq_k);
  return status;
}

Status CheckPositions(const AttentionProblem& problem) {
  if (int64_t{problem.first_position} + problem.seq_q <= problem.seq_k) return {};
  return RefuseField("first_position", problem.first_position,
                     "at most seq_k - seq_q: every query has a key at its own position");
}

Status CheckDecodeStep(const AttentionProblem& problem) {
  if (problem.seq_q != 1) return RefuseField("seq_q", problem.seq_q, "1: decode takes one query a step");
  if (problem.first_position == problem.seq_k - 1) return {};
  return RefuseField("first_position", problem.first_position, "seq_k - 1: the query is the newest token");
}

Status CheckValues(const MethodSpec& spec, const ParameterValues& values) {
  const std::string error = values.Check(spec);
  return error.empty() ? Status() : Refuse(error);
}

Status CheckIndexOfProblem(const AttentionProblem& problem, const SparseIndexView& index) {
  Status status = CheckProblem(problem, /*reads_v=*/true);
  if (status.ok()) status = Validate(index);
  if (!status.ok()) return status;
  if (index.batch != problem.batch || index.num_qo_heads != problem.num_qo_heads || index.seq_q != problem.seq_q ||
      index.seq_k != problem.seq_k || index.first_position != problem.first_position) {
    return Refuse(
        "sparse index: batch, num_qo_heads, seq_q, seq_k or first_position differs from the attention problem's");
  }
  return {};
}

Status CheckSelectionOfProblem(const AttentionProblem& problem, const DecodeSelection& selection,
                               bool takes_components) {
  if (selection.components_end != 0 && !takes_components) {
    return {StatusCode::kUnsupported,
            "decode selection: keys with dropped components run only on the CPU; run it there"};
  }
  Status status = CheckProblem(problem, /*reads_v=*/true);
  if (!status.ok()) return status;
  if (problem.seq_q != 1) return RefuseField("seq_q", problem.seq_q, "1: decode takes one query a step");
  if (selection.batch != problem.batch || selection.num_qo_heads != problem.num_qo_heads ||
      selection.num_kv_heads != problem.num_kv_heads) {
    return Refuse("decode selection: batch, num_qo_heads or num_kv_heads differs from the attention problem's");
  }
  status = CheckPages(problem, selection);
  if (status.ok()) status = CheckWeights(problem, selection);
  if (status.ok()) status = CheckComponents(problem, selection);
  if (!status.ok()) return status;
  const size_t num_lists = static_cast<size_t>(problem.batch) * static_cast<size_t>(problem.num_kv_heads);
  const size_t num_alphas = static_cast<size_t>(problem.batch) * static_cast<size_t>(problem.num_qo_heads);
  if (selection.alpha.empty() && selection.mean_value.empty()) return {};
  if (selection.alpha.size() != num_alphas ||
      selection.mean_value.size() != num_lists * static_cast<size_t>(problem.ValueDim())) {
    return Refuse(
        "decode selection: alpha must hold batch * num_qo_heads and mean_value batch * num_kv_heads * v_head_dim "
        "numbers, or both none");
  }
  return {};
}

Status CheckOutput(const AttentionProblem& problem, const AttentionOutput& output) {
  if (output.o.data == nullptr) return Refuse("attention output: o.data is null");
  if (problem.seq_q > 1 && output.o.row_stride < problem.ValueDim()) {
    return Refuse("attention output: o.row_stride is " + std::to_string(output.o.row_stride) +
                  ", must be v_head_dim or more");
  }
  return {};
}

}  // namespace headscope::kernels::internal
