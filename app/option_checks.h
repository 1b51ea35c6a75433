// What every subcommand refuses alike, before it starts.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace headscope::app {

// Gives each whole-number option of each subcommand a check of its text, so that a word, a fraction, a negative count
// or a number too large is one sentence with the option and its range, and never wraps round. Call it when all
// subcommands have been added.
void CheckWholeNumbers(CLI::App& app);

// What to say of a first argument that is neither a subcommand nor something that exists: names the nearest
// subcommand when one is within two edits.
std::string UnknownArgument(const CLI::App& app, const std::string& argument);

}  // namespace headscope::app
