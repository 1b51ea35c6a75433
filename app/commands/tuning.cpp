// SPDX-License-Identifier: Apache-2.0
#include "commands/tuning.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "analysis/types/number_text.h"
#include "analysis/types/printable.h"
#include "base/errors.h"
#include "commands/head_selection.h"
#include "data/model_json.h"
#include "support/listed.h"

namespace headscope::app {
namespace {

using Json = nlohmann::ordered_json;
using kernels::ParameterSpec;
using kernels::ParameterType;

struct Statistic {
  const char* option;  // as typed
  const char* field;   // in files
  analysis::MassStatistic statistic;
};
constexpr Statistic kStatistics[] = {
    {"cra", "cra_min", analysis::MassStatistic::kMinimum},
    {"cra-p5", "cra_p5", analysis::MassStatistic::kFifthPercentile},
    {"cra-mean", "cra_mean", analysis::MassStatistic::kMean},
};

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

std::set<std::string> DevicesOf(const Tuning& tuning) {
  std::set<std::string> devices;
  for (const TunedHead& head : tuning.heads) devices.insert(head.device);
  return devices;
}

bool AnyCut(const Tuning& tuning) {
  return std::any_of(tuning.traces.begin(), tuning.traces.end(),
                     [](const Tuning::Source& source) { return source.first_token > 0; });
}

double MeanKept(const Tuning& tuning) {
  double sum = 0;
  for (const TunedHead& head : tuning.heads) sum += head.found.kept_fraction;
  return tuning.heads.empty() ? 0 : sum / static_cast<double>(tuning.heads.size());
}

}  // namespace

analysis::BudgetTarget ParseTarget(const std::string& text) {
  const size_t sign = text.find('=');
  const std::string name = text.substr(0, sign);
  const auto* const known = std::find_if(std::begin(kStatistics), std::end(kStatistics),
                                         [&](const Statistic& statistic) { return name == statistic.option; });
  if (sign == std::string::npos || known == std::end(kStatistics)) {
    throw UsageError("--target '" + text + "' is not STATISTIC=SHARE; choose the statistic from " +
                     Listed(kStatistics, &Statistic::option) + ", as in cra=0.95");
  }
  double share = 0;
  const char* const end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data() + sign + 1, end, share);
  if (error != std::errc() || parsed != end || !(share > 0 && share < 1)) {
    throw UsageError("--target '" + text + "': '" + text.substr(sign + 1) +
                     "' is not a share of a row's mass; give a number between 0 and 1");
  }
  return {share, known->statistic};
}

std::string TuningTable(const Tuning& tuning) {
  const std::vector<const ParameterSpec*> budgets = analysis::Budgets(*tuning.method.spec);
  const auto width = [](const ParameterSpec& budget) {
    return std::max({11, static_cast<int>(budget.name.size()) + 2, static_cast<int>(UnitText(budget).size()) + 2});
  };
  std::ostringstream out;
  const bool cut = AnyCut(tuning);
  out << std::left << std::setw(8) << "head" << std::right;
  for (const ParameterSpec* budget : budgets) out << std::setw(width(*budget)) << budget->name;
  out << std::setw(10) << "kept" << std::setw(9) << "CRA min" << std::setw(9) << "CRA 5 %" << std::setw(10)
      << "CRA mean" << (cut ? "   outside" : "") << "  target\n"
      << std::setw(8) << "";
  for (const ParameterSpec* budget : budgets) out << std::setw(width(*budget)) << UnitText(*budget);
  out << std::setw(10) << (cut ? "of part's" : "of pairs") << std::setw(28) << "share of a row's mass"
      << (cut ? "          " : "") << "  " << tuning.target_text << '\n';
  for (const TunedHead& head : tuning.heads) {
    out << std::left << std::setw(8) << HeadText(head.id) << std::right;
    for (const ParameterSpec* budget : budgets)
      out << std::setw(width(*budget)) << analysis::ShortestNumber(head.found.values.Real(budget->name));
    out << std::fixed << std::setprecision(1) << std::setw(8) << 100 * head.found.kept_fraction << " %"
        << std::setprecision(4) << std::setw(9) << head.found.mass.minimum << std::setw(9)
        << head.found.mass.fifth_percentile << std::setw(10) << head.found.mass.mean;
    if (cut) out << std::setw(10) << head.outside_mass;
    out << (head.found.reached ? "  met" : "  NOT met") << '\n';
  }
  if (cut) {
    out << "A part of a longer trace: kept is of the pairs inside the part, and \"outside\" is the mean share of a "
           "row's "
           "mass on the tokens before it, which no setting can keep.\n";
  }
  return out.str();
}

