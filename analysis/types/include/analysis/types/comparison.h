// SPDX-License-Identifier: Apache-2.0
// Results of running methods on heads, as plain data: the rows of the comparison table, of compare's JSON and CSV and
// of the report.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "analysis/types/head_statistics.h"
#include "analysis/types/measured_scope.h"
#include "base/device.h"
#include "kernels/spec_names.h"

namespace headscope::analysis {

// What the index keeps, without running attention: follows a slider.
struct MaskSummary {
  HeadId head;
  std::string method;
  std::string parameters;    // ParameterValues::ToString
  double kept_fraction = 0;  // kept pairs / pairs that the model attends (causal, inside its window)
  // Kept mass over the recorded rows: least, fifth percentile (MassDistribution) and mean.
  double cra_min = 0, cra_p5 = 0, cra_mean = 0;
  int64_t worst_row = 0;  // token position of the row with the least kept mass
  double select_ms = 0;
  std::string dense_by;  // the parameter by which the method leaves the head's layer dense; empty: it does not
};

struct Timing {
  double median_ms = 0;
  double mad_ms = 0;  // median absolute deviation
  int32_t repeats = 0;
};

// Repeats of microseconds have a firm median long before they have taken any time worth the name: short runs are
// repeated more often than was asked for, up to so many times.
inline constexpr int32_t kMostRepeats = 500;

// Where a run was measured: what a table that has left the window needs to be understood.
struct RunOrigin {
  std::string trace;        // its path, as it was opened
  std::string model;        // the model that the trace was recorded from
  std::string measured_at;  // in UTC: 2026-05-31T12:00:00Z
  std::string version;      // of headscope
};

// What MethodResult::baseline calls headscope's own dense attention.
inline constexpr char kOwnImplementation[] = "headscope";

// A recorded row, or a decode step, by its token's position, and the mass that a method keeps of it.
struct RowMass {
  int32_t position = 0;
  float mass = 0;
};

struct MethodResult {
  HeadId head;
  std::string method;  // its unique name: "decode/dense" beside "dense"
  // Of dense attention itself, and the unique name of the phase's dense method: files leave both out, since method and
  // phase say so.
  bool is_baseline = false;
  std::string baseline_method;
  std::string parameters;
  kernels::Phase phase = kernels::Phase::kPrefill;
  MeasuredScope measured;  // what the times are of
  // Who shares a choice of keys: a query head's own, a KV head's (a decode method over grouped queries), or place where
  // Q and K are not looked at. Empty: an older file does not say.
  std::optional<kernels::ChosenPer> chosen_per;
  NamedDevice device;         // where attention ran
  NamedDevice select_device;  // where selection ran
  int32_t num_threads = 0;    // CPU threads that what ran there had; 0: not known
  std::string note;           // why the two differ, or what else to know beside the numbers; mostly empty
  double kept_fraction = 1;   // as in MaskSummary
  int64_t num_rows = 0;       // behind the three: recorded rows, or decode steps
  double cra_min = 1, cra_p5 = 1, cra_mean = 1;
  // Further quantiles: the first percentile, the lower quartile, the median; NaN: an older file does not say.
  double cra_p1 = std::numeric_limits<double>::quiet_NaN(), cra_p25 = std::numeric_limits<double>::quiet_NaN(),
         cra_p50 = std::numeric_limits<double>::quiet_NaN();
  std::vector<RowMass> kept_mass =
      {};  // of every row, where it was asked for (CompareOptions::keep_rows); not in files
  // Mean over these rows of what they give to tokens before a cut trace's first; NaN: not known.
  double outside_mass = std::numeric_limits<double>::quiet_NaN();
  Timing select, attend;      // apart
  Timing dense_attend;        // the baseline, timed in turn with this very run
  int32_t asked_repeats = 0;  // at least so many; runs that were short have more. 0: an older file does not say
  std::string baseline;       // whose dense attention that is: kOwnImplementation, or another that was faster
  double speedup = 1;         // dense attend / (select + attend)
  // Decode only, NaN for prefill: bytes that dense has to read by those that the method has to.
  double bytes_allow = std::numeric_limits<double>::quiet_NaN();
  // Decode on the CPU only, else NaN: the time in which the same threads read the bytes of dense_attend's keys and
  // values and do nothing else, over dense_attend. As far as it is below 1 a speed-up may exceed bytes_allow.
  double dense_of_reading = std::numeric_limits<double>::quiet_NaN();
  double relative_error = 0;  // |O - O_dense| / |O_dense|, L2 over all rows
  double max_error = 0;       // largest absolute difference
  double cosine = 1;          // mean over rows of the cosine of O and O_dense
  double kernel_error = 0;  // |O - O_masked_reference| / |O_masked_reference| on sampled rows: the executor's own error
  RunOrigin origin;
};

}  // namespace headscope::analysis
