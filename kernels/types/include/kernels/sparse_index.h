// SPDX-License-Identifier: Apache-2.0
// SparseIndex: what a prefill method keeps. Every selector makes one, every executor reads one, and FLOPs, sparsity,
// CRA, recall, the mask overlay and the dense-with-mask reference all come from its kept set.
//
// Layout. Query rows are cut into tiles of tile_rows (64 or 128). A *list* belongs to one (batch, query head, row
// tile):
//   list id L = (batch * num_qo_heads + head) * num_row_tiles + tile.
// List L holds two sorted sequences:
//   runs[run_begin[L] .. run_begin[L] + run_count[L])             maximal or shorter intervals of key columns
//   columns[column_begin[L] .. column_begin[L] + column_count[L]) single key columns
// begin/count pairs (rather than plain CSR) let a GPU selector write lists into fixed-capacity slots in one pass and
// let heads with the same pattern share their entries; a compact CSR is the special case begin[L + 1] = begin[L] +
// count[L]. Offsets are 64-bit, everything else 32-bit.
//
// A run covers columns [start, start + length); start need not be aligned. Its flags:
// - kRunPartial: the element rule applies inside the run. Without it every (row, column) pair of the run is kept, and
//   the executor spends no mask code on it.
// - kRunUpperHalf, kRunLowerHalf (never both): the run belongs to the first half of the tile's rows alone, or to the
//   second. Neither flag: to all rows. So a 128-row tile carries two lists of 64-row blocks, as S2-Attention and
//   MInference build them.
//
// Kept set of row r (position p = first_position + r) of tile t: the columns c of the runs that belong to r, where the
// run is full or rule.Keeps(p, c), and the list's single columns.
//
// Rules that Validate() enforces, so that executors need not check: runs of a list are sorted by start and, among runs
// that share a row half, disjoint; columns are strictly increasing and in none of the list's runs; 0 <= column < seq_k;
// first_position + seq_q <= 2^30; under a causal rule a full run and a single column must not reach past the position
// of the first row that they belong to. So neither ever needs a causal mask, and positions, rows and tiles are far from
// the end of 32 bits.
//
// Source: the block and column lists of MInference (Algorithms 4 and 5), generalised to unaligned starts and two
// halves.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/status.h"

namespace headscope::kernels {

enum RunFlags : uint32_t {
  kRunPartial = 1u,
  kRunUpperHalf = 2u,
  kRunLowerHalf = 4u,
};

// 8 bytes, read by one load on the GPU. length < 2^28.
struct KeyRun {
  int32_t start = 0;
  uint32_t packed = 0;  // length | flags << 28

  static constexpr KeyRun Make(int32_t start, int32_t length, uint32_t flags) {
    return KeyRun{start, static_cast<uint32_t>(length) | (flags << 28)};
  }
  constexpr int32_t Length() const { return static_cast<int32_t>(packed & 0x0fffffffu); }
  constexpr uint32_t Flags() const { return packed >> 28; }
  constexpr int32_t End() const { return start + Length(); }
  constexpr bool Partial() const { return (Flags() & kRunPartial) != 0; }
  friend constexpr bool operator==(const KeyRun&, const KeyRun&) = default;
};
static_assert(sizeof(KeyRun) == 8);

enum class MaskKind : int32_t {
  kNone = 0,          // every element of a partial run is kept
  kCausal = 1,        // column <= position
  kCausalWindow = 2,  // causal, and (column < num_sinks or position - column < window); the window counts the diagonal
};

struct ElementRule {
  MaskKind kind = MaskKind::kCausal;
  int32_t window = 0;     // tokens, >= 1 for kCausalWindow
  int32_t num_sinks = 0;  // tokens

  constexpr bool Keeps(int64_t position, int64_t column) const {
    if (kind == MaskKind::kNone) return true;
    if (column > position) return false;
    return kind == MaskKind::kCausal || column < num_sinks || position - column < window;
  }
  friend constexpr bool operator==(const ElementRule&, const ElementRule&) = default;
};

// Non-owning view; pointers are all on the host or all on one device.
struct SparseIndexView {
  int32_t batch = 1;
  int32_t num_qo_heads = 0;
  int32_t seq_q = 0;
  int32_t seq_k = 0;
  int32_t first_position = 0;
  int32_t tile_rows = 0;  // 64 or 128
  ElementRule rule;
  // A promise: every list keeps all that the rule leaves to it (KeepsEverything), so that an executor may do without
  // reading them. The lists are there all the same, since not every executor does. Set by who knows (UploadIndex, the
  // dense selector); whoever changes a view's lists, rule or sizes clears it. A CUDA graph keeps that of its capture.
  bool keeps_everything = false;
  const int64_t* run_begin = nullptr;     // [num_lists]
  const int32_t* run_count = nullptr;     // [num_lists]
  const int64_t* column_begin = nullptr;  // [num_lists]
  const int32_t* column_count = nullptr;  // [num_lists]
  const KeyRun* runs = nullptr;
  const int32_t* columns = nullptr;
  int64_t runs_size = 0;     // elements behind `runs`
  int64_t columns_size = 0;  // elements behind `columns`

