// SPDX-License-Identifier: Apache-2.0
// The fields of statistics and of measured runs, once: the columns of CSV and HDF5 tables and the members of JSON
// entries are all made from these lists, and runs are read back by theirs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "analysis/types/comparison.h"
#include "analysis/types/head_statistics.h"

namespace headscope::analysis {

using FieldValue = std::variant<int64_t, double, std::string>;

struct ResultField {
  std::string name;  // of the column in CSV and HDF5
  std::string unit;  // "" for none; "ms", "nats", "share"
  std::string json;  // JSON pointer inside an entry, such as /select/median_ms; empty: part of one of the entry's lists
  FieldValue value;
};

// All fields of one head or run, in the tables' order; names, units and order are the same for all whose statistics
// were computed with the same options. The lists of JSON entries (top-k mass, agreement, sparsity, profiles) have
// columns where MetricsOf() names their elements. `origin`: of the file that they are for; statistics may be older than
// it, so its date is that of the writing.
std::vector<ResultField> StatisticsFields(const HeadStatistics& statistics, const RunOrigin& origin = {});
std::vector<ResultField> ComparisonFields(const MethodResult& result);
// The way back: a run whose every field is what `value_of` says of it, given as the default run has it; a field that it
// knows nothing of, or whose type is another, keeps the default. Throws BadInputError, of the field, for a phase, a
// chosen_per or a device that is none.
MethodResult ComparisonFrom(const std::function<std::optional<FieldValue>(const ResultField& field)>& value_of);

}  // namespace headscope::analysis
