// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "analysis/compare.h"
#include "analysis/types/rounding.h"
#include "base/stop.h"
#include "compare/column_mass.h"
#include "compare/kept_columns.h"
#include "compare/probability_pass.h"
#include "head/head_checks.h"
#include "kernels/cuda_statistics.h"
#include "kernels/parallel.h"
#include "kernels/stop_status.h"

namespace headscope::analysis {
namespace {

using kernels::ColumnRange;
using kernels::Status;
using kernels::StatusCode;

constexpr int32_t kSmallestBlock = 64;
constexpr int64_t kMostMassBytes = int64_t{64} << 20;

// Runs sum_span(span, column_mass, mass of its rows) for every row span of the index and collects the rows' masses.
template <typename SumSpan>
Status SumSpans(const HeadTensors& head, const kernels::SparseIndexView& index, int32_t num_threads,
                const std::stop_token& stop, std::vector<float>* mass, SumSpan&& sum_span) {
  if (Status status = CheckIndex(head, index); !status.ok()) return status;
  std::vector<float> result(static_cast<size_t>(head.num_rows));
  const int64_t num_tiles = index.NumRowTiles();
  std::vector<ColumnMass> workers(static_cast<size_t>(kernels::NumWorkers(num_threads, num_tiles)), ColumnMass(head));
  const bool finished = kernels::ParallelFor(num_tiles, num_threads, stop, [&](int64_t step, int32_t worker) {
    // Late tiles have the longest lists: first.
    for (const RowSpanColumns& span : CollectKeptColumns(index, static_cast<int32_t>(num_tiles - 1 - step))) {
      std::vector<double> sums(static_cast<size_t>(span.row_end - span.row_begin));
      sum_span(span, &workers[static_cast<size_t>(worker)], sums.data());
      for (int32_t row = span.row_begin; row < span.row_end; ++row) {
        // Rounded sums may end a hair above 1, and their differences a hair below zero.
        result[static_cast<size_t>(row)] =
            static_cast<float>(std::max(0.0, RoundedShare(sums[static_cast<size_t>(row - span.row_begin)])));
      }
    }
  });
  if (!finished) return kernels::Stopped();
  *mass = std::move(result);
  return {};
}

void AddChecked(const RowSpanColumns& span, const kernels::ElementRule& rule, ColumnMass* column_mass, double* mass) {
  if (span.checked.empty()) return;
  std::vector<int32_t> columns;
  ExpandRanges(span.checked, &columns);
  column_mass->Add(span.row_begin, span.row_end, columns, 1.0, &rule, mass);
}

// The plain columns of a span by blocks: those kept whole, and single columns to add or to take away again.
struct BlockCover {
  std::vector<ColumnRange> whole;  // ranges of blocks
  std::vector<int32_t> added, removed;
};

class CoverBuilder {
 public:
  CoverBuilder(int32_t block_columns, int64_t num_tokens) : block_columns_(block_columns), num_tokens_(num_tokens) {}

  BlockCover Build(const std::vector<ColumnRange>& ranges) {
    for (const ColumnRange& range : ranges) {
      int64_t begin = range.begin;
      while (begin < range.end) {
        const int64_t block = begin / block_columns_;
        if (block != block_) FlushBlock(block);
        const int64_t block_end = std::min((block + 1) * block_columns_, num_tokens_);
        const int64_t end = std::min<int64_t>(range.end, block_end);
        pieces_.push_back({static_cast<int32_t>(begin), static_cast<int32_t>(end)});
        begin = end;
      }
    }
    FlushBlock(-1);
    return std::move(cover_);
  }

 private:
  void FlushBlock(int64_t next_block) {
    if (!pieces_.empty()) {
      const int64_t begin = block_ * block_columns_;
      const int64_t end = std::min(begin + block_columns_, num_tokens_);
      int64_t kept = 0;
      for (const ColumnRange& piece : pieces_) kept += piece.end - piece.begin;
      if (2 * kept <= end - begin) {
        ExpandRanges(pieces_, &cover_.added);
      } else {
        AddWhole();
        std::vector<ColumnRange> gaps;
        int64_t from = begin;
        for (const ColumnRange& piece : pieces_) {
          if (from < piece.begin) gaps.push_back({static_cast<int32_t>(from), piece.begin});
          from = piece.end;
        }
        if (from < end) gaps.push_back({static_cast<int32_t>(from), static_cast<int32_t>(end)});
        ExpandRanges(gaps, &cover_.removed);
      }
      pieces_.clear();
    }
    block_ = next_block;
  }

