// SPDX-License-Identifier: Apache-2.0
#include "kernels/fixed_index.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <numeric>
#include <optional>
#include <vector>

#include "problems/counter_random.h"

namespace headscope::kernels {
namespace {

using Pattern = FixedSet::Pattern;

constexpr int32_t kTileRows = 128;
constexpr int32_t kHalfRows = 64;
constexpr int32_t kMaxTokens = (1 << 28) - 1;  // the longest run

// Streams of one seed; those below belong to the tensors (seeded_problem.cpp).
constexpr uint64_t kBlockStream = 16;
constexpr uint64_t kColumnStream = 17;

// Appends to the list of one head and tile; closes it when it goes out of scope.
class ListScope {
 public:
  explicit ListScope(SparseIndex* index) : index_(index), run_begin_(index->runs.size()) {}
  ~ListScope() {
    index_->run_begin.push_back(static_cast<int64_t>(run_begin_));
    index_->run_count.push_back(static_cast<int32_t>(index_->runs.size() - run_begin_));
    index_->column_begin.push_back(column_begin_);
    index_->column_count.push_back(column_count_);
  }
  ListScope(const ListScope&) = delete;
  ListScope& operator=(const ListScope&) = delete;

  // Keys [begin, end), cut at the end of the sequence.
  void Run(int32_t begin, int32_t end, uint32_t flags) {
    end = std::min(end, index_->seq_k);
    if (end > begin) index_->runs.push_back(KeyRun::Make(begin, end - begin, flags));
  }
  // The list's columns: `count` of the index's, from `begin` on.
  void Columns(int64_t begin, int32_t count) {
    column_begin_ = begin;
    column_count_ = count;
  }

