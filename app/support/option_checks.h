// SPDX-License-Identifier: Apache-2.0
// What every subcommand refuses alike, before it starts.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "base/errors.h"

namespace headscope::app {

// Gives each option of each subcommand a check of its text, so that one sentence names the option: nothing at all is
// never taken for an option that was not given, and of a whole number neither a word nor a fraction, a negative count
// or a number too large for the option's variable, which could wrap round, is taken. An option takes one argument each
// time that it is named, a list too: the next one may be the trace. Call it when all subcommands have been added.
void PrepareOptions(CLI::App& app);

constexpr int64_t kMostInteger = std::numeric_limits<int32_t>::max();  // of an option whose help names no upper end

// The numbers that an option takes, in a list each of its elements. They are refused as PrepareOptions does, and
// stand behind the option's help ("..; 1 to 8", "..; from 1"): give them where the option is defined.
CLI::Option* LimitIntegers(CLI::Option* option, int64_t least, int64_t most = kMostInteger);
CLI::Option* LimitNumbers(CLI::Option* option, double least, double most);

// CLI11 drops the empty elements of a list ("512,,3", "a,") without a word. The fault of the first such option among
// the arguments of a subcommand, if there is one. Call it before they are parsed.
std::optional<Fault> EmptyElement(const CLI::App& app, int argc, const char* const* argv);

// What CLI11 refused in a command line; of an unknown option, with the one that was probably meant.
Fault ParseFault(const CLI::App& app, const CLI::ParseError& error);

// A lower room names the field that it refuses ("length 20: the task needs ..."), never an option, because the window
// shows the same sentences. Where the subcommand that runs has an option of the field's name, the error is made to name
// that ("--length 20: ..."). A field of a file stays what it is. An output that exists may be replaced by an option,
// too, and what some other work helps against (base/error_with_help.h) by a subcommand.
void NameTheOption(const CLI::App& app, Error* error);

// A first argument that is neither a subcommand nor something that exists: names the nearest subcommand when one is
// within two edits.
Fault UnknownArgument(const CLI::App& app, const std::string& argument);

}  // namespace headscope::app
