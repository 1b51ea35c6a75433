// SPDX-License-Identifier: Apache-2.0
// What the parser knows of the command line, as plain text. The man page and the shells' completions are written from
// it, so neither keeps a list of its own.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace headscope::app {

struct OptionText {
  std::vector<std::string> names;  // "-o", "--output"; of a positional argument its one name
  std::string value;               // what it takes, as --help names it; empty for a flag
  std::string default_value;
  std::string help;
  bool required = false;
  bool repeats = false;  // a positional argument that may stand several times
};

struct CommandText {
  std::string name, help, footer;
  std::vector<OptionText> arguments;  // positional ones
  std::vector<OptionText> options;
};

struct ProgramText {
  CommandText program;
  std::vector<CommandText> commands;
};

// Everything that --help shows; what belongs to no group is hidden there and here.
ProgramText Describe(const CLI::App& app);

// Whether a value of this kind is a file or a folder: what a shell completes by itself.
bool IsPath(const OptionText& option);

}  // namespace headscope::app
