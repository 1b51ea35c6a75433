// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/bpe.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>

#include "tokenizer/token_names.h"
#include "tokenizer/unicode_text.h"

namespace headscope::model {

struct BytePairMerger::Symbol {
  int32_t id;
  int32_t previous;  // index into the list, -1: none
  int32_t next;
  int32_t rank = -1;  // of the merge with the next one; -1: there is none
  int32_t merged = 0;
};

namespace {

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

struct Candidate {
  int32_t rank;
  int32_t position;
  bool operator>(const Candidate& other) const {
    return std::tie(rank, position) > std::tie(other.rank, other.position);
  }
};

// Of a word: what is possible is in one heap.
class SmallQueue {
 public:
  void Push(Candidate candidate) { heap_.push(candidate); }
  bool empty() const { return heap_.empty(); }
  Candidate Pop() {
    const Candidate best = heap_.top();
    heap_.pop();
    return best;
  }

 private:
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap_;
};

// Of a long piece: the positions of each rank, and the ranks that have some.
class LargeQueue {
 public:
  explicit LargeQueue(int32_t end_rank) : of_rank_(static_cast<size_t>(end_rank), -1) {}
  void Push(Candidate candidate) {
    int32_t& place = of_rank_[static_cast<size_t>(candidate.rank)];
    if (place < 0) {
      place = static_cast<int32_t>(positions_.size());
      positions_.emplace_back();
    }
    Positions& positions = positions_[static_cast<size_t>(place)];
    if (positions.empty()) ranks_.push(candidate.rank);
    positions.Push(candidate.position);
  }
  bool empty() const { return ranks_.empty(); }
  Candidate Pop() {
    const int32_t rank = ranks_.top();
    Positions& positions = positions_[static_cast<size_t>(of_rank_[static_cast<size_t>(rank)])];
    const Candidate best{rank, positions.Pop()};
    if (positions.empty()) ranks_.pop();
    return best;
  }

 private:
  // Sorted when the first of them is wanted; the few that come after that are in a heap.
  class Positions {
   public:
    bool empty() const { return next_ == sorted_.size() && later_.empty(); }
    void Push(int32_t position) {
      if (empty()) {
        sorted_.clear();
        next_ = 0;
        begun_ = false;
      }
      if (!begun_) {
        sorted_.push_back(position);
        return;
      }
      later_.push_back(position);
      std::push_heap(later_.begin(), later_.end(), std::greater<>());
    }
    int32_t Pop() {
      if (!begun_) std::sort(sorted_.begin(), sorted_.end());
      begun_ = true;
      if (later_.empty() || (next_ < sorted_.size() && sorted_[next_] <= later_.front())) return sorted_[next_++];
      std::pop_heap(later_.begin(), later_.end(), std::greater<>());
      const int32_t position = later_.back();
      later_.pop_back();
      return position;
    }

