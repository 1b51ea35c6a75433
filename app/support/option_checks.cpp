// SPDX-License-Identifier: Apache-2.0
#include "support/option_checks.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error_with_help.h"
#include "base/errors.h"
#include "base/quoted_text.h"
#include "support/output_file.h"

namespace headscope::app {
namespace {

struct Bounds {
  int64_t least, most;
};

// What the variable of an option of whole numbers can hold; nothing for other options.
std::optional<Bounds> BoundsOf(const CLI::Option& option) {
  constexpr Bounds kInt{std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
  const std::string type = option.get_type_name();
  if (type == "INT") return kInt;
  if (type == "UINT") return Bounds{0, std::numeric_limits<int64_t>::max()};
  return std::nullopt;
}

// Behind a remedy: the subcommand that does it.
std::string_view CommandFor(Help help) {
  switch (help) {
    case Help::kCapture:
      return "`headscope capture` writes one";
    case Help::kDrawMap:
      return "`headscope render` draws them";
    case Help::kListTrace:
      return "`headscope info TRACE` lists what was recorded";
    case Help::kMeasure:
      return "`headscope compare` writes one";
    case Help::kSaveIndex:
      return "`headscope compare` and `headscope bench` write one with --save-index";
    case Help::kTune:
      return "`headscope tune` writes one";
  }
  return {};
}

// As it was typed; what is no number is quoted.
std::string Given(const std::string& text, bool is_number) {
  return is_number ? text : Quoted(text);
}

CLI::Validator WholeNumber(Bounds bounds) {
  const auto check = [bounds](std::string& text) {
    int64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [parsed, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && parsed == end && value >= bounds.least && value <= bounds.most) return std::string();
    std::string refusal = "must be an integer from ";
    refusal.append(std::to_string(bounds.least)).append(" to ").append(std::to_string(bounds.most));
    return refusal.append(", not ").append(Given(text, parsed == end));
  };
  return CLI::Validator(check, "");
}

CLI::Validator NotEmpty() {
  return CLI::Validator(
      [](std::string& text) {
        return std::string(text.empty() ? "the value is empty; give one or leave the option out" : "");
      },
      "");
}

void AddToHelp(CLI::Option* option, const std::string& range) {
  option->description(option->get_description() + "; " + range);
}

// Levenshtein's distance: the fewest letters to insert, remove or replace.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

constexpr size_t kMostEdits = 2;  // of a name that was meant

Fault UnknownOption(const CLI::App& command, const std::string& typed) {
  std::string nearest;
  size_t least = kMostEdits + 1;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      const size_t distance = Distance(typed, "--" + name);
      if (distance < least) {
        least = distance;
        nearest = "--" + name;
      }
    }
  }
  const std::string of = "headscope " + command.get_name();
  return {.problem = typed + " is not an option of `" + of + "`",
          .remedy = nearest.empty() ? "`" + of + " --help` lists them" : "did you mean " + nearest + "?"};
}

}  // namespace

CLI::Option* LimitIntegers(CLI::Option* option, int64_t least, int64_t most) {
  const std::string from = std::to_string(least);
  AddToHelp(option, most >= kMostInteger ? "from " + from : from + " to " + std::to_string(most));
  return option->check(NotEmpty())->check(WholeNumber({least, most}));
}

CLI::Option* LimitNumbers(CLI::Option* option, double least, double most) {
  std::ostringstream range;
  range << least << " to " << most;
  AddToHelp(option, range.str());
  const auto check = [least, most, range = range.str()](std::string& text) {
    double value = 0;
    const char* const end = text.data() + text.size();
    const auto [parsed, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && parsed == end && value >= least && value <= most) return std::string();
    return "must be a number from " + range + ", not " + Given(text, parsed == end);
  };
  return option->check(NotEmpty())->check(CLI::Validator(check, ""));
}

void PrepareOptions(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands({})) {
    for (CLI::Option* option : command->get_options()) {
      if (option->get_expected_max() == 0) continue;  // a flag
      if (!option->get_positional()) option->allow_extra_args(false);
      option->check(NotEmpty());
      if (const std::optional<Bounds> bounds = BoundsOf(*option)) option->check(WholeNumber(*bounds));
    }
  }
}

std::optional<Fault> EmptyElement(const CLI::App& app, int argc, const char* const* argv) {
  const auto commands =
      app.get_subcommands([&](const CLI::App* named) { return argc > 1 && named->get_name() == argv[1]; });
  if (commands.empty()) return std::nullopt;
  const CLI::Option* named = nullptr;  // by the argument before this one
  for (int i = 2; i < argc; ++i) {
    std::string text = argv[i];
    const CLI::Option* option = std::exchange(named, nullptr);
    if (option == nullptr && text.starts_with('-')) {  // else it is a value, though it may begin as an option does
      const size_t equals = text.find('=');
      option = commands.front()->get_option_no_throw(text.substr(0, equals));
      if (equals == std::string::npos) {
        if (option != nullptr && option->get_expected_max() > 0) named = option;  // no flag
        continue;
      }
      text.erase(0, equals + 1);
    }
    if (option == nullptr || option->get_delimiter() == '\0' || text.empty()) continue;
    const std::string comma(1, option->get_delimiter());
    if ((comma + text + comma).find(comma + comma) == std::string::npos) continue;
    return Fault{.field = option->get_name(),
                 .value = Quoted(text),
                 .problem = "the list has an empty element",
                 .remedy = "remove the extra comma"};
  }
  return std::nullopt;
}

Fault ParseFault(const CLI::App& app, const CLI::ParseError& error) {
  if (dynamic_cast<const CLI::ValidationError*>(&error) != nullptr) return {.problem = error.what()};
  if (dynamic_cast<const CLI::RequiresError*>(&error) != nullptr)
    return {.problem = error.what(), .remedy = "give both or neither"};
  // An option that has to be there may be missing because its name was typed otherwise.
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ||
      dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    for (const CLI::App* command : app.get_subcommands()) {
      for (const std::string& argument : command->remaining()) {
        if (argument.starts_with("--")) return UnknownOption(*command, argument.substr(0, argument.find('=')));
      }
    }
  }
  return {.problem = error.what(), .remedy = "`headscope --help` and `headscope COMMAND --help` list what is known"};
}

void NameTheOption(const CLI::App& app, Error* error) {
  if (dynamic_cast<const OutputExistsError*>(error) != nullptr) error->AddRemedy("or give --force to replace it");
  if (const auto* helped = dynamic_cast<const WithHelp*>(error))
    error->AddRemedy(std::string(CommandFor(helped->help())));
  const Fault& fault = error->fault();
  if (fault.field.empty() || !fault.file.empty()) return;
  const std::string option = "--" + fault.field;
  for (const CLI::App* command : app.get_subcommands()) {
    if (command->get_option_no_throw(option) != nullptr) return error->SetField(option);
  }
}

Fault UnknownArgument(const CLI::App& app, const std::string& argument) {
  std::string nearest;
  size_t least = kMostEdits + 1;
  for (const CLI::App* command : app.get_subcommands({})) {
    const size_t distance = Distance(argument, command->get_name());
    if (distance < least) {
      least = distance;
      nearest = command->get_name();
    }
  }
  return {.problem = Quoted(argument, argument.size()) + " is not a file, folder or command",
          .remedy =
              nearest.empty() ? "`headscope --help` lists the commands" : "did you mean `headscope " + nearest + "`?"};
}

}  // namespace headscope::app
