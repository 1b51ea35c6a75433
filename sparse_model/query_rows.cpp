// SPDX-License-Identifier: Apache-2.0
#include "query_rows.h"

#include <algorithm>
#include <utility>

namespace headscope::sparse_model {

int64_t QueryRows::Wanted(int64_t num_rows) const {
  return most_ == 0 ? 0 : std::min(num_rows, most_ + kSpareRows);
}

void QueryRows::Append(const kernels::AttentionProblem& rows, int64_t first, const float* lse,
                       const kernels::StridedTensor<const void>& plain_q) {
  replaced_ = {};
  if (first != rows_.first + rows_.count) {
    replaced_ = std::exchange(rows_, {});
    rows_.first = first;
  }
  num_heads_ = rows.num_qo_heads;
  head_dim_ = rows.head_dim;
  element_bytes_ = SizeOf(rows.dtype);
  const int64_t row_bytes = num_heads_ * head_dim_ * element_bytes_;
  // Seldom, so that a row is moved once on average; and before a pass, which may be taken back as a whole.
  if (const int64_t kept = most_ + kSpareRows; rows_.count > 2 * kept) {
    const int64_t dropped = rows_.count - kept;
    rows_.q.erase(rows_.q.begin(), rows_.q.begin() + dropped * row_bytes);
    if (!rows_.plain.empty()) rows_.plain.erase(rows_.plain.begin(), rows_.plain.begin() + dropped * row_bytes);
    rows_.lse.erase(rows_.lse.begin(), rows_.lse.begin() + dropped * num_heads_);
    rows_.first += dropped;
    rows_.count = kept;
  }
  const bool has_plain = plain_q.data != nullptr && (rows_.count == 0 || !rows_.plain.empty());
  if (!has_plain) rows_.plain.clear();
  const auto add = [&](const kernels::StridedTensor<const void>& from, int64_t head, int64_t row,
                       std::vector<std::byte>* to) {
    const std::byte* const vector =
        static_cast<const std::byte*>(from.data) + (head * from.head_stride + row * from.row_stride) * element_bytes_;
    to->insert(to->end(), vector, vector + head_dim_ * element_bytes_);
  };
  for (int64_t row = 0; row < rows.seq_q; ++row) {
    for (int64_t head = 0; head < num_heads_; ++head) {
      add(rows.q, head, row, &rows_.q);
      if (has_plain) add(plain_q, head, row, &rows_.plain);
      rows_.lse.push_back(lse[head * rows.seq_q + row]);
    }
  }
  rows_.count += rows.seq_q;
}

void QueryRows::Rewind(int64_t num_tokens) {
  if (num_tokens <= rows_.first && replaced_.count > 0) rows_ = std::exchange(replaced_, {});
  rows_.count = std::clamp<int64_t>(num_tokens - rows_.first, 0, rows_.count);
  rows_.q.resize(static_cast<size_t>(rows_.count * num_heads_ * head_dim_ * element_bytes_));
  if (!rows_.plain.empty()) rows_.plain.resize(rows_.q.size());
  rows_.lse.resize(static_cast<size_t>(rows_.count * num_heads_));
}

void QueryRows::Show(kernels::DecodePrompt* prompt) {
  kernels::AttentionProblem& cache = prompt->cache;
  const int64_t end = int64_t{prompt->first_token} + cache.seq_k;
  const int64_t rows = rows_.count > 0 && end == rows_.first + rows_.count
                           ? std::min({int64_t{most_}, rows_.count, int64_t{cache.seq_k}})
                           : 0;
  cache.seq_q = static_cast<int32_t>(rows);
  cache.first_position = cache.seq_k - cache.seq_q;
  prompt->lse = nullptr;
  if (rows == 0) return;
  const int64_t row_elements = num_heads_ * head_dim_;
  const int64_t skipped = (rows_.count - rows) * row_elements * element_bytes_;
  cache.q = {rows_.q.data() + skipped, 0, head_dim_, row_elements};
  if (!rows_.plain.empty()) prompt->q_pre_rope = {rows_.plain.data() + skipped, 0, head_dim_, row_elements};
  shown_.resize(static_cast<size_t>(num_heads_ * rows));
  for (int64_t head = 0; head < num_heads_; ++head) {
    for (int64_t row = 0; row < rows; ++row)
      shown_[static_cast<size_t>(head * rows + row)] =
          rows_.lse[static_cast<size_t>((rows_.count - rows + row) * num_heads_ + head)];
  }
  prompt->lse = shown_.data();
  prompt->lse_head_stride = rows;
  prompt->lse_batch_stride = rows * num_heads_;
}

}  // namespace headscope::sparse_model
