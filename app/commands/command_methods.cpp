// SPDX-License-Identifier: Apache-2.0
// headscope methods [NAME] [--json]: the registry, as the window's sliders and the tuner see it.
#include <algorithm>
#include <iomanip>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/errors.h"
#include "base/quoted_text.h"
#include "choices/file_kinds.h"
#include "commands/command.h"
#include "commands/common_options.h"
#include "kernels/method_names.h"
#include "kernels/spec_names.h"
#include "support/exit_codes.h"
#include "support/output_file.h"

namespace headscope::app {
namespace {

using kernels::MethodSpec;
using kernels::ParameterSpec;
using kernels::ParameterType;

std::vector<const MethodSpec*> AllSpecs() {
  std::vector<const MethodSpec*> specs;
  for (const kernels::PrefillMethod* method : kernels::PrefillMethods()) specs.push_back(&method->spec());
  for (const kernels::DecodeMethod* method : kernels::DecodeMethods()) specs.push_back(&method->spec());
  return specs;
}

const char* TypeName(ParameterType type) {
  switch (type) {
    case ParameterType::kInteger:
      return "integer";
    case ParameterType::kReal:
      return "real";
    case ParameterType::kFlag:
      return "flag";
    case ParameterType::kChoice:
      break;
  }
  return "choice";
}

const char* BoundName(kernels::Bound bound) {
  switch (bound) {
    case kernels::Bound::kSeqLen:
      return "seq_len";
    case kernels::Bound::kBlocks:
      return "blocks";
    case kernels::Bound::kHeadDim:
      return "head_dim";
    case kernels::Bound::kNothing:
      break;
  }
  return "nothing";
}

const char* RoleName(kernels::ParameterRole role) {
  switch (role) {
    case kernels::ParameterRole::kBudget:
      return "budget";
    case kernels::ParameterRole::kMassShare:
      return "mass_share";
    case kernels::ParameterRole::kAmount:
      return "amount";
    case kernels::ParameterRole::kOther:
      break;
  }
  return "other";
}

std::string Number(double value) {
  std::ostringstream text;
  text << std::setprecision(7) << value;
  return text.str();
}

std::string ValueAsTyped(const ParameterSpec& parameter, double value) {
  return parameter.type == ParameterType::kChoice ? ValueText(parameter, value) : Number(value);
}

// "1 .. 64 chunks", or what there is to choose from.
std::string RangeText(const ParameterSpec& parameter) {
  std::string text;
  if (parameter.type == ParameterType::kChoice) {
    for (const std::string& choice : parameter.choices) text += (text.empty() ? "" : " | ") + choice;
    return text;
  }
  if (parameter.type == ParameterType::kFlag) return "0 | 1";
  const std::string unit = UnitText(parameter);
  return Number(parameter.minimum) + " .. " + Number(parameter.maximum) + (unit.empty() ? "" : " " + unit);
}

// "selector=quest"; empty: it always says something.
std::string ConditionText(const MethodSpec& spec, const ParameterSpec& parameter) {
  for (const ParameterSpec& other : spec.parameters) {
    if (other.name == parameter.only_with) return other.name + "=" + ValueText(other, parameter.only_at);
  }
  return {};
}

nlohmann::ordered_json ToJson(const MethodSpec& spec, const ParameterSpec& parameter) {
  nlohmann::ordered_json json = {{"name", parameter.name},
                                 {"type", TypeName(parameter.type)},
                                 {"default", parameter.default_value},
                                 {"minimum", parameter.minimum},
                                 {"maximum", parameter.maximum},
                                 {"step", parameter.step},
                                 {"logarithmic", parameter.logarithmic},
                                 {"unit", UnitText(parameter)},
                                 {"help", parameter.help},
                                 {"cost", parameter.cost},
                                 {"role", RoleName(parameter.role)},
                                 {"bound", BoundName(BoundOf(parameter.unit))},
                                 {"tokens_per_unit", parameter.tokens_per_unit},
                                 {"scaled_floor", parameter.scaled_floor}};
  if (parameter.type == ParameterType::kChoice) json["choices"] = parameter.choices;
  if (!parameter.instead_of.empty()) json["instead_of"] = parameter.instead_of;
  if (const std::string condition = ConditionText(spec, parameter); !condition.empty()) json["only_with"] = condition;
  return json;
}

// The single settings with which a step cannot be had without those before, of a method that at its defaults has no
// such need: "selector=infllm".
std::vector<std::string> SettingsWithHistory(const kernels::DecodeMethod& method) {
  const MethodSpec& spec = method.spec();
  std::vector<std::string> settings;
  if (method.NeedsHistory(kernels::ParameterValues(spec))) return settings;
  for (const ParameterSpec& parameter : spec.parameters) {
    if (parameter.type != ParameterType::kChoice && parameter.type != ParameterType::kFlag) continue;
    for (double value = parameter.minimum; value <= parameter.maximum; ++value) {
      kernels::ParameterValues values(spec);
      values.Set(spec, parameter.name, value);
      if (method.NeedsHistory(values)) settings.push_back(parameter.name + "=" + ValueText(parameter, value));
    }
  }
  return settings;
}

nlohmann::ordered_json ToJson(const MethodSpec& spec) {
  nlohmann::ordered_json parameters = nlohmann::ordered_json::array(), presses = nlohmann::ordered_json::array();
  for (const ParameterSpec& parameter : spec.parameters) parameters.push_back(ToJson(spec, parameter));
  for (const kernels::KvpressEntry& entry : spec.kvpress)
    presses.push_back({{"name", entry.name}, {"parameters", entry.values}});
  const kernels::DecodeMethod* const decode =
      spec.phase == kernels::Phase::kDecode ? kernels::FindDecodeMethod(spec.name) : nullptr;
  const bool needs_history = decode != nullptr && decode->NeedsHistory(kernels::ParameterValues(spec));
  const std::vector<std::string> with_history =
      decode != nullptr ? SettingsWithHistory(*decode) : std::vector<std::string>{};
  return {{"name", spec.name},
          {"option", kernels::UniqueName(spec)},
          {"title", spec.title},
          {"family", spec.family},
          {"paper", spec.paper},
          {"summary", spec.summary},
          {"always_keeps", spec.always_keeps},
          {"selection_cost", spec.selection_cost},
          {"phase", NameOf(spec.phase)},
          {"traits",
           {{"baseline", spec.baseline},
            {"static", spec.IsStatic()},
            {"chosen_per", NameOf(spec.chosen_per)},
            {"keeps_state", spec.keeps_state},
            {"needs_history", needs_history},
            {"needs_history_with", with_history},
            {"reads_v", spec.reads_v},
            {"reads_output", spec.reads_output},
            {"gives_candidates", spec.gives_candidates},
            {"minference_pattern", spec.minference.name}}},
          {"kvpress", presses},
          {"parameters", parameters}};
}

// Two spaces behind the longest of some names.
template <typename Items, typename NameOfItem>
int ColumnWidth(const Items& items, const NameOfItem& name_of) {
  size_t longest = 0;
  for (const auto& item : items) longest = std::max(longest, name_of(item).size());
  return static_cast<int>(longest) + 2;
}

// A choice and a switch are not raised.
std::string CostText(const ParameterSpec& parameter) {
  return (parameter.type == ParameterType::kInteger || parameter.type == ParameterType::kReal ? "Raising it: "
                                                                                              : "Cost: ") +
         parameter.cost;
}

void Describe(const MethodSpec& spec, std::ostream& out) {
  out << kernels::UniqueName(spec) << " (" << NameOf(spec.phase) << "): " << spec.title << "\n  " << spec.summary
      << "\n  always kept: " << spec.always_keeps << "\n  selecting: " << spec.selection_cost
      << "\n  source: " << spec.paper << '\n';
  const int width = ColumnWidth(spec.parameters, [](const ParameterSpec& parameter) { return parameter.name; });
  for (const ParameterSpec& parameter : spec.parameters) {
    out << "  " << std::left << std::setw(width) << parameter.name << "default " << std::setw(8)
        << ValueAsTyped(parameter, parameter.default_value) << ' ' << RangeText(parameter) << "\n      "
        << parameter.help << (parameter.cost.empty() ? "" : ". " + CostText(parameter));
    if (const std::string condition = ConditionText(spec, parameter); !condition.empty()) out << ". With " << condition;
    out << '\n';
  }
}

int ListMethods(const std::string& name, bool json) {
  std::vector<const MethodSpec*> chosen;
  for (const MethodSpec* spec : AllSpecs()) {
    if (name.empty() || spec->name == name || kernels::UniqueName(*spec) == name) chosen.push_back(spec);
  }
  if (const auto kind = std::ranges::find(FileKinds(), kernels::WithoutPhase(name), &FileKind::name);
      chosen.empty() && kind != FileKinds().end()) {
    throw UsageError({.problem = "method " + Quoted(name) + " is read from a file: " + kind->help,
                      .remedy = "write " + name + ":path=FILE where a method is expected"});
  }
  if (chosen.empty())
    throw UsageError({.problem = "method " + Quoted(name) + " is not registered",
                      .remedy = "`headscope methods` lists those that are"});
  std::ostringstream out;
  if (json) {
    nlohmann::ordered_json methods = nlohmann::ordered_json::array();
    for (const MethodSpec* spec : chosen) methods.push_back(ToJson(*spec));
    out << nlohmann::ordered_json{{"schema", "headscope-methods-1"}, {"methods", methods}}.dump(2) << '\n';
  } else if (!name.empty()) {
    for (const MethodSpec* spec : chosen) Describe(*spec, out);
  } else {
    const int width = ColumnWidth(chosen, [](const MethodSpec* spec) { return kernels::UniqueName(*spec); });
    for (const MethodSpec* spec : chosen) {
      out << std::left << std::setw(width) << kernels::UniqueName(*spec) << std::setw(9) << NameOf(spec->phase)
          << spec->summary << '\n';
    }
    for (const FileKind& kind : FileKinds()) {
      out << kind.name << ":path=FILE  " << kind.help << '\n';
      if (kind.decodes) out << kernels::DecodeName(kind.name) << ":path=FILE  the same of decode steps\n";
    }
  }
  WriteText(out.str(), "", false);
  return kDone;
}

}  // namespace

void AddMethodsCommand(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("methods", "The registered sparse-attention methods and their parameters");
  auto name = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  command->add_option("name", *name, "One method, with its parameters")->type_name("NAME");
  AddJsonOption(command, json.get(), "Print everything as JSON (schema headscope-methods-1)");
  command->callback([=, &action] { action = [=] { return ListMethods(*name, *json); }; });
}

}  // namespace headscope::app