   private:
    std::vector<int32_t> sorted_, later_;
    size_t next_ = 0;
    bool begun_ = false;
  };
  std::vector<int32_t> of_rank_;  // its place in positions_; -1: it never had any
  std::vector<Positions> positions_;
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> ranks_;
};

}  // namespace

MergeTable::MergeTable(const std::vector<MergeRule>& merges) {
  size_t size = 16;
  while (size < 2 * merges.size()) size *= 2;
  slots_.assign(size, {.pair = 0, .merge = {.rank = -1, .id = 0}});
  for (size_t place = 0; place < merges.size(); ++place) {
    const MergeRule& rule = merges[place];
    const int32_t rank = rule.rank >= 0 ? rule.rank : static_cast<int32_t>(place);
    end_rank_ = std::max(end_rank_, rank + 1);
    // Of two equal rules the last one holds, as in the tokenizers library.
    const uint64_t pair = PairKey(rule.left, rule.right);
    slots_[SlotOf(pair)] = {.pair = pair, .merge = {.rank = rank, .id = rule.merged}};
  }
}

size_t MergeTable::SlotOf(uint64_t pair) const {
  const size_t mask = slots_.size() - 1;
  size_t at = hash_(pair) & mask;
  while (slots_[at].merge.rank >= 0 && slots_[at].pair != pair) at = (at + 1) & mask;
  return at;
}

const MergeTable::Merge* MergeTable::Find(int32_t left, int32_t right) const {
  const Slot& slot = slots_[SlotOf(PairKey(left, right))];
  return slot.merge.rank >= 0 ? &slot.merge : nullptr;
}

BytePairMerger::BytePairMerger(const TokenizerSpec& spec)
    : byte_ids_(spec.byte_ids),
      over_characters_(spec.over_characters),
      by_bytes_(spec.by_bytes),
      joins_unknown_(spec.joins_unknown),
      unknown_id_(spec.unknown_id),
      prefix_(spec.continuing_prefix),
      suffix_(spec.last_suffix),
      character_ids_(spec.character_ids),
      merges_(spec.merges) {
  // Over characters a token's space is three bytes of a piece.
  spec.tokens.ForEach([&](int32_t, std::string_view bytes) {
    longest_token_ = std::max(longest_token_, bytes.size() * (over_characters_ ? 3 : 1));
  });
  const bool is_marked = !prefix_.empty() || !suffix_.empty();
  // Where the mark of a space is known, it parts unknown characters too.
  const uint32_t mark = FrontCharacter(kSpaceMark).code;
  const bool mark_is_known =
      std::any_of(character_ids_.begin(), character_ids_.end(), [&](const auto& known) { return known.first == mark; });
  words_apart_ = over_characters_ && (by_bytes_ || mark_is_known) && !is_marked && !spec.ignore_merges &&
                 std::none_of(spec.merges.begin(), spec.merges.end(), [&](const MergeRule& rule) {
                   const std::string_view bytes = spec.tokens.Find(rule.merged)->bytes;
                   const size_t first = bytes.find_first_not_of(' ');
                   return first != std::string_view::npos && bytes.find(' ', first) != std::string_view::npos;
                 });
  if (is_marked) spec.words.ForEach([&](int32_t id, std::string_view text) { marked_.emplace(text, id); });
  if (!spec.ignore_merges) return;
  if (over_characters_) {
    spec.words.ForEach([&](int32_t id, std::string_view text) { whole_pieces_.emplace(text, id); });
    return;
  }
  whole_pieces_.reserve(spec.tokens.count());
  spec.tokens.ForEach([&](int32_t id, std::string_view bytes) {
    if (!std::binary_search(spec.added_only.begin(), spec.added_only.end(), id)) whole_pieces_.emplace(bytes, id);
  });
}

// The tokens that a piece begins as. A character that has none is told at the one that follows, since neighbours may be
// one unknown.
class BytePairMerger::SymbolList {
 public:
  SymbolList(size_t most, int32_t unknown_id, bool joins_unknown)
      : unknown_id_(unknown_id), joins_unknown_(joins_unknown) {
    symbols_.reserve(most);
  }
  void Add(int32_t id) {
    const auto count = static_cast<int32_t>(symbols_.size());
    symbols_.push_back({id, count - 1, count + 1});
    after_unknown_ = false;
  }
  void AddUnknown() {
    if (unknown_id_ < 0 || (after_unknown_ && joins_unknown_)) return;
    Add(unknown_id_);
    after_unknown_ = true;
  }
  std::vector<Symbol> Take() {
    if (!symbols_.empty()) symbols_.back().next = -1;
    return std::move(symbols_);
  }

