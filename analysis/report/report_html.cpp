// SPDX-License-Identifier: Apache-2.0
// report.html: the matrix, the pictures and the comparison of one trace, readable without a network.
#include <algorithm>
#include <array>
#include <map>

#include "analysis/report.h"
#include "analysis/types/mass_distribution.h"
#include "analysis/types/number_text.h"
#include "head/head_checks.h"
#include "report/axis.h"
#include "report/matrix_svg.h"

namespace headscope::analysis {
namespace {

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --ink: #1b1b1f; --paper: #fff; --soft: #5d5f66; --line: #d9dade; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7e7ea; --paper: #17181b; --soft: #a2a4ab; --line: #3a3c42; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 76rem; margin: 2rem auto; padding: 0 1.5rem; }
h1 { font-size: 1.7rem; margin-bottom: 0; } h2 { font-size: 1.25rem; margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 0 0 .3rem; } p.note, figcaption { color: var(--soft); font-size: .88rem; max-width: 60rem; }
table { border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums; display: block; overflow-x: auto; }
th, td { padding: .25rem .7rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { font-weight: 600; vertical-align: bottom; } th:nth-child(-n+2), td:nth-child(-n+2) { text-align: left; }
td.parameters { white-space: normal; min-width: 14rem; text-align: left; color: var(--soft); }
tr.base td { font-weight: 600; }
svg text { font: 11px system-ui, sans-serif; fill: var(--ink); } svg text.mid { text-anchor: middle; } svg text.end { text-anchor: end; } svg text.dim { opacity: .65; }
.row { display: flex; flex-wrap: wrap; gap: 1.5rem 2rem; } figure { margin: 0; max-width: 100%; overflow-x: auto; } .row figure { max-width: min(34rem, 100%); } figure img { max-width: 100%; width: 34rem; border: 1px solid var(--line); }
details { margin: 1rem 0; } summary { cursor: pointer; }
)";

std::string Milliseconds(double value) {
  return FormatNumber(value < 0.1 ? "%.4f" : value < 10 ? "%.2f" : "%.1f", value);
}
std::string Time(const Timing& timing) {
  if (timing.repeats == 0) return "–";                             // dense attention selects nothing
  if (timing.repeats == 1) return Milliseconds(timing.median_ms);  // one time has no spread
  return Milliseconds(timing.median_ms) + " ± " + Milliseconds(timing.mad_ms);
}
std::string Speedup(double value) {
  return FormatNumber("%.2f", value) + "×";
}

std::string MatrixSection(const std::vector<HeadStatistics>& statistics) {
  std::string html = "<h2>Heads</h2>\n";
  if (statistics.empty()) return html + "<p class=\"note\">No head was analysed.</p>\n";
  std::map<std::string, int32_t> classes;
  int64_t fewest_rows = statistics.front().num_rows;
  for (const HeadStatistics& head : statistics) {
    ++classes[HeadClassName(head.head_class)];
    fewest_rows = std::min(fewest_rows, head.num_rows);
  }
  html += "<p class=\"note\">Rows are layers, columns are query heads; hover over a cell for all its numbers. " +
          GroupThousands(statistics.front().num_tokens) + " tokens, statistics over " +
          (fewest_rows == statistics.front().num_tokens ? "all" : GroupThousands(fewest_rows)) +
          " query rows of each head. Classes:";
  for (const auto& [name, count] : classes)
    html += " " + std::to_string(count) + " " + name + (name == classes.rbegin()->first ? "." : ",");
  html += "</p>\n";
  bool large = true;
  for (const MetricInfo& metric : Metrics()) {
    if (!metric.in_report) continue;
    const std::string unit = metric.unit.empty() ? "" : " [" + metric.unit + "]";
    html += "<figure><h3>" + EscapeHtml(metric.title + unit) + "</h3>" +
            MatrixSvg(statistics, metric, large ? 52 : 22, large ? 28 : 16) + "<figcaption>" + EscapeHtml(metric.help) +
            "</figcaption></figure>\n";
    if (large) html += "<div class=\"row\" style=\"margin-top:1.5rem\">\n";
    large = false;
  }
  return html + "</div>\n";
}

std::string PictureSection(const std::vector<ReportInput::Picture>& pictures) {
  if (pictures.empty()) return {};
  std::string html =
      "<h2>Maps</h2>\n<p class=\"note\">Attention probability by query token (down) and key token (across); a pixel "
      "shows the largest probability "
      "under it, so that thin lines stay visible.</p>\n<div class=\"row\">\n";
  for (const ReportInput::Picture& picture : pictures) {
    html += "<figure><h3>Head " + HeadName(picture.head) + "</h3><img src=\"" + EscapeHtml(picture.png_file) +
            "\" alt=\"map of head " + HeadName(picture.head) + "\"><figcaption>" + EscapeHtml(picture.caption) +
            "</figcaption></figure>\n";
  }
  return html + "</div>\n";
}

// All runs of one method, over the heads that it ran on.
struct MethodSummary {
  std::string method, parameters;
  kernels::Phase phase = kernels::Phase::kPrefill;
  NamedDevice device;
  bool is_baseline = false;
  int32_t heads = 0;
  double kept = 0, cra_min = 1, cra_mean = 0, error = 0, cosine = 0, kernel_error = 0;
  double select_ms = 0, attend_ms = 0, dense_ms = 0;
};

std::vector<MethodSummary> Summarise(const std::vector<MethodResult>& results) {
  std::vector<MethodSummary> all;
  for (const MethodResult& result : results) {
    auto found = std::find_if(all.begin(), all.end(), [&](const MethodSummary& summary) {
      return summary.method == result.method && summary.parameters == result.parameters &&
             summary.phase == result.phase && summary.device == result.device;
    });
    if (found == all.end()) {
      all.push_back({result.method, result.parameters, result.phase, result.device, result.is_baseline});
      found = all.end() - 1;
    }
    ++found->heads;
    found->kept += result.kept_fraction;
    found->cra_min = std::min(found->cra_min, result.cra_min);
    found->cra_mean += result.cra_mean;
    found->error += result.relative_error;
    found->cosine += result.cosine;
    found->kernel_error = std::max(found->kernel_error, result.kernel_error);
    found->select_ms += result.select.median_ms;
    found->attend_ms += result.attend.median_ms;
    found->dense_ms += result.dense_attend.median_ms;
  }
  return all;
}

// A column of a table, whose row is an `Of`: it has both, and without its text it does not compile.
template <typename Of>
struct Column {
  constexpr Column(const char* head, std::string (*of)(const Of&)) : title(head), text(of) {}
  const char* title;
  std::string (*text)(const Of&);
};

// The last column of a table; the style sheet lets it wrap.
template <typename Of>
constexpr Column<Of> ParametersColumn() {
  return {"parameters", [](const Of& row) { return EscapeHtml(row.parameters); }};
}

template <typename Of, size_t kSize>
std::string Titles(const std::array<Column<Of>, kSize>& columns) {
  std::string row = "<tr>";
  for (const Column<Of>& column : columns) row += std::string("<th>") + column.title + "</th>";
  return row + "</tr>\n";
}

template <typename Of, size_t kSize>
std::string Cells(const std::array<Column<Of>, kSize>& columns, const Of& of) {
  std::string row;
  for (const Column<Of>& column : columns) {
    row += &column == &columns.back() ? "<td class=\"parameters\">" : "<td>";
    row += column.text(of) + "</td>";
  }
  return row + "</tr>\n";
}

constexpr auto kSummaryColumns = std::to_array<Column<MethodSummary>>({
    {"method", [](const MethodSummary& all) { return EscapeHtml(all.method); }},
    {"device", [](const MethodSummary& all) { return EscapeHtml(all.device.name); }},
    {"heads", [](const MethodSummary& all) { return std::to_string(all.heads); }},
    {"kept", [](const MethodSummary& all) { return FormatNumber("%.2f %%", 100 * all.kept / all.heads); }},
    {"CRA min", [](const MethodSummary& all) { return FormatNumber("%.4f", all.cra_min); }},
    {"CRA mean", [](const MethodSummary& all) { return FormatNumber("%.4f", all.cra_mean / all.heads); }},
    {"relative error", [](const MethodSummary& all) { return FormatNumber("%.2e", all.error / all.heads); }},
    {"cosine", [](const MethodSummary& all) { return FormatNumber("%.5f", all.cosine / all.heads); }},
    {"select ms",
     [](const MethodSummary& all) { return all.is_baseline ? "–" : Milliseconds(all.select_ms / all.heads); }},
    {"attend ms", [](const MethodSummary& all) { return Milliseconds(all.attend_ms / all.heads); }},
    {"dense ms", [](const MethodSummary& all) { return Milliseconds(all.dense_ms / all.heads); }},
    {"speed-up", [](const MethodSummary& all) { return Speedup(all.dense_ms / (all.select_ms + all.attend_ms)); }},
    {"kernel error", [](const MethodSummary& all) { return FormatNumber("%.1e", all.kernel_error); }},
    ParametersColumn<MethodSummary>(),
});

std::string SummaryTable(const std::vector<MethodResult>& results, kernels::Phase phase) {
  std::string html = "<table>" + Titles(kSummaryColumns);
  bool any = false;
  for (const MethodSummary& summary : Summarise(results)) {
    if (summary.phase != phase) continue;
    any = true;
    html += (summary.is_baseline ? "<tr class=\"base\">" : "<tr>") + Cells(kSummaryColumns, summary);
  }
  return any ? html + "</table>\n" : std::string();
}

constexpr auto kRunColumns = std::to_array<Column<MethodResult>>({
    {"head", [](const MethodResult& run) { return HeadName(run.head); }},
    {"method", [](const MethodResult& run) { return EscapeHtml(run.method); }},
    {"phase", [](const MethodResult& run) { return std::string(NameOf(run.phase)); }},
    {"measured", [](const MethodResult& run) { return EscapeHtml(ScopeText(run.head, run.measured)); }},
    {"rows", [](const MethodResult& run) { return GroupThousands(run.num_rows); }},
    {"kept", [](const MethodResult& run) { return FormatNumber("%.2f %%", 100 * run.kept_fraction); }},
    {"CRA min", [](const MethodResult& run) { return FormatNumber("%.4f", run.cra_min); }},
    {"CRA p5", [](const MethodResult& run) { return FifthPercentileText(run.num_rows, run.cra_p5); }},
    {"CRA mean", [](const MethodResult& run) { return FormatNumber("%.4f", run.cra_mean); }},
    {"select ms", [](const MethodResult& run) { return Time(run.select); }},
    {"attend ms", [](const MethodResult& run) { return Time(run.attend); }},
    {"dense ms", [](const MethodResult& run) { return Time(run.dense_attend); }},
    {"dense by", [](const MethodResult& run) { return EscapeHtml(run.baseline); }},
    {"speed-up", [](const MethodResult& run) { return Speedup(run.speedup); }},
    {"chosen per", [](const MethodResult& run) { return run.chosen_per ? std::string(NameOf(*run.chosen_per)) : "-"; }},
    {"relative error", [](const MethodResult& run) { return FormatNumber("%.2e", run.relative_error); }},
    {"largest error", [](const MethodResult& run) { return FormatNumber("%.2e", run.max_error); }},
    {"cosine", [](const MethodResult& run) { return FormatNumber("%.5f", run.cosine); }},
    {"kernel error", [](const MethodResult& run) { return FormatNumber("%.1e", run.kernel_error); }},
    ParametersColumn<MethodResult>(),
});

std::string DetailTable(const std::vector<MethodResult>& results) {
  std::string html = "<details><summary>Every run</summary><table>" + Titles(kRunColumns);
  for (const MethodResult& result : results) html += "<tr>" + Cells(kRunColumns, result);
  return html + "</table></details>\n";
}

std::string ComparisonSection(const std::vector<MethodResult>& results, const std::string& results_note) {
  if (results.empty()) return {};
  std::string html =
      "<h2>Methods</h2>\n<p class=\"note\">Each method ran on the layers of the heads above: all recorded heads of a "
      "layer, each with its own Q, K and V, in one launch, batch 1. Times are the layer's; kept, CRA and errors are "
      "the "
      "head's. Kept: "
      "kept pairs of all causal pairs. CRA: the dense probability mass that a query row keeps, minimum and mean over "
      "rows. Relative error, cosine: output "
      "against dense attention. Speed-up: "
      "dense time by selection and attention together; dense and the methods take turns in one program, on the same "
      "cores. Kernel "
      "error: the executor against a float64 "
      "reference on the same kept pairs. Times are medians over repeats; means over heads, except the minimum CRA and "
      "the largest kernel error.</p>\n";
  if (!results_note.empty()) html += "<p class=\"note\">" + EscapeHtml(results_note) + "</p>\n";
  if (const std::string prefill = SummaryTable(results, kernels::Phase::kPrefill); !prefill.empty())
    html += "<h3>Prefill: all query rows</h3>\n" + prefill;
  if (const std::string decode = SummaryTable(results, kernels::Phase::kDecode); !decode.empty()) {
    html +=
        "<h3 style=\"margin-top:1.2rem\">Decode: the last query rows, one step each; times per step</h3>\n" + decode;
  }
  return html + DetailTable(results);
}

}  // namespace

std::string ReportHtml(const ReportInput& input) {
  std::string html =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\">\n<title>" +
      EscapeHtml(input.title) + "</title><style>" + kStyle + "</style></head><body>\n";
  html += "<h1>" + EscapeHtml(input.title) + "</h1>\n<p class=\"note\">Trace: " + EscapeHtml(input.trace_path) +
          (input.environment.empty() ? "" : "<br>Measured on: " + EscapeHtml(input.environment)) +
          (input.written.empty() ? "" : "<br>Written: " + EscapeHtml(input.written)) + "</p>\n";
  html += MatrixSection(input.statistics);
  html += PictureSection(input.pictures);
  html += ComparisonSection(input.results, input.results_note);
  return html + "</body></html>\n";
}

}  // namespace headscope::analysis
