// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/unigram.h"

#include <algorithm>
#include <limits>

#include "base/errors.h"
#include "tokenizer/unicode_text.h"

namespace headscope::model {
namespace {

constexpr size_t kNowhere = std::numeric_limits<size_t>::max();

// The best way to cut a text up to one byte.
template <typename Score>
struct Cut {
  Score score = 0;
  size_t begin = kNowhere;  // of the last token
  int32_t id = -1;          // -1: unknown
};

std::vector<std::pair<std::string_view, int32_t>> SortedWords(const TokenTable& words) {
  std::vector<std::pair<std::string_view, int32_t>> sorted;
  words.ForEach([&](int32_t id, std::string_view text) {
    if (!text.empty()) sorted.emplace_back(text, id);
  });
  // Of two equal texts the last one holds, as in the tokenizers library.
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.first != b.first ? a.first < b.first : a.second > b.second; });
  sorted.erase(
      std::unique(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first == b.first; }),
      sorted.end());
  return sorted;
}

}  // namespace

WordTrie::WordTrie(const std::vector<std::pair<std::string_view, int32_t>>& sorted) : nodes_(1) {
  // Breadth first: each node's texts lie side by side, and so do those of each of its children.
  struct Range {
    uint32_t node;
    size_t begin, end, depth;
  };
  std::vector<Range> level = {{0, 0, sorted.size(), 0}}, next;
  while (!level.empty()) {
    next.clear();
    for (const Range& range : level) {
      nodes_[range.node].first_child = static_cast<uint32_t>(nodes_.size());
      uint16_t children = 0;
      for (size_t at = range.begin; at < range.end;) {
        if (sorted[at].first.size() == range.depth) {
          nodes_[range.node].id = sorted[at++].second;
          continue;
        }
        const char byte = sorted[at].first[range.depth];
        size_t end = at;
        while (end < range.end && sorted[end].first[range.depth] == byte) ++end;
        next.push_back({static_cast<uint32_t>(nodes_.size()), at, end, range.depth + 1});
        nodes_.push_back({.byte = static_cast<uint8_t>(byte)});
        ++children;
        at = end;
      }
      nodes_[range.node].num_children = children;
    }
    std::swap(level, next);
  }
  const Node& root = nodes_.front();
  for (uint32_t child = root.first_child; child < root.first_child + root.num_children; ++child)
    roots_[nodes_[child].byte] = child;
}

uint32_t WordTrie::Child(uint32_t node, uint8_t byte) const {
  if (node == 0) return roots_[byte];
  uint32_t first = nodes_[node].first_child, last = first + nodes_[node].num_children;
  while (first < last) {
    const uint32_t middle = (first + last) / 2;
    if (nodes_[middle].byte == byte) return middle;
    if (nodes_[middle].byte < byte)
      first = middle + 1;
    else
      last = middle;
  }
  return 0;
}

int32_t WordTrie::Find(std::string_view text) const {
  int32_t found = -1;
  ForEachPrefix(text, [&](size_t length, int32_t id) {
    if (length == text.size()) found = id;
  });
  return found;
}

Unigram::Unigram(const TokenizerSpec& spec)
    : trie_(SortedWords(spec.words)),
      scores_(spec.scores),
      byte_ids_(spec.byte_ids),
      unknown_id_(spec.unknown_id),
      in_single_precision_(spec.scores_in_single_precision) {
  constexpr double kUnknownPenalty = 10;
  unknown_score_ = *std::min_element(scores_.begin(), scores_.end()) - kUnknownPenalty;
  spec.words.ForEach([&](int32_t, std::string_view text) { longest_ = std::max(longest_, text.size()); });
}

int64_t Unigram::FewestTokens(size_t piece_bytes) const {
  // Unknown characters that follow each other are one token together, however many, unless bytes spell them.
  return byte_ids_.front() < 0 ? 1 : static_cast<int64_t>(piece_bytes / longest_);
}

void Unigram::PutUnknown(std::string_view text, std::vector<int32_t>* ids) const {
  if (byte_ids_.front() >= 0) {
    for (const char byte : text) ids->push_back(byte_ids_[static_cast<unsigned char>(byte)]);
    return;
  }
  if (unknown_id_ < 0)
    throw BadInputError({.file = "tokenizer.json",
                         .field = "model.unk_id",
                         .problem = "is null, and the text has characters outside the vocabulary",
                         .remedy = "use a text without them"});
  ids->push_back(unknown_id_);
}

void Unigram::Encode(std::string_view piece, std::vector<int32_t>* ids) const {
  if (in_single_precision_)
    EncodeWith<float>(piece, ids);
  else
    EncodeWith<double>(piece, ids);
}

template <typename Score>
void Unigram::EncodeWith(std::string_view piece, std::vector<int32_t>* ids) const {
  std::vector<Cut<Score>> best(piece.size() + 1);
  for (size_t at = 0; at < piece.size();) {
    const Score here = best[at].score;
    const size_t character = std::max<size_t>(FrontCharacter(piece.substr(at)).length, 1);
    const auto offer = [&](size_t end, Score score, int32_t id) {
      if (best[end].begin == kNowhere || score > best[end].score) best[end] = {score, at, id};
    };
    bool known = false;
    trie_.ForEachPrefix(piece.substr(at), [&](size_t length, int32_t id) {
      offer(at + length, here + static_cast<Score>(scores_[static_cast<size_t>(id)]), id);
      known = known || length == character;
    });
    if (!known) offer(at + character, here + static_cast<Score>(unknown_score_), -1);
    at += character;
  }
  std::vector<size_t> ends;
  for (size_t end = piece.size(); end > 0; end = best[end].begin) ends.push_back(end);
  for (size_t i = ends.size(); i-- > 0;) {
    const Cut<Score>& cut = best[ends[i]];
    if (cut.id >= 0 && cut.id != unknown_id_) {
      ids->push_back(cut.id);
      continue;
    }
    size_t last = i;  // the unknown stretches that follow are one
    while (last > 0 && (best[ends[last - 1]].id < 0 || best[ends[last - 1]].id == unknown_id_)) --last;
    const std::string_view text = piece.substr(cut.begin, ends[last] - cut.begin);
    if (const int32_t whole = trie_.Find(text); whole >= 0)
      ids->push_back(whole);
    else
      PutUnknown(text, ids);
    i = last;
  }
}

}  // namespace headscope::model
