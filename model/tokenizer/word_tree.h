// SPDX-License-Identifier: Apache-2.0
// Words by their common beginnings: the longest one that a text begins with, in time in proportion to what it matches.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace headscope::model {

class WordTree {
 public:
  WordTree() = default;
  // Keeps views into the words, none of which is empty; of two with one text the smaller id counts. At most two nodes
  // a word, whatever their lengths.
  explicit WordTree(std::vector<std::pair<std::string_view, int32_t>> words);

  struct Match {
    size_t bytes = 0;  // 0: no word is the text's beginning
    int32_t id = -1;
  };
  Match Longest(std::string_view text) const;

 private:
  struct Node {
    std::string_view label;  // between its parent and itself
    int32_t id = -1;         // of the word that ends here
    uint32_t first_child = 0;
    uint32_t num_children = 0;  // they lie one behind the other, by their first bytes
  };
  const Node* Child(const Node& node, char first) const;
  std::vector<Node> nodes_;            // the first is the root
  std::vector<unsigned char> firsts_;  // of each node's label
};

}  // namespace headscope::model
