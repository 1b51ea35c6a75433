// SPDX-License-Identifier: Apache-2.0
#include "choices/trace_index.h"

#include <bit>
#include <set>
#include <utility>

#include "analysis/measured_heads.h"
#include "base/check_status.h"
#include "base/errors.h"
#include "choices/head_selection.h"
#include "kernels/index_heads.h"

namespace headscope::app {
namespace {

using kernels::SparseIndex;

// Lists behind those that the file has.
void Append(const SparseIndex& index, data::IndexFile* file) {
  const auto runs = static_cast<int64_t>(file->runs.size() / 2), columns = static_cast<int64_t>(file->columns.size());
  for (const int64_t begin : index.run_begin) file->run_begin.push_back(runs + begin);
  for (const int64_t begin : index.column_begin) file->column_begin.push_back(columns + begin);
  file->run_count.insert(file->run_count.end(), index.run_count.begin(), index.run_count.end());
  file->column_count.insert(file->column_count.end(), index.column_count.begin(), index.column_count.end());
  for (const kernels::KeyRun& run : index.runs) {
    file->runs.push_back(run.start);
    file->runs.push_back(std::bit_cast<int32_t>(run.packed));
  }
  file->columns.insert(file->columns.end(), index.columns.begin(), index.columns.end());
}

void SetShape(const SparseIndex& index, data::IndexFile* file) {
  file->seq_q = index.seq_q;
  file->seq_k = index.seq_k;
  file->first_position = index.first_position;
  file->tile_rows = index.tile_rows;
  file->mask_kind = static_cast<int32_t>(index.rule.kind);
  file->window = index.rule.window;
  file->num_sinks = index.rule.num_sinks;
}

bool HasShape(const SparseIndex& index, const data::IndexFile& file) {
  data::IndexFile own;
  SetShape(index, &own);
  const auto all = [](const data::IndexFile& of) {
    return std::vector<int32_t>{of.seq_q,     of.seq_k,  of.first_position, of.tile_rows,
                                of.mask_kind, of.window, of.num_sinks};
  };
  return all(own) == all(file);
}

}  // namespace

data::IndexFile IndexOfTrace(const data::TraceReader& trace, const std::vector<analysis::HeadId>& heads,
                             const MethodChoice& method, analysis::Measure measure, int32_t num_threads,
                             const std::stop_token& stop) {
  data::IndexFile file;
  file.method = method.name + ":" + method.values.ToString(*method.spec);
  file.recipe = "trace";
  std::set<std::pair<int32_t, int32_t>> saved;
  for (const analysis::HeadId& asked : heads) {
    if (saved.contains({asked.layer, asked.head})) continue;
    const analysis::MeasuredHeadsPtr together = measure == analysis::Measure::kLayer
                                                    ? analysis::LoadLayer(trace, asked)
                                                    : analysis::AloneHead(analysis::LoadHead(trace, asked));
    SparseIndex index;
    CheckStatus(method.prefill->Select(together->Problem(), method.values, {num_threads, stop}, &index),
                "--save-index: head " + HeadText(asked));
    if (file.heads.empty()) {
      SetShape(index, &file);
      file.num_kv_heads = together->num_kv_heads;
      file.head_dim = together->Problem().head_dim;
    } else if (!HasShape(index, file)) {
      throw UsageError("--save-index: head " + HeadText(asked) +
                       " has other rows or another element rule than those before it; choose by --heads heads that "
                       "are alike");
    }
    std::vector<int32_t> places;
    for (int32_t place = 0; place < together->num_qo_heads; ++place) {
      const int32_t head = together->first_qo_head + place;
      if (!saved.emplace(together->layer, head).second) continue;
      places.push_back(place);
      file.heads.push_back(together->layer);
      file.heads.push_back(head);
    }
    Append(kernels::TakeHeads(index, places), &file);
  }
  file.num_qo_heads = static_cast<int32_t>(file.heads.size() / 2);
  return file;
}

}  // namespace headscope::app
