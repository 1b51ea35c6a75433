// SPDX-License-Identifier: Apache-2.0
#include "commands/comparison_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>

#include "analysis/types/mass_distribution.h"
#include "analysis/types/number_text.h"
#include "choices/head_selection.h"
#include "kernels/method_spec.h"
#include "support/listed.h"

namespace headscope::app {
namespace {

using analysis::Format;
using analysis::MethodResult;

std::string Time(const analysis::Timing& timing) {
  if (timing.repeats == 0) return "-";
  // One repeat has no spread.
  return Format("%.3f", timing.median_ms) + (timing.repeats > 1 ? " +- " + Format("%.3f", timing.mad_ms) : "");
}

std::vector<std::string> Parts(const std::string& parameters) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < parameters.size();) {
    const size_t end = std::min(parameters.find(',', begin), parameters.size());
    parts.push_back(parameters.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string Joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ",") + part;
  return text;
}

// Of each method that was run with more than one setting, the parameters that all its runs share.
std::map<std::string, std::vector<std::string>> SharedParameters(const std::vector<MethodResult>& results) {
  std::map<std::string, std::vector<std::string>> shared;
  std::map<std::string, bool> differs;
  std::map<std::string, std::string> first;
  for (const MethodResult& result : results) {
    const auto [at, is_new] = first.emplace(result.method, result.parameters);
    if (is_new) {
      shared[result.method] = Parts(result.parameters);
      continue;
    }
    differs[result.method] = differs[result.method] || at->second != result.parameters;
    const std::vector<std::string> own = Parts(result.parameters);
    std::erase_if(shared[result.method],
                  [&](const std::string& part) { return std::find(own.begin(), own.end(), part) == own.end(); });
  }
  std::erase_if(shared, [&](const auto& entry) { return !differs[entry.first] || entry.second.empty(); });
  return shared;
}

// A run, and those of its parameters that it does not share with all of its method.
struct Run {
  const MethodResult& result;
  std::string parameters;
};

Run RunOf(const MethodResult& result, const std::map<std::string, std::vector<std::string>>& shared) {
  std::vector<std::string> parameters = Parts(result.parameters);
  if (const auto common = shared.find(result.method); common != shared.end()) {
    std::erase_if(parameters, [&](const std::string& part) {
      return std::find(common->second.begin(), common->second.end(), part) != common->second.end();
    });
  }
  return {result, Joined(parameters)};
}

// A column has all three: without one of them it does not compile.
struct Column {
  constexpr Column(std::string_view head, bool left, std::string (*of)(const Run&))
      : title(head), is_text(left), text(of) {}
  std::string_view title;
  bool is_text;
  std::string (*text)(const Run&);
};
constexpr std::string_view kOutside = "outside";  // of a cut trace only
constexpr auto kColumns = std::to_array<Column>({
    {"head", true, [](const Run& run) { return HeadText(run.result.head); }},
    {"method", true, [](const Run& run) { return run.result.method; }},
    {"phase", true, [](const Run& run) { return std::string(NameOf(run.result.phase)); }},
    {"rows", false, [](const Run& run) { return std::to_string(run.result.num_rows); }},
    {"kept", false, [](const Run& run) { return Format("%.1f %%", 100 * run.result.kept_fraction); }},
    {"CRA min", false, [](const Run& run) { return Format("%.4f", run.result.cra_min); }},
    {"CRA p5", false,
     [](const Run& run) { return analysis::FifthPercentileText(run.result.num_rows, run.result.cra_p5); }},
    {"CRA mean", false, [](const Run& run) { return Format("%.4f", run.result.cra_mean); }},
    {kOutside, false,
     [](const Run& run) {
       return std::isnan(run.result.outside_mass) ? "-" : Format("%.4f", run.result.outside_mass);
     }},
    {"rel. error", false, [](const Run& run) { return Format("%.2e", run.result.relative_error); }},
    {"max error", false, [](const Run& run) { return Format("%.2e", run.result.max_error); }},
    {"cosine", false, [](const Run& run) { return Format("%.4f", run.result.cosine); }},
    {"select ms", false, [](const Run& run) { return Time(run.result.select); }},
    {"attend ms", false, [](const Run& run) { return Time(run.result.attend); }},
    {"dense ms", false, [](const Run& run) { return Time(run.result.dense_attend); }},
    {"speed-up", false, [](const Run& run) { return Format("%.2fx", run.result.speedup); }},
    {"bytes allow", false,
     [](const Run& run) { return std::isnan(run.result.bytes_allow) ? "-" : Format("%.2fx", run.result.bytes_allow); }},
    {"dense by", true, [](const Run& run) { return run.result.baseline; }},
    {"measured", true, [](const Run& run) { return ScopeText(run.result.head, run.result.measured); }},
    {"chosen per", true,
     [](const Run& run) { return run.result.chosen_per ? std::string(NameOf(*run.result.chosen_per)) : "-"; }},
    {"select on, attend on", true,
     [](const Run& run) { return run.result.select_device.name + ", " + run.result.device.name; }},
    {"parameters", true, [](const Run& run) { return run.parameters; }},
});
using Row = std::array<std::string, kColumns.size()>;

Row RowOf(const Run& run) {
  Row row;
  std::transform(kColumns.begin(), kColumns.end(), row.begin(), [&](const Column& column) { return column.text(run); });
  return row;
}

// How many letters a text takes on a terminal; all of ours are ASCII.
std::string Aligned(const std::string& text, size_t width, bool left) {
  const std::string gap(width - std::min(width, text.size()), ' ');
  return left ? text + gap : gap + text;
}

std::string Line(const Row& row, const std::array<size_t, kColumns.size()>& widths) {
  std::string line;
  for (size_t i = 0; i < row.size(); ++i) {
    if (widths[i] > 0) line += (i == 0 ? "" : "  ") + Aligned(row[i], widths[i], kColumns[i].is_text);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

bool IsCut(const std::vector<MethodResult>& results) {
  return std::any_of(results.begin(), results.end(),
                     [](const MethodResult& result) { return result.outside_mass > 0; });
}

std::string Footer(const std::vector<MethodResult>& results,
                   const std::map<std::string, std::vector<std::string>>& shared) {
  const bool has_spread =
      std::any_of(results.begin(), results.end(), [](const MethodResult& result) { return result.attend.repeats > 1; });
  std::string footer = has_spread ? "\nTimes are medians +- median absolute deviations over the repeats; dense "
                                  : "\nTimes are of one run each; dense ";
  footer +=
      "attention and the methods take turns. CRA and errors are the head's own: CRA over everything that its rows "
      "attend to in the model, errors against dense attention over the trace's own keys.\n";
  if (IsCut(results)) footer += "outside: mean share of the rows' attention on tokens before the cut.\n";
  std::vector<std::string> said;
  const auto say_once = [&](const std::string& sentence) {
    if (std::find(said.begin(), said.end(), sentence) != said.end()) return;
    said.push_back(sentence);
    footer += sentence + '\n';
  };
  for (const MethodResult& result : results) {
    const analysis::MeasuredScope& scope = result.measured;
    const bool one = scope.num_qo_heads == 1;
    say_once(ScopeText(result.head, scope) + (one ? " in one launch" : " in one launch, batch 1") + ", with " +
             std::to_string(scope.num_kv_heads) + (scope.num_kv_heads == 1 ? " KV head" : " KV heads") +
             (one ? "" : "; its heads share the times") + ".");
    if (result.num_threads > 0 && (!result.device.is_gpu() || !result.select_device.is_gpu()))
      say_once("Work on the CPU used " + std::to_string(result.num_threads) +
               (result.num_threads == 1 ? " thread." : " threads."));
  }
  std::map<int32_t, std::vector<std::string>> sharing;  // by how many query heads share a choice
  for (const MethodResult& result : results) {
    if (result.chosen_per != kernels::ChosenPer::kKvHead) continue;
    std::vector<std::string>& methods = sharing[result.measured.num_qo_heads / result.measured.num_kv_heads];
    if (std::find(methods.begin(), methods.end(), result.method) == methods.end()) methods.push_back(result.method);
  }
  for (const auto& [group_size, methods] : sharing) {
    say_once("Chosen once per KV head, for its " + std::to_string(group_size) +
             " query heads together (--measure head: per query head): " + Listed(methods) + ".");
  }
  for (const MethodResult& result : results) {
    if (result.phase == kernels::Phase::kDecode)
      say_once("Decode times are per step, the mean over the rows of each repeat.");
    if (!std::isnan(result.dense_of_reading)) {
      say_once(ScopeText(result.head, result.measured) + ": dense decode (" + result.baseline + ") ran at " +
               Format("%.0f %%", 100 * result.dense_of_reading) +
               " of the rate at which the same threads read its keys and values, so a speed-up over it may reach " +
               Format("%.2f", std::max(1.0, 1 / result.dense_of_reading)) + " times what the bytes allow.");
    }
  }
  for (const auto& [method, parameters] : shared) footer += "All runs of " + method + ": " + Joined(parameters) + ".\n";
  return footer;
}

}  // namespace

std::string ComparisonTable(const std::vector<MethodResult>& results) {
  const std::map<std::string, std::vector<std::string>> shared = SharedParameters(results);
  std::vector<Row> rows(1);
  for (size_t i = 0; i < kColumns.size(); ++i) rows[0][i] = kColumns[i].title;
  for (const MethodResult& result : results) rows.push_back(RowOf(RunOf(result, shared)));
  std::array<size_t, kColumns.size()> widths{};
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  if (!IsCut(results)) {
    const auto* const outside =
        std::find_if(kColumns.begin(), kColumns.end(), [](const Column& column) { return column.title == kOutside; });
    widths[static_cast<size_t>(outside - kColumns.begin())] = 0;
  }
  std::string table;
  for (const Row& row : rows) table += Line(row, widths);
  return table + Footer(results, shared);
}

}  // namespace headscope::app
