// SPDX-License-Identifier: Apache-2.0
#include "compressed_keys.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "head_groups.h"
#include "internal/element.h"
#include "kernels/cpu_scores.h"
#include "key_blocks.h"
#include "top_k.h"

namespace headscope::kernels::internal {
namespace {

constexpr int32_t kRows = 64;

// The choice of one KV head.
class GroupSelector {
 public:
  GroupSelector(const AttentionProblem& problem, const CompressedChoice& choice, int32_t sequence, int32_t kv_head)
      : problem_(problem), choice_(choice), sequence_(sequence), kv_head_(kv_head) {
    const int64_t offset = sequence * problem.k.batch_stride + kv_head * problem.k.head_stride;
    const int32_t num_keys = NumVisibleKeys(problem), head_dim = problem.head_dim;
    // Means of `stride` keys, of which a window has a whole number.
    const std::vector<float> parts = PoolRows(problem.k, problem.dtype, offset, num_keys, head_dim, choice.stride);
    num_windows_ = NumWindows(num_keys);
    const int32_t per_window = choice.window / choice.stride;
    std::vector<float> means(static_cast<size_t>(int64_t{num_windows_} * head_dim));
    for (int64_t at = 0; at < static_cast<int64_t>(means.size()); ++at) {
      double sum = 0;
      for (int64_t part = 0; part < per_window; ++part)
        sum += static_cast<double>(parts[static_cast<size_t>(at + part * head_dim)]);
      means[static_cast<size_t>(at)] = static_cast<float>(sum / per_window);
    }
    keys_ = PackedKeys(means.data(), DType::kFloat32, head_dim, num_windows_, head_dim);
  }

  void AppendBlocks(const QueryBlock& rows, std::vector<int32_t>* blocks) {
    const int32_t num_rows = rows.row_end - rows.row_begin;
    const int32_t count = rows.NumKeyBlocks(choice_.block);
    Score(rows);
    scores_.assign(static_cast<size_t>(count), 0.0f);
    chosen_.assign(static_cast<size_t>(count), false);
    for (int32_t row = 0; row < num_rows; ++row) {
      const int64_t position = rows.first_position + row;
      row_scores_.resize(static_cast<size_t>(count));
      PoolWindows(row);
      if (choice_.union_of_rows) {
        scores_.swap(row_scores_);
        Choose(position, position);
      } else {
        for (size_t block = 0; block < scores_.size(); ++block) scores_[block] += row_scores_[block];
      }
    }
    if (!choice_.union_of_rows) Choose(rows.first_position, rows.last_position);
    for (int32_t block = 0; block < count; ++block) {
      if (chosen_[static_cast<size_t>(block)]) blocks->push_back(block);
    }
  }

 private:
  // Windows that end within the first num_keys keys.
  int32_t NumWindows(int64_t num_keys) const {
    return num_keys < choice_.window ? 0 : static_cast<int32_t>((num_keys - choice_.window) / choice_.stride) + 1;
  }

  // shares_[row][window], summed over the group.
  void Score(const QueryBlock& rows) {
    const int32_t num_rows = rows.row_end - rows.row_begin, head_dim = problem_.head_dim;
    const int64_t width = NumWindows(rows.last_position + 1);
    width_ = width;
    shares_.assign(static_cast<size_t>(num_rows * width), 0.0f);
    if (width == 0) return;
    queries_.resize(static_cast<size_t>(num_rows) * static_cast<size_t>(head_dim));
    raw_.resize(shares_.size());
    for (int32_t head = kv_head_ * problem_.GroupSize(); head < (kv_head_ + 1) * problem_.GroupSize(); ++head) {
      for (int32_t row = 0; row < num_rows; ++row) {
        const int64_t offset = sequence_ * problem_.q.batch_stride + head * problem_.q.head_stride +
                               (rows.row_begin + row) * problem_.q.row_stride;
        LoadRow(problem_.q.data, problem_.dtype, offset, head_dim, queries_.data() + int64_t{row} * head_dim);
      }
      ScoreBlock(queries_.data(), head_dim, num_rows, keys_, 0, static_cast<int32_t>(width), problem_.EffectiveScale(),
                 problem_.soft_cap, raw_.data(), width);
      for (int32_t row = 0; row < num_rows; ++row) {
        const int64_t seen = NumWindows(rows.first_position + row + 1);
        if (seen == 0) continue;
        SoftmaxInPlace(raw_.data() + row * width, seen, seen);
        for (int64_t i = row * width; i < row * width + seen; ++i)
          shares_[static_cast<size_t>(i)] += raw_[static_cast<size_t>(i)];
      }
    }
  }

