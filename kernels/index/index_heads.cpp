// SPDX-License-Identifier: Apache-2.0
#include "kernels/index_heads.h"

#include <algorithm>
#include <vector>

namespace headscope::kernels {
namespace {

// Lists of `entries` by begin and count, moved to entries of their own. Lists that share entries go on sharing them.
template <typename Entry>
void Move(std::vector<int64_t>* begin, const std::vector<int32_t>& count, const std::vector<Entry>& entries,
          std::vector<Entry>* own) {
  auto first = static_cast<int64_t>(entries.size());
  int64_t end = 0;
  for (size_t list = 0; list < begin->size(); ++list) {
    if (count[list] == 0) continue;
    first = std::min(first, (*begin)[list]);
    end = std::max(end, (*begin)[list] + count[list]);
  }
  first = std::min(first, end);
  own->assign(entries.begin() + first, entries.begin() + end);
  for (size_t list = 0; list < begin->size(); ++list) (*begin)[list] = count[list] == 0 ? 0 : (*begin)[list] - first;
}

}  // namespace

SparseIndex TakeHeads(const SparseIndex& index, std::span<const int32_t> heads) {
  SparseIndex taken;
  taken.batch = index.batch;
  taken.num_qo_heads = static_cast<int32_t>(heads.size());
  taken.seq_q = index.seq_q;
  taken.seq_k = index.seq_k;
  taken.first_position = index.first_position;
  taken.tile_rows = index.tile_rows;
  taken.rule = index.rule;
  const SparseIndexView view = index.View();
  const auto pick = [&](const auto& of_lists, auto* picked) {
    for (int32_t sequence = 0; sequence < index.batch; ++sequence) {
      for (const int32_t head : heads) {
        const auto first = of_lists.begin() + view.ListId(sequence, head, 0);
        picked->insert(picked->end(), first, first + view.NumRowTiles());
      }
    }
  };
  pick(index.run_begin, &taken.run_begin);
  pick(index.run_count, &taken.run_count);
  pick(index.column_begin, &taken.column_begin);
  pick(index.column_count, &taken.column_count);
  Move(&taken.run_begin, taken.run_count, index.runs, &taken.runs);
  Move(&taken.column_begin, taken.column_count, index.columns, &taken.columns);
  return taken;
}

}  // namespace headscope::kernels
