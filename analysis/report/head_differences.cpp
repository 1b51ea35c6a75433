// SPDX-License-Identifier: Apache-2.0
#include "analysis/head_differences.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "analysis/types/number_text.h"
#include "data/origin_json.h"

namespace headscope::analysis {
namespace {

using Json = nlohmann::ordered_json;

Json NumberOrNull(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

std::string NumberOrNothing(double value) {
  return std::isfinite(value) ? ShortestNumber(value) : std::string();
}

std::string LinesOf(const Json& document) {
  return document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::vector<MetricDifference> DifferencesOf(const std::vector<HeadStatistics>& first,
                                            const std::vector<HeadStatistics>& second,
                                            const std::vector<MetricInfo>& metrics) {
  std::vector<MetricDifference> differences;
  for (const HeadStatistics& here : first) {
    const auto there = std::find_if(second.begin(), second.end(),
                                    [&](const HeadStatistics& statistics) { return statistics.id == here.id; });
    if (there == second.end()) continue;
    for (const MetricInfo& metric : metrics)
      differences.push_back({here.id, metric.name, MetricValue(here, metric.name), MetricValue(*there, metric.name)});
  }
  return differences;
}

std::string DifferencesJson(const ComparedPair& of, const std::vector<MetricDifference>& differences,
                            const OriginTexts& origin) {
  Json document;
  document["schema"] = "headscope-diff-1";
  if (!origin.empty()) document["origin"] = data::OriginJson(origin);
  document["first"] = of.first;
  document["second"] = of.second;
  Json& heads = document["heads"] = Json::array();
  for (const MetricDifference& difference : differences) {
    if (heads.empty() || heads.back()["layer"] != difference.head.layer || heads.back()["head"] != difference.head.head)
      heads.push_back({{"layer", difference.head.layer}, {"head", difference.head.head}, {"metrics", Json::object()}});
    heads.back()["metrics"][difference.metric] = {{"first", NumberOrNull(difference.first)},
                                                  {"second", NumberOrNull(difference.second)},
                                                  {"difference", NumberOrNull(difference.Difference())}};
  }
  return LinesOf(document);
}

std::string DifferencesCsv(const std::vector<MetricDifference>& differences, const CsvOrigin& origin) {
  std::string text = "layer,head,metric,first,second,difference" + origin.names + "\n";
  for (const MetricDifference& difference : differences) {
    text += std::to_string(difference.head.layer) + "," + std::to_string(difference.head.head) + "," +
            difference.metric + "," + NumberOrNothing(difference.first) + "," + NumberOrNothing(difference.second) +
            "," + NumberOrNothing(difference.Difference()) + origin.cells + "\n";
  }
  return text;
}

std::string OverlapsJson(const std::string& trace, const ComparedPair& methods,
                         const std::vector<HeadOverlap>& overlaps, const OriginTexts& origin) {
  Json document;
  document["schema"] = "headscope-overlap-1";
  if (!origin.empty()) document["origin"] = data::OriginJson(origin);
  document["trace"] = trace;
  document["first"] = methods.first;
  document["second"] = methods.second;
  Json& heads = document["heads"] = Json::array();
  for (const HeadOverlap& of_head : overlaps) {
    const MaskOverlap& overlap = of_head.overlap;
    heads.push_back({{"layer", of_head.head.layer},
                     {"head", of_head.head.head},
                     {"pairs", overlap.pairs},
                     {"first_alone", overlap.first_alone},
                     {"second_alone", overlap.second_alone},
                     {"both", overlap.both},
                     {"jaccard", overlap.Jaccard()}});
  }
  return LinesOf(document);
}

std::string OverlapsCsv(const std::vector<HeadOverlap>& overlaps, const CsvOrigin& origin) {
  std::string text = "layer,head,pairs,first_alone,second_alone,both,jaccard" + origin.names + "\n";
  for (const HeadOverlap& of_head : overlaps) {
    const MaskOverlap& overlap = of_head.overlap;
    text += std::to_string(of_head.head.layer) + "," + std::to_string(of_head.head.head) + "," +
            std::to_string(overlap.pairs) + "," + std::to_string(overlap.first_alone) + "," +
            std::to_string(overlap.second_alone) + "," + std::to_string(overlap.both) + "," +
            ShortestNumber(overlap.Jaccard()) + origin.cells + "\n";
  }
  return text;
}

}  // namespace headscope::analysis
