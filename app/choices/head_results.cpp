// SPDX-License-Identifier: Apache-2.0
#include "choices/head_results.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "analysis/compare.h"
#include "analysis/result_files.h"
#include "base/check_status.h"
#include "base/errors.h"
#include "base/file_format.h"
#include "choices/file_method.h"
#include "choices/head_selection.h"
#include "kernels/method.h"
#include "support/output_file.h"

namespace headscope::app {
namespace {

void WriteThroughOutputFile(const std::string& path, bool force,
                            const std::function<void(const std::string& temporary_path)>& write) {
  CheckResultsTarget(path, force);
  OutputFile output(path, force);
  output.Write(write);
  output.Commit();
}

}  // namespace

void CheckQueryRows(const data::TraceReader& trace) {
  if (trace.num_rows() > 0) return;
  if (trace.num_tokens() == 0) {
    throw BadInputError({.file = trace.path(),
                         .problem = "it holds no token: its capture is still running, or was cut short before the "
                                    "first was written",
                         .remedy = "wait for it, or capture it again"});
  }
  throw BadInputError({.file = trace.path(),
                       .problem = "it holds keys and values of " + std::to_string(trace.num_tokens()) +
                                  " tokens and no query rows (recorded were " + trace.layout().row_selection +
                                  " of the whole)",
                       .remedy = "capture all rows, or export a part that has some"});
}

// What dense says to a head of that size.
static kernels::Status RefusalOf(int32_t head_dim) {
  const auto head = std::make_shared<analysis::HeadTensors>();
  head->head_dim = head_dim;
  head->num_rows = head->num_tokens = 1;
  head->scale = 1;
  head->row_positions = {0};
  head->q.resize(static_cast<size_t>(head_dim));
  head->k = head->v = head->q;
  head->lse = {0};
  analysis::CompareOptions options;
  options.repeats = 1;
  options.num_threads = 1;
  analysis::MethodResult result;
  const kernels::PrefillMethod& dense = kernels::PrefillBaseline();
  return analysis::HeadComparison(head, options)
      .Run(dense.spec().name, kernels::ParameterValues(dense.spec()), &result);
}

[[noreturn]] static void RefuseSize(const std::string& source, const kernels::Status& refusal) {
  throw BadInputError({.file = source,
                       .problem = "methods cannot run on its heads (" + refusal.message() + ")",
                       .remedy = "they can be captured, analysed and drawn, so leave out what runs methods"});
}

void CheckMethodsRun(int32_t head_dim, const std::string& source) {
  const kernels::Status status = RefusalOf(head_dim);
  if (status.code() == kernels::StatusCode::kUnsupported) RefuseSize(source, status);
  CheckStatus(status, source);
}

void CheckMethodsRun(const data::TraceReader& trace, const std::vector<analysis::HeadId>& heads) {
  const auto sizes_of = [&](const std::vector<analysis::HeadId>& some) {
    std::set<int32_t> sizes;
    for (const analysis::HeadId& head : some) {
      const data::LayerFacts& facts = trace.layer(trace.LayerSlot(head.layer));
      sizes.insert({facts.head_dim, facts.v_head_dim});
    }
    return sizes;
  };
  std::map<int32_t, kernels::Status> refusals;
  const auto refused = [&](int32_t size) {
    if (!refusals.contains(size)) refusals[size] = RefusalOf(size);
    return refusals[size].code() == kernels::StatusCode::kUnsupported;
  };
  for (const int32_t size : sizes_of(heads)) {
    if (!refused(size)) {
      CheckStatus(refusals[size], trace.path());
      continue;
    }
    const std::vector<analysis::HeadId> recorded = analysis::RecordedHeads(trace);
    const auto other = std::find_if(recorded.begin(), recorded.end(), [&](const analysis::HeadId& head) {
      const std::set<int32_t> sizes = sizes_of({head});
      return std::none_of(sizes.begin(), sizes.end(), refused);
    });
    if (other == recorded.end()) RefuseSize(trace.path(), refusals[size]);
    throw UsageError({.file = trace.path(),
                      .field = "heads",
                      .problem = "methods cannot run on some of these (" + refusals[size].message() + ")",
                      .remedy = "choose others, such as " + HeadText(*other)});
  }
}

std::vector<analysis::HeadId> ChunkedAmong(const data::TraceReader& trace, const std::vector<analysis::HeadId>& heads) {
  std::vector<analysis::HeadId> chunked = heads;
  std::erase_if(chunked,
                [&](const analysis::HeadId& head) { return trace.layer(trace.LayerSlot(head.layer)).chunk == 0; });
  return chunked;
}

std::string ChunkedText(const data::TraceReader& trace, const std::vector<analysis::HeadId>& chunked) {
  const int32_t layer = chunked.front().layer;
  std::set<int32_t> layers;
  for (const analysis::HeadId& head : chunked) layers.insert(head.layer);
  const std::string of = layers.size() == 1
                             ? "layer " + std::to_string(layer)
                             : std::to_string(layers.size()) + " layers (" + std::to_string(layer) + " is the first)";
  return std::to_string(chunked.size()) + (chunked.size() == 1 ? " head of " : " heads of ") + of +
         ", where attention is in chunks of " + std::to_string(trace.layer(trace.LayerSlot(layer)).chunk) +
         " tokens: prefill methods do not support them";
}

std::string LeaveOutChunked(const data::TraceReader& trace, std::vector<analysis::HeadId>* heads) {
  const std::vector<analysis::HeadId> chunked = ChunkedAmong(trace, *heads);
  if (chunked.empty() || chunked.size() == heads->size()) return {};
  std::erase_if(*heads, [&](const analysis::HeadId& head) { return std::ranges::count(chunked, head) > 0; });
  return "left out " + ChunkedText(trace, chunked);
}

static KnownLayers LayersKnownOf(const data::TraceReader& trace) {
  const data::TraceLayout& layout = trace.layout();
  const std::vector<data::LayerKind>& kinds = layout.model.layer_kinds;
  const auto kind_of = [&](int32_t layer) {
    return kinds.empty() ? data::LayerKind::kAttention : kinds[static_cast<size_t>(layer)];
  };
  KnownLayers known{.num_layers = layout.model.num_layers};
  std::map<data::LayerKind, std::set<int32_t>> kv_heads;  // of recorded layers
  for (size_t slot = 0; slot < layout.layers.size(); ++slot) {
    kv_heads[kind_of(layout.layers[slot])].insert(layout.facts[slot].num_kv_heads);
    known.most_kv_heads = std::max(known.most_kv_heads, layout.facts[slot].num_kv_heads);
  }
  for (int32_t layer = 0; layer < known.num_layers && !known.more_possible; ++layer) {
    const data::LayerKind kind = kind_of(layer);
    const bool attends = kind != data::LayerKind::kLinear && kind != data::LayerKind::kNone;
    known.more_possible = attends && trace.LayerSlot(layer) < 0 && kv_heads[kind].size() != 1;
  }
  return known;
}

void CheckMethodIsOfModel(const std::string& method, const data::TraceReader& trace) {
  if (IsOfModel(method)) CheckIsOfModel(method, trace.path(), LayersKnownOf(trace));
}

std::function<void(const analysis::SweepProgress&)> ShowComparing(ProgressLine* line) {
  return
      [line](const analysis::SweepProgress& at) { line->Show("comparing", at.Percent(), 100, ProgressUnit::kPercent); };
}

void CheckResultsTarget(const std::string& path, bool force, const std::vector<std::string>& inputs) {
  FormatOfOutput(path, analysis::kResultFormats);
  CheckOutputTarget(path, force, inputs);
}

void WriteResults(const std::vector<analysis::HeadStatistics>& statistics, const analysis::RunOrigin& origin,
                  const std::string& path, bool force) {
  WriteThroughOutputFile(path, force,
                         [&](const std::string& file) { analysis::WriteStatistics(statistics, origin, file); });
}

void WriteResults(const std::vector<analysis::MethodResult>& results, const std::string& path, bool force) {
  WriteThroughOutputFile(path, force, [&](const std::string& file) { analysis::WriteComparison(results, file); });
}

void WriteKeptRows(const std::vector<analysis::MethodResult>& results, const std::string& path, bool force) {
  WriteThroughOutputFile(path, force, [&](const std::string& file) { analysis::WriteKeptRows(results, file); });
}

}  // namespace headscope::app
