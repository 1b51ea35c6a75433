// SPDX-License-Identifier: Apache-2.0
// The subcommands: each file command_<name>.cpp adds its options to the parser and says what to run.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace headscope::app {

// What the parsed command line asks for: set by the chosen subcommand's callback, run by main() with the error policy
// around it.
using Action = std::function<int()>;

void AddInfoCommand(CLI::App& app, Action& action);
void AddMethodsCommand(CLI::App& app, Action& action);
void AddCaptureCommand(CLI::App& app, Action& action);
void AddAnalyzeCommand(CLI::App& app, Action& action);
void AddCompareCommand(CLI::App& app, Action& action);
void AddRenderCommand(CLI::App& app, Action& action);
void AddDiffCommand(CLI::App& app, Action& action);
void AddExportCommand(CLI::App& app, Action& action);
void AddEvalCommand(CLI::App& app, Action& action);
void AddDemoCommand(CLI::App& app, Action& action);
void AddBenchCommand(CLI::App& app, Action& action);
void AddQuantiseCommand(CLI::App& app, Action& action);
void AddTuneCommand(CLI::App& app, Action& action);

}  // namespace headscope::app
