// SPDX-License-Identifier: Apache-2.0
#include "choices/tuning_files.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "analysis/types/number_text.h"
#include "analysis/types/printable.h"
#include "base/device.h"
#include "base/errors.h"
#include "base/file_format.h"
#include "base/quoted_text.h"
#include "choices/head_budgets.h"
#include "choices/head_selection.h"
#include "choices/numpy_file.h"
#include "choices/target_names.h"
#include "choices/tuning_fields.h"
#include "data/mask_file.h"
#include "data/model_json.h"
#include "data/origin_json.h"
#include "kernels/file_methods.h"
#include "support/listed.h"
#include "support/output_file.h"
#include "support/run_origin.h"

namespace headscope::app {
namespace {

using Json = nlohmann::ordered_json;
using kernels::ParameterSpec;
using kernels::ParameterType;

Json ParameterJson(const kernels::MethodSpec& spec, const kernels::ParameterValues& values) {
  Json json = Json::object();
  for (const ParameterSpec& parameter : spec.parameters) {
    switch (parameter.type) {
      case ParameterType::kInteger:
        json[parameter.name] = values.Integer(parameter.name);
        break;
      case ParameterType::kReal:
        json[parameter.name] = values.Real(parameter.name);
        break;
      case ParameterType::kFlag:
        json[parameter.name] = values.Flag(parameter.name);
        break;
      case ParameterType::kChoice:
        json[parameter.name] = ValueText(parameter, values.Real(parameter.name));
        break;
    }
  }
  return json;
}

// JSON has no NaN: what was not measured is null.
Json Measured(double value) {
  return std::isnan(value) ? Json(nullptr) : Json(value);
}

Json SourcesJson(const std::vector<Tuning::Source>& sources) {
  Json json = Json::array();
  for (const Tuning::Source& source : sources) {
    json.push_back({{"path", source.path},
                    {"prompt", source.prompt},
                    {"num_tokens", source.num_tokens},
                    {"num_rows", source.num_rows},
                    {"first_token", source.first_token}});
  }
  return json;
}

Json HeldOutJson(const Tuning& tuning) {
  return tuning.held_out_rows.empty() ? Json(nullptr) : Json(tuning.held_out_rows);
}

// How decode methods were judged; null of prefill methods.
Json DecodeJson(const Tuning& tuning) {
  if (!tuning.is_decode()) return nullptr;
  return {{"rows", tuning.decode_rows}, {"in_group", tuning.in_group}};
}

Json MethodsJson(const Tuning& tuning) {
  Json json = Json::array();
  for (const Tuning::Searched& method : tuning.methods) {
    Json grid = Json::array();
    for (const analysis::SearchedBudget& budget : method.grid) {
      const auto number = [&](double value) {
        return budget.integer ? Json(static_cast<int64_t>(value)) : Json(value);
      };
      grid.push_back({{"name", budget.name},
                      {"minimum", number(budget.minimum)},
                      {"maximum", number(budget.maximum)},
                      {"step", number(budget.step)}});
    }
    Json one = {{"name", method.choice.name}, {"grid", std::move(grid)}};
    if (tuning.target.budget.kind == analysis::BudgetTarget::Kind::kWork)
      one["start"] = ParameterJson(*method.choice.spec, method.choice.values);
    json.push_back(std::move(one));
  }
  return json;
}

void AddQuality(const analysis::SettingQuality& quality, Json* json) {
  VisitQuality(quality, [json](const char* name, const char*, double number) { (*json)[name] = Measured(number); });
}

Json HeadsJson(const Tuning& tuning) {
  Json json = Json::array();
  for (const TunedHead& head : tuning.heads) {
    const MethodChoice& method = tuning.MethodOf(head);
    Json one = {{"layer", head.id.layer},
                {"head", head.id.head},
                {"method", method.name},
                {kTargetMet, head.found.reached},
                {"parameters", ParameterJson(*method.spec, head.found.values)}};
    AddQuality(head.found, &one);
    if (head.checked) {
      Json checked = {{kTargetMet, head.checked->reached}};
      AddQuality(*head.checked, &checked);
      one["checked"] = std::move(checked);
    }
    VisitTunedHead(
        head, [&one](const char* name, const char*, const auto& value) { one[name] = InFile(value); },
        [](const char*, const char*, const auto&) {});
    json.push_back(std::move(one));
  }
  return json;
}

Json FrontsJson(const Tuning& tuning) {
  Json json = Json::array();
  for (const TunedFront& front : tuning.fronts) {
    const MethodChoice& method = tuning.methods[front.method].choice;
    const std::vector<bool> undominated = Undominated(tuning, front);
    Json heads = Json::array(), points = Json::array();
    for (const analysis::HeadId& head : front.heads) heads.push_back({head.layer, head.head});
    for (size_t i = 0; i < front.points.size(); ++i) {
      const analysis::TradeOffPoint& point = front.points[i];
      points.push_back({{"parameters", ParameterJson(*method.spec, point.values)},
                        {"kept_fraction", point.kept_fraction},
                        {"cra_mean", point.cra_mean},
                        {"relative_error", Measured(point.relative_error)},
                        {"time_share", Measured(point.time_share)},
                        {"undominated", static_cast<bool>(undominated[i])}});
    }
    json.push_back({{"heads", std::move(heads)}, {"method", method.name}, {"points", std::move(points)}});
  }
  return json;
}

Json TargetJson(const TuneTarget& target) {
  if (target.limit)
    return {{"statistic", TargetField(target.budget)},
            {"of", target.limit->name + ":" + target.limit->values.ToString(*target.limit->spec)}};
  const bool mass = target.budget.kind == analysis::BudgetTarget::Kind::kMass;
  return {{"statistic", TargetField(target.budget)}, {"value", mass ? target.budget.mass : target.budget.most}};
}

// Names and prompts come from files, which may hold anything: what is not UTF-8 is shown by U+FFFD.
std::string Dumped(const Json& json) {
  return analysis::PrintableJson(json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace)) + "\n";
}

// What differs between ranges of lengths.
void AddFound(const Tuning& tuning, Json* json) {
  (*json)["heads"] = HeadsJson(tuning);
  if (!tuning.fronts.empty()) (*json)["fronts"] = FrontsJson(tuning);
}

// Of all ranges' traces.
CsvColumns Origin(std::span<const Tuning> by_range) {
  std::vector<std::string> traces;
  for (const Tuning& tuning : by_range) {
    for (const Tuning::Source& source : tuning.traces) traces.push_back(source.path);
  }
  return OriginColumns(OriginOf(traces, {by_range.front().model.name}));
}

std::string JsonFile(const Tuning& tuning) {
  Json json = {{"schema", "headscope-tuning-2"},
               {"origin", data::OriginJson(Origin({&tuning, 1}))},
               {"complete", tuning.complete()},
               {"num_heads_chosen", tuning.num_heads_chosen},
               {"model", data::ModelJson(tuning.model)},
               {"traces", SourcesJson(tuning.traces)},
               {"checks", SourcesJson(tuning.checks)},
               {"held_out_rows", HeldOutJson(tuning)},
               {"methods", MethodsJson(tuning)},
               {"target", TargetJson(tuning.target)},
               {"per", NameOf(tuning.unit)},
               {"decode", DecodeJson(tuning)}};
  AddFound(tuning, &json);
  return Dumped(json);
}

std::string JsonFile(std::span<const Tuning> by_range) {
  const Tuning& first = by_range.front();
  Json ranges = Json::array();
  for (const Tuning& tuning : by_range) {
    const int64_t below = tuning.range.below;
    Json range = {{"from_tokens", tuning.range.from},
                  {"below_tokens", below == LengthRange::kNoEnd ? Json(nullptr) : Json(below)},
                  {"traces", SourcesJson(tuning.traces)},
                  {"checks", SourcesJson(tuning.checks)},
                  {"held_out_rows", HeldOutJson(tuning)},
                  {"methods", MethodsJson(tuning)}};
    AddFound(tuning, &range);
    ranges.push_back(std::move(range));
  }
  return Dumped({{"schema", "headscope-tuning-3"},
                 {"origin", data::OriginJson(Origin(by_range))},
                 {"complete", std::ranges::all_of(by_range, &Tuning::complete)},
                 {"num_heads_chosen", first.num_heads_chosen},
                 {"model", data::ModelJson(first.model)},
                 {"target", TargetJson(first.target)},
                 {"per", NameOf(first.unit)},
                 {"decode", DecodeJson(first)},
                 {"ranges", std::move(ranges)}});
}

std::string Cell(double number) {
  return std::isnan(number) ? "" : analysis::ShortestNumber(number);
}
std::string Cell(const std::string& text) {
  return text;
}
std::string Cell(const Device& device) {
  return DeviceText(device);
}

// Calls add(name, cell) for every column between the parameters and `complete`. `checked`: with those of held-out rows
// or traces, which are empty where the head was not tried there.
template <typename Add>
void ResultCells(const TunedHead& head, bool checked, const Add& add) {
  const auto add_numbers = [&add](const std::string& prefix, const analysis::SettingQuality& quality, bool is_known) {
    VisitQuality(quality, [&](const char* name, const char*, double number) {
      add(prefix + name, is_known ? Cell(number) : std::string());
    });
  };
  const auto add_quality = [&]<typename Quality>(const char* prefix, const char*, const Quality& quality) {
    if constexpr (std::is_same_v<Quality, analysis::BudgetSearchResult>) {
      add_numbers(prefix, quality, true);  // its target_met stands before the parameters
    } else if (checked) {
      const std::string met = !quality ? "" : quality->reached ? "1" : "0";
      add(std::string(prefix) + kTargetMet, met);
      add_numbers(prefix, quality.value_or(analysis::BudgetSearchResult()), quality.has_value());
    }
  };
  VisitTunedHead(
      head, [&add](const char* name, const char*, const auto& value) { add(name, Cell(value)); }, add_quality);
}

// The parameters of all methods, each name once; a head has a value where its method has the parameter. What belongs to
// the whole run is left out, but for `complete` and where it is from. `ranged`: with the lengths that a line is for; an
// empty cell is no end.
std::string CsvFile(std::span<const Tuning> by_range, bool ranged) {
  std::vector<std::string> names;
  for (const Tuning::Searched& method : by_range.front().methods) {
    for (const ParameterSpec& parameter : method.choice.spec->parameters) {
      if (std::find(names.begin(), names.end(), parameter.name) == names.end()) names.push_back(parameter.name);
    }
  }
  const bool complete = std::ranges::all_of(by_range, &Tuning::complete);
  const bool checked = std::ranges::any_of(by_range, [](const Tuning& tuning) { return !tuning.checks.empty(); });
  std::string csv = std::string(ranged ? "from_tokens,below_tokens," : "") + "layer,head,method," + kTargetMet;
  for (const std::string& name : names) csv.append(",").append(name);
  ResultCells(TunedHead(), checked, [&csv](const std::string& name, const std::string&) { csv.append(",") += name; });
  csv.append(",").append(kComplete).append(CsvOriginOf(Origin(by_range)).names).append("\n");
  const auto add_head = [&](const Tuning& tuning, const TunedHead& head, const std::string& from) {
    const MethodChoice& method = tuning.MethodOf(head);
    if (ranged) {
      csv += std::to_string(tuning.range.from) + ',';
      if (tuning.range.below != LengthRange::kNoEnd) csv += std::to_string(tuning.range.below);
      csv += ',';
    }
    csv += std::to_string(head.id.layer) + ',' + std::to_string(head.id.head) + ',' + method.name + ',';
    csv += head.found.reached ? '1' : '0';
    for (const std::string& name : names) {
      csv += ',';
      for (const ParameterSpec& parameter : method.spec->parameters) {
        if (parameter.name == name) csv += ValueText(parameter, head.found.values.Real(name));
      }
    }
    ResultCells(head, checked, [&csv](const std::string&, const std::string& cell) { csv.append(",") += cell; });
    csv.append(complete ? ",1" : ",0").append(from).append("\n");
  };
  for (const Tuning& tuning : by_range) {
    const std::string from = CsvOriginOf(Origin({&tuning, 1})).cells;
    for (const TunedHead& head : tuning.heads) add_head(tuning, head, from);
  }
  return csv;
}

// heads[layer][head], which are all there (CheckTuningFormat).
std::vector<std::vector<const TunedHead*>> WholeModel(const Tuning& tuning) {
  std::vector<std::vector<const TunedHead*>> heads;
  for (const Tuning::Layer& layer : tuning.layers) heads.emplace_back(static_cast<size_t>(layer.num_qo_heads), nullptr);
  for (const TunedHead& head : tuning.heads)
    heads.at(static_cast<size_t>(head.id.layer)).at(static_cast<size_t>(head.id.head)) = &head;
  return heads;
}

// The score, which MInference keeps beside a pattern and never reads, is the mean kept mass.
std::string MInferenceFile(const Tuning& tuning) {
  Json layers = Json::array();
  for (const auto& heads : WholeModel(tuning)) {
    Json layer = Json::object();
    for (const TunedHead* const head : heads) {
      const kernels::MInferencePattern& pattern = tuning.MethodOf(*head).spec->minference;
      const auto number = [&](const std::string& name) { return name.empty() ? 0 : head->found.values.Integer(name); };
      layer[std::to_string(head->id.head)] = {pattern.name, number(pattern.first), number(pattern.second),
                                              head->found.mass.mean};
    }
    layers.push_back(std::move(layer));
  }
  return layers.dump() + "\n";
}

// A KV head's share is the largest one that a query head of its group keeps: the less it keeps, the sooner it may
// stream.
std::string DuoAttentionFile(const Tuning& tuning) {
  std::string text;
  for (const auto& heads : WholeModel(tuning)) {
    const Tuning::Layer& layer = tuning.layers[static_cast<size_t>(heads.front()->id.layer)];
    const auto group = static_cast<size_t>(layer.num_qo_heads / layer.num_kv_heads);
    for (size_t first = 0; first < heads.size(); first += group) {
      double share = 0;
      for (size_t i = first; i < std::min(first + group, heads.size()); ++i)
        share = std::max(share, heads[i]->found.kept_fraction);
      text += (first == 0 ? "" : "\t") + analysis::ShortestNumber(share);
    }
    text += "\n";
  }
  return text;
}

// Of the only method's trade-offs, one a query head: a KV head keeps what its query heads keep on average.
std::string LuKvFile(const Tuning& tuning) {
  const std::string& budget = analysis::Budgets(*tuning.methods.front().choice.spec).front()->name;
  std::vector<HeadCurve> curves;
  for (const auto& heads : WholeModel(tuning)) {
    const Tuning::Layer& layer = tuning.layers[static_cast<size_t>(heads.front()->id.layer)];
    const auto group = static_cast<size_t>(layer.num_qo_heads / layer.num_kv_heads);
    for (size_t place = 0; place < heads.size(); ++place) {
      if (place % group == 0) curves.emplace_back();
      HeadCurve& curve = curves.back();
      const auto front = std::ranges::find(tuning.fronts, std::vector{heads[place]->id}, &TunedFront::heads);
      if (front == tuning.fronts.end())
        throw FailedError({.field = "head",
                           .value = HeadText(heads[place]->id),
                           .problem = "its trade-off is not known",
                           .remedy = "tune the heads again"});
      // Heads of one layer have the same budgets: what is kept in any case is the same.
      curve.tokens.resize(front->points.size());
      curve.mass.resize(front->points.size(), 0.0);
      for (size_t i = 0; i < front->points.size(); ++i) {
        curve.tokens[i] = front->points[i].values.Real(budget);
        curve.mass[i] += front->points[i].cra_mean / static_cast<double>(group);
      }
    }
  }
  std::vector<float> values;
  for (const std::vector<double>& ratio : ShareOutTokens(curves, static_cast<double>(tuning.traces.front().num_tokens)))
    for (const double share : ratio) values.push_back(static_cast<float>(share));
  const int64_t layers = tuning.model.num_layers;
  return NumpyFile({.shape = {99, layers, static_cast<int64_t>(curves.size()) / layers}, .values = std::move(values)});
}

struct Format {
  TuningFormatInfo info;
  std::string (*write)(const Tuning& tuning);
};
constexpr std::array kFormats = {
    Format{.info = {.format = TuningFormat::kJson,
                    .name = "json",
                    .file = FileFormat::kJson,
                    .title = "Configuration",
                    .help = "schema headscope-tuning-2 or, of ranges, -3, which compare reads"},
           .write = &JsonFile},
    Format{.info = {.format = TuningFormat::kCsv,
                    .name = "csv",
                    .file = FileFormat::kCsv,
                    .title = "Table",
                    .help = "a line for each head, which compare reads"},
           .write =
               [](const Tuning& tuning) {
                 return CsvFile({&tuning, 1}, /*ranged=*/false);
               }},
    Format{.info = {.format = TuningFormat::kMInference,
                    .name = "minference",
                    .file = FileFormat::kJson,
                    .title = "MInference's best patterns",
                    .help = "MInference's best patterns"},
           .write = &MInferenceFile},
    Format{.info = {.format = TuningFormat::kDuoAttention,
                    .name = "duo-attention",
                    .file = FileFormat::kTsv,
                    .title = "DuoAttention's heads",
                    .help = "DuoAttention's full_attention_heads.tsv"},
           .write = &DuoAttentionFile},
    Format{.info = {.format = TuningFormat::kLuKv,
                    .name = "lu-kv",
                    .file = FileFormat::kNpy,
                    .title = "LU-KV's budgets",
                    .help = "LU-KV's budgets"},
           .write = &LuKvFile},
};

constexpr std::array kInfos = [] {
  std::array<TuningFormatInfo, kFormats.size()> infos{};
  for (size_t i = 0; i < infos.size(); ++i) infos[i] = kFormats[i].info;
  return infos;
}();
constexpr const TuningFormatInfo& InfoOf(TuningFormat format) {
  return kInfos[static_cast<size_t>(format)];
}
static_assert(kInfos.size() == static_cast<size_t>(TuningFormat::kLuKv) + 1 &&
              std::ranges::all_of(kInfos, [](const auto& info) { return &InfoOf(info.format) == &info; }));

Fault FormatFault(TuningFormat format, const std::string& problem, const std::string& remedy) {
  return {.field = "format", .value = InfoOf(format).name, .problem = problem, .remedy = remedy};
}

std::vector<const kernels::MethodSpec*> SpecsOf(const Tuning& tuning) {
  std::vector<const kernels::MethodSpec*> specs;
  for (const Tuning::Searched& method : tuning.methods) specs.push_back(method.choice.spec);
  return specs;
}

// The files have two numbers for a head: everything else is as whoever reads them has it.
void CheckMInferenceValues(const MethodChoice& choice) {
  const kernels::MethodSpec& spec = *choice.spec;
  const kernels::ParameterValues defaults(spec);
  for (const kernels::ParameterSpec& parameter : spec.parameters) {
    const std::string& name = parameter.name;
    if (name == spec.minference.first || name == spec.minference.second) continue;
    if (choice.values.Real(name) == defaults.Real(name)) continue;
    throw UsageError(FormatFault(TuningFormat::kMInference,
                                 "MInference's files cannot express " + name + "=" +
                                     ValueText(parameter, choice.values.Real(name)) + " of " + spec.name,
                                 "leave it out, or give another format"));
  }
}

}  // namespace

