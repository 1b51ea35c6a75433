// SPDX-License-Identifier: Apache-2.0
#include "compressed_keys.h"

#include <algorithm>
#include <limits>
#include <numbers>
#include <vector>

#include "head_groups.h"
#include "internal/element.h"
#include "internal/row_math.h"
#include "kernels/cpu_scores.h"
#include "key_blocks.h"
#include "top_k.h"

namespace headscope::kernels::internal {
namespace {

constexpr int32_t kRows = 64;
constexpr int32_t kScoredRows = 6;  // of one call of the product: one of its tiles, whose scores the first cache holds
constexpr int64_t kBefore = 16;     // zeros before a row's shares, in whole cache lines

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
    const int32_t per_window = CompressedChoice::window / CompressedChoice::stride;
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
    scores_.assign(static_cast<size_t>(count), 0.0f);
    row_scores_.resize(static_cast<size_t>(count));
    chosen_.assign(static_cast<size_t>(count), 0);
    for (int32_t begin = 0; begin < num_rows; begin += kScoredRows) {
      const int32_t end = std::min(begin + kScoredRows, num_rows);
      Score(rows, begin, end);
      for (int32_t row = begin; row < end; ++row) {
        const int64_t position = rows.first_position + row;
        internal::PoolWindows(shares_.data() + kBefore + (row - begin) * pitch_, count, choice_.maximum,
                              row_scores_.data());
        if (choice_.union_of_rows) {
          scores_.swap(row_scores_);
          Choose(position, position);
        } else {
          for (size_t block = 0; block < scores_.size(); ++block) scores_[block] += row_scores_[block];
        }
      }
    }
    if (!choice_.union_of_rows) Choose(rows.first_position, rows.last_position);
    for (int32_t block = 0; block < count; ++block) {
      if (chosen_[static_cast<size_t>(block)] != 0) blocks->push_back(block);
    }
  }

 private:
  // Windows that end within the first num_keys keys.
  int32_t NumWindows(int64_t num_keys) const {
    return num_keys < choice_.window ? 0 : static_cast<int32_t>((num_keys - choice_.window) / choice_.stride) + 1;
  }

  // shares_[row - begin][kBefore + window] of rows [begin, end) of a block, summed over the group; 0 before and behind
  // the windows that the row sees. Few rows at a time: their scores are in the cache when their softmax is taken, and
  // their shares when these are pooled.
  void Score(const QueryBlock& rows, int32_t begin, int32_t end) {
    const int32_t head_dim = problem_.head_dim;
    constexpr int64_t kPerBlock = CompressedChoice::block / CompressedChoice::stride;
    const int64_t pooled = rows.NumKeyBlocks(choice_.block) * kPerBlock;
    const int64_t padded = (pooled + kPoolPadding - 1) / kPoolPadding * kPoolPadding;
    pitch_ = kBefore + padded;
    shares_.resize(static_cast<size_t>(kScoredRows * pitch_));
    const auto own_shares = [&](int32_t row) { return shares_.data() + (row - begin) * pitch_ + kBefore; };
    for (int32_t row = begin; row < end; ++row) {
      std::fill(own_shares(row) - kBefore, own_shares(row), 0.0f);
      std::fill(own_shares(row) + NumWindows(rows.first_position + row + 1), own_shares(row) + padded, 0.0f);
    }
    // Whole vectors, so that no column is scored apart: those behind the windows are what is in their panel.
    constexpr int64_t kVector = 16;
    const int64_t width = NumWindows(rows.first_position + end);
    const int64_t scored = (width + kVector - 1) / kVector * kVector;
    if (width == 0) return;
    queries_.resize(static_cast<size_t>(kScoredRows) * static_cast<size_t>(head_dim));
    raw_.resize(static_cast<size_t>(kScoredRows * scored));
    constexpr float to_base_2 = std::numbers::log2e_v<float>;
    const int32_t first_head = kv_head_ * problem_.GroupSize();
    for (int32_t head = first_head; head < first_head + problem_.GroupSize(); ++head) {
      for (int32_t row = begin; row < end; ++row) {
        const int64_t offset = sequence_ * problem_.q.batch_stride + head * problem_.q.head_stride +
                               (rows.row_begin + row) * problem_.q.row_stride;
        LoadRow(problem_.q.data, problem_.dtype, offset, head_dim, queries_.data() + int64_t{row - begin} * head_dim);
      }
      ScoreBlock(queries_.data(), head_dim, end - begin, keys_, 0, static_cast<int32_t>(scored),
                 problem_.EffectiveScale() * to_base_2, problem_.soft_cap * to_base_2, raw_.data(), scored);
      for (int32_t row = begin; row < end; ++row) {
        const int64_t seen = NumWindows(rows.first_position + row + 1);
        if (seen == 0) continue;
        float* const own = raw_.data() + (row - begin) * scored;
        const float factor = 1.0f / internal::WeightsOfBase2(own, seen);
        if (head == first_head) {
          internal::StoreScaled(own, seen, factor, own_shares(row));
        } else {
          internal::AddScaled(own, seen, factor, own_shares(row));
        }
      }
    }
  }

