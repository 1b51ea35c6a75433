// SPDX-License-Identifier: Apache-2.0
#include "bench/bench_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "analysis/types/number_text.h"
#include "analysis/types/printable.h"
#include "base/quoted_text.h"
#include "kernels/sparse_index.h"
#include "kernels/spec_names.h"

namespace headscope::app::bench {
namespace {

using analysis::FormatNumber;
using nlohmann::ordered_json;

double Divide(double a, double b) {
  return b > 0 ? a / b : 0;
}

std::string Pad(const std::string& text, int width) {
  const auto missing = static_cast<size_t>(std::max(0, std::abs(width) - static_cast<int>(text.size())));
  return width < 0 ? text + std::string(missing, ' ') : std::string(missing, ' ') + text;
}

// "12.34 ±0.05": median and spread.
std::string Time(const Figure& figure, double factor) {
  if (figure.repeats == 0) return "-";
  const double value = figure.median * factor;
  const char* format = value < 10 ? "%.3f" : value < 100 ? "%.2f" : "%.1f";
  return FormatNumber(format, value) + " +-" + FormatNumber(format, figure.mad * factor);
}

std::string Ratio(double value) {
  return value > 0 ? FormatNumber("%.2f", value) : "-";
}

std::string Spread(const Figure& figure) {
  return FormatNumber("%.1f", 100 * Divide(figure.mad, figure.median)) + " %";
}

std::string Errors(const RowErrors& errors) {
  return FormatNumber("%.2e", errors.all) + " (" + FormatNumber("%.2e", errors.worst) + ")";
}

std::string RowName(const Row& row) {
  std::string name = row.method;
  if (!row.variant.empty()) name += ", " + row.variant;
  return name;
}

bool IsSustained(const Section& section) {
  return std::any_of(section.rows.begin(), section.rows.end(), [](const Row& row) { return row.sustained_ms > 0; });
}

// Run after run: a row's time, and how many times faster than the reference it is then.
std::string SustainedHeader(const Section& section) {
  return IsSustained(section) ? Pad("sustained ms", 14) + Pad("faster", 8) : "";
}
std::string Sustained(const Section& section, const Row& row) {
  if (!IsSustained(section)) return "";
  const double faster = row.kind == RowKind::kUpkeep ? 0 : Divide(section.rows.front().sustained_ms, row.sustained_ms);
  return Pad(FormatNumber("%.4g", row.sustained_ms), 14) + Pad(Ratio(faster), 8);
}

// Whether decode rows have ceilings of their own in place of the copy's.
bool OwnCeilings(const Report& report) {
  return report.device_kind == DeviceKind::kCpu;
}

// The columns of how many times faster a row is, and than whose dense.
std::string Speeds(const Report& report) {
  return Pad("to " + report.reference_short, 13) + Pad("to own dense", 14);
}
std::string Speeds(const Ratios& ratios) {
  return Pad(Ratio(ratios.faster), 13) + Pad(Ratio(ratios.faster_than_own), 14);
}

void AddPrefill(const Report& report, const Section& section, std::string* out) {
  *out += Pad("  prefill", -44) + Pad("kept %", 8) + Pad("select ms", 17) + Pad("attend ms", 17) + Pad("total ms", 17) +
          Pad("select %", 10) + Pad("TFLOP/s", 10) + Pad("of product", 12) + Pad("to dense", 10) + Speeds(report) +
          SustainedHeader(section) + "\n";
  for (const Row& row : section.rows) {
    const Ratios ratios = RatiosOf(report, section, row);
    *out += Pad("  " + RowName(row), -44) +
            Pad(FormatNumber("%.2f",
                             100 * Divide(static_cast<double>(row.kept_pairs), static_cast<double>(row.dense_pairs))),
                8) +
            Pad(Time(row.select_ms, 1), 17) + Pad(Time(row.attend_ms, 1), 17) + Pad(Time(row.total_ms, 1), 17) +
            Pad(ratios.select_share > 0 ? FormatNumber("%.1f", 100 * ratios.select_share) : "-", 10) +
            Pad(FormatNumber("%.4g", ratios.rate * 1e-12), 10) + Pad(Ratio(ratios.of_ceiling), 12) +
            Pad(Ratio(ratios.rate_to_dense), 10) + Speeds(ratios) + Sustained(section, row) + "\n";
  }
}

void AddDecode(const Report& report, const Section& section, std::string* out) {
  *out += Pad("  decode", -44) + Pad("select us", 17) + Pad("attend us", 17) + Pad("total us", 17) + Pad("GB/s", 10) +
          Pad(OwnCeilings(report) ? "of reading" : "of copy", 12) + Speeds(report) + SustainedHeader(section) + "\n";
  for (const Row& row : section.rows) {
    const Ratios ratios = RatiosOf(report, section, row);
    *out += Pad("  " + RowName(row), -44) + Pad(Time(row.select_ms, 1e3), 17) + Pad(Time(row.attend_ms, 1e3), 17) +
            Pad(Time(row.total_ms, 1e3), 17) + Pad(FormatNumber("%.4g", ratios.rate * 1e-9), 10) +
            Pad(Ratio(ratios.of_ceiling), 12) + Speeds(ratios) + Sustained(section, row) + "\n";
  }
}

ordered_json ToJson(const Figure& figure) {
  if (figure.repeats == 0) return nullptr;
  return {{"median", figure.median}, {"mad", figure.mad}, {"repeats", figure.repeats}, {"least", figure.least}};
}

ordered_json ToJson(const Ceiling& ceiling, const char* size_name, const char* work_name) {
  return {{size_name, ceiling.size},
          {work_name, ceiling.work},
          {"ms", ToJson(ceiling.ms)},
          {"per_second", Rate(ceiling.work, ceiling.ms)}};
}

// Zero stands for "does not apply" inside; JSON has a word for it.
ordered_json OrNull(double value) {
  return value > 0 ? ordered_json(value) : ordered_json(nullptr);
}

ordered_json ToJson(const RowErrors& errors) {
  if (errors.all < 0) return nullptr;
  return {{"relative_l2", errors.all}, {"worst_row", errors.worst}};
}

ordered_json ToJson(const Report& report, const Section& section, const Row& row) {
  const Ratios ratios = RatiosOf(report, section, row);
  static constexpr const char* kKinds[] = {"reference", "method", "upkeep"};
  ordered_json json = {{"kind", kKinds[static_cast<size_t>(row.kind)]},
                       {"method", row.method},
                       {"parameters", row.parameters},
                       {"variant", row.variant},
                       {"source", row.source},
                       {"select_ms", ToJson(row.select_ms)},
                       {"attend_ms", ToJson(row.attend_ms)},
                       {"total_ms", ToJson(row.total_ms)},
                       {"sustained_ms", OrNull(row.sustained_ms)}};
  if (section.decode) {
    json["bytes_moved"] = row.bytes_moved;
    json["bytes_per_second"] = OrNull(ratios.rate);
    json["reading_ms"] = ToJson(row.read_ms);
    json["of_reading"] = OrNull(OwnCeilings(report) ? ratios.of_ceiling : 0);
    json["of_copy"] = OrNull(OwnCeilings(report) ? 0 : ratios.of_ceiling);
  } else {
    json["kept_pairs"] = row.kept_pairs;
    json["dense_pairs"] = row.dense_pairs;
    json["flops_per_second"] = OrNull(ratios.rate);
    json["of_matrix_product"] = OrNull(ratios.of_ceiling);
    json["rate_to_dense"] = OrNull(ratios.rate_to_dense);
  }
  json["select_share"] = OrNull(ratios.select_share);
  json["faster_than_dense"] = OrNull(ratios.faster);
  json["faster_than_own_dense"] = OrNull(ratios.faster_than_own);
  json["rate_to_16_bits"] = OrNull(ratios.to_16_bits);
  json["to_float64"] = ToJson(row.errors);
  return json;
}

// A product with the key and one with the value for each pair.
int64_t FlopsOf(const Section& section, int64_t pairs) {
  const int32_t v_head_dim = section.v_head_dim > 0 ? section.v_head_dim : section.shape.head_dim;
  return (kernels::AttentionFlops(pairs, section.shape.head_dim) + kernels::AttentionFlops(pairs, v_head_dim)) / 2;
}

}  // namespace

double Rate(double work, const Figure& ms) {
  return ms.median > 0 ? work / (ms.median * 1e-3) : 0;
}

Ratios RatiosOf(const Report& report, const Section& section, const Row& row) {
  const auto work = [&](const Row& of) {
    return section.decode ? static_cast<double>(of.bytes_moved) : static_cast<double>(FlopsOf(section, of.kept_pairs));
  };
  const Ceiling& ceiling = section.decode ? report.copy : report.product;
  const Row& reference = section.rows.front();
  Ratios ratios;
  // A decode step's bytes are those of select and attend; so is its time. A ceiling is what was reached at best: what
  // else the machine does can make a row look worse, not better than it is.
  ratios.rate = Rate(work(row), section.decode ? row.total_ms : row.attend_ms);
  ratios.of_ceiling = section.decode && OwnCeilings(report) ? Divide(row.read_ms.least, row.total_ms.median)
                                                            : Divide(ratios.rate, Rate(ceiling.work, ceiling.ms));
  if (row.kind == RowKind::kUpkeep) return ratios;
  if (!section.decode) ratios.rate_to_dense = Divide(ratios.rate, Rate(work(reference), reference.attend_ms));
  ratios.faster = Divide(reference.total_ms.median, row.total_ms.median);
  for (const Row& other : section.rows) {
    if (other.own_dense) ratios.faster_than_own = Divide(other.total_ms.median, row.total_ms.median);
    if (!row.in_16_bits.empty() && other.method == row.in_16_bits)
      ratios.to_16_bits = Divide(other.attend_ms.median, row.attend_ms.median);
  }
  ratios.select_share = Divide(row.select_ms.median, row.select_ms.median + row.attend_ms.median);
  return ratios;
}

std::string Table(const Report& report) {
  std::string out = report.device_name + "; median +- median absolute deviation of " + std::to_string(report.repeats) +
                    " repeats, " + report.cache_policy + "\n";
  out += "roofline: matrix product of " + std::to_string(report.product.size) + " rows " +
         FormatNumber("%.4g", Rate(report.product.work, report.product.ms) * 1e-12) + " TFLOP/s (+-" +
         Spread(report.product.ms) + "), ";
  if (OwnCeilings(report)) {
    out += "reading (of each decode row: as many bytes, by the same threads, and nothing else)\n";
  } else {
    out += "copy of " + std::to_string(report.copy.size >> 20) + " MiB " +
           FormatNumber("%.4g", Rate(report.copy.work, report.copy.ms) * 1e-9) + " GB/s (+-" + Spread(report.copy.ms) +
           ")\n";
  }
  out += "times faster, select and attend together: " + Quoted("to " + report.reference_short) +
         " than dense attention by " + report.reference_name + ", \"to own dense\" than headscope's\n";
  for (const Section& section : report.sections) {
    const kernels::SeededProblem& shape = section.shape;
    out += '\n';
    out += std::to_string(shape.seq_k) + " tokens, batch " + std::to_string(shape.batch) + ", " +
           std::to_string(shape.num_qo_heads) + ":" + std::to_string(shape.num_kv_heads) + " heads, head_dim " +
           std::to_string(shape.head_dim) +
           (section.v_head_dim > 0 ? " (v " + std::to_string(section.v_head_dim) + ")" : "") + ", " + section.dtype +
           ", seed " + std::to_string(shape.seed);
    if (section.data != kernels::kSeededRecipe) out += ", " + section.data;
    if (section.places > 1) out += ", steps over " + std::to_string(section.places) + " copies of K and V";
    out += '\n';
    if (section.decode) {
      AddDecode(report, section, &out);
    } else {
      AddPrefill(report, section, &out);
    }
    for (const Row& row : section.rows) {
      if (row.errors.all < 0) continue;
      const double to_16_bits = RatiosOf(report, section, row).to_16_bits;
      out += "  " + row.method + ": relative L2 to float64 (worst row) " + Errors(row.errors) +
             (to_16_bits > 0 ? "; attends at " + Ratio(to_16_bits) + " of the rate in 16 bits" : "") + "\n";
    }
    if (section.dense_disagreement >= 0) {
      out += "  dense output: relative L2 to the reference " + FormatNumber("%.1e", section.dense_disagreement) +
             "; to float64 (worst row) " + Errors(section.dense_errors) + ", the reference's " +
             Errors(section.reference_errors) + "\n";
    } else if (section.dense_errors.all >= 0) {
      out += "  dense output: relative L2 to float64 (worst row) " + Errors(section.dense_errors) + "\n";
    }
  }
  if (report.interrupted) out += "\ninterrupted: figures are of the repeats that were done\n";
  return out;
}

std::string Json(const Report& report) {
  ordered_json sections = ordered_json::array();
  for (const Section& section : report.sections) {
    ordered_json rows = ordered_json::array();
    for (const Row& row : section.rows) rows.push_back(ToJson(report, section, row));
    const kernels::SeededProblem& shape = section.shape;
    sections.push_back(
        {{"phase", NameOf(section.decode ? kernels::Phase::kDecode : kernels::Phase::kPrefill)},
         {"length", shape.seq_k},
         {"batch", shape.batch},
         {"num_qo_heads", shape.num_qo_heads},
         {"num_kv_heads", shape.num_kv_heads},
         {"head_dim", shape.head_dim},
         {"v_head_dim", section.v_head_dim > 0 ? section.v_head_dim : shape.head_dim},
         {"dtype", section.dtype},
         {"recipe", section.data},
         {"seed", shape.seed},
         {"places", section.places},
         {"dense_relative_l2", section.dense_disagreement >= 0 ? ordered_json(section.dense_disagreement) : nullptr},
         {"dense_to_float64", ToJson(section.dense_errors)},
         {"reference_to_float64", ToJson(section.reference_errors)},
         {"rows", rows}});
  }
  const ordered_json json = {
      {"schema", "headscope-bench-1"},
      {"device", {{"kind", report.device_kind == DeviceKind::kCpu ? "cpu" : "cuda"}, {"name", report.device_name}}},
      {"reference", report.reference_name},
      {"repeats", report.repeats},
      {"caches", report.cache_policy},
      {"interrupted", report.interrupted},
      {"ceilings",
       {{"matrix_product", ToJson(report.product, "rows", "flops")},
        {"copy", OwnCeilings(report) ? ordered_json(nullptr) : ToJson(report.copy, "bytes", "bytes_moved")}}},
      {"sections", sections}};
  return analysis::PrintableJson(json.dump(2, ' ', /*ensure_ascii=*/false, ordered_json::error_handler_t::replace)) +
         "\n";
}

}  // namespace headscope::app::bench
