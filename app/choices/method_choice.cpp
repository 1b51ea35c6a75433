// SPDX-License-Identifier: Apache-2.0
#include "choices/method_choice.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/errors.h"
#include "base/quoted_text.h"
#include "choices/file_method.h"
#include "kernels/method_names.h"

namespace headscope::app {
namespace {

const std::string kMethodField = "method";
constexpr int64_t kFullBudgetTokens = 65536;  // from here on a demonstration runs the defaults

MethodChoice Choose(const std::string& name, const std::string& field) {
  const kernels::NamedMethod named = kernels::FindMethod(name);
  if (named.spec() == nullptr) {
    throw UsageError({.field = field,
                      .problem = Quoted(name) + " is not registered",
                      .remedy = "choose from " + kernels::MethodNames() + ", " + FileMethodNames()});
  }
  MethodChoice choice;
  choice.spec = named.spec();
  choice.prefill = named.prefill;
  choice.decode = named.decode;
  choice.values = kernels::ParameterValues(*choice.spec);
  choice.name = kernels::UniqueName(*choice.spec);
  return choice;
}

}  // namespace

MethodChoice ParseMethod(const std::string& text, const std::string& field) {
  const size_t colon = text.find(':');
  std::string name = text.substr(0, colon), parameters = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (IsFileMethod(name)) name = MethodOfFile(name, &parameters, field);
  MethodChoice choice = Choose(name, field);
  if (!parameters.empty()) {
    const std::string error = choice.values.Parse(*choice.spec, parameters);
    if (!error.empty()) throw UsageError({.field = field, .problem = error});
  }
  return choice;
}

std::vector<MethodChoice> ParseMethods(const std::vector<std::string>& texts) {
  std::vector<MethodChoice> choices;
  choices.reserve(texts.size());
  for (const std::string& text : texts) choices.push_back(ParseMethod(text));
  return choices;
}

std::vector<MethodChoice> DemonstrationMethods(int64_t seq_len) {
  std::vector<MethodChoice> choices;
  for (const kernels::PrefillMethod* method : kernels::PrefillMethods())
    choices.push_back(Choose(method->spec().name, kMethodField));
  for (const kernels::DecodeMethod* method : kernels::DecodeMethods()) {
    choices.push_back(Choose(kernels::UniqueName(method->spec()), kMethodField));
  }
  // The papers' defaults are for 100K tokens and more. Lengths counted in tokens, lines or blocks shrink with the
  // sequence, down to a useful floor. What is kept unasked shrinks alike: it would take up the whole budget.
  const double factor = std::clamp(static_cast<double>(seq_len) / kFullBudgetTokens, 0.0, 1.0);
  for (MethodChoice& choice : choices) {
    if (choice.decode != nullptr) continue;
    for (const kernels::ParameterSpec& parameter : choice.spec->parameters) {
      // Block edges, strides and probe sizes are no budgets and stay.
      if (parameter.scaled_floor <= 0) continue;
      const double value =
          std::max({parameter.minimum, parameter.scaled_floor, std::round(parameter.default_value * factor)});
      const std::string error = choice.values.Set(*choice.spec, parameter.name, std::min(value, parameter.maximum));
      if (!error.empty()) throw FailedError(choice.name + ": " + error);
    }
  }
  return choices;
}

std::string DemonstrationNote(int64_t seq_len) {
  if (seq_len >= kFullBudgetTokens) return "Every method runs with its defaults.";
  std::ostringstream out;
  out << "Default budgets are meant for prompts of " << kFullBudgetTokens / 1024
      << "K tokens; here those counted in tokens, lines or blocks are scaled by " << seq_len << " / "
      << kFullBudgetTokens
      << ", with a minimum for each. Methods therefore keep "
         "different shares: read each row together with its kept share. The parameters column shows what ran.";
  return out.str();
}

}  // namespace headscope::app
