#include "tokenizer/bpe.h"

#include <functional>
#include <queue>
#include <tuple>

namespace headscope::capture {
namespace {

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

struct Symbol {
  int32_t id;
  int32_t previous;  // index into the list, -1: none
  int32_t next;
};

struct Candidate {
  int32_t rank;
  int32_t position;
  int32_t merged_id;
  bool operator>(const Candidate& other) const {
    return std::tie(rank, position) > std::tie(other.rank, other.position);
  }
};

constexpr int32_t kRemoved = -1;

}  // namespace

BytePairMerger::BytePairMerger(const TokenizerSpec& spec) {
  merges_.reserve(spec.merges.size());
  for (size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const MergeRule& rule = spec.merges[rank];
    // Of two equal rules the last one holds, as in the tokenizers library.
    merges_[PairKey(rule.left, rule.right)] = {static_cast<int32_t>(rank), rule.merged};
  }
  std::vector<bool> is_added(spec.token_bytes.size());
  for (const AddedToken& token : spec.added_tokens) is_added[static_cast<size_t>(token.id)] = true;
  for (size_t id = 0; id < spec.token_bytes.size(); ++id) {
    const std::string& bytes = spec.token_bytes[id];
    if (is_added[id] || bytes.empty()) continue;
    if (bytes.size() == 1) byte_ids_[static_cast<unsigned char>(bytes[0])] = static_cast<int32_t>(id);
    if (spec.ignore_merges) whole_pieces_.emplace(bytes, static_cast<int32_t>(id));
  }
}

const BytePairMerger::Merge* BytePairMerger::FindMerge(int32_t left, int32_t right) const {
  const auto at = merges_.find(PairKey(left, right));
  return at == merges_.end() ? nullptr : &at->second;
}

void BytePairMerger::Encode(std::string_view piece, std::vector<int32_t>* ids) const {
  if (piece.empty()) return;
  if (const auto whole = whole_pieces_.find(piece); whole != whole_pieces_.end()) {
    ids->push_back(whole->second);
    return;
  }
  const auto count = static_cast<int32_t>(piece.size());
  std::vector<Symbol> symbols(piece.size());
  for (int32_t i = 0; i < count; ++i) {
    symbols[static_cast<size_t>(i)] = {byte_ids_[static_cast<unsigned char>(piece[static_cast<size_t>(i)])], i - 1,
                                       i + 1 < count ? i + 1 : -1};
  }
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap;
  const auto offer = [&](int32_t left) {
    if (left < 0) return;
    const Symbol& symbol = symbols[static_cast<size_t>(left)];
    if (symbol.next < 0) return;
    if (const Merge* merge = FindMerge(symbol.id, symbols[static_cast<size_t>(symbol.next)].id)) {
      heap.push({merge->rank, left, merge->id});
    }
  };
  for (int32_t i = 0; i < count; ++i) offer(i);
  while (!heap.empty()) {
    const Candidate best = heap.top();
    heap.pop();
    Symbol& left = symbols[static_cast<size_t>(best.position)];
    if (left.id == kRemoved || left.next < 0) continue;
    Symbol& right = symbols[static_cast<size_t>(left.next)];
    const Merge* merge = FindMerge(left.id, right.id);
    if (merge == nullptr || merge->id != best.merged_id) continue;  // one of the two has changed since
    left.id = merge->id;
    left.next = right.next;
    right.id = kRemoved;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = best.position;
    offer(left.previous);
    offer(best.position);
  }
  for (int32_t i = 0; i >= 0; i = symbols[static_cast<size_t>(i)].next)
    ids->push_back(symbols[static_cast<size_t>(i)].id);
}

}  // namespace headscope::capture