  int32_t NumRowTiles() const { return (seq_q + tile_rows - 1) / tile_rows; }
  int64_t NumLists() const { return int64_t{batch} * num_qo_heads * NumRowTiles(); }
  int64_t ListId(int32_t sequence, int32_t head, int32_t tile) const {
    return (int64_t{sequence} * num_qo_heads + head) * NumRowTiles() + tile;
  }
};

// Owning index in host memory.
struct SparseIndex {
  int32_t batch = 1;
  int32_t num_qo_heads = 0;
  int32_t seq_q = 0;
  int32_t seq_k = 0;
  int32_t first_position = 0;
  int32_t tile_rows = 128;
  ElementRule rule;
  std::vector<int64_t> run_begin;
  std::vector<int32_t> run_count;
  std::vector<int64_t> column_begin;
  std::vector<int32_t> column_count;
  std::vector<KeyRun> runs;
  std::vector<int32_t> columns;

  SparseIndexView View() const;
};

// Half-open interval of key columns.
struct ColumnRange {
  int32_t begin = 0;
  int32_t end = 0;
  friend constexpr bool operator==(const ColumnRange&, const ColumnRange&) = default;
};

// Refuses an index that breaks a rule above (host pointers only). Cost: one pass over runs and columns.
// Errors: kInvalidArgument, naming the list, the entry and the rule.
Status Validate(const SparseIndexView& index);

// Whether every list of a valid index under a causal rule, or under none, keeps all that the rule leaves to it, as runs
// (host pointers only). False where it is not so, and where that would take more than a look at each run to know. Cost:
// linear in the runs.
bool KeepsEverything(const SparseIndexView& index);

// The kept set of one row as sorted, disjoint, maximal intervals; appended to *ranges. The one definition of "kept"
// that everything else (density, CRA, overlay, dense-with-mask reference) is derived from. A valid index and host
// pointers only. Cost: linear in the list.
void AppendKeptRanges(const SparseIndexView& index, int32_t sequence, int32_t head, int32_t row,
                      std::vector<ColumnRange>* ranges);

// Pairs that a valid index keeps (each run in closed form: cost linear in runs, whatever the lengths), and pairs of the
// causal (or, for MaskKind::kNone, full) region it is taken from.
struct PairCount {
  int64_t kept = 0;
  int64_t dense = 0;
  double Density() const { return dense == 0 ? 0.0 : static_cast<double>(kept) / static_cast<double>(dense); }
};
PairCount CountPairs(const SparseIndexView& index, int32_t sequence, int32_t head);
PairCount CountPairs(const SparseIndexView& index);  // all sequences and heads

// Floating-point operations of attending `kept_pairs` pairs: 4 * head_dim per pair (two products, multiply and add).
inline int64_t AttentionFlops(int64_t kept_pairs, int32_t head_dim) {
  return 4 * kept_pairs * head_dim;
}

// Collects the lists of an index in order of list id and closes it into a valid, compact SparseIndex. The kept set of a
// list is the union of what was added to it, intersected with the element rule (causality; under kCausalWindow also
// window and sinks). The builder sorts, merges, splits runs so that only their columns near the diagonal (and the
// window's edge) are partial, drops columns that a run covers and whatever no row of the list keeps.
class SparseIndexBuilder {
 public:
  struct Shape {
    int32_t batch = 1;
    int32_t num_qo_heads = 1;
    int32_t seq_q = 0;
    int32_t seq_k = 0;  // < 2^28, the length of a run
    int32_t first_position = 0;
    int32_t tile_rows = 128;
    ElementRule rule;
  };
  explicit SparseIndexBuilder(const Shape& shape);

  // Adds columns [begin, end) to the current list for all rows, or one half of them (half_flags kRunUpperHalf or
  // kRunLowerHalf). Clipped to [0, seq_k).
  void AddRange(int64_t begin, int64_t end, uint32_t half_flags = 0);
  // Adds one column for all rows. It becomes a single column when the rule keeps it for every row of the tile, else a
  // partial run of length 1. Out of [0, seq_k): ignored.
  void AddColumn(int64_t column);
  // Ends the current list and starts the next.
  void FinishList();
  // Every list must have been finished. Leaves the builder as constructed.
  SparseIndex Build();

 private:
  struct Interval {
    int64_t begin;
    int64_t end;
  };
  // Positions of the first and the last row that a run belongs to.
  struct RowSpan {
    int64_t first;
    int64_t last;
  };
  RowSpan PositionsOfRows(int32_t begin, int32_t end) const;
  bool KeptByAllRows(int64_t column, RowSpan rows) const;
  void SettleColumns(RowSpan rows);
  void EmitWithoutHalves(RowSpan rows);
  void EmitHalves(RowSpan rows, RowSpan upper, RowSpan lower);
  void EmitRun(Interval columns, RowSpan rows, uint32_t half_flags);
  void PushRun(int64_t begin, int64_t end, uint32_t flags);
  static void SortAndMerge(std::vector<Interval>* intervals);

  Shape shape_;
  SparseIndex index_;
  int32_t num_row_tiles_ = 0;
  int64_t list_ = 0;
  // The current list: what all its rows, its upper and its lower rows keep.
  std::vector<Interval> all_rows_;
  std::vector<Interval> upper_rows_;
  std::vector<Interval> lower_rows_;
  std::vector<int64_t> columns_;
};

}  // namespace headscope::kernels
