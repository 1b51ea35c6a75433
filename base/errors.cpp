// SPDX-License-Identifier: Apache-2.0
#include "base/errors.h"

#include <utility>

namespace headscope {

std::string SentenceOf(const Fault& fault) {
  std::string text;
  if (!fault.file.empty()) text.append(fault.file).append(": ");
  if (!fault.field.empty()) {
    text.append(fault.field);
    if (!fault.value.empty()) text.append(" ").append(fault.value);
    text.append(": ");
  }
  text.append(fault.problem);
  if (!fault.remedy.empty()) text.append("; ").append(fault.remedy);
  return text;
}

Error::Error(Fault fault) : std::runtime_error(SentenceOf(fault)), fault_(std::move(fault)) {}

void Error::SetFile(const std::string& file) {
  Fault fault = fault_;
  fault.file = file;
  Replace(std::move(fault));
}

void Error::SetField(const std::string& field) {
  Fault fault = fault_;
  fault.field = field;
  Replace(std::move(fault));
}

void Error::AddRemedy(const std::string& remedy) {
  Fault fault = fault_;
  fault.remedy.append(fault.remedy.empty() ? "" : "; ").append(remedy);
  Replace(std::move(fault));
}

void Error::Replace(Fault fault) {
  std::runtime_error::operator=(std::runtime_error(SentenceOf(fault)));
  fault_ = std::move(fault);
}

}  // namespace headscope