 private:
  SparseIndex* index_;
  size_t run_begin_;
  int64_t column_begin_ = 0;
  int32_t column_count_ = 0;
};

// Calls fill(head, row, list) for the tile that starts at each row, for heads of all sequences counted through.
template <typename Fill>
void ForEachTile(SparseIndex* index, Fill&& fill) {
  for (int32_t head = 0; head < index->batch * index->num_qo_heads; ++head) {
    for (int32_t row = 0; row < index->seq_q; row += kTileRows) {
      ListScope list(index);
      fill(head, row, list);
    }
  }
}

// `count` different numbers of [0, range), ascending: the head of a shuffle.
std::vector<int32_t> ChooseAscending(uint64_t key, int32_t range, int32_t count) {
  std::vector<int32_t> numbers(static_cast<size_t>(range));
  std::iota(numbers.begin(), numbers.end(), 0);
  for (int32_t i = 0; i < count; ++i) {
    const uint32_t other = problems::RandomBelow(key, static_cast<uint64_t>(i), static_cast<uint32_t>(range - i));
    std::swap(numbers[static_cast<size_t>(i)], numbers[static_cast<size_t>(i) + other]);
  }
  numbers.resize(static_cast<size_t>(count));
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

void MakeDense(SparseIndex* index) {
  ForEachTile(index, [](int32_t, int32_t row, ListScope& list) {
    list.Run(0, row, 0);
    list.Run(row, row + kTileRows, kRunPartial);
  });
}

void MakeBlocks(int32_t percent_left_out, uint64_t seed, SparseIndex* index) {
  const uint64_t stream = problems::RandomAt(seed, kBlockStream);
  const int64_t num_tiles = index->View().NumRowTiles();
  ForEachTile(index, [&](int32_t head, int32_t row, ListScope& list) {
    const int32_t below = row / kTileRows;
    const auto count = static_cast<int32_t>(std::lround(below * (100 - percent_left_out) / 100.0));
    const uint64_t key = problems::RandomAt(stream, static_cast<uint64_t>(head * num_tiles + below));
    for (const int32_t block : ChooseAscending(key, below, count)) {
      list.Run(block * kTileRows, (block + 1) * kTileRows, 0);
    }
    list.Run(row, row + kTileRows, kRunPartial);
  });
}

void MakeVerticalSlash(int32_t count, int32_t band, uint64_t seed, SparseIndex* index) {
  const uint64_t stream = problems::RandomAt(seed, kColumnStream);
  int64_t begin = 0;
  std::vector<int32_t> columns;
  ForEachTile(index, [&](int32_t head, int32_t row, ListScope& list) {
    if (row == 0) {
      begin = static_cast<int64_t>(index->columns.size());
      columns = ChooseAscending(problems::RandomAt(stream, static_cast<uint64_t>(head)), index->seq_k,
                                std::min(count, index->seq_k));
      index->columns.insert(index->columns.end(), columns.begin(), columns.end());
    }
    const int32_t band_begin = std::max(0, row - band);
    list.Run(band_begin, row, 0);
    list.Run(row, row + kTileRows, kRunPartial);
    const auto end = std::lower_bound(columns.begin(), columns.end(), band_begin);
    list.Columns(begin, static_cast<int32_t>(end - columns.begin()));
  });
}

void MakeAShape(int32_t sinks, int32_t window, SparseIndex* index) {
  index->rule = {MaskKind::kCausalWindow, window, sinks};
  ForEachTile(index, [&](int32_t, int32_t row, ListScope& list) {
    const int32_t last = row + kTileRows - 1;
    const int32_t sinks_end = std::min(sinks, row);
    // Keys from window_begin on are in some row's window, those from window_full on in every row's.
    const int32_t window_begin = std::max(0, row - window + 1);
    const int32_t window_full = std::clamp(last - window + 1, 0, row);
    if (window_begin <= sinks_end) {
      list.Run(0, row, window_full <= sinks ? 0u : +kRunPartial);
    } else {
      list.Run(0, sinks_end, 0);
      list.Run(window_begin, window_full, kRunPartial);
      list.Run(std::max(window_begin, window_full), row, 0);
    }
    list.Run(row, row + kTileRows, kRunPartial);
  });
}

void MakeS2(int32_t local, int32_t stride, SparseIndex* index) {
  ForEachTile(index, [&](int32_t head, int32_t row, ListScope& list) {
    const int32_t own = row / kHalfRows;  // the upper half's own block; the lower half's is the next
    const int32_t shift = head % index->num_qo_heads % stride;
    const bool has_lower = row + kHalfRows < index->seq_q;
    for (int32_t block = 0; block <= own + 1; ++block) {
      const bool vertical = (block + shift) % stride == 0;
      const bool upper = block <= own && (vertical || block > own - local);
      const bool lower = has_lower && (vertical || block > own + 1 - local);
      if (!upper && !lower) continue;
      const uint32_t half = upper == lower ? 0u : upper ? +kRunUpperHalf : +kRunLowerHalf;
      list.Run(block * kHalfRows, (block + 1) * kHalfRows, half | (block >= own ? +kRunPartial : 0u));
    }
  });
}

// How a set is written: "<prefix>A<separator>B", "<prefix>A" where there is no separator, "<prefix>" where there is no
// number.
struct Form {
  Pattern pattern;
  std::string_view prefix;
  std::string_view separator;
  int32_t numbers;
};
constexpr Form kForms[] = {{Pattern::kDense, "dense", "", 0},
                           {Pattern::kBlocks, "blocks-", "", 1},
                           {Pattern::kVerticalSlash, "vertical-slash-", "x", 2},
                           {Pattern::kAShape, "a-shape-", "+", 2},
                           {Pattern::kS2, "s2-l", "v", 2}};

std::optional<FixedSet> Match(const Form& form, std::string_view name) {
  FixedSet set{.pattern = form.pattern};
  const auto take = [&name](std::string_view text) {
    const bool begins = name.starts_with(text);
    if (begins) name.remove_prefix(text.size());
    return begins;
  };
  const auto number = [&name](int32_t* value) {
    const auto [after, error] = std::from_chars(name.data(), name.data() + name.size(), *value);
    name.remove_prefix(static_cast<size_t>(after - name.data()));
    return error == std::errc();
  };
  bool matches = take(form.prefix);
  if (matches && form.numbers > 0) matches = number(&set.first);
  if (matches && form.numbers > 1) matches = take(form.separator) && number(&set.second);
  return matches && name.empty() ? std::optional(set) : std::nullopt;
}

Status CheckRange(std::string_view name, const char* what, int32_t value, int32_t least, int32_t most) {
  if (value >= least && value <= most) return {};
  return {StatusCode::kInvalidArgument, "index set " + std::string(name) + ": " + what + " is " +
                                            std::to_string(value) + ", must be " + std::to_string(least) + " to " +
                                            std::to_string(most)};
}

Status CheckNumbers(std::string_view name, const FixedSet& set) {
  const auto both = [&](const char* first, int32_t least_first, const char* second, int32_t least_second) {
    Status status = CheckRange(name, first, set.first, least_first, kMaxTokens);
    return status.ok() ? CheckRange(name, second, set.second, least_second, kMaxTokens) : status;
  };
  switch (set.pattern) {
    case Pattern::kDense:
      return {};
    case Pattern::kBlocks:
      return CheckRange(name, "sparsity in per cent", set.first, 0, 100);
    case Pattern::kVerticalSlash:
      return both("number of columns", 0, "band", 0);
    case Pattern::kAShape:
      return both("number of sinks", 0, "window", 1);
    case Pattern::kS2:
      return both("number of local blocks", 1, "stride", 1);
  }
  return {};
}

}  // namespace

Status ParseFixedSet(std::string_view name, FixedSet* set) {
  std::optional<FixedSet> found;
  for (const Form& form : kForms) {
    if (!found) found = Match(form, name);
  }
  if (!found) {
    return {StatusCode::kInvalidArgument,
            std::string("\"").append(name).append(
                "\" is not a fixed index set: choose dense, blocks-90, vertical-slash-1000x4096, a-shape-1024+4096, "
                "s2-l1v15 or other numbers in their places")};
  }
  if (Status status = CheckNumbers(name, *found); !status.ok()) return status;
  *set = *found;
  return {};
}

std::string NameOf(const FixedSet& set) {
  const Form& form =
      *std::find_if(std::begin(kForms), std::end(kForms), [&](const Form& one) { return one.pattern == set.pattern; });
  std::string name(form.prefix);
  if (form.numbers > 0) name.append(std::to_string(set.first));
  if (form.numbers > 1) name.append(form.separator).append(std::to_string(set.second));
  return name;
}

SparseIndex MakeFixedIndex(const FixedSet& set, int32_t batch, int32_t num_qo_heads, int32_t seq_len, uint64_t seed) {
  SparseIndex index;
  index.batch = batch;
  index.num_qo_heads = num_qo_heads;
  index.seq_q = index.seq_k = seq_len;
  index.tile_rows = kTileRows;
  index.rule = {MaskKind::kCausal, 0, 0};
  switch (set.pattern) {
    case Pattern::kDense:
      MakeDense(&index);
      break;
    case Pattern::kBlocks:
      MakeBlocks(set.first, seed, &index);
      break;
    case Pattern::kVerticalSlash:
      MakeVerticalSlash(set.first, set.second, seed, &index);
      break;
    case Pattern::kAShape:
      MakeAShape(set.first, set.second, &index);
      break;
    case Pattern::kS2:
      MakeS2(set.first, set.second, &index);
      break;
  }
  return index;
}

}  // namespace headscope::kernels
