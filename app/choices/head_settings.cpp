// SPDX-License-Identifier: Apache-2.0
#include "choices/head_settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/csv_text.h"
#include "analysis/types/printable.h"
#include "base/error_with_help.h"
#include "base/errors.h"
#include "base/file_format.h"
#include "base/quoted_text.h"
#include "choices/head_selection.h"
#include "choices/numpy_file.h"
#include "choices/tuning_fields.h"
#include "data/untrusted_text.h"
#include "kernels/method.h"
#include "kernels/method_names.h"

namespace headscope::app {
namespace {

using ReadJson = nlohmann::json;

constexpr size_t kMostHeads = 1 << 20;
constexpr size_t kMostRanges = 1000;
constexpr int64_t kMostTokens = int64_t{1} << 31;
constexpr int64_t kBudgetRatios = 99;
constexpr const char* kRemedy = "give a .json or .csv file of tuned heads, or MInference's best patterns";

[[noreturn]] void Refuse(const std::string& path, const std::string& field, const std::string& problem,
                         const std::string& remedy = kRemedy) {
  const Fault fault{
      .file = path, .field = analysis::Printable(field), .problem = analysis::Printable(problem), .remedy = remedy};
  if (remedy == kRemedy) throw ErrorWithHelp<BadInputError>(fault, Help::kTune);
  throw BadInputError(fault);
}

ReadJson ParseFile(const std::string& path) {
  ReadJson json = data::ReadUntrustedJson(path, kRemedy);
  if (json.is_discarded()) Refuse(path, "", "it is not JSON");
  return json;
}

// A number of a layer or head.
int32_t Place(const std::string& path, const std::string& field, const ReadJson& json) {
  if (!json.is_number_integer()) Refuse(path, field, "it is not an integer");
  const auto value = json.get<int64_t>();
  if (json.is_number_unsigned() && json.get<uint64_t>() > kMostHeads) Refuse(path, field, "it is out of range");
  if (value < 0 || value > static_cast<int64_t>(kMostHeads)) Refuse(path, field, "it is out of range");
  return static_cast<int32_t>(value);
}

void SetParameter(const std::string& path, const std::string& field, const kernels::MethodSpec& spec,
                  const std::string& name, const ReadJson& value, kernels::ParameterValues* values) {
  std::string error;
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    // A comma would begin another parameter.
    error = text.find(',') == std::string::npos ? values->Parse(spec, name + "=" + text)
                                                : Quoted(text) + " is not one value";
  } else if (value.is_boolean()) {
    error = values->Set(spec, name, value.get<bool>() ? 1 : 0);
  } else if (value.is_number()) {
    error = values->Set(spec, name, value.get<double>());
  } else {
    error = name + " is neither a number nor a name";
  }
  if (!error.empty()) Refuse(path, field, error, "correct that value");
}

void AddHead(const std::string& path, const std::string& field, analysis::HeadId id, analysis::AskedMethod asked,
             HeadSettings* settings) {
  if (!settings->emplace(id, std::move(asked)).second)
    Refuse(path, field, "head " + HeadText(id) + " appears twice", "keep only one of its entries");
}

analysis::AskedMethod AskedOf(const std::string& path, const std::string& field, const std::string& name) {
  const kernels::NamedMethod method = kernels::FindMethod(name);
  if (method.spec() == nullptr) {
    Refuse(path, field, Quoted(name) + " is not registered; known methods are " + kernels::MethodNames(),
           "name a method of this version");
  }
  return {kernels::UniqueName(*method.spec()), kernels::ParameterValues(*method.spec())};
}

// A list of heads with their methods, `of` the file's whole or of a range of lengths. `shared_method`: what an entry
// has without one of its own, schema 1's; null: none.
HeadSettings OfHeads(const std::string& path, const std::string& of, const ReadJson& json,
                     const ReadJson* shared_method) {
  const auto heads = json.find("heads");
  if (heads == json.end() || !heads->is_array()) Refuse(path, of + "heads", "it is not a list");
  if (heads->size() > kMostHeads) Refuse(path, of + "heads", "there are more than a million");
  HeadSettings settings;
  for (size_t i = 0; i < heads->size(); ++i) {
    const std::string field = of + "heads[" + std::to_string(i) + "]";
    const ReadJson& head = (*heads)[i];
    if (!head.is_object()) Refuse(path, field, "it is not an object");
    const auto value = [&](const char* name) -> const ReadJson& {
      const auto found = head.find(name);
      if (found == head.end()) Refuse(path, field, std::string("it has no ") + name);
      return *found;
    };
    const ReadJson& method = shared_method != nullptr ? *shared_method : value("method");
    if (!method.is_string()) Refuse(path, field + ".method", "it is not a name");
    analysis::AskedMethod asked = AskedOf(path, field + ".method", method.get_ref<const std::string&>());
    const kernels::MethodSpec& spec = *kernels::FindMethod(asked.name).spec();
    const ReadJson& parameters = value("parameters");
    if (!parameters.is_object()) Refuse(path, field + ".parameters", "it is not an object");
    for (const auto& [name, number] : parameters.items())
      SetParameter(path, std::string(field).append(".parameters.").append(name), spec, name, number, &asked.values);
    const analysis::HeadId id{Place(path, field + ".layer", value("layer")),
                              Place(path, field + ".head", value("head"))};
    AddHead(path, field, id, std::move(asked), &settings);
  }
  return settings;
}

LengthRange RangeOf(const std::string& path, const std::string& field, const ReadJson& json) {
  const auto number = [&](const char* name) -> int64_t {
    const auto found = json.find(name);
    if (found == json.end()) Refuse(path, field, std::string("it has no ") + name);
    if (!found->is_number_integer() || (found->is_number_unsigned() && found->get<uint64_t>() > kMostTokens) ||
        found->get<int64_t>() < 0 || found->get<int64_t>() > kMostTokens)
      Refuse(path, field + "." + name, "it is not a number of tokens");
    return found->get<int64_t>();
  };
  LengthRange range{.from = number("from_tokens")};
  if (const auto below = json.find("below_tokens"); below == json.end() || !below->is_null())
    range.below = number("below_tokens");
  if (range.below <= range.from) Refuse(path, field, "its lengths end where they begin", "correct its lengths");
  return range;
}

// Adds a range at its place among others.
void AddRange(const std::string& path, const std::string& field, RangeSettings one,
              std::vector<RangeSettings>* settings) {
  for (const RangeSettings& other : *settings) {
    if (other.range.Overlaps(one.range))
      Refuse(path, field, "some lengths are in another range as well", "correct its lengths");
  }
  const auto after =
      std::ranges::find_if(*settings, [&](const RangeSettings& other) { return other.range.from > one.range.from; });
  settings->insert(after, std::move(one));
}

// Schema 1 has one method for all heads; 2 names it with each; 3 has heads for each range of lengths.
std::vector<RangeSettings> OfTuning(const std::string& path, const ReadJson& json) {
  const auto schema = json.find("schema");
  if (schema == json.end() || !schema->is_string()) Refuse(path, "schema", "it is missing");
  const auto& version = schema->get_ref<const std::string&>();
  std::vector<RangeSettings> settings;
  if (version == "headscope-tuning-3") {
    const auto ranges = json.find("ranges");
    if (ranges == json.end() || !ranges->is_array()) Refuse(path, "ranges", "it is not a list");
    if (ranges->size() > kMostRanges) Refuse(path, "ranges", "there are more than " + std::to_string(kMostRanges));
    for (size_t i = 0; i < ranges->size(); ++i) {
      const std::string field = "ranges[" + std::to_string(i) + "]";
      const ReadJson& range = (*ranges)[i];
      if (!range.is_object()) Refuse(path, field, "it is not an object");
      AddRange(path, field, {RangeOf(path, field, range), OfHeads(path, field + ".", range, nullptr)}, &settings);
    }
    return settings;
  }
  if (version != "headscope-tuning-1" && version != "headscope-tuning-2")
    Refuse(path, "schema", Quoted(version) + " is not headscope-tuning-3, headscope-tuning-2 or headscope-tuning-1");
  const auto method = json.find("method");
  const bool shared = version == "headscope-tuning-1" && method != json.end();
  settings.push_back({{}, OfHeads(path, "", json, shared ? &*method : nullptr)});
  return settings;
}

// A table with a line for each head, as the document that says the same. An empty cell: the method has no such
// parameter, or its default; of `below_tokens`, no end. Spreadsheets may leave empty lines and columns.
ReadJson TuningOfCsv(const std::string& path, std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // spreadsheets put it before the table
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  ReadJson heads = ReadJson::array(), ranges = ReadJson::array();
  std::vector<std::string> names;
  std::vector<bool> is_result;
  size_t num_heads = 0, num_columns = 0;  // columns: with those at the end that have no name
  while (!text.empty()) {
    const size_t end = text.find('\n');  // cells of ours never hold one (analysis::CsvText)
    std::string_view line = text.substr(0, end);
    const std::vector<std::string> cells = analysis::TakeCsvRecord(&line);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (std::ranges::all_of(cells, &std::string::empty)) continue;  // an empty line, or a spreadsheet's
    if (names.empty()) {
      names = cells;
      num_columns = cells.size();
      while (names.back().empty()) names.pop_back();  // a spreadsheet's that hold nothing
      for (auto name = names.begin(); name != names.end(); ++name) {
        if (std::find(names.begin(), name, *name) != name)
          Refuse(path, "", "it has two columns " + Quoted(*name), "keep only one of them");
      }
      std::ranges::transform(names, std::back_inserter(is_result), &IsTuningResult);
      continue;
    }
    const std::string field = "heads[" + std::to_string(num_heads) + "]";
    if (++num_heads > kMostHeads) Refuse(path, "heads", "there are more than a million");
    if (cells.size() != num_columns) {
      Refuse(path, field,
             "it has " + std::to_string(cells.size()) + " cells, and the first line " + std::to_string(num_columns));
    }
    for (size_t i = names.size(); i < cells.size(); ++i) {
      if (!cells[i].empty())
        Refuse(path, field, Quoted(cells[i]) + " is in column " + std::to_string(i + 1) + ", which has no name",
               "name that column in the first line, or empty the cell");
    }
    ReadJson head = {{"parameters", ReadJson::object()}}, range = ReadJson::object();
    for (size_t i = 0; i < names.size(); ++i) {
      const std::string &cell = cells[i], &name = names[i];
      const bool is_length = name == "from_tokens" || name == "below_tokens";
      if (name == "layer" || name == "head" || is_length) {
        int64_t number = 0;
        const auto [parsed, error] = std::from_chars(cell.data(), cell.data() + cell.size(), number);
        const bool whole = error == std::errc() && parsed == cell.data() + cell.size();
        (is_length ? range : head)[name] = whole                                    ? ReadJson(number)
                                           : name == "below_tokens" && cell.empty() ? ReadJson(nullptr)
                                                                                    : ReadJson(cell);
      } else if (name == "method") {
        head[name] = cell;
      } else if (!is_result[i] && !cell.empty()) {
        head["parameters"][name] = cell;
      }
    }
    if (range.empty()) {
      heads.push_back(std::move(head));
      continue;
    }
    auto same = std::ranges::find_if(ranges, [&](const ReadJson& other) {
      return other.value("from_tokens", ReadJson()) == range.value("from_tokens", ReadJson()) &&
             other.value("below_tokens", ReadJson()) == range.value("below_tokens", ReadJson());
    });
    if (same == ranges.end()) {
      if (ranges.size() >= kMostRanges) Refuse(path, "ranges", "there are more than " + std::to_string(kMostRanges));
      range["heads"] = ReadJson::array();
      ranges.push_back(std::move(range));
      same = ranges.end() - 1;
    }
    (*same)["heads"].push_back(std::move(head));
  }
  if (!ranges.empty()) return {{"schema", "headscope-tuning-3"}, {"ranges", std::move(ranges)}};
  return {{"schema", "headscope-tuning-2"}, {"heads", std::move(heads)}};
}

const kernels::PrefillMethod* FindPattern(const std::string& name) {
  for (const kernels::PrefillMethod* const method : kernels::PrefillMethods()) {
    if (method->spec().minference.name == name) return method;
  }
  return nullptr;
}

// For each layer {"head": [name, a, b, score]}.
HeadSettings OfMInference(const std::string& path, const ReadJson& json, bool as_published) {
  HeadSettings settings;
  if (json.size() > kMostHeads) Refuse(path, "", "it has more than a million layers");
  for (size_t layer = 0; layer < json.size(); ++layer) {
    const std::string of_layer = "layer " + std::to_string(layer);
    if (!json[layer].is_object()) Refuse(path, of_layer, "it is not an object of heads");
    for (const auto& [key, entry] : json[layer].items()) {
      const std::string field = std::string(of_layer).append(", head ").append(key);
      if (key.empty() || key.size() > 6 || key.find_first_not_of("0123456789") != std::string::npos)
        Refuse(path, field, "it is not the number of a head");
      if (!entry.is_array() || entry.size() < 3 || !entry[0].is_string() || !entry[1].is_number() ||
          !entry[2].is_number())
        Refuse(path, field, "it is not [name, a, b, score]");
      const auto& name = entry[0].get_ref<const std::string&>();
      const kernels::PrefillMethod* const method = name.empty() ? nullptr : FindPattern(name);
      if (method == nullptr) Refuse(path, field, Quoted(name) + " is not a known pattern");
      const kernels::MethodSpec& spec = method->spec();
      analysis::AskedMethod asked{kernels::UniqueName(spec), kernels::ParameterValues(spec)};
      const kernels::MInferencePattern& pattern = spec.minference;
      const auto set = [&](const std::string& parameter, const ReadJson& value, int32_t least) {
        if (parameter.empty()) return;
        SetParameter(path, field, spec, parameter, value, &asked.values);
        if (as_published && asked.values.Real(parameter) < least)
          SetParameter(path, field, spec, parameter, least, &asked.values);
      };
      set(pattern.first, entry[1], pattern.least_first);
      set(pattern.second, entry[2], pattern.least_second);
      if (as_published) {
        if (const std::string error = asked.values.Parse(spec, pattern.as_published); !error.empty())
          throw FailedError(spec.name + ": " + error);
      }
      AddHead(path, field, {static_cast<int32_t>(layer), std::stoi(key)}, std::move(asked), &settings);
    }
  }
  return settings;
}

}  // namespace

