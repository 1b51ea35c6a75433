#include <charconv>
#include <cmath>
#include <set>
#include <stdexcept>
#include <string>

#include "kernels/method_spec.h"

namespace headscope::kernels {
namespace {

// The shortest text that reads back as the same double; independent of the locale.
std::string FormatNumber(double value) {
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
  if (text == "true" || text == "on" || text == "yes") {
    *value = 1;
    return true;
  }
  if (text == "false" || text == "off" || text == "no") {
    *value = 0;
    return true;
  }
  const std::from_chars_result result = std::from_chars(text.data(), text.data() + text.size(), *value);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

std::string KnownNames(const MethodSpec& spec) {
  if (spec.parameters.empty()) return spec.name + " has no parameters";
  std::string names = "known are ";
  for (size_t i = 0; i < spec.parameters.size(); ++i) names += (i == 0 ? "" : ", ") + spec.parameters[i].name;
  return names;
}

const ParameterSpec* FindParameter(const MethodSpec& spec, std::string_view name) {
  for (const ParameterSpec& parameter : spec.parameters) {
    if (parameter.name == name) return &parameter;
  }
  return nullptr;
}

}  // namespace

ParameterValues::ParameterValues(const MethodSpec& spec) {
  for (const ParameterSpec& parameter : spec.parameters) values_[parameter.name] = parameter.default_value;
}

std::string ParameterValues::Set(const MethodSpec& spec, std::string_view name, double value) {
  const ParameterSpec* parameter = FindParameter(spec, name);
  if (parameter == nullptr) {
    return "method " + spec.name + ": unknown parameter \"" + std::string(name) + "\", " + KnownNames(spec);
  }
  const bool in_range = value >= parameter->minimum && value <= parameter->maximum;  // false for NaN
  const bool must_be_whole = parameter->type != ParameterType::kReal;
  if (!in_range || (must_be_whole && value != std::floor(value))) {
    return "method " + spec.name + ": " + parameter->name + " is " + FormatNumber(value) + ", legal is " +
           (must_be_whole ? "a whole number" : "a number") + " from " + FormatNumber(parameter->minimum) + " to " +
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
    double value = 0;
    if (equals == std::string_view::npos || !ParseNumber(Trim(entry.substr(equals + 1)), &value)) {
      return "method " + spec.name + ": \"" + std::string(entry) + "\" is not name=number, " + KnownNames(spec);
    }
    const std::string_view name = Trim(entry.substr(0, equals));
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
    text += (text.empty() ? "" : ",") + parameter.name + "=" + FormatNumber(Real(parameter.name));
  }
  return text;
}

}  // namespace headscope::kernels