  // Of queries from position `first` to `last`, by scores_.
  void Choose(int64_t first, int64_t last) {
    const int64_t own = first / choice_.block, count = last / choice_.block + 1;
    const int64_t local =
        choice_.n_local > 0 ? std::max<int64_t>(0, first - choice_.n_local + 1) / choice_.block : count;
    // Candidates are what lies between the first blocks and the newest ones.
    const int64_t newest = std::clamp<int64_t>(own - choice_.n_own + 1, 0, count);
    const int64_t begin = std::min<int64_t>(choice_.n_first, count), end = std::max(begin, newest);
    std::fill(chosen_.begin(), chosen_.begin() + begin, char{1});
    std::fill(chosen_.begin() + std::max(begin, std::min(end, local)), chosen_.begin() + count, char{1});
    const int64_t counted =
        (choice_.first_counts ? std::min(begin, newest) : 0) + (choice_.own_counts ? count - newest : 0);
    const int64_t free = std::max<int64_t>(0, choice_.n_blocks - counted);
    for (const int32_t place : Best(scores_.data() + begin, end - begin, free))
      chosen_[static_cast<size_t>(begin + place)] = 1;
  }

  // TopK of `count` scores, in any order. A query chooses few of some hundred blocks, and there are as many choices as
  // queries. What the query before it chose has a least score, which the k best reach: between that and the largest
  // lies the score that no more than k reach. Where scores tie there, they are sorted as they come, from the newest on.
  const std::vector<int32_t>& Best(const float* scores, int64_t count, int64_t k) {
    constexpr int64_t kFew = 32;
    if (k > kFew || k >= count) return best_ = TopK({scores, static_cast<size_t>(count)}, k);
    float bound = std::ssize(best_) == k ? std::numeric_limits<float>::infinity() : 0.0f;
    for (const int32_t place : best_)
      bound = place < count && scores[place] > 0 ? std::min(bound, scores[place]) : 0.0f;
    best_.clear();
    if (k == 0) return best_;
    IndicesNotBelow(scores, count, BoundOfBest(scores, count, k, bound), &candidates_);
    if (std::ssize(candidates_) == k) return best_ = candidates_;
    if (std::ssize(candidates_) < k) return best_ = TopK({scores, static_cast<size_t>(count)}, k);  // NaN among them
    best_scores_.clear();
    for (auto place = candidates_.rbegin(); place != candidates_.rend(); ++place) Offer(*place, scores[*place], k);
    return best_;
  }

  void Offer(int32_t place, float score, int64_t k) {
    if (std::ssize(best_) < k) {
      best_.push_back(0);
      best_scores_.push_back(score);
    } else if (score < best_scores_.back()) {
      return;
    }
    size_t at = best_.size() - 1;
    for (; at > 0 && best_scores_[at - 1] <= score; --at) {
      best_scores_[at] = best_scores_[at - 1];
      best_[at] = best_[at - 1];
    }
    best_scores_[at] = score;
    best_[at] = place;
  }

  const AttentionProblem& problem_;
  const CompressedChoice& choice_;
  const int32_t sequence_, kv_head_;
  int32_t num_windows_ = 0;
  int64_t pitch_ = 0;
  PackedKeys keys_;
  std::vector<float> queries_, raw_, shares_, row_scores_, scores_, best_scores_;
  std::vector<int32_t> best_, candidates_;  // places between the first and the newest blocks
  std::vector<char> chosen_;                // by block
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
