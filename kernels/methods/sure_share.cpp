// SPDX-License-Identifier: Apache-2.0
// An exact weight lies between e^-error and e^error times the rounded one, s, so within u = s (e^error - 1) of it, and
// a column's sum of weights, 1, within U, the sum of its u. Of what follows from it, for a set A that holds N of a
// column with the sum of u being a inside and b outside: its exact share differs by at most
// (a (1 - N) + b N) / (1 - U), and one block's share less another's, s - s', by (u + u' + U |s - s'|) / (1 - U).
#include "sure_share.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "internal/row_math.h"

namespace headscope::kernels::internal {
namespace {

// What exponentials and sums within a block in fp32 add to a share's relative error, and for each block the sum of all.
constexpr float kFloatError = 4e-6f, kSumError = 6e-8f;
// The largest error of scores, below which e^x - 1 <= x + x^2.
constexpr float kLargestError = 1.0f;

using OfColumns = std::array<double, kColumns>;

class Certainty {
 public:
  Certainty(const RoundedShares& rounded, std::span<const int32_t> kept, int32_t num_forced, double share)
      : rounded_(rounded),
        kept_(kept),
        chosen_(kept.subspan(static_cast<size_t>(num_forced))),
        num_columns_(rounded.end - rounded.begin),
        float_error_(kFloatError + kSumError * static_cast<float>(rounded.num_blocks)),
        wanted_(share * num_columns_) {}

  ShareChoice Judge(size_t most_open, std::vector<int32_t>* open) {
    if (!SumErrors()) return ShareChoice::kOpen;
    if (!(SumOf(kept_share_) - KeptError(kept_share_, kept_inside_) >= wanted_)) return ShareChoice::kOpen;
    if (!OpenOrder(most_open, open)) return ShareChoice::kOpen;
    if (!open->empty()) return ShareChoice::kOpenOrder;
    return AreAllNeeded() ? ShareChoice::kSure : ShareChoice::kOpen;
  }

 private:
  const float* Shares(int32_t block) const { return rounded_.shares + int64_t{block} * kColumns + rounded_.begin; }
  const float* Errors(int32_t block) const { return rounded_.errors + int64_t{block} * kColumns + rounded_.begin; }
  float Weight(float share, float error) const { return share * (error + error * error + float_error_); }

  double SumOf(const OfColumns& values) const {
    double sum = 0;
    for (int32_t i = 0; i < num_columns_; ++i) sum += values[static_cast<size_t>(i)];
    return sum;
  }

  // Sums over blocks; false where they say nothing.
  bool SumErrors() {
    is_kept_.assign(static_cast<size_t>(rounded_.num_blocks), 0);
    for (const int32_t block : kept_) is_kept_[static_cast<size_t>(block)] = 1;
    float largest = 0;
    bool is_number = true;
    for (int32_t block = 0; block < rounded_.num_blocks; ++block) {
      const float* const shares = Shares(block);
      const float* const errors = Errors(block);
      const double counts = is_kept_[static_cast<size_t>(block)] != 0 ? 1.0 : 0.0;
      for (int32_t i = 0; i < num_columns_; ++i) {
        const auto at = static_cast<size_t>(i);
        const auto weight = static_cast<double>(Weight(shares[i], errors[i]));
        all_[at] += weight;
        kept_inside_[at] += counts * weight;
        kept_share_[at] += counts * static_cast<double>(shares[i]);
        largest = std::max(largest, errors[i]);
      }
    }
    for (int32_t i = 0; i < num_columns_; ++i) is_number &= all_[static_cast<size_t>(i)] < 0.5;  // no NaN is
    return is_number && largest < kLargestError;
  }

  // By how much the sum of a set's shares may be wrong.
  double KeptError(const OfColumns& share, const OfColumns& inside) const {
    double error = 0;
    for (int32_t i = 0; i < num_columns_; ++i) {
      const auto at = static_cast<size_t>(i);
      const double held = std::clamp(share[at], 0.0, 1.0);
      error += (inside[at] * (1 - held) + (all_[at] - inside[at]) * held + static_cast<double>(float_error_) * held) /
               (1 - all_[at]);
    }
    return error;
  }

