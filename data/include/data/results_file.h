// SPDX-License-Identifier: Apache-2.0
// Writes a table of results (metrics per head, measured runs) as an HDF5 file that h5py, pandas and HDF5 viewers open.
//
// Layout: root attributes `format` = "headscope-results" and `version` = 1; group /results with one dataset per column,
// all of the same length (numbers: float64; texts: fixed-length UTF-8), and its attribute `columns`, the names in the
// table's order. Numbers carry the attribute `units`. NaN stands for a number that does not apply.
#pragma once

#include <string>
#include <variant>
#include <vector>

namespace headscope::data {

struct ResultsColumn {
  std::string name;  // unique, not empty, without '/'
  std::string unit;  // "" for none; "ms", "nat", ...
  std::variant<std::vector<double>, std::vector<std::string>> values;
};

// Creates `path`, which must not exist. Throws FailedError naming the column when lengths differ or a name cannot be
// used, and when the file cannot be written; a file that could not be written whole is removed. `attributes` (name,
// text) describe the table: model, trace, device.
void WriteResults(const std::string& path, const std::vector<ResultsColumn>& columns,
                  const std::vector<std::pair<std::string, std::string>>& attributes = {});

}  // namespace headscope::data
