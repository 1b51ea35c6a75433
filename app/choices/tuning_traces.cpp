// SPDX-License-Identifier: Apache-2.0
#include "choices/tuning_traces.h"

#include <algorithm>

#include "analysis/outside_mass.h"
#include "base/errors.h"
#include "choices/head_results.h"
#include "data/row_positions.h"

namespace headscope::app {

void CheckTunedTogether(const data::TraceReader& trace, const data::TraceReader& first) {
  CheckQueryRows(trace);
  if (!data::RowsContiguous(trace.row_positions()))
    throw BadInputError({.file = trace.path(),
                         .problem = "its query rows have gaps",
                         .remedy = "capture all rows, or the last ones, again"});
  const data::ModelInfo &model = trace.layout().model, &expected = first.layout().model;
  if (model.weights_sha256 == expected.weights_sha256 && model.num_layers == expected.num_layers &&
      model.num_qo_heads == expected.num_qo_heads && model.head_dim == expected.head_dim)
    return;
  throw UsageError({.file = trace.path(),
                    .problem = "it was captured from a different model (" + model.name + ") than " + first.path() +
                               " (" + expected.name + ")",
                    .remedy = "tune them separately"});
}

void CheckMethodsAreOfModel(const Tuning& tuning, const data::TraceReader& trace) {
  for (const Tuning::Searched& method : tuning.methods) CheckMethodIsOfModel(method.choice.name, trace);
  if (tuning.target.limit) CheckMethodIsOfModel(tuning.target.limit->name, trace);
}

std::optional<analysis::HeadId> HeadNotRecorded(const data::TraceReader& trace,
                                                const std::vector<analysis::HeadId>& heads) {
  const std::vector<analysis::HeadId> recorded = analysis::RecordedHeads(trace);
  const auto missing = std::ranges::find_if(
      heads, [&](const analysis::HeadId& head) { return std::ranges::find(recorded, head) == recorded.end(); });
  return missing == heads.end() ? std::nullopt : std::optional(*missing);
}

int64_t PromptTokens(const data::TraceReader& trace) {
  // A part that begins behind the prompt says no more of it than that it has ended before: at most so many.
  return trace.layout().first_token +
         std::ranges::count(trace.tokens(), data::TokenPhase::kPrompt, &data::TokenRecord::phase);
}

void DescribeTraces(const RangeOfTraces<const data::TraceReader*>& part, Tuning* tuning) {
  const auto sources = [](const std::vector<const data::TraceReader*>& traces) {
    std::vector<Tuning::Source> all;
    for (const data::TraceReader* trace : traces) {
      all.push_back({trace->path(), trace->layout().prompt_source, trace->num_tokens(), trace->num_rows(),
                     trace->layout().first_token});
    }
    return all;
  };
  tuning->range = part.range;
  tuning->traces = sources(part.traces);
  tuning->checks = sources(part.TriedOn(!tuning->held_out_rows.empty()));
  const data::TraceLayout& layout = part.traces.front()->layout();
  tuning->model = layout.model;
  tuning->layers.clear();
  for (size_t slot = 0; slot < layout.layers.size(); ++slot)
    tuning->layers.push_back({layout.layers[slot], layout.facts[slot].num_qo_heads, layout.facts[slot].num_kv_heads});
  int64_t longest = 0;
  for (const data::TraceReader* trace : part.traces) longest = std::max(longest, trace->num_tokens());
  const bool from_start = tuning->target.budget.kind == analysis::BudgetTarget::Kind::kWork;
  for (Tuning::Searched& method : tuning->methods)
    method.grid = analysis::SearchedGrid(*method.choice.spec, longest, from_start ? &method.choice.values : nullptr);
}

double MeanOutside(const std::vector<analysis::HeadTensorsPtr>& recordings, const InsideMass& inside) {
  double sum = 0;
  int64_t rows = 0;
  for (size_t i = 0; i < recordings.size(); ++i) {
    rows += recordings[i]->num_rows;
    if (const auto mass = inside(i))
      sum += analysis::SumOfOutsideMass(*recordings[i], *mass, 0, recordings[i]->num_rows);
  }
  return rows == 0 ? 0 : sum / static_cast<double>(rows);
}

}  // namespace headscope::app
