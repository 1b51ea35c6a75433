// SPDX-License-Identifier: Apache-2.0
// What a selector must keep and what it may keep: recomputes in float64, from the definitions in docs/methods.md, the
// scores around the cut between what is kept and what is not. CPU and GPU add in different orders, so where two scores
// are closer than fp32 sums can tell, either choice is right; everything else is settled.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/method_spec.h"
#include "kernels/sparse_index.h"
#include "random_problem.h"

namespace headscope::kernels::testing {

// Relative distances below this count as a tie: some 100 units of fp32.
constexpr double kTie = 2e-5;

// Of the keys that 64 neighbouring rows can see: those they keep whichever way ties fall, and those they may keep.
class KeyBounds {
 public:
  explicit KeyBounds(int32_t num_keys)
      : certain_(static_cast<size_t>(num_keys)), possible_(static_cast<size_t>(num_keys)) {}

  // Keys [begin, end), clipped to those there are.
  void Keep(int64_t begin, int64_t end, bool is_certain);
  // Whether the row at `position` may keep just these keys: sorted, disjoint, none behind the position. After Seal().
  bool Allow(int32_t position, const std::vector<ColumnRange>& kept) const;
  // Ends the calls of Keep().
  void Seal();

 private:
  // Flags of the keys; counts of the flagged keys in front of each and of all, once sealed.
  std::vector<bool> certain_;
  std::vector<bool> possible_;
  std::vector<int32_t> certain_before_;
  std::vector<int32_t> possible_before_;
};

// The choices of one head.
class HeadChoice {
 public:
  virtual ~HeadChoice() = default;
  // For query rows [first_row, first_row + 64), which is half a row tile.
  virtual KeyBounds BoundsOfRows(int32_t first_row) const = 0;
};

// vertical-slash: columns and diagonals, forced ones aside, whose sums are around the cut may be chosen.
// sample-attention: stripes around the cut, and those that the share's rounding adds or takes away. block-sparse:
// blocks around the cut, in units of the product of the pooled rows' lengths. x-attention: blocks around the cut and
// those that the share's rounding adds or takes away. sparge-attn: both, and any block of a row for which it is not
// settled whether its rows, or those of a key block, are alike. flex-prefill: stripes and blocks of the map around
// their cuts, and anything of a head for which it is not settled which way it chooses. Null for other methods, which
// choose nothing.
std::unique_ptr<HeadChoice> ChoiceOfHead(const std::string& method, const RandomProblem& problem,
                                         const ParameterValues& values, int32_t sequence, int32_t head);

}  // namespace headscope::kernels::testing
