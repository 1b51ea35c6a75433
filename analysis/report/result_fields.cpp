// SPDX-License-Identifier: Apache-2.0
#include "analysis/result_fields.h"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>
#include <string_view>
#include <utility>

#include "analysis/types/metric_list.h"
#include "analysis/types/number_text.h"
#include "analysis/types/printable.h"
#include "base/device.h"
#include "base/errors.h"
#include "base/quoted_text.h"
#include "kernels/method_names.h"

namespace headscope::analysis {
namespace {

// A number of one file reads as the same one of another, and a zero has no sign in any.
std::vector<ResultField> WithoutNegativeZeros(std::vector<ResultField> fields) {
  for (ResultField& field : fields) {
    if (auto* number = std::get_if<double>(&field.value)) *number = WithoutNegativeZero(*number);
  }
  return fields;
}

// As a file has a member: numbers as they are, values of ours as text.
FieldValue StoredOf(int32_t value) {
  return int64_t{value};
}
FieldValue StoredOf(int64_t value) {
  return value;
}
FieldValue StoredOf(double value) {
  return value;
}
FieldValue StoredOf(const std::string& text) {
  return text;
}
FieldValue StoredOf(kernels::Phase phase) {
  return std::string(NameOf(phase));
}
FieldValue StoredOf(const std::optional<kernels::ChosenPer>& per) {
  return per ? std::string(NameOf(*per)) : std::string();
}
FieldValue StoredOf(const std::optional<Measure>& measure) {
  return measure ? std::string(NameOf(*measure)) : std::string();
}
FieldValue StoredOf(const Device& device) {
  return DeviceText(device);
}

// The way back. `field`: whom a refusal names. What is of another type is left as it was.
void Take(const FieldValue& read, const std::string&, int32_t* value) {
  if (const auto* whole = std::get_if<int64_t>(&read)) *value = static_cast<int32_t>(*whole);
}
template <typename Value>
requires std::same_as<Value, int64_t> || std::same_as<Value, double> || std::same_as<Value, std::string>
void Take(const FieldValue& read, const std::string&, Value* value) {
  if (const auto* same = std::get_if<Value>(&read)) *value = *same;
}
template <typename Value>
void TakeNamed(const FieldValue& read, const std::string& field, std::optional<Value> (*of_name)(std::string_view),
               const std::string& known, Value* value) {
  const auto* const text = std::get_if<std::string>(&read);
  if (text == nullptr) return;
  const std::optional<Value> named = of_name(*text);
  if (!named) throw BadInputError({.field = field, .value = Quoted(*text), .problem = "it must be " + known});
  *value = *named;
}
void Take(const FieldValue& read, const std::string& field, kernels::Phase* phase) {
  TakeNamed(read, field, &kernels::PhaseOfName, "prefill or decode", phase);
}
// Nothing where the text is empty.
template <typename Value>
void TakeNamed(const FieldValue& read, const std::string& field, std::optional<Value> (*of_name)(std::string_view),
               const std::string& known, std::optional<Value>* value) {
  if (read == FieldValue(std::string())) return;
  Value named{};
  TakeNamed(read, field, of_name, known, &named);
  if (std::holds_alternative<std::string>(read)) *value = named;
}
void Take(const FieldValue& read, const std::string& field, std::optional<kernels::ChosenPer>* per) {
  TakeNamed(read, field, &kernels::ChosenPerOfName, "place, query head or KV head", per);
}
void Take(const FieldValue& read, const std::string& field, std::optional<Measure>* measure) {
  TakeNamed(read, field, &MeasureOfName, "head or layer", measure);
}
void Take(const FieldValue& read, const std::string& field, Device* device) {
  const auto* const text = std::get_if<std::string>(&read);
  if (text == nullptr) return;
  try {
    *device = ParseDevice(*text);
  } catch (const UsageError&) {
    throw BadInputError({.field = field, .value = Quoted(*text), .problem = "it must be cpu, cuda or cuda:N"});
  }
}

// Calls visit(column, unit, JSON pointer, member) for every field of a run: what is written and what is read are one
// list. `scope`: what was measured as a sentence, which files have beside the parts that it is made of.
template <typename Visit>
void VisitComparison(MethodResult& result, std::string& scope, Visit&& visit) {
  // Compiles only while these are all fields: one that is new is visited below, or files are to leave it out.
  [[maybe_unused]] auto& [head, method, is_baseline, baseline_method, parameters, phase, measured, chosen_per, device,
                          select_device, num_threads, note, kept_fraction, num_rows, cra_min, cra_p5, cra_mean, cra_p1,
                          cra_p25, cra_p50, kept_mass, outside_mass, select, attend, dense_attend, asked_repeats,
                          baseline, speedup, bytes_allow, dense_of_reading, relative_error, max_error, cosine,
                          kernel_error, origin] = result;
  visit("layer", "", "/layer", result.head.layer);
  visit("head", "", "/head", result.head.head);
  visit("method", "", "/method", result.method);
  visit("parameters", "", "/parameters", result.parameters);
  visit("phase", "", "/phase", result.phase);
  visit("measured", "", "/measured", scope);
  visit("measure", "", "/measure", result.measured.measure);
  visit("measured_heads", "", "/measured_heads", result.measured.num_qo_heads);
  visit("measured_kv_heads", "", "/measured_kv_heads", result.measured.num_kv_heads);
  visit("heads_of_layer", "", "/heads_of_layer", result.measured.heads_of_layer);
  visit("chosen_per", "", "/chosen_per", result.chosen_per);
  visit("device", "", "/device", result.device.name);
  visit("device_id", "", "/device_id", result.device.device);
  visit("select_device", "", "/select_device", result.select_device.name);
  visit("select_device_id", "", "/select_device_id", result.select_device.device);
  visit("num_threads", "", "/num_threads", result.num_threads);
  visit("note", "", "/note", result.note);
  visit("kept_fraction", "share", "/kept_fraction", result.kept_fraction);
  visit("num_rows", "", "/num_rows", result.num_rows);
  visit("cra_min", "share", "/cra_min", result.cra_min);
  visit("cra_p5", "share", "/cra_p5", result.cra_p5);
  visit("cra_mean", "share", "/cra_mean", result.cra_mean);
  visit("cra_p1", "share", "/cra_p1", result.cra_p1);
  visit("cra_p25", "share", "/cra_p25", result.cra_p25);
  visit("cra_p50", "share", "/cra_p50", result.cra_p50);
  visit("outside_mass", "share", "/outside_mass", result.outside_mass);
  const auto visit_timing = [&visit](const std::string& name, auto& timing) {
    visit(name + "_ms", "ms", "/" + name + "/median_ms", timing.median_ms);
    visit(name + "_mad_ms", "ms", "/" + name + "/mad_ms", timing.mad_ms);
    visit(name + "_repeats", "", "/" + name + "/repeats", timing.repeats);
  };
  visit_timing("select", result.select);
  visit_timing("attend", result.attend);
  visit_timing("dense_attend", result.dense_attend);
  visit("asked_repeats", "", "/asked_repeats", result.asked_repeats);
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

// The kvpress library's columns: which of its presses the run is, and the share of K and V that is let go of: as it was
// asked for, or what a step does not read. Made of the others, and not read back.
std::pair<std::string, double> PressOf(const MethodResult& result) {
  // What a method reads beside K and V may be more than what it leaves out of them. What was not measured stays NaN,
  // which a first argument of std::max does.
  const double ratio = result.phase == kernels::Phase::kDecode ? std::max(1 - 1 / result.bytes_allow, 0.0)
                                                               : std::numeric_limits<double>::quiet_NaN();
  const kernels::NamedMethod method = kernels::FindMethod(result.method);
  const kernels::MethodSpec* const spec = method.spec();
  if (spec == nullptr) return {"", ratio};
  kernels::ParameterValues values(*spec);
  if (!values.Parse(*spec, result.parameters).empty()) return {"", ratio};
  return {kernels::PressName(method, values),
          result.phase == kernels::Phase::kDecode ? kernels::AskedCompression(method, values).value_or(ratio) : ratio};
}

}  // namespace

std::vector<ResultField> StatisticsFields(const HeadStatistics& statistics, const RunOrigin& origin) {
  std::vector<ResultField> fields = {
      {"layer", "", "/layer", int64_t{statistics.id.layer}},
      {"head", "", "/head", int64_t{statistics.id.head}},
      {"kv_head", "", "/kv_head", int64_t{statistics.kv_head}},
      {"class", "", "/class", std::string(HeadClassName(statistics.head_class))},
      {"class_reason", "", "/class_reason", statistics.class_reason},
      {"class_alternative", "", "/class_alternative", std::string(HeadClassName(statistics.class_alternative))},
      {"num_rows", "", "/num_rows", statistics.num_rows},
      {"num_tokens", "", "/num_tokens", statistics.num_tokens},
      {"device", "", "/device", statistics.device.name},
      {"note", "", "/note", statistics.note},
  };
  for (const MetricInfo& metric : MetricsOf(statistics)) {
    std::string json;
    if (metric.list == MetricList::kNone) json = "/" + (metric.json_name.empty() ? metric.name : metric.json_name);
    fields.push_back({metric.name, metric.unit, std::move(json), MetricValue(statistics, metric.name)});
  }
  fields.push_back({"trace", "", "/trace", origin.trace});
  fields.push_back({"model", "", "/model", origin.model});
  fields.push_back({"written_at", "", "/written_at", origin.measured_at});
  fields.push_back({"version", "", "/version", origin.version});
  return WithoutNegativeZeros(std::move(fields));
}

std::vector<ResultField> ComparisonFields(const MethodResult& measured) {
  MethodResult result = measured;
  for (Timing* const timing : {&result.select, &result.attend, &result.dense_attend}) {
    if (timing->repeats < 2) timing->mad_ms = std::numeric_limits<double>::quiet_NaN();  // one time has no spread
  }
  std::vector<ResultField> fields;
  std::string scope = ScopeText(result.head, result.measured);
  VisitComparison(result, scope, [&fields](std::string name, const char* unit, std::string json, const auto& value) {
    fields.push_back({std::move(name), unit, std::move(json), StoredOf(value)});
  });
  const auto [press, ratio] = PressOf(result);
  fields.push_back({"press_name", "", "/press_name", press});
  fields.push_back({"compression_ratio", "share", "/compression_ratio", ratio});
  return WithoutNegativeZeros(std::move(fields));
}

MethodResult ComparisonFrom(const std::function<std::optional<FieldValue>(const ResultField& field)>& value_of) {
  MethodResult result;
  std::string scope;
  VisitComparison(result, scope, [&value_of](std::string name, const char* unit, std::string json, auto& value) {
    const std::optional<FieldValue> read = value_of({name, unit, std::move(json), StoredOf(value)});
    if (read) Take(*read, name, &value);
  });
  // Older files have the sentence alone.
  if (!result.measured.measure && !scope.empty() && !TakeScopeText(scope, &result.measured))
    throw BadInputError({.field = "measured",
                         .value = Quoted(scope),
                         .problem = "it must be as in \"layer 5: 8 heads\" or \"head 5:7 alone\"",
                         .remedy = "write it that way, or leave it out"});
  // Older files have the names of devices alone.
  for (NamedDevice* const device : {&result.device, &result.select_device}) {
    if (!device->is_gpu()) *device = DeviceOfName(device->name);
  }
  const kernels::MethodSpec* const spec = kernels::FindMethod(result.method).spec();
  result.is_baseline = spec != nullptr && spec->baseline;
  result.baseline_method = kernels::UniqueName(
      result.phase == kernels::Phase::kDecode ? kernels::DecodeBaseline().spec() : kernels::PrefillBaseline().spec());
  for (Timing* const timing : {&result.select, &result.attend, &result.dense_attend}) {
    if (std::isnan(timing->mad_ms)) timing->mad_ms = 0;
  }
  return result;
}

}  // namespace headscope::analysis
