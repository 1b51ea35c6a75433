// SPDX-License-Identifier: Apache-2.0
// What headscope knows of one head, as plain data: the row of the table, the cell of the matrix, the entry of the JSON
// file.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/types/head_class.h"
#include "base/device.h"

namespace headscope::analysis {

struct HeadId {
  int32_t layer = 0;  // the model's own numbers
  int32_t head = 0;   // query head
  friend constexpr auto operator<=>(const HeadId&, const HeadId&) = default;
};

struct TopKMass {
  int32_t k = 0;
  double mean = 0;  // mean over rows of the mass of the row's k largest probabilities
};
struct TopKAgreement {
  int32_t r = 0, k = 0;
  double mean = 0;  // mean over rows of |top-k(exact) intersect top-k(SparQ estimate)| / k
};
struct SparsityAtCra {
  double target = 0;    // kept mass per row
  double sparsity = 0;  // 1 - kept pairs / causal pairs, fewest largest entries per row
};

// The mean (or maximum) over rows of a statistic that is taken row by row.
struct RowMean {
  std::string name;  // RowStatistic::info().name
  double mean = 0;
};
// A number that a whole head has.
struct HeadNumber {
  std::string name;  // HeadStatistic::info().name
  double value = 0;
};

struct HeadStatistics {
  HeadId id;
  int32_t kv_head = 0;
  int64_t num_rows = 0;              // query rows the statistics were taken over
  int64_t num_tokens = 0;            // keys
  NamedDevice device;                // where they were computed
  std::string note;                  // what was computed on the CPU, and why, where a GPU was asked for; else empty
  std::vector<RowMean> row_means;    // analysis/types/row_statistic.h, in its order
  std::vector<HeadNumber> numbers;   // analysis/types/head_statistic.h, in its order
  double entropy = 0;                // nats, mean over rows
  double max_probability = 0;        // mean over rows of the row maximum
  std::vector<TopKMass> top_k_mass;  // k = 1, 2, 4 .. 1024
  std::vector<TopKAgreement> agreement;
  std::vector<SparsityAtCra> sparsity;
  double sink_mass = 0;       // mean mass on the first `sink_tokens` tokens
  double local_mass = 0;      // mean mass on the newest `local_tokens` positions, diagonal included
  double vertical_mass = 0;   // mass of the best columns outside sink and window
  double slash_mass = 0;      // mass of the best slashes outside sink and window
  double block_mass = 0;      // mass of the best blocks outside sink and window
  double retrieval_mass = 0;  // mass of the best few far tokens of a row, mean over rows
  double retrieval_peak =
      0;  // the same, mean over the 2 % of the rows where it is largest: a head that looks back seldom but sharply
  double outside_mass = 0;  // mean mass on tokens that a cut trace does not hold; 0 for a whole trace
  // Of sampled rows: mean scaled score over their pairs, and over those within the newest `local_tokens` positions.
  double mean_logit = 0, local_logit = 0;
  // Profiles at a fixed resolution for display: mean mass by key position and by distance, `profile_bins` bins each.
  std::vector<float> column_profile;
  std::vector<float> diagonal_profile;
  std::vector<float> logit_profile;  // mean scaled score by distance, of sampled rows; up to the last bin with a pair
  HeadClass head_class = HeadClass::kUnknown;
  std::string class_reason;     // the numbers that decided it, one line
  double class_confidence = 0;  // 1: no number that decided is near its threshold; 0: one lies on it
  HeadClass class_alternative = HeadClass::kUnknown;  // what it would be if the number nearest its threshold crossed it
};

// Of statistics->row_means. NaN for one that is not there.
double RowMeanOf(const HeadStatistics& statistics, std::string_view name);

// The list of HeadStatistics that a metric is an element of, if it is of one: which elements there are depends on the
// options. JSON has the list, tables have a column for each element.
enum class MetricList : uint8_t { kNone, kTopK, kAgreement, kSparsity };
// Which traces a short table shows it of, unasked.
enum class MetricShown : uint8_t { kWhenAsked, kAlways, kOfWholeTrace, kOfCutTrace };

// One number of a head that can colour the matrix or fill a column of the table.
struct MetricInfo {
  std::string name;                 // "kurtosis", as typed after --metrics
  std::string title;                // "Kurtosis of q"
  std::string unit;                 // "" for a pure number, "nats", "share"
  std::string help;                 // one line
  bool diverging = false;           // centre the colour map at 0
  double minimum = 0, maximum = 0;  // fixed display range; equal: by data
  // A value above it is shown in the colour of alarm. Infinite: no value is alarming.
  double alarm = std::numeric_limits<double>::infinity();
  // Says something of heads with a learned sink alone: shown where there are such.
  bool of_sinks = false;
  MetricList list = MetricList::kNone;
  MetricShown shown = MetricShown::kWhenAsked;
  std::string json_name = {};  // where JSON has another name for it than tables
  bool in_report = false;      // has a matrix of its own there
  // What it is among the parts that a row's mass falls into: "sink", "local", ..; empty: no such part.
  std::string mass_part = {};
  // The head of this class that has most of it is the clearest one to show; kUnknown: of whatever class.
  std::optional<HeadClass> clearest_of = {};
};
const std::vector<MetricInfo>& Metrics();

// The share of a row's mass at which sparsity is quoted where one number stands for a head: what the window colours
// heads by before anybody chooses, what decides a class, what a figure of sparsity shows.
inline constexpr double kQuotedCra = 0.95;
// That metric, as Metrics() names it.
const std::string& QuotedSparsity();
// A share as names and titles have it: "0.90", "0.95", "0.995".
std::string CraText(double target);

// NaN for an unknown name.
double MetricValue(const HeadStatistics& statistics, const std::string& name);

}  // namespace headscope::analysis
