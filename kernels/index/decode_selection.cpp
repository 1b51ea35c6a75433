// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode_selection.h"

#include <algorithm>
#include <utility>

namespace headscope::kernels {
namespace {

struct Pages {
  int64_t begin, end;
};

Pages PagesOfList(const DecodeSelection& selection, int64_t list) {
  return {selection.page_begin[static_cast<size_t>(list)], selection.page_begin[static_cast<size_t>(list) + 1]};
}

int64_t NumLists(const DecodeSelection& selection) {
  return static_cast<int64_t>(selection.page_begin.size()) - 1;
}

// Weights of the tokens that are left: `numbers` are theirs in the rows of `weights`.
std::vector<float> PickWeights(const DecodeSelection& selection, const std::vector<size_t>& numbers) {
  if (selection.weights.empty()) return {};
  const size_t row_length = selection.pages.size() * static_cast<size_t>(selection.page_size);
  std::vector<float> picked;
  for (size_t row = 0; row < static_cast<size_t>(selection.weight_rows); ++row) {
    for (const size_t number : numbers) picked.push_back(selection.weights[row * row_length + number]);
  }
  return picked;
}

}  // namespace

int64_t NumTokens(const DecodeSelection& selection, int64_t list, int32_t seq_k) {
  const auto [begin, end] = PagesOfList(selection, list);
  if (begin == end) return 0;
  const int64_t size = selection.page_size;
  const int64_t last = selection.pages[static_cast<size_t>(end) - 1];
  return (end - begin - 1) * size + std::min(size, seq_k - last * size);
}

int64_t NumTokens(const DecodeSelection& selection, int32_t seq_k) {
  int64_t tokens = 0;
  for (int64_t list = 0; list < NumLists(selection); ++list) tokens += NumTokens(selection, list, seq_k);
  return tokens;
}

int64_t NumTokensBelow(const DecodeSelection& selection, int64_t list, int32_t end) {
  const auto [first, last] = PagesOfList(selection, list);
  const int32_t* const pages = selection.pages.data();
  const int64_t size = selection.page_size;
  const int64_t cut = std::lower_bound(pages + first, pages + last, end / size) - pages;  // whole pages before it
  const bool is_cut = cut < last && pages[cut] == end / size;
  return (cut - first) * size + (is_cut ? end % size : 0);
}

std::vector<int32_t> TokensOfList(const DecodeSelection& selection, int64_t list, int32_t seq_k) {
  const auto [begin, end] = PagesOfList(selection, list);
  if (selection.page_size == 1) return {selection.pages.begin() + begin, selection.pages.begin() + end};
  std::vector<int32_t> tokens;
  tokens.reserve(static_cast<size_t>(NumTokens(selection, list, seq_k)));
  for (int64_t i = begin; i < end; ++i) {
    const int64_t first = int64_t{selection.pages[static_cast<size_t>(i)]} * selection.page_size;
    const int64_t behind = std::min<int64_t>(first + selection.page_size, seq_k);
    for (int64_t token = first; token < behind; ++token) tokens.push_back(static_cast<int32_t>(token));
  }
  return tokens;
}

bool IsDense(const DecodeSelection& selection, int32_t seq_k) {
  if (!selection.weights.empty() || !selection.alpha.empty() || selection.components_end > 0) return false;
  for (int64_t list = 0; list < NumLists(selection); ++list) {
    if (NumTokens(selection, list, seq_k) != seq_k) return false;
  }
  return true;
}

DecodeSelection SelectionOfHead(const DecodeSelection& selection, int32_t head) {
  const int32_t group = selection.num_qo_heads / selection.num_kv_heads;
  const auto kv_head = static_cast<size_t>(head / group);
  DecodeSelection one;
  one.num_qo_heads = one.num_kv_heads = 1;
  one.page_size = selection.page_size;
  const int64_t begin = selection.page_begin[kv_head], end = selection.page_begin[kv_head + 1];
  one.pages.assign(selection.pages.begin() + begin, selection.pages.begin() + end);
  one.page_begin = {0, end - begin};
  if (!selection.weights.empty()) {
    const int64_t size = selection.page_size;
    const int64_t row = selection.weight_rows == 1 ? 0 : head % group;
    const auto first =
        selection.weights.begin() + row * static_cast<int64_t>(selection.pages.size()) * size + begin * size;
    one.weights.assign(first, first + (end - begin) * size);
  }
  one.elements_moved = selection.elements_moved;
  one.elements_to_choose = selection.elements_to_choose;
  if (selection.components_end > 0) {
    const int64_t first = selection.component_begin[kv_head], last = selection.component_begin[kv_head + 1];
    one.components_end = selection.components_end;
    one.components.assign(selection.components.begin() + first, selection.components.begin() + last);
    one.component_begin = {0, last - first};
  }
  if (selection.alpha.empty()) return one;
  one.alpha = {selection.alpha[static_cast<size_t>(head)]};
  const auto head_dim = static_cast<int64_t>(selection.mean_value.size()) / selection.num_kv_heads;
  const auto mean = selection.mean_value.begin() + static_cast<int64_t>(kv_head) * head_dim;
  one.mean_value.assign(mean, mean + head_dim);
  return one;
}

std::vector<int32_t> KeptTokens(const DecodeSelection& of_head, int32_t seq_k) {
  std::vector<int32_t> tokens = TokensOfList(of_head, 0, seq_k);
  if (of_head.weights.empty()) return tokens;
  size_t kept = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (of_head.weights[i] > 0) tokens[kept++] = tokens[i];
  }
  tokens.resize(kept);
  return tokens;
}

void DropTokensBefore(int32_t first, int32_t seq_k, int32_t head_dim, DecodeSelection* selection) {
  if (first == 0) return;
  const int64_t size = selection->page_size;
  const int64_t tokens_before = NumTokens(*selection, seq_k);
  DecodeSelection left;
  left.page_size = first % size == 0 ? selection->page_size : 1;
  left.page_begin = {0};
  std::vector<size_t> numbers;  // of the weights that stay
  for (int64_t list = 0; list < NumLists(*selection); ++list) {
    const auto [begin, end] = PagesOfList(*selection, list);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t page = selection->pages[static_cast<size_t>(i)];
      const auto number = static_cast<size_t>(i * size);
      if (left.page_size == size) {
        if (page * size < first) continue;
        left.pages.push_back(static_cast<int32_t>(page - first / size));
        for (int64_t t = 0; t < size; ++t) numbers.push_back(number + static_cast<size_t>(t));
      } else {
        for (int64_t t = std::max<int64_t>(0, first - page * size); t < std::min(size, seq_k - page * size); ++t) {
          left.pages.push_back(static_cast<int32_t>(page * size + t - first));
          numbers.push_back(number + static_cast<size_t>(t));
        }
      }
    }
    left.page_begin.push_back(static_cast<int64_t>(left.pages.size()));
  }
  selection->weights = PickWeights(*selection, numbers);
  selection->page_size = left.page_size;
  selection->pages = std::move(left.pages);
  selection->page_begin = std::move(left.page_begin);
  selection->components_end = std::max(0, selection->components_end - first);
  if (selection->components_end == 0) {
    selection->component_begin.clear();
    selection->components.clear();
  }
  selection->elements_moved -=
      2 * (tokens_before - NumTokens(*selection, seq_k - first)) * head_dim / NumLists(*selection);
}

}  // namespace headscope::kernels
