// SPDX-License-Identifier: Apache-2.0
#include "commands/answer_file.h"

#include <array>
#include <nlohmann/json.hpp>

#include "analysis/types/number_text.h"
#include "analysis/types/printable.h"
#include "base/errors.h"
#include "base/file_format.h"
#include "base/version.h"
#include "kernels/method.h"
#include "support/output_file.h"

namespace headscope::app {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson AnswerJson(const eval::Answer& answer, const AnswerOrigin& origin) {
  const ModelAttention& attention = *origin.attention;
  return {{"dataset", "headscope"},
          {"data_dir", std::to_string(answer.length)},
          {"model", origin.model},
          {"press_name", attention.press_name},
          {"compression_ratio",
           attention.compression_ratio ? OrderedJson(*attention.compression_ratio) : OrderedJson(nullptr)},
          {"task", answer.task},
          {"context", answer.context},
          {"question", answer.question},
          {"answer_prefix", ""},
          {"answer", answer.expected},
          {"max_new_tokens", answer.answer_tokens},
          {"predicted_answer", answer.generated},
          {"attention", attention.backend ? attention.text : kernels::PrefillBaseline().spec().name},
          {"score", answer.right ? 1 : 0},
          {"device", origin.device},
          {"written_at", origin.written_at},
          {"version", Version()}};
}

std::string Cell(const OrderedJson& value) {
  if (value.is_null()) return "";
  if (value.is_number_integer()) return std::to_string(value.get<int64_t>());
  if (value.is_number()) return analysis::ShortestNumber(value.get<double>());
  std::string quoted = "\"";
  for (const char c : value.get<std::string>()) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

void CheckAnswerFile(const std::string& path) {
  FormatOfOutput(path, std::array{FileFormat::kCsv, FileFormat::kJson});
}

std::string AnswerFile(const std::vector<eval::Answer>& answers, const AnswerOrigin& origin, const std::string& path) {
  OrderedJson entries = OrderedJson::array();
  for (const eval::Answer& answer : answers) entries.push_back(AnswerJson(answer, origin));
  if (FindFileFormat(path) == FileFormat::kJson) {
    const OrderedJson json = {{"schema", "headscope-answers-1"}, {"answers", std::move(entries)}};
    // A model's answer may end inside a character.
    return analysis::PrintableJson(json.dump(2, ' ', /*ensure_ascii=*/false, OrderedJson::error_handler_t::replace)) +
           "\n";
  }
  std::string csv;
  const OrderedJson columns = AnswerJson({}, origin);
  for (const auto& [name, value] : columns.items()) csv += (csv.empty() ? "" : ",") + name;
  csv += '\n';
  for (const OrderedJson& entry : entries) {
    std::string line;
    for (const auto& [name, value] : entry.items()) line += (name == columns.begin().key() ? "" : ",") + Cell(value);
    csv += line + '\n';
  }
  return csv;
}

}  // namespace headscope::app
