#include "analysis/result_fields.h"

#include <string_view>
#include <utility>

#include "analysis/types/metric_list.h"

namespace headscope::analysis {
namespace {

// Metrics that are elements of a list of HeadStatistics: JSON has the list, tables have a column for each element.
bool IsListElement(std::string_view metric) {
  return metric.starts_with("top_") || metric.starts_with("agreement_") || metric.starts_with("sparsity_");
}

}  // namespace

std::vector<ResultField> StatisticsFields(const HeadStatistics& statistics) {
  std::vector<ResultField> fields = {
      {"layer", "", "/layer", int64_t{statistics.id.layer}},
      {"head", "", "/head", int64_t{statistics.id.head}},
      {"kv_head", "", "/kv_head", int64_t{statistics.kv_head}},
      {"class", "", "/class", std::string(HeadClassName(statistics.head_class))},
      {"class_reason", "", "/class_reason", statistics.class_reason},
      {"num_rows", "", "/num_rows", statistics.num_rows},
      {"num_tokens", "", "/num_tokens", statistics.num_tokens},
  };
  for (const MetricInfo& metric : MetricsOf(statistics)) {
    std::string json;
    if (metric.name == "entropy") {
      json = "/entropy_nats";
    } else if (!IsListElement(metric.name)) {
      json = "/" + metric.name;
    }
    fields.push_back({metric.name, metric.unit, std::move(json), MetricValue(statistics, metric.name)});
  }
  return fields;
}

std::vector<ResultField> ComparisonFields(const MethodResult& result) {
  std::vector<ResultField> fields = {
      {"layer", "", "/layer", int64_t{result.head.layer}},
      {"head", "", "/head", int64_t{result.head.head}},
      {"method", "", "/method", result.method},
      {"parameters", "", "/parameters", result.parameters},
      {"phase", "", "/phase", result.phase},
      {"device", "", "/device", result.device},
      {"select_device", "", "/select_device", result.select_device},
      {"note", "", "/note", result.note},
      {"kept_fraction", "share", "/kept_fraction", result.kept_fraction},
      {"cra_min", "share", "/cra_min", result.cra_min},
      {"cra_p5", "share", "/cra_p5", result.cra_p5},
      {"cra_mean", "share", "/cra_mean", result.cra_mean},
  };
  const std::pair<const char*, const Timing*> timings[] = {
      {"select", &result.select}, {"attend", &result.attend}, {"dense_attend", &result.dense_attend}};
  for (const auto& [name, timing] : timings) {
    const std::string column = name;
    const std::string entry = "/" + column;
    fields.push_back({column + "_ms", "ms", entry + "/median_ms", timing->median_ms});
    fields.push_back({column + "_mad_ms", "ms", entry + "/mad_ms", timing->mad_ms});
    fields.push_back({column + "_repeats", "", entry + "/repeats", int64_t{timing->repeats}});
  }
  fields.push_back({"speedup", "", "/speedup", result.speedup});
  fields.push_back({"relative_error", "", "/relative_error", result.relative_error});
  fields.push_back({"max_error", "", "/max_error", result.max_error});
  fields.push_back({"cosine", "", "/cosine", result.cosine});
  fields.push_back({"kernel_error", "", "/kernel_error", result.kernel_error});
  return fields;
}

}  // namespace headscope::analysis