  void AddWhole() {
    const auto block = static_cast<int32_t>(block_);
    if (!cover_.whole.empty() && cover_.whole.back().end == block) {
      ++cover_.whole.back().end;
    } else {
      cover_.whole.push_back({block, block + 1});
    }
  }

  const int64_t block_columns_, num_tokens_;
  int64_t block_ = -1;
  std::vector<ColumnRange> pieces_;  // kept columns of the current block
  BlockCover cover_;
};

}  // namespace

Status KeptMass(const HeadTensors& head, const kernels::SparseIndexView& index, int32_t num_threads,
                const std::stop_token& stop, std::vector<float>* mass) {
  if (head.gpu != nullptr) {
    if (Status status = CheckIndex(head, index); !status.ok()) return status;
    if (stop.stop_requested()) return kernels::Stopped();
    std::vector<float> result(static_cast<size_t>(head.num_rows));
    Status status = head.gpu->KeptMass(index, result.data());
    for (float& row_mass : result) row_mass = static_cast<float>(RoundedShare(static_cast<double>(row_mass)));
    if (status.ok()) *mass = std::move(result);
    // Memory that others have taken on the GPU is no reason to go without the number.
    if (status.code() != StatusCode::kOutOfMemory) return status;
  }
  return SumSpans(head, index, num_threads, stop, mass,
                  [&](const RowSpanColumns& span, ColumnMass* column_mass, double* sums) {
                    std::vector<int32_t> columns;
                    ExpandRanges(span.plain, &columns);
                    column_mass->Add(span.row_begin, span.row_end, columns, 1.0, nullptr, sums);
                    AddChecked(span, index.rule, column_mass, sums);
                  });
}

std::shared_ptr<const HeadMass> HeadMass::Compute(HeadTensorsPtr head, int32_t num_threads, const std::stop_token& stop,
                                                  const VisitProbabilities& visit) {
  std::shared_ptr<HeadMass> result(new HeadMass);
  if (head->gpu != nullptr) {
    // The GPU sums a mask's kept pairs faster than the CPU reads their blocks: nothing to prepare.
    StopIfAsked(stop);
    if (visit) PassProbabilities(*head, num_threads, stop, nullptr, visit);
    result->head_ = std::move(head);
    return result;
  }
  int32_t block = kSmallestBlock;
  while (head->num_rows * ((head->num_tokens + block - 1) / block) * int64_t{sizeof(float)} > kMostMassBytes)
    block *= 2;
  result->block_columns_ = block;
  result->num_blocks_ = (head->num_tokens + block - 1) / block;
  result->block_mass_.assign(static_cast<size_t>(head->num_rows * result->num_blocks_), 0.0f);
  result->head_ = std::move(head);

  const BlockSums sums{block, result->block_mass_.data()};
  PassProbabilities(*result->head_, num_threads, stop, &sums, visit);
  return result;
}

Status HeadMass::KeptMass(const kernels::SparseIndexView& index, int32_t num_threads, const std::stop_token& stop,
                          std::vector<float>* mass) const {
  if (head_->gpu != nullptr) return analysis::KeptMass(*head_, index, num_threads, stop, mass);
  return SumSpans(*head_, index, num_threads, stop, mass,
                  [&](const RowSpanColumns& span, ColumnMass* column_mass, double* sums) {
                    const BlockCover cover = CoverBuilder(block_columns_, head_->num_tokens).Build(span.plain);
                    for (int32_t row = span.row_begin; row < span.row_end; ++row) {
                      const float* blocks = block_mass_.data() + row * num_blocks_;
                      double sum = 0;
                      for (const ColumnRange& range : cover.whole) {
                        for (int32_t block = range.begin; block < range.end; ++block)
                          sum += static_cast<double>(blocks[block]);
                      }
                      sums[row - span.row_begin] = sum;
                    }
                    column_mass->Add(span.row_begin, span.row_end, cover.added, 1.0, nullptr, sums);
                    column_mass->Add(span.row_begin, span.row_end, cover.removed, -1.0, nullptr, sums);
                    AddChecked(span, index.rule, column_mass, sums);
                  });
}

}  // namespace headscope::analysis
