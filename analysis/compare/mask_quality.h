// SPDX-License-Identifier: Apache-2.0
// What previews and measured runs write into their results alike.
#pragma once

#include <cstdint>
#include <iterator>
#include <span>
#include <string>

#include "analysis/types/comparison.h"
#include "analysis/types/mass_distribution.h"
#include "kernels/method_spec.h"

namespace headscope::analysis {

// The three statistics that a MaskSummary and a MethodResult have of the rows' kept mass.
template <typename Result>
void SetKeptMass(const MassDistribution& mass, Result* result) {
  result->cra_min = mass.minimum;
  result->cra_p5 = mass.fifth_percentile;
  result->cra_mean = mass.mean;
}

// What a run says of its rows' kept mass; position_of(i): of row i.
template <typename PositionOf>
void SetKeptRows(std::span<const float> masses, bool keep_rows, const PositionOf& position_of, MethodResult* result) {
  const MassDistribution mass = DistributeMass(masses);
  SetKeptMass(mass, result);
  result->num_rows = std::ssize(masses);
  result->cra_p1 = mass.first_percentile;
  result->cra_p25 = mass.first_quartile;
  result->cra_p50 = mass.median;
  if (!keep_rows) return;
  for (int64_t row = 0; row < std::ssize(masses); ++row)
    result->kept_mass.push_back({position_of(row), masses[static_cast<size_t>(row)]});
}

// MethodResult::note of a head whose layer the method leaves dense; else empty.
template <typename Method>
std::string NoteOfDenseLayer(const Method& method, const kernels::ParameterValues& values, int32_t layer) {
  const std::string parameter(method.DenseBy(values, layer));
  if (parameter.empty()) return {};
  return method.spec().name + " leaves layer " + std::to_string(layer) + " dense; with " + parameter +
         "=0 it chooses there, too";
}

// Behind what the note says already.
inline void AddNote(const std::string& note, MethodResult* result) {
  if (!note.empty()) result->note += (result->note.empty() ? "" : "; ") + note;
}

// Of a result whose times are set: dense attention's time by that of selection and attention.
inline double Speedup(const MethodResult& result) {
  return result.dense_attend.median_ms / (result.select.median_ms + result.attend.median_ms);
}

}  // namespace headscope::analysis
