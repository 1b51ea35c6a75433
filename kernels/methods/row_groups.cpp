// SPDX-License-Identifier: Apache-2.0
#include "row_groups.h"

#include <bit>
#include <type_traits>

#include "internal/element.h"

namespace headscope::kernels::internal {
namespace {

// Rows [begin, end), which is groups one behind the other.
void CopyFloats(const RowGroups& rows, int32_t begin, int32_t end, std::vector<float>* groups) {
  const int32_t count = (end - begin + rows.stride - 1) / rows.stride * rows.stride;
  groups->resize(static_cast<size_t>(int64_t{count} * rows.head_dim));
  for (int32_t row = begin; row < begin + count; ++row)
    rows.LoadRow(row, groups->data() + int64_t{row - begin} * rows.head_dim);
}

}  // namespace

void RowGroups::LoadRow(int32_t row, float* to) const {
  if (row < num_rows) {
    internal::LoadRow(data, dtype, offset + row * row_stride, head_dim, to);
  } else {
    std::fill_n(to, head_dim, 0.0f);
  }
}

void RowGroups::LoadGroup(int32_t row, bool reversed, float* to) const {
  for (int32_t s = 0; s < stride; ++s) LoadRow(row + s, to + int64_t{reversed ? stride - 1 - s : s} * head_dim);
}

bool HoldBFloat16(const RowGroups& rows, int32_t begin, int32_t end) {
  if (rows.dtype != DType::kFloat32) return rows.dtype == DType::kBFloat16;
  for (int32_t row = begin; row < end; ++row) {
    const float* const values = static_cast<const float*>(rows.data) + rows.offset + row * rows.row_stride;
    uint32_t lost = 0;  // bits that bfloat16 has not
    for (int32_t d = 0; d < rows.head_dim; ++d) lost |= std::bit_cast<uint32_t>(values[d]) & 0xffffu;
    if (lost != 0) return false;
  }
  return true;
}

void CopyBFloat16(const RowGroups& rows, int32_t begin, int32_t end, bool reversed, std::vector<uint16_t>* groups) {
  const int32_t stride = rows.stride, num_groups = (end - begin + stride - 1) / stride;
  groups->assign(static_cast<size_t>(int64_t{num_groups} * rows.width()), 0);
  for (int32_t row = begin; row < end; ++row) {
    const int64_t first = rows.offset + row * rows.row_stride;
    const int32_t place = row - begin, in_group = place % stride;
    uint16_t* const to =
        groups->data() + int64_t{reversed ? place - in_group + stride - 1 - in_group : place} * rows.head_dim;
    if (rows.dtype == DType::kBFloat16) {
      std::copy_n(static_cast<const uint16_t*>(rows.data) + first, rows.head_dim, to);
      continue;
    }
    const float* const values = static_cast<const float*>(rows.data) + first;
    for (int32_t d = 0; d < rows.head_dim; ++d) to[d] = static_cast<uint16_t>(std::bit_cast<uint32_t>(values[d]) >> 16);
  }
}

template <typename Number>
GroupsInPlace<Number>::GroupsInPlace(const RowGroups& rows) : width_(rows.width()) {
  constexpr bool kIsFloat = std::is_same_v<Number, float>;
  if (rows.dtype == (kIsFloat ? DType::kFloat32 : DType::kBFloat16) && rows.row_stride == rows.head_dim) {
    in_place_ = static_cast<const Number*>(rows.data) + rows.offset;
    num_in_place_ = rows.num_rows / rows.stride;
  }
  if constexpr (kIsFloat) {
    CopyFloats(rows, num_in_place_ * rows.stride, rows.num_rows, &copied_);
  } else {
    CopyBFloat16(rows, num_in_place_ * rows.stride, rows.num_rows, /*reversed=*/false, &copied_);
  }
}

template class GroupsInPlace<float>;
template class GroupsInPlace<uint16_t>;

}  // namespace headscope::kernels::internal
