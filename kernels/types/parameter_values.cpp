// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <stdexcept>
#include <string>

#include "kernels/method_spec.h"

namespace headscope::kernels {
namespace {

// The shortest text that reads back as the same double, whole numbers without an exponent; independent of the locale.
std::string FormatNumber(double value) {
  constexpr double kMostWhole = 1e15;
  if (value == std::floor(value) && std::abs(value) < kMostWhole) return std::to_string(static_cast<int64_t>(value));
  char text[32];
  const std::to_chars_result result = std::to_chars(text, text + sizeof(text), value);
  return std::string(text, result.ptr);
}

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

bool ParseNumber(std::string_view text, double* value) {
  const std::from_chars_result result = std::from_chars(text.data(), text.data() + text.size(), *value);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

// What is typed for a value, by the parameter's type.
bool ParseValue(const ParameterSpec& spec, std::string_view text, double* value) {
  if (spec.type == ParameterType::kChoice) {
    const auto found = std::find(spec.choices.begin(), spec.choices.end(), text);
    *value = static_cast<double>(found - spec.choices.begin());
    return found != spec.choices.end();
  }
  if (spec.type == ParameterType::kFlag) {
    const bool on = text == "true" || text == "on" || text == "yes";
    if (on || text == "false" || text == "off" || text == "no") {
      *value = on ? 1 : 0;
      return true;
    }
  }
  return ParseNumber(text, value);
}

std::string Joined(const std::vector<std::string>& names) {
  std::string joined;
  for (const std::string& name : names) joined += (joined.empty() ? "" : ", ") + name;
  return joined;
}

std::string KnownNames(const MethodSpec& spec) {
  if (spec.parameters.empty()) return spec.name + " has no parameters";
  std::vector<std::string> names;
  for (const ParameterSpec& parameter : spec.parameters) names.push_back(parameter.name);
  return "known are " + Joined(names);
}

std::string NotNameAndValue(const MethodSpec& spec, std::string_view entry) {
  return "method " + spec.name + ": \"" + std::string(entry) + "\" is not name=number, " + KnownNames(spec);
}

std::string Unknown(const MethodSpec& spec, std::string_view name) {
  return "method " + spec.name + ": unknown parameter \"" + std::string(name) + "\", " + KnownNames(spec);
}

const ParameterSpec* FindParameter(const MethodSpec& spec, std::string_view name) {
  for (const ParameterSpec& parameter : spec.parameters) {
    if (parameter.name == name) return &parameter;
  }
  return nullptr;
}

}  // namespace

std::string ValueText(const ParameterSpec& spec, double value) {
  const bool named = spec.type == ParameterType::kChoice && value >= 0 &&
                     value < static_cast<double>(spec.choices.size());  // false for NaN
  return named ? spec.choices[static_cast<size_t>(value)] : FormatNumber(value);
}

ParameterValues::ParameterValues(const MethodSpec& spec) {
  for (const ParameterSpec& parameter : spec.parameters) values_[parameter.name] = parameter.default_value;
}

std::string ParameterValues::Set(const MethodSpec& spec, std::string_view name, double value) {
  const ParameterSpec* parameter = FindParameter(spec, name);
  if (parameter == nullptr) return Unknown(spec, name);
  const bool in_range = value >= parameter->minimum && value <= parameter->maximum;  // false for NaN
  const bool must_be_whole = parameter->type != ParameterType::kReal;
  if (!in_range || (must_be_whole && value != std::floor(value))) {
    return "method " + spec.name + ": " + parameter->name + " is " + FormatNumber(value) + "; it must be " +
           (must_be_whole ? "an integer" : "a number") + " from " + FormatNumber(parameter->minimum) + " to " +
           FormatNumber(parameter->maximum);
  }
  values_.insert_or_assign(parameter->name, value);
  return {};
}

std::string ParameterValues::Parse(const MethodSpec& spec, std::string_view text) {
  ParameterValues parsed = *this;
  std::set<std::string_view> named;
  text = Trim(text);
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view entry = Trim(text.substr(0, comma));
    const size_t equals = entry.find('=');
    if (equals == std::string_view::npos) return NotNameAndValue(spec, entry);
    const std::string_view name = Trim(entry.substr(0, equals));
    const std::string_view typed = Trim(entry.substr(equals + 1));
    const ParameterSpec* const parameter = FindParameter(spec, name);
    if (parameter == nullptr) return Unknown(spec, name);
    double value = 0;
    if (!ParseValue(*parameter, typed, &value)) {
      if (parameter->type != ParameterType::kChoice) return NotNameAndValue(spec, entry);
      return "method " + spec.name + ": " + parameter->name + " is \"" + std::string(typed) + "\"; it must be one of " +
             Joined(parameter->choices);
    }
    if (!named.insert(name).second) {
      return "method " + spec.name + ": " + std::string(name) + " is given twice; give it once";
    }
    std::string error = parsed.Set(spec, name, value);
    if (!error.empty()) return error;
    if (comma == std::string_view::npos) break;
    text = Trim(text.substr(comma + 1));
    if (text.empty()) return "method " + spec.name + ": nothing follows the last comma of the parameters";
  }
  *this = std::move(parsed);
  return {};
}

std::string ParameterValues::Check(const MethodSpec& spec) const {
  ParameterValues checked;
  for (const ParameterSpec& parameter : spec.parameters) {
    const auto value = values_.find(parameter.name);
    if (value == values_.end()) {
      return "method " + spec.name + ": parameter " + parameter.name +
             " has no value; start from the method's defaults";
    }
    std::string error = checked.Set(spec, parameter.name, value->second);
    if (!error.empty()) return error;
  }
  return {};
}

double ParameterValues::Real(std::string_view name) const {
  const auto value = values_.find(name);
  if (value == values_.end()) throw std::out_of_range("no parameter named " + std::string(name));
  return value->second;
}

int ParameterValues::Integer(std::string_view name) const {
  return static_cast<int>(Real(name));
}

std::string ParameterValues::ToString(const MethodSpec& spec) const {
  std::string text;
  for (const ParameterSpec& parameter : spec.parameters) {
    text += (text.empty() ? "" : ",") + parameter.name + "=" + ValueText(parameter, Real(parameter.name));
  }
  return text;
}

std::string ParameterValues::Difference(const MethodSpec& spec, const ParameterValues& other) const {
  std::string text;
  for (const ParameterSpec& parameter : spec.parameters) {
    const double value = Real(parameter.name);
    if (value != other.Real(parameter.name))
      text += (text.empty() ? "" : ",") + parameter.name + "=" + ValueText(parameter, value);
  }
  return text;
}

}  // namespace headscope::kernels