std::span<const TuningFormatInfo> TuningFormats() {
  return kInfos;
}

TuningFormat ChooseTuningFormat(const std::string& name, const std::string& path) {
  for (const TuningFormatInfo& known : kInfos) {
    if (name == known.name) return known.format;
  }
  if (!name.empty()) {
    throw UsageError({.field = "format",
                      .value = Quoted(name),
                      .problem = "it is not known",
                      .remedy = "choose " + Listed(kInfos, &TuningFormatInfo::name)});
  }
  std::vector<FileFormat> files;
  for (const TuningFormatInfo& known : kInfos) {
    if (std::ranges::find(files, known.file) == files.end()) files.push_back(known.file);
  }
  return std::ranges::find(kInfos, FormatOfOutput(path, files), &TuningFormatInfo::file)->format;
}

bool SharesOutBudgets(const std::vector<const kernels::MethodSpec*>& methods, TunedUnit unit) {
  return methods.size() == 1 && unit == TunedUnit::kHead &&
         analysis::Budgets(*methods.front()).front()->least_budget > 0;
}

void CheckTuningFormat(TuningFormat format, const Tuning& tuning, const std::vector<analysis::HeadId>& heads) {
  for (const Tuning::Searched& method : tuning.methods) {
    const kernels::MethodSpec& spec = *method.choice.spec;
    if (format == TuningFormat::kMInference && spec.minference.name.empty())
      throw UsageError(FormatFault(format, "MInference's files cannot express " + spec.name,
                                   "give MInference's methods, or another format"));
    if (format == TuningFormat::kMInference) CheckMInferenceValues(method.choice);
    if (format == TuningFormat::kDuoAttention && !spec.IsStatic())
      throw UsageError(FormatFault(format,
                                   "its files say which heads may stream, but " + spec.name + " chooses by the tensors",
                                   "give a method that selects by position, such as a-shape"));
  }
  if (format == TuningFormat::kLuKv) {
    const std::vector<const kernels::MethodSpec*> methods = SpecsOf(tuning);
    if (!SharesOutBudgets(methods, TunedUnit::kHead)) {
      throw UsageError(FormatFault(format, "its file says how many of a prompt's tokens each KV head keeps",
                                   "give one method that evicts by a budget, such as expected-attention"));
    }
    if (tuning.traces.size() > 1 || !SharesOutBudgets(methods, tuning.unit))
      throw UsageError(FormatFault(format, "budgets are shared out between the heads of one trace",
                                   "give one trace, and tune per head"));
  }
  if (format == TuningFormat::kJson || format == TuningFormat::kCsv) return;
  for (int32_t number = 0; number < tuning.model.num_layers; ++number) {
    const auto layer = std::ranges::find(tuning.layers, number, &Tuning::Layer::number);
    if (layer == tuning.layers.end()) {
      throw UsageError(FormatFault(format,
                                   "the file has a place for every layer of the model, and layer " +
                                       std::to_string(number) + " is not in the trace",
                                   "tune a trace of all layers, or write .json"));
    }
    for (int32_t head = 0; head < layer->num_qo_heads; ++head) {
      if (std::ranges::find(heads, analysis::HeadId{number, head}) != heads.end()) continue;
      throw UsageError(FormatFault(format,
                                   "the file has a place for every head of the model, and " + HeadText({number, head}) +
                                       " is not among those to tune",
                                   "tune all heads of a trace that has them all"));
    }
    if ((format == TuningFormat::kDuoAttention || format == TuningFormat::kLuKv) &&
        layer->num_kv_heads != tuning.layers.front().num_kv_heads) {
      throw UsageError(FormatFault(format,
                                   "the file is a table with the same number of columns for every layer, but layer " +
                                       std::to_string(number) + " has " + std::to_string(layer->num_kv_heads) +
                                       " KV heads where layer 0 has " +
                                       std::to_string(tuning.layers.front().num_kv_heads),
                                   "write .json, or MInference's format"));
    }
  }
}

