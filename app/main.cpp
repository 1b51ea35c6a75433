// SPDX-License-Identifier: Apache-2.0
// headscope: one binary, the window or one subcommand.
#include <CLI/CLI.hpp>
#include <csignal>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>

#include "base/errors.h"
#include "commands/command.h"
#include "data/trace_schema.h"
#include "manual/completions.h"
#include "manual/man_page.h"
#include "support/errors.h"
#include "support/exit_codes.h"
#include "support/interrupt.h"
#include "support/messages.h"
#include "support/option_checks.h"
#include "support/output_file.h"
#include "support/sleeping_threads.h"
#include "support/sudden_end.h"
#include "window.h"

namespace headscope::app {
namespace {

// Runs the chosen action under the error policy: one sentence on stderr and the exit code that scripts rely on.
int Run(const CLI::App& app, const Action& action) {
  const auto refuse = [&](const std::exception& error, ExitCode code) {
    Say(NameTheOption(app, error.what()));
    return code;
  };
  try {
    const int code = action();
    if (code == kInterrupted) Say("interrupted");
    return code;
  } catch (const UsageError& error) {
    return refuse(error, kWrongUsage);
  } catch (const std::invalid_argument& error) {
    return refuse(error, kWrongUsage);
  } catch (const std::out_of_range& error) {
    return refuse(error, kWrongUsage);
  } catch (const BadInputError& error) {
    return refuse(error, kBadInput);
  } catch (const data::BadTraceError& error) {
    return refuse(error, kBadInput);
  } catch (const DeviceError& error) {
    return refuse(error, kDeviceOrMemoryMissing);
  } catch (const std::bad_alloc&) {
    Say(kOutOfMemory);
    return kDeviceOrMemoryMissing;
  } catch (const std::exception& error) {
    if (Interrupted()) {  // what was stopped says so in words of its own
      Say("interrupted");
      return kInterrupted;
    }
    const auto* system = dynamic_cast<const std::system_error*>(&error);
    if (system != nullptr && system->code() == std::errc::resource_unavailable_try_again) {
      Say(kOutOfThreads);
      return kDeviceOrMemoryMissing;
    }
    // Of a library's error that nobody translated, the sentence and not the trace of calls that may follow it.
    const std::string_view text = error.what();
    Say(text.substr(0, text.find('\n')));
    return kFailed;
  }
}

int Main(int argc, char** argv) {
  CLI::App app("headscope: what every attention head does, and what sparse attention would keep of it", "headscope");
  app.set_version_flag("--version", std::string("headscope ") + HEADSCOPE_VERSION);
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
  AddTuneCommand(app, action);
  AddRenderCommand(app, action);
  AddExportCommand(app, action);
  AddEvalCommand(app, action);
  AddMethodsCommand(app, action);
  AddBenchCommand(app, action);
  PrepareOptions(app);
  app.footer(  // after the subcommands, which would take it over
      "Without a subcommand the window opens: on TRACE.h5 or MODEL_DIR when given, else on the last session.\n"
      "`headscope COMMAND --help` explains each command. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 bad input "
      "file,\n"
      "4 device or memory missing, 130 interrupted.");

  const auto nothing_has_the_name = [&] {
    std::error_code unreadable;
    return !open_path.empty() && !std::filesystem::exists(open_path, unreadable);
  };
  if (const std::string refusal = EmptyElement(app, argc, argv); !refusal.empty()) {
    Say(refusal);
    return kWrongUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help and --version
    return Run(app, [&] {
      std::ostringstream text;
      app.exit(asked, text, std::cerr);
      WriteText(text.str(), "", false);
      return kDone;
    });
  } catch (const CLI::ParseError& error) {
    if (nothing_has_the_name()) {
      Say(UnknownArgument(app, open_path));
      return kWrongUsage;
    }
    Say(ParseRefusal(error));
    return kWrongUsage;
  }
  if (man_page || !shell.empty()) {
    action = [&] {
      const ProgramText text = Describe(app);
      WriteText(man_page ? ManPage(text, HEADSCOPE_VERSION) : Completions(text, shell), "", false);
      return kDone;
    };
  }
  if (!action) {
    action = [&] {
      if (nothing_has_the_name()) throw UsageError(UnknownArgument(app, open_path));
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
  headscope::app::LetThreadsSleepWhileTheyWait(argv);
  const int code = headscope::app::Main(argc, argv);
  headscope::app::EndIsExpected();
  return code;
}
