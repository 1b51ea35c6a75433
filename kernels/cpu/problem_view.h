// SPDX-License-Identifier: Apache-2.0
// Small readings of an AttentionProblem that the CPU executors share.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "kernels/attention_problem.h"
#include "kernels/status.h"

namespace headscope::kernels {

// What the executors' scratch and 32-bit positions are made for.
inline Status CheckCpuLimits(const AttentionProblem& problem) {
  constexpr int64_t kMaxPosition = int64_t{1} << 30;
  for (const auto& [field, size] : {std::pair{"head_dim", problem.head_dim}, {"v_head_dim", problem.ValueDim()}}) {
    if (size <= 256 && size % 8 == 0) continue;
    return {StatusCode::kUnsupported, "attention problem: " + std::string(field) + " is " + std::to_string(size) +
                                          ", allowed on the CPU is a multiple of 8 up to 256"};
  }
  if (int64_t{problem.first_position} + problem.seq_q > kMaxPosition) {
    return {StatusCode::kUnsupported, "attention problem: first_position + seq_q is " +
                                          std::to_string(int64_t{problem.first_position} + problem.seq_q) +
                                          ", allowed on the CPU is at most 2^30"};
  }
  return {};
}

// Equally spaced rows of head_dim contiguous elements: row i begins at element offset + i * row_stride of data.
struct RowsView {
  const void* data;
  int64_t offset;
  int64_t row_stride;
};
inline RowsView RowsOf(const StridedTensor<const void>& tensor, int64_t sequence, int64_t head) {
  return {tensor.data, sequence * tensor.batch_stride + head * tensor.head_stride, tensor.row_stride};
}

}  // namespace headscope::kernels
