// SPDX-License-Identifier: Apache-2.0
// Ranges of prompt lengths that have settings of their own, as SampleAttention's Table 6 has them.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace headscope::app {

// Prompts of `from` tokens and more, below `below`.
struct LengthRange {
  static constexpr int64_t kNoEnd = std::numeric_limits<int64_t>::max();
  int64_t from = 0, below = kNoEnd;

  bool Holds(int64_t num_tokens) const { return num_tokens >= from && num_tokens < below; }
  bool Overlaps(const LengthRange& other) const { return from < other.below && other.from < below; }
  friend bool operator==(const LengthRange&, const LengthRange&) = default;
};

// "below 16384 tokens", "16384 to 49151 tokens", "114688 tokens and more", "any length".
std::string RangeText(const LengthRange& range);
// The ranges that lie between rising lengths: N edges make N + 1 ranges, of which the first begins at 0 and the last
// has no end. An edge is a number of tokens, or of 1024 tokens with a K behind it ("16K"). Throws UsageError, beginning
// with `field`: no such number, below 1, or not rising.
std::vector<LengthRange> RangesBetween(const std::vector<std::string>& edges, const std::string& field);

}  // namespace headscope::app
