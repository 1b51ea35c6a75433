// SPDX-License-Identifier: Apache-2.0
#include "quantised_head.h"

#include <algorithm>

#include "analysis/quantise.h"
#include "base/errors.h"
#include "base/quoted_text.h"

namespace headscope::app {
namespace {

// Every one of `all`, or those that are named.
template <typename Choice>
std::vector<Choice> Chosen(std::span<const Choice> all, const std::vector<std::string>& names) {
  std::vector<Choice> chosen;
  for (const Choice choice : all) {
    if (names.empty() || std::find(names.begin(), names.end(), analysis::NameOf(choice)) != names.end())
      chosen.push_back(choice);
  }
  if (chosen.empty())
    throw UsageError({.problem = Quoted(names.front()) + " is not known", .remedy = "choose from the pane's lists"});
  return chosen;
}

template <typename Choice>
std::vector<std::string> NamesOf(std::span<const Choice> all) {
  std::vector<std::string> names;
  for (const Choice choice : all) names.emplace_back(analysis::NameOf(choice));
  return names;
}

}  // namespace

std::vector<std::string> QuantiseFormats() {
  return NamesOf(analysis::AllNumberFormats());
}

std::vector<std::string> QuantiseScales() {
  return NamesOf(analysis::ChosenScaleGroups());
}

std::vector<ui::QuantisedOutput> QuantisedOutputs(const data::TraceReader& trace, analysis::HeadId head,
                                                  const ui::QuantiseSettings& settings,
                                                  const std::function<void(double share)>& progress,
                                                  const std::stop_token& stop) {
  analysis::QuantisationRequest request;
  request.formats = Chosen(analysis::AllNumberFormats(), settings.formats);
  request.groups = Chosen(analysis::ChosenScaleGroups(), settings.scales);
  if (settings.as_they_are) request.hadamard.push_back(false);
  if (settings.turned) request.hadamard.push_back(true);
  request.stop = stop;
  request.progress = progress;
  std::vector<ui::QuantisedOutput> outputs;
  for (const analysis::QuantisedHead& result : analysis::QuantiseHeads(trace, {head}, request)) {
    outputs.push_back({analysis::NameOf(result.quantisation.format), analysis::NameOf(result.quantisation.group),
                       result.quantisation.hadamard, result.num_rows, result.relative_error, result.max_error,
                       result.cosine, result.q_error, result.k_error, result.v_error, result.sparsity});
  }
  return outputs;
}

}  // namespace headscope::app
