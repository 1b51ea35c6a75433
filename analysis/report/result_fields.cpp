// SPDX-License-Identifier: Apache-2.0
#include "analysis/result_fields.h"

#include <cmath>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>

#include "analysis/types/metric_list.h"
#include "analysis/types/number_text.h"
#include "kernels/method_names.h"

namespace headscope::analysis {
namespace {

// Metrics that are elements of a list of HeadStatistics: JSON has the list, tables have a column for each element.
bool IsListElement(std::string_view metric) {
  return metric.starts_with("top_") || metric.starts_with("agreement_") || metric.starts_with("sparsity_");
}

// A number of one file reads as the same one of another, and a zero has no sign in any.
std::vector<ResultField> WithoutNegativeZeros(std::vector<ResultField> fields) {
  for (ResultField& field : fields) {
    if (auto* number = std::get_if<double>(&field.value)) *number = WithoutNegativeZero(*number);
  }
  return fields;
}

// Calls visit(column, unit, JSON pointer, member) for every field of a run: what is written and what is read are one
// list.
template <typename Result, typename Visit>
void VisitComparison(Result& result, Visit&& visit) {
  visit("layer", "", "/layer", result.head.layer);
  visit("head", "", "/head", result.head.head);
  visit("method", "", "/method", result.method);
  visit("parameters", "", "/parameters", result.parameters);
  visit("phase", "", "/phase", result.phase);
  visit("measured", "", "/measured", result.measured);
  visit("measured_heads", "", "/measured_heads", result.measured_heads);
  visit("measured_kv_heads", "", "/measured_kv_heads", result.measured_kv_heads);
  visit("chosen_per", "", "/chosen_per", result.chosen_per);
  visit("device", "", "/device", result.device);
  visit("select_device", "", "/select_device", result.select_device);
  visit("num_threads", "", "/num_threads", result.num_threads);
  visit("note", "", "/note", result.note);
  visit("kept_fraction", "share", "/kept_fraction", result.kept_fraction);
  visit("num_rows", "", "/num_rows", result.num_rows);
  visit("cra_min", "share", "/cra_min", result.cra_min);
  visit("cra_p5", "share", "/cra_p5", result.cra_p5);
  visit("cra_mean", "share", "/cra_mean", result.cra_mean);
  visit("outside_mass", "share", "/outside_mass", result.outside_mass);
  const auto visit_timing = [&visit](const std::string& name, auto& timing) {
    visit(name + "_ms", "ms", "/" + name + "/median_ms", timing.median_ms);
    visit(name + "_mad_ms", "ms", "/" + name + "/mad_ms", timing.mad_ms);
    visit(name + "_repeats", "", "/" + name + "/repeats", timing.repeats);
  };
  visit_timing("select", result.select);
  visit_timing("attend", result.attend);
  visit_timing("dense_attend", result.dense_attend);
  visit("baseline", "", "/baseline", result.baseline);
  visit("speedup", "", "/speedup", result.speedup);
  visit("bytes_allow", "", "/bytes_allow", result.bytes_allow);
  visit("dense_of_reading", "share", "/dense_of_reading", result.dense_of_reading);
  visit("relative_error", "", "/relative_error", result.relative_error);
  visit("max_error", "", "/max_error", result.max_error);
  visit("cosine", "", "/cosine", result.cosine);
  visit("kernel_error", "", "/kernel_error", result.kernel_error);
  visit("trace", "", "/trace", result.origin.trace);
  visit("model", "", "/model", result.origin.model);
  visit("measured_at", "", "/measured_at", result.origin.measured_at);
  visit("version", "", "/version", result.origin.version);
}

}  // namespace

std::vector<ResultField> StatisticsFields(const HeadStatistics& statistics) {
  std::vector<ResultField> fields = {
      {"layer", "", "/layer", int64_t{statistics.id.layer}},
      {"head", "", "/head", int64_t{statistics.id.head}},
      {"kv_head", "", "/kv_head", int64_t{statistics.kv_head}},
      {"class", "", "/class", std::string(HeadClassName(statistics.head_class))},
      {"class_reason", "", "/class_reason", statistics.class_reason},
      {"class_alternative", "", "/class_alternative", std::string(HeadClassName(statistics.class_alternative))},
      {"num_rows", "", "/num_rows", statistics.num_rows},
      {"num_tokens", "", "/num_tokens", statistics.num_tokens},
      {"device", "", "/device", statistics.device},
      {"note", "", "/note", statistics.note},
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
  return WithoutNegativeZeros(std::move(fields));
}

std::vector<ResultField> ComparisonFields(const MethodResult& measured) {
  MethodResult result = measured;
  for (Timing* const timing : {&result.select, &result.attend, &result.dense_attend}) {
    if (timing->repeats < 2) timing->mad_ms = std::numeric_limits<double>::quiet_NaN();  // one time has no spread
  }
  std::vector<ResultField> fields;
  VisitComparison(result, [&fields](std::string name, const char* unit, std::string json, const auto& value) {
    using Value = std::decay_t<decltype(value)>;
    using Stored = std::conditional_t<std::is_same_v<Value, int32_t>, int64_t, Value>;
    fields.push_back({std::move(name), unit, std::move(json), Stored{value}});
  });
  return WithoutNegativeZeros(std::move(fields));
}

MethodResult ComparisonFrom(const std::function<std::optional<FieldValue>(const ResultField& field)>& value_of) {
  MethodResult result;
  VisitComparison(result, [&value_of](std::string name, const char* unit, std::string json, auto& value) {
    using Value = std::decay_t<decltype(value)>;
    using Stored = std::conditional_t<std::is_same_v<Value, int32_t>, int64_t, Value>;
    const std::optional<FieldValue> read = value_of({std::move(name), unit, std::move(json), Stored{value}});
    if (!read) return;
    if constexpr (std::is_same_v<Value, int32_t>) {
      if (const auto* whole = std::get_if<int64_t>(&*read)) value = static_cast<int32_t>(*whole);
    } else if (const auto* same = std::get_if<Value>(&*read)) {
      value = *same;
    }
  });
  const kernels::MethodSpec* const spec = kernels::FindMethod(result.method).spec();
  result.is_baseline = spec != nullptr && spec->baseline;
  for (Timing* const timing : {&result.select, &result.attend, &result.dense_attend}) {
    if (std::isnan(timing->mad_ms)) timing->mad_ms = 0;
  }
  return result;
}

}  // namespace headscope::analysis
