// The fields of statistics and of measured runs, once: the columns of CSV and HDF5 tables and the members of JSON
// entries are all made from these lists.
#pragma once

#include <cstdint>
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
// columns where MetricsOf() names their elements.
std::vector<ResultField> StatisticsFields(const HeadStatistics& statistics);
std::vector<ResultField> ComparisonFields(const MethodResult& result);

}  // namespace headscope::analysis