  // A block's sum of shares less another's, by exact scores: at least so much.
  double LeastLead(int32_t block, int32_t other) const {
    double lead = 0;
    for (int32_t i = 0; i < num_columns_; ++i) {
      const float share = Shares(block)[i], others = Shares(other)[i];
      const auto all = static_cast<float>(all_[static_cast<size_t>(i)]);
      const float error = Weight(share, Errors(block)[i]) + Weight(others, Errors(other)[i]) +
                          all * std::abs(share - others) + float_error_ * (share + others);
      lead += static_cast<double>(share - others - error / (1 - all));
    }
    return lead;
  }

  // Of a block alone: its sum of shares and, loosely, what that may be wrong by.
  struct Bounds {
    double low = 0, high = 0;
  };
  Bounds BoundsOf(int32_t block) const {
    double sum = 0, error = 0;
    for (int32_t i = 0; i < num_columns_; ++i) {
      const float share = Shares(block)[i];
      const auto all = static_cast<float>(all_[static_cast<size_t>(i)]);
      sum += static_cast<double>(share);
      error += static_cast<double>((Weight(share, Errors(block)[i]) + (all + float_error_) * share) / (1 - all));
    }
    return {sum - error, sum + error};
  }

  // The blocks of which one is chosen and may hold less than another that is not kept. False where there are more than
  // `most`.
  bool OpenOrder(size_t most, std::vector<int32_t>* open) {
    double most_of_others = -std::numeric_limits<double>::infinity();
    bounds_.resize(static_cast<size_t>(rounded_.num_blocks));
    for (int32_t block = 0; block < rounded_.num_blocks; ++block) {
      bounds_[static_cast<size_t>(block)] = BoundsOf(block);
      if (is_kept_[static_cast<size_t>(block)] == 0)
        most_of_others = std::max(most_of_others, bounds_[static_cast<size_t>(block)].high);
    }
    std::vector<uint8_t> is_open(static_cast<size_t>(rounded_.num_blocks));
    const auto add = [&](int32_t block) {
      if (std::exchange(is_open[static_cast<size_t>(block)], uint8_t{1}) == 0) open->push_back(block);
    };
    for (const int32_t block : chosen_) {
      if (bounds_[static_cast<size_t>(block)].low > most_of_others) continue;
      for (int32_t other = 0; other < rounded_.num_blocks; ++other) {
        if (is_kept_[static_cast<size_t>(other)] != 0 ||
            bounds_[static_cast<size_t>(other)].high < bounds_[static_cast<size_t>(block)].low ||
            LeastLead(block, other) > 0)
          continue;
        add(block);
        add(other);
        if (open->size() > most) {
          open->clear();
          return false;
        }
      }
    }
    return true;
  }

  // Whether the kept blocks without the least of the chosen, whichever it is, hold less than wanted.
  bool AreAllNeeded() const {
    double least_high = std::numeric_limits<double>::infinity();
    for (const int32_t block : chosen_) least_high = std::min(least_high, bounds_[static_cast<size_t>(block)].high);
    for (const int32_t block : chosen_) {
      if (bounds_[static_cast<size_t>(block)].low > least_high) continue;
      OfColumns share = kept_share_, inside = kept_inside_;
      for (int32_t i = 0; i < num_columns_; ++i) {
        share[static_cast<size_t>(i)] -= static_cast<double>(Shares(block)[i]);
        inside[static_cast<size_t>(i)] -= static_cast<double>(Weight(Shares(block)[i], Errors(block)[i]));
      }
      if (!(SumOf(share) + KeptError(share, inside) < wanted_)) return false;
    }
    return true;
  }

  const RoundedShares& rounded_;
  const std::span<const int32_t> kept_, chosen_;
  const int32_t num_columns_;
  const float float_error_;
  const double wanted_;
  std::vector<uint8_t> is_kept_;
  std::vector<Bounds> bounds_;
  OfColumns all_ = {}, kept_share_ = {}, kept_inside_ = {};
};

}  // namespace

ShareChoice JudgeShare(const RoundedShares& rounded, std::span<const int32_t> kept, int32_t num_forced, double share,
                       size_t most_open, std::vector<int32_t>* open) {
  open->clear();
  if (share >= 1) return ShareChoice::kSure;  // all
  return Certainty(rounded, kept, num_forced, share).Judge(most_open, open);
}

}  // namespace headscope::kernels::internal
