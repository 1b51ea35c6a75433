// SPDX-License-Identifier: Apache-2.0
// Where and when runs are measured, for tables that leave the program.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "analysis/types/comparison.h"
#include "base/csv_origin.h"
#include "base/device.h"
#include "data/trace_reader.h"

namespace headscope::app {

// Of a run on this trace that ends now, and of a table or a page that is written now.
analysis::RunOrigin OriginOf(const data::TraceReader& trace);
// The same of a table of several traces: all their paths in one text, and each of their models once.
analysis::RunOrigin OriginOf(const std::vector<std::string>& traces, const std::vector<std::string>& models);

// The ends of a CSV table's lines, each a name and, in every row, a text; and the same of a JSON document.
using CsvColumns = OriginTexts;
CsvOrigin CsvOriginOf(const CsvColumns& columns);
// Where a table's rows are from, by these names.
inline constexpr std::array kOriginNames = {"trace", "model", "written_at", "version"};
CsvColumns OriginColumns(const analysis::RunOrigin& origin);
// The same behind "device": where all of the rows were computed.
CsvColumns OriginColumns(const NamedDevice& device, const analysis::RunOrigin& origin);
// "2026-05-31 by headscope 0.1.0".
std::string WrittenText(const analysis::RunOrigin& origin);

}  // namespace headscope::app
