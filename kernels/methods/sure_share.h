// SPDX-License-Identifier: Apache-2.0
// Whether the blocks that a share keeps are those of exact scores, where the scores at hand were rounded and it is
// known by how much at most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace headscope::kernels::internal {

// What blocks of keys have of the softmax of some columns, by rounded scores: shares and errors are [num_blocks,
// kColumns], of which columns [begin, end) are asked for. errors: how far the score of any of the block's keys may be
// from the exact one, in base e.
struct RoundedShares {
  const float* shares = nullptr;
  const float* errors = nullptr;
  int32_t num_blocks = 0;
  int32_t begin = 0, end = 0;
};

// Whether exact scores keep the same: kSure; perhaps not, because of the order of a few blocks around the end of what
// is kept; or perhaps not, whatever their order.
enum class ShareChoice : uint8_t { kSure, kOpenOrder, kOpen };

// Exact scores keep, best first, the sums of the columns' shares up to the first that reach `share` of them all. kept:
// the blocks kept by the rounded scores; the first num_forced of them are kept whatever they hold, and what they hold
// counts. *open: the blocks whose order is open; kOpen, and none, where these are more than most_open.
ShareChoice JudgeShare(const RoundedShares& rounded, std::span<const int32_t> kept, int32_t num_forced, double share,
                       size_t most_open, std::vector<int32_t>* open);

}  // namespace headscope::kernels::internal