std::vector<RangeSettings> ReadHeadSettings(const std::string& path, bool as_published) {
  const bool is_table = FindFileFormat(path) == FileFormat::kCsv;
  const ReadJson json = is_table ? TuningOfCsv(path, data::ReadUntrustedText(path, kRemedy)) : ParseFile(path);
  if (!json.is_object() && !json.is_array()) Refuse(path, "", "it is neither an object nor a list of layers");
  std::vector<RangeSettings> settings;
  if (json.is_object()) {
    if (as_published)
      throw UsageError(
          {.field = "minference-code",
           .problem = path + " is not a file of MInference's best patterns, and says itself what every head runs",
           .remedy = "leave it out"});
    settings = OfTuning(path, json);
  } else {
    settings.push_back({{}, OfMInference(path, json, as_published)});
  }
  if (std::ranges::all_of(settings, [](const RangeSettings& range) { return range.heads.empty(); }))
    Refuse(path, "", "it has no heads");
  return settings;
}

const HeadSettings& SettingsFor(const std::vector<RangeSettings>& settings, int64_t num_tokens,
                                const std::string& path) {
  std::string ranges;
  for (const RangeSettings& one : settings) {
    if (one.range.Holds(num_tokens)) return one.heads;
    ranges.append(ranges.empty() ? "" : ", ").append(RangeText(one.range));
  }
  throw UsageError(
      {.file = path,
       .problem = "it has no settings for a prompt of " + std::to_string(num_tokens) + " tokens, but for " + ranges,
       .remedy = "tune on traces of that length as well"});
}

