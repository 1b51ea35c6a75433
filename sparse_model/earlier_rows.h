// SPDX-License-Identifier: Apache-2.0
// The queries of a prompt's earlier passes, for prefill methods that go by them. The model itself forgets them with the
// pass that made them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/attention_problem.h"
#include "kernels/method.h"
#include "kernels/prompt_passes.h"

namespace headscope::sparse_model {

// Of the query heads of a layer that share a method. They take as much host memory as the prompt's queries.
class EarlierRows {
 public:
  // Those that end where the pass begins, which is what stays of them; none where rows between are not at hand. Valid
  // until the next call.
  kernels::EarlierQueries Before(const kernels::AttentionProblem& pass) {
    const int64_t row_bytes = RowBytes(pass), first = pass.first_position;
    if (row_bytes != row_bytes_ || first < first_ || first > first_ + Count()) {
      rows_.clear();
      kept_ = nullptr;
      row_bytes_ = row_bytes;
      first_ = first;
    }
    Rewind(first);
    return {.q = {rows_.data(), 0, pass.head_dim, int64_t{pass.num_qo_heads} * pass.head_dim},
            .first_position = static_cast<int32_t>(first_),
            .num_rows = static_cast<int32_t>(Count()),
            .kept = &kept_};
  }

  // The pass that Before() was asked about, in host memory, batch 1.
  void Append(const kernels::AttentionProblem& pass) {
    const int64_t element = kernels::SizeOf(pass.dtype), vector = pass.head_dim * element;
    const auto* const q = static_cast<const std::byte*>(pass.q.data);
    auto end = static_cast<int64_t>(rows_.size());
    rows_.resize(static_cast<size_t>(end + pass.seq_q * row_bytes_));
    for (int64_t row = 0; row < pass.seq_q; ++row) {
      for (int64_t head = 0; head < pass.num_qo_heads; ++head, end += vector) {
        std::memcpy(rows_.data() + end, q + (head * pass.q.head_stride + row * pass.q.row_stride) * element,
                    static_cast<size_t>(vector));
      }
    }
  }

  // The sequence forgot its tokens after the first `num_tokens`.
  void Rewind(int64_t num_tokens) {
    const int64_t count = std::clamp<int64_t>(num_tokens - first_, 0, Count());
    if (count < Count()) kept_ = nullptr;
    rows_.resize(static_cast<size_t>(count * row_bytes_));
  }

  // The pass that Before() was asked about failed, and what it left is not to be trusted.
  void PassFailed() { kept_ = nullptr; }

 private:
  static int64_t RowBytes(const kernels::AttentionProblem& pass) {
    return int64_t{pass.num_qo_heads} * pass.head_dim * kernels::SizeOf(pass.dtype);
  }
  int64_t Count() const { return row_bytes_ == 0 ? 0 : static_cast<int64_t>(rows_.size()) / row_bytes_; }

  int64_t first_ = 0;  // position of the first row
  int64_t row_bytes_ = 0;
  std::vector<std::byte> rows_;  // [rows, num_qo_heads, head_dim]
  std::unique_ptr<kernels::KeptOfPasses> kept_;
};

// Such a method behind the rows of earlier passes, to which a pass that it has chosen for is added.
class BehindEarlierRows final : public kernels::PrefillMethod {
 public:
  // All of them outlive it.
  BehindEarlierRows(const kernels::PrefillMethod& method, const kernels::GoesByEarlierQueries& behind,
                    EarlierRows* rows)
      : method_(method), behind_(behind), rows_(rows) {}

  const kernels::MethodSpec& spec() const override { return method_.spec(); }
  kernels::Status Select(const kernels::AttentionProblem& problem, const kernels::ParameterValues& values,
                         const kernels::RunOptions& options, kernels::SparseIndex* index) const override {
    kernels::Status status = behind_.SelectBehind(rows_->Before(problem), problem, values, options, index);
    if (status.ok()) {
      rows_->Append(problem);
    } else {
      rows_->PassFailed();
    }
    return status;
  }
  std::string_view DenseBy(const kernels::ParameterValues& values, int32_t layer) const override {
    return method_.DenseBy(values, layer);
  }

 private:
  const kernels::PrefillMethod& method_;
  const kernels::GoesByEarlierQueries& behind_;
  EarlierRows* const rows_;
};

}  // namespace headscope::sparse_model
