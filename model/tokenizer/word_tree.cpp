// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/word_tree.h"

#include <algorithm>

namespace headscope::model {

WordTree::WordTree(std::vector<std::pair<std::string_view, int32_t>> words) {
  std::sort(words.begin(), words.end());
  const auto same = [](const auto& one, const auto& other) { return one.first == other.first; };
  words.erase(std::unique(words.begin(), words.end(), same), words.end());
  // Node by node, those of one depth before their children: each stands for a range of words that begin alike.
  struct Range {
    size_t begin, end, depth;  // depth: bytes that the node and those above it stand for
  };
  std::vector<Range> ranges = {{0, words.size(), 0}};
  nodes_.emplace_back();
  firsts_.push_back(0);
  for (size_t number = 0; number < ranges.size(); ++number) {
    auto [begin, end, depth] = ranges[number];
    if (begin < end && words[begin].first.size() == depth) nodes_[number].id = words[begin++].second;
    nodes_[number].first_child = static_cast<uint32_t>(nodes_.size());
    while (begin < end) {
      const std::string_view one = words[begin].first;
      size_t next = begin + 1;
      while (next < end && words[next].first[depth] == one[depth]) ++next;
      // Sorted words begin alike as far as the first and the last of them do.
      const std::string_view last = words[next - 1].first;
      const size_t common =
          static_cast<size_t>(std::mismatch(one.begin(), one.end(), last.begin(), last.end()).first - one.begin());
      nodes_.push_back({.label = one.substr(depth, common - depth)});
      firsts_.push_back(static_cast<unsigned char>(one[depth]));
      ranges.push_back({begin, next, common});
      ++nodes_[number].num_children;
      begin = next;
    }
  }
}

const WordTree::Node* WordTree::Child(const Node& node, char first) const {
  const auto begin = firsts_.begin() + node.first_child, end = begin + node.num_children;
  const auto found = std::lower_bound(begin, end, static_cast<unsigned char>(first));
  if (found == end || *found != static_cast<unsigned char>(first)) return nullptr;
  return &nodes_[static_cast<size_t>(found - firsts_.begin())];
}

WordTree::Match WordTree::Longest(std::string_view text) const {
  Match longest;
  if (nodes_.empty()) return longest;
  const Node* node = &nodes_.front();
  for (size_t at = 0; at < text.size();) {
    node = Child(*node, text[at]);
    if (node == nullptr || !text.substr(at).starts_with(node->label)) break;
    at += node->label.size();
    if (node->id >= 0) longest = {at, node->id};
  }
  return longest;
}

}  // namespace headscope::model