bool HoldsBudgets(const std::string& path) {
  return FindFileFormat(path) == FileFormat::kNpy;
}

void CheckSettingsAreOfModel(const HeadSettings& settings, const std::string& path, const std::string& whose,
                             std::span<const int32_t> heads_of_layers) {
  for (const auto& [head, asked] : settings) {
    const bool has_layer = head.layer < std::ssize(heads_of_layers);
    const int32_t heads = has_layer ? heads_of_layers[static_cast<size_t>(head.layer)] : 0;
    if (has_layer && (heads == 0 || head.head < heads)) continue;
    throw BadInputError({.file = path,
                         .problem = "it has a setting for head " + HeadText(head) + ", and the model of " + whose +
                                    " has " +
                                    (has_layer ? std::to_string(heads) + " heads in that layer"
                                               : std::to_string(heads_of_layers.size()) + " layers"),
                         .remedy = "take the model's own file"});
  }
}

std::vector<int32_t> HeadsOfLayers(const data::TraceReader& trace) {
  std::vector<int32_t> heads(static_cast<size_t>(trace.layout().model.num_layers), 0);
  for (const int32_t layer : trace.layout().layers)
    heads[static_cast<size_t>(layer)] = trace.layer(trace.LayerSlot(layer)).num_qo_heads;
  return heads;
}

