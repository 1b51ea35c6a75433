// What a method says of itself: the one source of the command line's options, the window's sliders, the tuner's search
// space, `headscope methods` and the tables in docs/. Plain data: any room may include this header.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace headscope::kernels {

enum class Phase { kPrefill, kDecode };
enum class ParameterType { kInteger, kReal, kFlag };

// What a parameter is to somebody who looks for the cheapest setting that still keeps a given mass.
enum class ParameterRole {
  kOther,
  // Says how much is kept: a larger value never drops a pair that a smaller one keeps, so bisection finds the least
  // value for a target. An integer budget counts tokens or groups of them: above the sequence length it changes
  // nothing.
  kBudget,
  // A budget that is itself a share of attention mass, 0 to 1: a target for the kept mass can be written straight into
  // it.
  kMassShare,
};

struct ParameterSpec {
  std::string name;  // as typed: lower case, underscores
  ParameterType type = ParameterType::kInteger;
  double default_value = 0;
  double minimum = 0;  // legal range, inclusive
  double maximum = 0;
  double step = 1;           // what one notch of a slider or one tuner step changes
  bool logarithmic = false;  // sliders and the tuner move by factors
  std::string unit;          // "tokens", "blocks", "share of mass", ...; empty for a pure count
  std::string help;          // one line
  std::string cost;          // what raising it costs, one line
  ParameterRole role = ParameterRole::kOther;
  int32_t tokens_per_unit = 1;  // of an integer budget: what one more of it covers, so that a sequence bounds it
};

struct MethodSpec {
  std::string name;     // as typed: "vertical-slash"
  std::string title;    // as shown: "MInference vertical-slash"
  std::string family;   // "dense", "static pattern", "dynamic pattern", ...
  std::string paper;    // title and section of the source
  std::string summary;  // one line
  Phase phase = Phase::kPrefill;
  std::vector<ParameterSpec> parameters;
};

// Values of a method's parameters, defaults first. Real, integer and flag values are all held as doubles; integers are
// exact to 2^53.
class ParameterValues {
 public:
  ParameterValues() = default;
  explicit ParameterValues(const MethodSpec& spec);  // the defaults

  // Sets one value. Returns an empty string, or one sentence: the parameter, the value and the legal range or the known
  // names.
  std::string Set(const MethodSpec& spec, std::string_view name, double value);
  // Parses "name=value,name=value" over the present values. Same errors as Set; nothing is changed on error.
  std::string Parse(const MethodSpec& spec, std::string_view text);

  double Real(std::string_view name) const;
  int Integer(std::string_view name) const;
  bool Flag(std::string_view name) const { return Real(name) != 0; }
  // "name=value,..." with every parameter, in the spec's order.
  std::string ToString(const MethodSpec& spec) const;
  const std::map<std::string, double, std::less<>>& values() const { return values_; }
  friend bool operator==(const ParameterValues&, const ParameterValues&) = default;

 private:
  std::map<std::string, double, std::less<>> values_;
};

}  // namespace headscope::kernels
