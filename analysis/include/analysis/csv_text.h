// SPDX-License-Identifier: Apache-2.0
// Cells of CSV tables.
#pragma once

#include <cstdint>
#include <string>

namespace headscope::analysis {

// RFC 4180: quotes where a comma or a quote is inside. Tables are looked at in terminals, too: no line end, and no
// other character that a terminal obeys, is left as it was.
std::string CsvText(const std::string& raw);

// What is no number is an empty cell, as it is null in JSON.
std::string CsvText(double value);

std::string CsvText(int64_t value);

}  // namespace headscope::analysis
