// SPDX-License-Identifier: Apache-2.0
#include "key_blocks.h"

#include <algorithm>
#include <cmath>

#include "head_groups.h"
#include "internal/element.h"

namespace headscope::kernels::internal {

std::vector<float> PoolRows(const StridedTensor<const void>& tensor, DType dtype, int64_t offset, int32_t num_rows,
                            int32_t head_dim, int32_t block) {
  const auto width = static_cast<size_t>(head_dim);
  const int32_t num_blocks = (num_rows + block - 1) / block;
  std::vector<float> pooled(static_cast<size_t>(num_blocks) * width);
  std::vector<float> row(width);
  std::vector<double> sum(width);
  for (int32_t number = 0; number < num_blocks; ++number) {
    const int32_t begin = number * block;
    const int32_t end = begin + std::min(block, num_rows - begin);
    std::fill(sum.begin(), sum.end(), 0.0);
    for (int32_t r = begin; r < end; ++r) {
      LoadRow(tensor.data, dtype, offset + r * tensor.row_stride, head_dim, row.data());
      for (size_t d = 0; d < width; ++d) sum[d] += static_cast<double>(row[d]);
    }
    for (size_t d = 0; d < width; ++d)
      pooled[static_cast<size_t>(number) * width + d] = static_cast<float>(sum[d] / (end - begin));
  }
  return pooled;
}

PackedKeys PoolVisibleKeys(const AttentionProblem& problem, int32_t sequence, int32_t kv_head, int32_t block) {
  const int64_t offset = sequence * problem.k.batch_stride + kv_head * problem.k.head_stride;
  const int32_t num_keys = NumVisibleKeys(problem);
  const std::vector<float> pooled = PoolRows(problem.k, problem.dtype, offset, num_keys, problem.head_dim, block);
  return PackedKeys(pooled.data(), DType::kFloat32, problem.head_dim, (num_keys + block - 1) / block, problem.head_dim);
}

void SoftmaxInPlace(float* scores, int64_t count, int64_t size) {
  const float inverse = 1.0f / ExpInPlace(scores, count, MaxOf(scores, count));
  for (int64_t i = 0; i < count; ++i) scores[i] *= inverse;
  std::fill(scores + count, scores + size, 0.0f);
}

QueryBlock BlockOfRows(const AttentionProblem& problem, int32_t number, int32_t rows) {
  QueryBlock block;
  block.number = number;
  block.row_begin = number * rows;
  block.row_end = std::min(block.row_begin + rows, problem.seq_q);
  block.first_position = int64_t{problem.first_position} + block.row_begin;
  block.last_position = int64_t{problem.first_position} + block.row_end - 1;
  return block;
}

void AddBlockLists(const AttentionProblem& problem, const RunOptions& options, int32_t rows, int32_t size,
                   const ChooseBlocks& choose, SparseIndexBuilder* builder) {
  constexpr int32_t kTileRows = 128;
  const int32_t num_parts = kTileRows / rows;
  std::vector<int32_t> blocks;
  for (int32_t tile_row = 0; tile_row < problem.seq_q; tile_row += kTileRows) {
    for (int32_t part = 0; part < num_parts && tile_row + part * rows < problem.seq_q; ++part) {
      if (options.stop.stop_requested()) return;
      const QueryBlock block = BlockOfRows(problem, tile_row / rows + part, rows);
      blocks.clear();
      choose(block, &blocks);
      std::sort(blocks.begin(), blocks.end());
      const uint32_t half = num_parts == 1 ? 0u : uint32_t{part == 0 ? kRunUpperHalf : kRunLowerHalf};
      for (size_t i = 0; i < blocks.size();) {
        size_t next = i + 1;  // neighbours in one range
        while (next < blocks.size() && blocks[next] <= blocks[next - 1] + 1) ++next;
        builder->AddRange(int64_t{blocks[i]} * size, (int64_t{blocks[next - 1]} + 1) * size, half);
        i = next;
      }
    }
    builder->FinishList();
  }
}

void AppendOwnBlocks(const QueryBlock& rows, int32_t size, std::vector<int32_t>* blocks) {
  for (int32_t block = rows.FirstOwn(size); block < rows.NumKeyBlocks(size); ++block) blocks->push_back(block);
}

}  // namespace headscope::kernels::internal
