// SPDX-License-Identifier: Apache-2.0
#include "analysis/csv_text.h"

#include <algorithm>
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

std::vector<std::string> TakeCsvRecord(std::string_view* rest) {
  std::vector<std::string> record(1);
  bool quoted = false;
  size_t i = 0;
  for (; i < rest->size(); ++i) {
    const char character = (*rest)[i];
    const std::string_view behind = rest->substr(i + 1);
    if (quoted && character == '"' && behind.starts_with('"')) {
      record.back() += '"';
      ++i;
    } else if (character == '"' && (quoted || record.back().empty())) {
      quoted = !quoted;
    } else if (quoted) {
      record.back() += character;
    } else if (character == '\n') {
      break;
    } else if (character == ',') {
      record.emplace_back();
    } else if (character != '\r' || !(behind.empty() || behind.starts_with('\n'))) {
      record.back() += character;
    }
  }
  rest->remove_prefix(std::min(i + 1, rest->size()));
  return record;
}

}  // namespace headscope::analysis
