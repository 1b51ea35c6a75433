// SPDX-License-Identifier: Apache-2.0
#include "commands/tuning_progress.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>

#include "analysis/types/printable.h"
#include "base/device.h"
#include "base/errors.h"
#include "base/quoted_text.h"
#include "choices/tuning_fields.h"
#include "data/model_json.h"
#include "data/shallow_json.h"

namespace headscope::app {
namespace {

using Json = nlohmann::json;

constexpr const char* kSchema = "headscope-tuning-progress-1";

// A trace that was captured again has another size or another time of writing.
Json SourceJson(const std::vector<Tuning::Source>& sources) {
  Json json = Json::array();
  for (const Tuning::Source& source : sources) {
    std::error_code unknown;
    const auto size = std::filesystem::file_size(source.path, unknown);
    const auto written = std::filesystem::last_write_time(source.path, unknown).time_since_epoch().count();
    json.push_back({source.path, source.prompt, source.num_tokens, source.num_rows, source.first_token, size, written});
  }
  return json;
}

// What a run that goes on must have in common with the one that was stopped.
Json IdentityOf(const Tuning& tuning) {
  Json methods = Json::array();
  for (const Tuning::Searched& method : tuning.methods) {
    Json grid = Json::array();
    for (const analysis::SearchedBudget& budget : method.grid)
      grid.push_back({budget.name, budget.minimum, budget.maximum, budget.step});
    methods.push_back({method.choice.name, method.choice.values.ToString(*method.choice.spec), std::move(grid)});
  }
  Json identity = {{"schema", kSchema},
                   {"weights_sha256", tuning.model.weights_sha256},
                   {"traces", SourceJson(tuning.traces)},
                   {"checks", SourceJson(tuning.checks)},
                   {"held_out_rows", tuning.held_out_rows},
                   {"methods", std::move(methods)},
                   {"target", tuning.target.text},
                   {"per", NameOf(tuning.unit)},
                   {"criterion", static_cast<int>(tuning.criterion)}};
  // As files of older versions are, unless something else was asked for.
  if (tuning.decode_rows != Tuning().decode_rows) identity["decode_rows"] = tuning.decode_rows;
  if (tuning.in_group) identity["in_group"] = true;
  return identity;
}

// What was not measured is left out.
Json ResultJson(const kernels::MethodSpec& spec, const analysis::BudgetSearchResult& found) {
  Json json = {{"reached", found.reached}, {"values", found.values.ToString(spec)}};
  VisitQuality(found, [&json](const char*, const char* place, double number) {
    if (!std::isnan(number)) json[Json::json_pointer(place)] = number;
  });
  return json;
}

// Of a line that holds something else than this program writes; `what` is the part.
BadInputError Damaged(const char* what) {
  return BadInputError(Fault{.field = what, .problem = "it is not as a tuning writes it"});
}

// Throws BadInputError, or what nlohmann's access does, of a line that is not as ResultJson makes it.
analysis::BudgetSearchResult ResultOf(const kernels::MethodSpec& spec, const Json& json) {
  analysis::BudgetSearchResult found;
  found.reached = json.at("reached").get<bool>();
  found.values = kernels::ParameterValues(spec);
  if (!found.values.Parse(spec, json.at("values").get<std::string>()).empty()) throw Damaged("values");
  VisitQuality(found, [&json](const char*, const char* place, double& number) {
    const Json::json_pointer at(place);
    if (!std::isnan(number) || json.contains(at)) number = json.at(at).get<double>();
  });
  return found;
}

Json HeadJson(const Tuning& tuning, const TunedHead& head) {
  const kernels::MethodSpec& spec = *tuning.MethodOf(head).spec;
  Json json = {{"id", {head.id.layer, head.id.head}}, {"method", head.method}};
  VisitTunedHead(
      head,
      [&json](const char*, const char* place, const auto& value) { json[Json::json_pointer(place)] = InFile(value); },
      [&]<typename Quality>(const char*, const char* place, const Quality& quality) {
        if constexpr (std::is_same_v<Quality, analysis::BudgetSearchResult>) {
          json[Json::json_pointer(place)] = ResultJson(spec, quality);
        } else if (quality) {
          json[Json::json_pointer(place)] = ResultJson(spec, *quality);
        }
      });
  return json;
}

// Of a layer, a head or a method. Throws BadInputError.
int32_t PlaceOf(const Json& json) {
  if (!json.is_number_unsigned() || json.get<uint64_t>() > uint64_t{std::numeric_limits<int32_t>::max()})
    throw Damaged("place");
  return json.get<int32_t>();
}

void Take(const Json& json, const Json::json_pointer& at, double* value) {
  *value = json.at(at).get<double>();
}
void Take(const Json& json, const Json::json_pointer& at, std::string* text) {
  *text = analysis::Printable(json.at(at).get<std::string>());
}
void Take(const Json& json, const Json::json_pointer& at, Device* device) {
  if (!json.contains(at)) return;
  try {
    *device = ParseDevice(json.at(at).get<std::string>());
  } catch (const UsageError&) {  // nobody's option: a device that no tuning has had
    throw Damaged("device_id");
  }
}

// Throws as ResultOf.
TunedHead HeadOf(const Tuning& tuning, const Json& json) {
  TunedHead head;
  head.id = {PlaceOf(json.at("id").at(0)), PlaceOf(json.at("id").at(1))};
  head.method = static_cast<size_t>(PlaceOf(json.at("method")));
  if (head.method >= tuning.methods.size()) throw Damaged("method");
  const kernels::MethodSpec& spec = *tuning.methods[head.method].choice.spec;
  VisitTunedHead(
      head, [&json](const char*, const char* place, auto& value) { Take(json, Json::json_pointer(place), &value); },
      [&]<typename Quality>(const char*, const char* place, Quality& quality) {
        const Json::json_pointer at(place);
        if (std::is_same_v<Quality, analysis::BudgetSearchResult> || json.contains(at))
          quality = ResultOf(spec, json.at(at));
      });
  // A file of an older version has the device's name alone.
  if (!json.contains("device_id")) head.device = DeviceOfName(head.device.name);
  return head;
}

// Of a line after the first. Throws BadInputError, of the file, where it is damaged.
std::vector<TunedHead> UnitOf(const Tuning& tuning, const std::string& line, const std::string& path) {
  BadInputError damaged(
      Fault{.file = path, .problem = "a line of it is damaged", .remedy = "remove the file to start again"});
  std::vector<TunedHead> unit;
  try {
    std::optional<std::string> twice;
    const std::optional<Json> heads = data::ParseShallowJson<Json>(line, &twice);
    if (twice) {
      damaged = BadInputError(Fault{.file = path,
                                    .problem = "a line of it has the name " + Quoted(*twice) + " twice in one object",
                                    .remedy = "remove the file to start again"});
    }
    if (!heads || !heads->is_array()) throw damaged;
    for (const Json& head : *heads) unit.push_back(HeadOf(tuning, head));
  } catch (const BadInputError&) {
    throw damaged;
  } catch (const Json::exception&) {
    throw damaged;
  }
  return unit;
}

std::string Line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

TuningProgress::TuningProgress(const std::string& output, const Tuning& tuning)
    : tuning_(tuning), path_(output + ".unfinished"), claim_(path_, "tuning") {
  std::string kept = Line(IdentityOf(tuning));
  if (std::ifstream before(path_, std::ios::binary); before) {
    std::string line;
    if (std::getline(before, line) && line + "\n" != kept) {
      const std::optional<Json> json = data::ParseShallowJson<Json>(line);
      if (!json || !json->is_object() || json->value("schema", Json()) != kSchema) {
        throw BadInputError(Fault{.file = path_,
                                  .problem = "it is not the file of an interrupted tuning",
                                  .remedy = "move it away, or leave out --resume"});
      }
      throw UsageError({.file = path_,
                        .problem = "it belongs to a tuning of other traces, methods or targets",
                        .remedy = "repeat the command that was stopped, or remove that file to start again"});
    }
    while (std::getline(before, line)) {
      if (before.eof()) break;  // cut short
      std::vector<TunedHead> unit = UnitOf(tuning, line, path_);
      if (unit.empty()) continue;
      kept += line + "\n";
      const analysis::HeadId first = unit.front().id;
      done_[first] = std::move(unit);
    }
  }
  // Beside the old one, which stays until this is whole.
  const std::string fresh = path_ + ".new";
  file_.open(fresh, std::ios::binary | std::ios::trunc);
  std::error_code moved;
  if (file_ << kept << std::flush) {
    std::filesystem::rename(fresh, path_, moved);
    if (!moved) return;
  }
  const std::string why = moved ? moved.message() : std::strerror(errno);
  std::filesystem::remove(fresh, moved);
  throw FailedError(Fault{.file = path_, .problem = why, .remedy = "make room, or leave out --resume"});
}

const std::vector<TunedHead>* TuningProgress::Find(analysis::HeadId first) const {
  const auto found = done_.find(first);
  return found == done_.end() ? nullptr : &found->second;
}

size_t TuningProgress::num_heads() const {
  size_t count = 0;
  for (const auto& [first, unit] : done_) count += unit.size();
  return count;
}

void TuningProgress::Add(const std::vector<TunedHead>& unit) {
  Json json = Json::array();
  for (const TunedHead& head : unit) json.push_back(HeadJson(tuning_, head));
  const std::lock_guard lock(mutex_);
  if (!(file_ << Line(json) << std::flush))
    throw FailedError(
        Fault{.file = path_, .problem = std::strerror(errno), .remedy = "make room, or leave out --resume"});
}

void TuningProgress::Remove() {
  file_.close();
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

}  // namespace headscope::app
