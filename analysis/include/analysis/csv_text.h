// SPDX-License-Identifier: Apache-2.0
// Cells of CSV tables, written and read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace headscope::analysis {

// RFC 4180: quotes where a comma or a quote is inside. Tables are looked at in terminals, too: no line end, and no
// other character that a terminal obeys, is left as it was.
std::string CsvText(const std::string& raw);

// What is no number is an empty cell, as it is null in JSON.
std::string CsvText(double value);

std::string CsvText(int64_t value);

// Takes the first record off `rest`: its cells, as RFC 4180 has them, at least one. A quote that does not begin a cell,
// and a carriage return that does not end a line, are letters.
std::vector<std::string> TakeCsvRecord(std::string_view* rest);

}  // namespace headscope::analysis