 private:
  std::vector<Symbol> symbols_;
  int32_t unknown_id_;
  bool joins_unknown_;
  bool after_unknown_ = false;
};

void BytePairMerger::AddUnmarked(std::string_view piece, SymbolList* list) const {
  for (size_t at = 0; at < piece.size();) {
    if (!over_characters_) {
      list->Add(byte_ids_[static_cast<unsigned char>(piece[at++])]);
      continue;
    }
    const Character c = FrontCharacter(piece.substr(at));
    const auto known = std::lower_bound(character_ids_.begin(), character_ids_.end(), std::pair(c.code, INT32_MIN));
    size_t left = std::max<size_t>(c.length, 1);
    if (c.length > 0 && known != character_ids_.end() && known->first == c.code) {
      list->Add(known->second);
      at += left;
    } else if (by_bytes_) {  // spelled by its bytes, all of them
      for (; left > 0; --left) list->Add(byte_ids_[static_cast<unsigned char>(piece[at++])]);
    } else {
      list->AddUnknown();
      at += left;
    }
  }
}

void BytePairMerger::AddMarked(std::string_view piece, SymbolList* list) const {
  std::string marked;
  for (size_t at = 0; at < piece.size();) {
    const size_t length = over_characters_ ? std::max<size_t>(FrontCharacter(piece.substr(at)).length, 1) : 1;
    marked = at > 0 ? prefix_ : "";
    marked += piece.substr(at, length);
    at += length;
    if (at == piece.size()) marked += suffix_;
    if (const auto known = marked_.find(marked); known != marked_.end())
      list->Add(known->second);
    else if (over_characters_ && by_bytes_)
      for (const char byte : marked) list->Add(byte_ids_[static_cast<unsigned char>(byte)]);
    else
      list->AddUnknown();
  }
}

std::vector<BytePairMerger::Symbol> BytePairMerger::Symbols(std::string_view piece) const {
  SymbolList list(piece.size(), unknown_id_, joins_unknown_);
  if (marked_.empty())
    AddUnmarked(piece, &list);
  else
    AddMarked(piece, &list);
  return list.Take();
}

size_t BytePairMerger::Independent(std::string_view piece) const {
  if (!words_apart_) return piece.size();
  size_t at = 0;
  while (piece.substr(at).starts_with(kSpaceMark)) at += kSpaceMark.size();
  return std::min(piece.find(kSpaceMark, at), piece.size());
}

template <typename Queue>
void BytePairMerger::MergeAll(std::vector<Symbol>* all, Queue queue) const {
  std::vector<Symbol>& symbols = *all;
  const auto offer = [&](int32_t left) {
    if (left < 0) return;
    Symbol& symbol = symbols[static_cast<size_t>(left)];
    symbol.rank = -1;
    if (symbol.next < 0) return;
    const MergeTable::Merge* merge = merges_.Find(symbol.id, symbols[static_cast<size_t>(symbol.next)].id);
    if (merge == nullptr) return;
    symbol.rank = merge->rank;
    symbol.merged = merge->id;
    queue.Push({merge->rank, left});
  };
  for (int32_t i = 0; i < static_cast<int32_t>(symbols.size()); ++i) offer(i);
  while (!queue.empty()) {
    const Candidate best = queue.Pop();
    Symbol& left = symbols[static_cast<size_t>(best.position)];
    if (left.rank != best.rank) continue;  // one of the two has changed since
    Symbol& right = symbols[static_cast<size_t>(left.next)];
    left.id = left.merged;
    left.next = right.next;
    right.rank = -1;  // it is no more
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = best.position;
    offer(left.previous);
    offer(best.position);
  }
}

void BytePairMerger::Encode(std::string_view piece, std::vector<int32_t>* ids) const {
  if (piece.empty()) return;
  if (const auto whole = whole_pieces_.find(piece); whole != whole_pieces_.end()) {
    ids->push_back(whole->second);
    return;
  }
  std::vector<Symbol> symbols = Symbols(piece);
  if (symbols.empty()) return;  // of characters without a token, where none is unknown
  // A table of all ranks is worth its making where there is much to merge.
  constexpr size_t kFewest = 256, kRanksPerSymbol = 16;
  if (symbols.size() < std::max(kFewest, static_cast<size_t>(merges_.end_rank()) / kRanksPerSymbol))
    MergeAll(&symbols, SmallQueue());
  else
    MergeAll(&symbols, LargeQueue(merges_.end_rank()));
  for (int32_t i = 0; i >= 0; i = symbols[static_cast<size_t>(i)].next)
    ids->push_back(symbols[static_cast<size_t>(i)].id);
}

}  // namespace headscope::model
