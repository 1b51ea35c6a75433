// SPDX-License-Identifier: Apache-2.0
#include "row_sets.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "head_groups.h"

namespace headscope::kernels::internal {
namespace {

constexpr int64_t kWord = 64;

// Bit i: whether the i-th of so many marks, at most kWord, is set.
uint64_t BitsOf(const char* marks, int64_t count) {
  static_assert(std::endian::native == std::endian::little);
  char padded[kWord] = {};
  if (count < kWord) {
    std::memcpy(padded, marks, static_cast<size_t>(count));
    marks = padded;
  }
  uint64_t bits = 0;
  for (int64_t byte = 0; byte < kWord; byte += 8) {
    uint64_t eight = 0;
    std::memcpy(&eight, marks + byte, sizeof(eight));
    // Bit 8 i goes to bit 56 + i, and no two others to one place.
    bits |= (eight * 0x0102040810204080u) >> 56 << byte;
  }
  return bits;
}

// Calls visit(begin, end) for every run of marks before `last`, word by word: a key at a time would be a branch at a
// time that nobody can foresee.
template <typename Visit>
void VisitRuns(const std::vector<char>& marks, int64_t last, const Visit& visit) {
  int64_t run = -1;  // where the open one begins
  for (int64_t word = 0; word < last; word += kWord) {
    const uint64_t bits = BitsOf(marks.data() + word, std::min(kWord, last - word));
    for (int place = 0; place < kWord;) {
      const uint64_t rest = bits >> place;
      if (run >= 0) {
        place += std::countr_one(rest);
        if (place >= kWord) break;  // it may go on in the next word
        visit(run, word + place);
        run = -1;
      } else if (rest == 0) {
        break;
      } else {
        place += std::countr_zero(rest);
        run = word + place;
      }
    }
  }
  if (run >= 0) visit(run, last);
}

}  // namespace

void AddRowSets(const AttentionProblem& problem, const RunOptions& options, const MarkKeys& mark,
                SparseIndexBuilder* builder) {
  std::vector<char> kept(static_cast<size_t>(NumVisibleKeys(problem)));
  for (int32_t tile = 0; tile < problem.seq_q; tile += 2 * kRowsOfSet) {
    if (options.stop.stop_requested()) return;
    for (int32_t half = 0; half < 2; ++half) {
      const int32_t begin = tile + half * kRowsOfSet, end = std::min(begin + kRowsOfSet, problem.seq_q);
      if (begin >= end) break;
      std::fill(kept.begin(), kept.end(), 0);
      mark(begin, end, &kept);
      const int64_t last = int64_t{problem.first_position} + end;
      VisitRuns(kept, last, [&](int64_t first, int64_t behind) {
        builder->AddRange(first, behind, half == 0 ? kRunUpperHalf : kRunLowerHalf);
      });
    }
    builder->FinishList();
  }
}

}  // namespace headscope::kernels::internal
