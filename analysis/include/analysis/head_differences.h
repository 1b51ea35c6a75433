// SPDX-License-Identifier: Apache-2.0
// How the heads of one trace differ from those of another, and the masks of two methods on one head: as tables.
#pragma once

#include <string>
#include <vector>

#include "analysis/types/head_statistics.h"
#include "analysis/types/mask_overlap.h"
#include "base/csv_origin.h"

namespace headscope::analysis {

// One metric of a head that both traces hold. NaN: not known there.
struct MetricDifference {
  HeadId head;
  std::string metric;
  double first = 0, second = 0;
  double Difference() const { return second - first; }
};

// Of every head that both have and every metric, by head and then in the order of `metrics`.
std::vector<MetricDifference> DifferencesOf(const std::vector<HeadStatistics>& first,
                                            const std::vector<HeadStatistics>& second,
                                            const std::vector<MetricInfo>& metrics);

// What is compared, as people named it.
struct ComparedPair {
  std::string first, second;
};
// Stable, versioned schema "headscope-diff-1". A number that is not known is null, and empty in CSV.
std::string DifferencesJson(const ComparedPair& of, const std::vector<MetricDifference>& differences,
                            const OriginTexts& origin = {});
std::string DifferencesCsv(const std::vector<MetricDifference>& differences, const CsvOrigin& origin = {});

struct HeadOverlap {
  HeadId head;
  MaskOverlap overlap;
};
// Stable, versioned schema "headscope-overlap-1".
std::string OverlapsJson(const std::string& trace, const ComparedPair& methods,
                         const std::vector<HeadOverlap>& overlaps, const OriginTexts& origin = {});
std::string OverlapsCsv(const std::vector<HeadOverlap>& overlaps, const CsvOrigin& origin = {});

}  // namespace headscope::analysis