  // What the row's blocks have of its windows' shares, which are 0 behind those that it sees. Parts of `stride` keys
  // first: a window reaches over per_window of them, a block has per_block.
  void PoolWindows(int32_t row) {
    const int64_t per_block = choice_.block / choice_.stride, per_window = choice_.window / choice_.stride;
    const float* const shares = shares_.data() + row * width_;
    parts_.assign(row_scores_.size() * static_cast<size_t>(per_block) + static_cast<size_t>(per_window), 0.0f);
    for (int64_t behind = 0; behind < per_window; ++behind) {
      float* const parts = parts_.data() + behind;
      if (choice_.maximum) {
        for (int64_t window = 0; window < width_; ++window) parts[window] = std::max(parts[window], shares[window]);
      } else {
        for (int64_t window = 0; window < width_; ++window) parts[window] += shares[window];
      }
    }
    for (size_t block = 0; block < row_scores_.size(); ++block) {
      const float* const parts = parts_.data() + static_cast<int64_t>(block) * per_block;
      row_scores_[block] = choice_.maximum ? *std::max_element(parts, parts + per_block)
                                           : std::accumulate(parts, parts + per_block, 0.0f);
    }
  }

  // Of queries from position `first` to `last`, by scores_.
  void Choose(int64_t first, int64_t last) {
    const int64_t own = first / choice_.block, count = last / choice_.block + 1;
    const int64_t local =
        choice_.n_local > 0 ? std::max<int64_t>(0, first - choice_.n_local + 1) / choice_.block : count;
    candidates_.clear();
    candidate_scores_.clear();
    int32_t counted = 0;
    for (int32_t block = 0; block < count; ++block) {
      const bool is_own = block > own - choice_.n_own, is_first = block < choice_.n_first;
      if (is_own || is_first) {
        chosen_[static_cast<size_t>(block)] = true;
        if (is_own ? choice_.own_counts : choice_.first_counts) ++counted;
        continue;
      }
      if (block >= local) chosen_[static_cast<size_t>(block)] = true;
      candidates_.push_back(block);
      candidate_scores_.push_back(scores_[static_cast<size_t>(block)]);
    }
    for (const int32_t place : Best(std::max(0, choice_.n_blocks - counted)))
      chosen_[static_cast<size_t>(candidates_[static_cast<size_t>(place)])] = true;
  }

  // TopK of the candidates, in any order. A query chooses few of some hundred blocks, and there are as many choices as
  // queries: these few, sorted as they come, are cheaper. From the newest on, which mostly have more.
  const std::vector<int32_t>& Best(int64_t k) {
    constexpr int64_t kFew = 32;
    best_.clear();
    if (k > kFew) return best_ = TopK(candidate_scores_, k);
    if (k == 0) return best_;
    best_scores_.clear();
    for (size_t place = candidate_scores_.size(); place-- > 0;) {
      const float score =
          std::isnan(candidate_scores_[place]) ? -std::numeric_limits<float>::infinity() : candidate_scores_[place];
      if (best_.size() < static_cast<size_t>(k)) {
        best_.push_back(0);
        best_scores_.push_back(score);
      } else if (score < best_scores_.back()) {
        continue;
      }
      size_t at = best_.size() - 1;
      for (; at > 0 && best_scores_[at - 1] <= score; --at) {
        best_scores_[at] = best_scores_[at - 1];
        best_[at] = best_[at - 1];
      }
      best_scores_[at] = score;
      best_[at] = static_cast<int32_t>(place);
    }
    return best_;
  }

  const AttentionProblem& problem_;
  const CompressedChoice& choice_;
  const int32_t sequence_, kv_head_;
  int32_t num_windows_ = 0;
  int64_t width_ = 0;
  PackedKeys keys_;
  std::vector<float> queries_, raw_, shares_, parts_, row_scores_, scores_, candidate_scores_, best_scores_;
  std::vector<int32_t> candidates_, best_;
  std::vector<bool> chosen_;
};

}  // namespace

Status SelectByCompressedKeys(const AttentionProblem& problem, const CompressedChoice& choice,
                              const RunOptions& options, SparseIndex* index) {
  return SelectByKvHead(
      problem, options,
      [&](int32_t sequence, int32_t kv_head, SparseIndexBuilder* builder) {
        GroupSelector selector(problem, choice, sequence, kv_head);
        AddBlockLists(
            problem, options, kRows, choice.block,
            [&](const QueryBlock& rows, std::vector<int32_t>* blocks) { selector.AppendBlocks(rows, blocks); },
            builder);
      },
      index);
}

}  // namespace headscope::kernels::internal
