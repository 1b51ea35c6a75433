// SPDX-License-Identifier: Apache-2.0
#include "analysis/csv_text.h"

#include <cmath>

#include "analysis/types/number_text.h"
#include "analysis/types/printable.h"

namespace headscope::analysis {

std::string CsvText(const std::string& raw) {
  std::string text = Printable(raw);
  if (text.find_first_of(",\"") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char character : text) quoted.append(character == '"' ? 2 : 1, character);
  return quoted + "\"";
}

std::string CsvText(double value) {
  return std::isnan(value) ? "" : ShortestNumber(value);
}

std::string CsvText(int64_t value) {
  return std::to_string(value);
}

}  // namespace headscope::analysis