std::string TuningJson(const Tuning& tuning) {
  const auto* const statistic = std::find_if(std::begin(kStatistics), std::end(kStatistics), [&](const Statistic& one) {
    return one.statistic == tuning.target.statistic;
  });
  Json traces = Json::array();
  for (const Tuning::Source& source : tuning.traces) {
    traces.push_back({{"path", source.path},
                      {"prompt", source.prompt},
                      {"num_tokens", source.num_tokens},
                      {"num_rows", source.num_rows},
                      {"first_token", source.first_token}});
  }
  Json grid = Json::array();
  for (const analysis::SearchedBudget& budget : tuning.grid) {
    const auto number = [&](double value) { return budget.integer ? Json(static_cast<int64_t>(value)) : Json(value); };
    grid.push_back({{"name", budget.name},
                    {"minimum", number(budget.minimum)},
                    {"maximum", number(budget.maximum)},
                    {"step", number(budget.step)}});
  }
  Json heads = Json::array();
  for (const TunedHead& head : tuning.heads) {
    heads.push_back({{"layer", head.id.layer},
                     {"head", head.id.head},
                     {"device", head.device},
                     {"target_met", head.found.reached},
                     {"parameters", ParameterJson(*tuning.method.spec, head.found.values)},
                     {"kept_fraction", head.found.kept_fraction},
                     {"cra_min", head.found.mass.minimum},
                     {"cra_p5", head.found.mass.fifth_percentile},
                     {"cra_mean", head.found.mass.mean},
                     {"outside_mass", head.outside_mass}});
  }
  const Json json = {{"schema", "headscope-tuning-1"},
                     {"complete", tuning.complete()},
                     {"num_heads_chosen", tuning.num_heads_chosen},
                     {"model", data::ModelJson(tuning.model)},
                     {"traces", std::move(traces)},
                     {"method", tuning.method.name},
                     {"target", {{"statistic", statistic->field}, {"value", tuning.target.mass}}},
                     {"grid", std::move(grid)},
                     {"heads", std::move(heads)}};
  // Names and prompts come from files, which may hold anything: what is not UTF-8 is shown by U+FFFD.
  return analysis::PrintableJson(json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace)) + "\n";
}

std::string TuningCsv(const Tuning& tuning) {
  std::string csv = "layer,head,method,target_met";
  for (const ParameterSpec& parameter : tuning.method.spec->parameters) csv.append(",").append(parameter.name);
  csv += ",kept_fraction,cra_min,cra_p5,cra_mean,outside_mass,device,complete\n";
  for (const TunedHead& head : tuning.heads) {
    csv += std::to_string(head.id.layer) + ',' + std::to_string(head.id.head) + ',' + tuning.method.name + ',';
    csv += head.found.reached ? '1' : '0';
    for (const ParameterSpec& parameter : tuning.method.spec->parameters)
      csv.append(",").append(ValueText(parameter, head.found.values.Real(parameter.name)));
    const analysis::MassDistribution& mass = head.found.mass;
    for (const double value :
         {head.found.kept_fraction, mass.minimum, mass.fifth_percentile, mass.mean, head.outside_mass})
      csv.append(",").append(analysis::ShortestNumber(value));
    csv += "," + head.device + (tuning.complete() ? ",1\n" : ",0\n");
  }
  return csv;
}

std::string TuningSummary(const Tuning& tuning) {
  std::vector<std::string> unmet;
  for (const TunedHead& head : tuning.heads) {
    if (!head.found.reached) unmet.push_back(HeadText(head.id));
  }
  std::ostringstream out;
  if (!tuning.complete()) out << "only " << tuning.heads.size() << " of " << tuning.num_heads_chosen << " heads done: ";
  out << tuning.heads.size() - unmet.size() << " of " << tuning.heads.size()
      << (tuning.heads.size() == 1 ? " head reaches " : " heads reach ") << tuning.target_text << ", keeping "
      << std::fixed << std::setprecision(1) << 100 * MeanKept(tuning)
      << " % of the pairs on average, by masses computed on " << Listed(DevicesOf(tuning));
  if (!unmet.empty()) {
    constexpr size_t kNamed = 8;  // the table and the file say it of every head
    const size_t others = unmet.size() > kNamed ? unmet.size() - kNamed : 0;
    unmet.resize(unmet.size() - others);
    if (others > 0) unmet.push_back(std::to_string(others) + (others == 1 ? " other" : " others"));
    out << "; not even the largest budgets, which are written for them, are enough for " << Listed(unmet)
        << ": take a lower target or other parameters there";
  }
  out << "; searched: ";
  for (size_t i = 0; i < tuning.grid.size(); ++i) {
    const analysis::SearchedBudget& budget = tuning.grid[i];
    out << (i == 0 ? "" : ", ") << budget.name << " from " << analysis::ShortestNumber(budget.minimum) << " to "
        << analysis::ShortestNumber(budget.maximum) << " by " << analysis::ShortestNumber(budget.step);
  }
  return out.str();
}

}  // namespace headscope::app
