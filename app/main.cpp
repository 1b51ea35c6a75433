// SPDX-License-Identifier: Apache-2.0
// headscope: one binary, the window or one subcommand.
#include <CLI/CLI.hpp>
#include <csignal>
#include <exception>
#include <filesystem>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "base/version.h"
#include "commands/command.h"
#include "data/trace_files.h"
#include "manual/completions.h"
#include "manual/man_page.h"
#include "support/exit_codes.h"
#include "support/failure.h"
#include "support/messages.h"
#include "support/option_checks.h"
#include "support/output_file.h"
#include "support/sleeping_threads.h"
#include "support/sudden_end.h"
#include "window.h"

namespace headscope::app {
namespace {

// Runs what may fail under the error policy: one sentence on stderr and the exit code that scripts rely on.
int Run(const CLI::App& app, const Action& action) {
  try {
    const int code = action();
    if (code == kInterrupted) Say("interrupted");
    return code;
  } catch (Error& error) {
    NameTheOption(app, &error);
    const Failure failure = FailureOf(error);
    Say(failure.sentence);
    return failure.code;
  } catch (const std::exception& error) {
    const Failure failure = FailureOf(error);
    Say(failure.sentence);
    return failure.code;
  }
}

// Prints the help that a refused command line asked for beside what it was refused for. False: it asked for none.
bool ShowHelp(const CLI::App& app) {
  bool asked = app.get_help_ptr()->count() > 0;
  for (const CLI::App* command : app.get_subcommands()) asked = asked || command->get_help_ptr()->count() > 0;
  if (asked) WriteText(app.help(), "", false);
  return asked;
}

int Main(int argc, char** argv) {
  CLI::App app("headscope: what every attention head does, and what sparse attention would keep of it", "headscope");
  app.set_version_flag("--version", std::string("headscope ") + Version());
  app.require_subcommand(0, 1);
  std::string open_path;
  app.add_option("path", open_path, "Trace or model folder to open in the window")->type_name("TRACE|MODEL_DIR");
  // For the build, which installs what they print; no group hides them from --help and from the manual itself.
  std::string shell;
  bool man_page = false;
  app.add_option("--completions", shell, "Print a completion script: bash, zsh or fish")->group("");
  app.add_flag("--man-page", man_page, "Print the manual page, for man(1)")->group("");

  Action action;
  AddDemoCommand(app, action);
  AddCaptureCommand(app, action);
  AddInfoCommand(app, action);
  AddAnalyzeCommand(app, action);
  AddCompareCommand(app, action);
  AddDiffCommand(app, action);
  AddTuneCommand(app, action);
  AddQuantiseCommand(app, action);
  AddRenderCommand(app, action);
  AddExportCommand(app, action);
  AddEvalCommand(app, action);
  AddMethodsCommand(app, action);
  AddBenchCommand(app, action);
#ifdef HEADSCOPE_HAVE_GUI
  SetWindowBench(BenchWindow);
#endif
  PrepareOptions(app);
  app.footer(  // after the subcommands, which would take it over
      "Without a subcommand the window opens: on TRACE.h5 or MODEL_DIR when given, else on the last session.\n"
      "`headscope COMMAND --help` explains each command. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 bad input "
      "file,\n"
      "4 device or memory missing, 130 interrupted.");

  const auto nothing_has_the_name = [&] {
    std::error_code unreadable;
    return !open_path.empty() && !std::filesystem::exists(open_path, unreadable) &&
           data::FilesNamedFor(open_path).empty();
  };
  bool ended = false;  // by what was asked for, or by the refusal of the command line
  const int parsed = Run(app, [&] {
    if (std::optional<Fault> fault = EmptyElement(app, argc, argv)) throw UsageError(*std::move(fault));
    try {
      app.parse(argc, argv);
    } catch (const CLI::Success& asked) {  // --help and --version
      std::ostringstream text;
      app.exit(asked, text, std::cerr);
      WriteText(text.str(), "", false);
      ended = true;
    } catch (const UsageError&) {  // of an option's value
      if (!ShowHelp(app)) throw;
      ended = true;
    } catch (const CLI::ParseError& error) {
      if (ShowHelp(app)) {
        ended = true;
        return kDone;
      }
      throw UsageError(nothing_has_the_name() ? UnknownArgument(app, open_path) : ParseFault(app, error));
    }
    return kDone;
  });
  if (parsed != kDone || ended) return parsed;
  if (man_page || !shell.empty()) {
    action = [&] {
      const ProgramText text = Describe(app);
      WriteText(man_page ? ManPage(text, Version()) : Completions(text, shell), "", false);
      return kDone;
    };
  }
  if (!action) {
    action = [&] {
      if (nothing_has_the_name()) throw UsageError(UnknownArgument(app, open_path));
      LetThreadsSleepWhileTheyWait(argv);  // it captures, too
      return OpenWindow(argc, argv, open_path);
    };
  }
  return Run(app, action);
}

}  // namespace
}  // namespace headscope::app

int main(int argc, char** argv) {
  // A file that grows beyond the limit (ulimit -f) is then a write that fails, with a sentence and nothing left behind.
  std::signal(SIGXFSZ, SIG_IGN);
  headscope::app::PrepareForSuddenEnd();
  const bool runs_libtorch = headscope::app::RunsLibTorch(argv);
  if (runs_libtorch) headscope::app::LetThreadsSleepWhileTheyWait(argv);
  const int code = headscope::app::Main(argc, argv);
  headscope::app::EndIsExpected();
  if (runs_libtorch) headscope::app::EndAtOnce(code);
  return code;
}