std::string TuningFile(const Tuning& tuning, TuningFormat format) {
  return kFormats[static_cast<size_t>(format)].write(tuning);
}

std::string TuningFile(std::span<const Tuning> by_range, TuningFormat format) {
  CheckRangeFormat(format);
  return format == TuningFormat::kCsv ? CsvFile(by_range, /*ranged=*/true) : JsonFile(by_range);
}

std::optional<FileBeside> FileBesideTuning(TuningFormat format, const std::string& path) {
  const std::filesystem::path file(path);
  if (format != TuningFormat::kDuoAttention || file.filename() != "full_attention_heads.tsv") return {};
  const std::string beside = (file.parent_path() / "config.json").string();
  if (std::filesystem::exists(beside)) {
    if (data::ReadStreamingSizes(path)) return {};
    throw UsageError(OutputFault(path,
                                 "DuoAttention's library reads sink_size and recent_size from the config.json beside "
                                 "it, and the one in that folder has none",
                                 "write into another folder, or give the file another name"));
  }
  // Those that the numbers are read with where no file says others.
  const kernels::StreamingTokens usual;
  return FileBeside{beside, Dumped({{"sink_size", usual.sink}, {"recent_size", usual.local}})};
}

void CheckRangeFormat(TuningFormat format) {
  if (format == TuningFormat::kJson || format == TuningFormat::kCsv) return;
  throw UsageError({.field = "format",
                    .problem = "the file has one setting for a head, whatever the prompt's length",
                    .remedy = "write .json or .csv, or tune without ranges"});
}

}  // namespace headscope::app
