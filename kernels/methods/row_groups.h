// SPDX-License-Identifier: Apache-2.0
// Rows of a head in groups of `stride` that follow each other, as methods read them that score groups: in fp32 or, of
// rows that hold nothing else, bfloat16. What a last group lacks is zeros.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/attention_problem.h"

namespace headscope::kernels::internal {

// Rows of queries or keys, head_dim elements each.
struct RowGroups {
  const void* data = nullptr;
  DType dtype = DType::kFloat32;
  int64_t offset = 0;  // of row 0, in elements
  int64_t row_stride = 0;
  int32_t head_dim = 0;
  int32_t num_rows = 0;
  int32_t stride = 1;          // rows of a group
  int32_t first_position = 0;  // of row 0

  int32_t width() const { return stride * head_dim; }  // of a group
  int32_t num_groups() const { return (num_rows + stride - 1) / stride; }
  // The last group of keys that the group of queries that begins with `row` sees: it is causal as its last row is.
  int32_t LastSeen(int32_t row) const { return (first_position + std::min(row + stride, num_rows) - 1) / stride; }
  // [head_dim]; zeros behind the last.
  void LoadRow(int32_t row, float* to) const;
  // The group that begins with `row`, or from its last row to its first: [stride, head_dim].
  void LoadGroup(int32_t row, bool reversed, float* to) const;
};

// Whether all of rows [begin, end) are bfloat16's values, as they are where a trace recorded in it is read as fp32.
bool HoldBFloat16(const RowGroups& rows, int32_t begin, int32_t end);

// Such rows [begin, end), which is groups one behind the other. `reversed`: a group's last row comes first.
void CopyBFloat16(const RowGroups& rows, int32_t begin, int32_t end, bool reversed, std::vector<uint16_t>* groups);

// All groups of a head as float or, of such rows, uint16_t, one behind the other: where they lie, if they lie so, or a
// copy. A last group that lacks rows is always a copy.
template <typename Number>
class GroupsInPlace {
 public:
  explicit GroupsInPlace(const RowGroups& rows);

  // Groups [begin, ..) and, in *end, up to where they lie behind each other: at most to the given end.
  const Number* From(int32_t begin, int32_t* end) const {
    if (begin >= num_in_place_) return copied_.data() + (begin - num_in_place_) * width_;
    *end = std::min(*end, num_in_place_);
    return in_place_ + begin * width_;
  }

 private:
  const int64_t width_;
  const Number* in_place_ = nullptr;
  int32_t num_in_place_ = 0;
  std::vector<Number> copied_;
};

}  // namespace headscope::kernels::internal
