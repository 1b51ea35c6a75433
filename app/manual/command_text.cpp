// SPDX-License-Identifier: Apache-2.0
#include "manual/command_text.h"

namespace headscope::app {
namespace {

OptionText DescribeOption(const CLI::Option& option) {
  OptionText text;
  if (option.get_positional()) {
    text.names.push_back(option.get_name(true));
    text.repeats = option.get_expected_max() > 1;
  } else {
    for (const std::string& name : option.get_snames()) text.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) text.names.push_back("--" + name);
  }
  if (option.get_expected_max() > 0) text.value = option.get_type_name().empty() ? "VALUE" : option.get_type_name();
  text.default_value = option.get_default_str();
  text.help = option.get_description();
  text.required = option.get_required();
  return text;
}

CommandText DescribeCommand(const CLI::App& command) {
  CommandText text{.name = command.get_name(),
                   .help = command.get_description(),
                   .footer = command.get_footer(),
                   .arguments = {},
                   .options = {}};
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;
    (option->get_positional() ? text.arguments : text.options).push_back(DescribeOption(*option));
  }
  return text;
}

}  // namespace

ProgramText Describe(const CLI::App& app) {
  ProgramText text{.program = DescribeCommand(app), .commands = {}};
  for (const CLI::App* command : app.get_subcommands({})) text.commands.push_back(DescribeCommand(*command));
  return text;
}

bool IsPath(const OptionText& option) {
  for (const char* word : {"FILE", "DIR", "TRACE", "OUT"}) {
    if (option.value.find(word) != std::string::npos) return true;
  }
  return false;
}

}  // namespace headscope::app