HeadSettings ReadHeadBudgets(const std::string& path, const analysis::AskedMethod& asked, int percent,
                             int32_t num_layers, std::span<const LayerHeads> layers, int64_t num_tokens,
                             int64_t* fewest) {
  static const std::string kArray =
      "give LU-KV's array of budgets, [99 ratios, layers, KV heads], of the trace's model";
  const kernels::MethodSpec& spec = *kernels::FindMethod(asked.name).spec();
  const auto budget = std::ranges::find_if(spec.parameters, [](const kernels::ParameterSpec& parameter) {
    return parameter.role == kernels::ParameterRole::kBudget && parameter.least_budget > 0;
  });
  if (budget == spec.parameters.end())
    throw UsageError({.field = "budget-method",
                      .value = spec.name,
                      .problem = "budgets per KV head are for methods that evict down to a number of tokens",
                      .remedy = "name one of these, such as snap-kv"});
  const NumpyArray array = ParseNumpyFile(data::ReadUntrustedText(path, kArray), path, kArray);
  if (array.shape.size() != 3 || array.shape[0] != kBudgetRatios)
    Refuse(path, "shape", "it is not [99, layers, KV heads]", kArray);
  HeadSettings settings;
  *fewest = 0;
  for (const LayerHeads& layer : layers) {
    if (array.shape[1] != num_layers || layer.num_kv_heads != array.shape[2]) {
      // A model whose layers differ has no array that is right for all of them.
      const bool others_fit = array.shape[1] == num_layers && std::ranges::any_of(layers, [&](const LayerHeads& other) {
                                return other.num_kv_heads == array.shape[2];
                              });
      Refuse(path, "shape",
             "it has " + std::to_string(array.shape[1]) + " layers of " + std::to_string(array.shape[2]) +
                 " KV heads, and the trace's model has " + std::to_string(num_layers) + ", layer " +
                 std::to_string(layer.number) + " with " + std::to_string(layer.num_kv_heads),
             others_fit ? "choose heads of layers with as many KV heads alone" : kArray);
    }
    for (int32_t head = 0; head < layer.num_qo_heads; ++head) {
      const int32_t kv_head = head / (layer.num_qo_heads / layer.num_kv_heads);
      const int64_t at = ((percent - 1) * array.shape[1] + layer.number) * array.shape[2] + kv_head;
      const float evicted = array.values[static_cast<size_t>(at)];
      if (!(evicted >= 0 && evicted <= 1)) {
        Refuse(path,
               "[" + std::to_string(percent - 1) + ", " + std::to_string(layer.number) + ", " +
                   std::to_string(kv_head) + "]",
               "it is not a share from 0 to 1", kArray);
      }
      const double kept = std::round((1 - static_cast<double>(evicted)) * static_cast<double>(num_tokens));
      const double least = std::max(budget->minimum, budget->least_budget);
      if (kept < least) ++*fewest;
      analysis::AskedMethod own = asked;
      if (const std::string error = own.values.Set(spec, budget->name, std::clamp(kept, least, budget->maximum));
          !error.empty())
        Refuse(path, "", error, kArray);
      AddHead(path, "", {layer.number, head}, std::move(own), &settings);
    }
  }
  return settings;
}

}  // namespace headscope::app
