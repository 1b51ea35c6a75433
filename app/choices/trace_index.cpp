// SPDX-License-Identifier: Apache-2.0
#include "choices/trace_index.h"

#include <set>
#include <utility>

#include "analysis/measured_heads.h"
#include "analysis/prefill_heads.h"
#include "base/check_status.h"
#include "base/errors.h"
#include "choices/head_selection.h"
#include "choices/saved_index.h"
#include "kernels/index_heads.h"
#include "kernels/prompt_passes.h"

namespace headscope::app {
namespace {

using kernels::SparseIndex;

bool HasShape(const SparseIndex& index, const data::IndexFile& file) {
  data::IndexFile own;
  SetIndexShape(index, &own);
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
    CheckStatus(CheckPrefillHeads(*together, asked));
    SparseIndex index;
    const kernels::ParameterValues of_prompt =
        kernels::AtPromptLength(*method.prefill, method.values, together->prompt_tokens);
    CheckStatus(method.prefill->Select(together->Problem(), of_prompt, {num_threads, stop}, &index),
                Fault{.field = "save-index", .problem = "head " + HeadText(asked) + ": "});
    if (file.heads.empty()) {
      SetIndexShape(index, &file);
      file.num_kv_heads = together->num_kv_heads;
      file.head_dim = together->Problem().head_dim;
    } else if (!HasShape(index, file)) {
      throw UsageError(
          {.field = "save-index",
           .problem = "head " + HeadText(asked) + " has other rows or another element rule than those before it",
           .remedy = "choose heads that are alike"});
    }
    std::vector<int32_t> places;
    for (int32_t place = 0; place < together->num_qo_heads; ++place) {
      const int32_t head = together->first_qo_head + place;
      if (!saved.emplace(together->layer, head).second) continue;
      places.push_back(place);
      file.heads.push_back(together->layer);
      file.heads.push_back(head);
    }
    AppendIndexLists(kernels::TakeHeads(index, places), &file);
  }
  file.num_qo_heads = static_cast<int32_t>(file.heads.size() / 2);
  return file;
}

}  // namespace headscope::app
