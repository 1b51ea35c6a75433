// headscope tune TRACE.. --method NAME[:k=v,..] --target cra=T [--heads L:H,..] [-o CONFIG.json|.csv]
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>

#include "analysis/search.h"
#include "command.h"
#include "data/row_positions.h"
#include "data/trace_reader.h"
#include "errors.h"
#include "exit_codes.h"
#include "head_results.h"
#include "interrupt.h"
#include "method_choice.h"
#include "output_file.h"
#include "progress_line.h"
#include "selection.h"
#include "tuning.h"

namespace headscope::app {
namespace {

using Traces = std::vector<std::unique_ptr<data::TraceReader>>;
using HeadMassPtr = std::shared_ptr<const analysis::HeadMass>;

struct TuneArguments {
  std::vector<std::string> traces;
  std::string method, target, heads, output;
  int32_t num_threads = 0;
  bool force = false, quiet = false;
};

MethodChoice ParseSearchableMethod(const std::string& text) {
  MethodChoice choice = ParseMethod(text);
  if (choice.prefill == nullptr) {
    throw UsageError("--method " + text +
                     " is a decode method, and targets are searched for prefill methods; choose one of those "
                     "(`headscope methods` lists them)");
  }
  CheckStatus(analysis::CheckSearchable(*choice.spec), "--method " + text);
  return choice;
}

void CheckOutput(const TuneArguments& arguments) {
  if (arguments.output.empty()) return;
  const std::string extension = Extension(arguments.output);
  if (extension != "json" && extension != "csv")
    throw UsageError("output " + arguments.output + ": the extension must be .json or .csv");
  CheckOutputTarget(arguments.output, arguments.force, arguments.traces);
}

// One setting for several prompts is a setting of one model: refuses traces of others.
void CheckSameModel(const data::TraceReader& trace, const data::TraceReader& first) {
  const data::ModelInfo &model = trace.layout().model, &expected = first.layout().model;
  if (model.weights_sha256 == expected.weights_sha256 && model.num_layers == expected.num_layers &&
      model.num_qo_heads == expected.num_qo_heads && model.head_dim == expected.head_dim)
    return;
  throw UsageError(trace.path() + " was captured from another model (" + model.name + ") than " + first.path() + " (" +
                   expected.name + "); tune them apart");
}

Traces OpenTraces(const std::vector<std::string>& paths) {
  Traces traces;
  for (const std::string& path : paths) {
    for (const auto& trace : traces) {
      std::error_code missing;
      if (std::filesystem::equivalent(path, trace->path(), missing))
        throw UsageError(path + " is given twice, and its rows would count double; give each trace once");
    }
    traces.push_back(std::make_unique<data::TraceReader>(path));
    CheckQueryRows(*traces.back());
    if (!data::RowsContiguous(traces.back()->row_positions()))
      throw UsageError(path + ": its query rows have gaps; capture with --rows all or --rows last:N");
    CheckSameModel(*traces.back(), *traces.front());
  }
  return traces;
}

// The chosen heads, which every trace must have.
std::vector<analysis::HeadId> ChooseHeads(const std::string& text, const Traces& traces) {
  std::vector<analysis::HeadId> heads = ParseHeads(text, analysis::RecordedHeads(*traces.front()));
  for (const auto& trace : traces) {
    const std::vector<analysis::HeadId> recorded = analysis::RecordedHeads(*trace);
    for (const analysis::HeadId& head : heads) {
      if (std::find(recorded.begin(), recorded.end(), head) != recorded.end()) continue;
      throw UsageError(trace->path() + ": head " + HeadText(head) + " was not recorded there, and " +
                       traces.front()->path() + " has it; give --heads that every trace has");
    }
  }
  return heads;
}

Tuning Describe(const TuneArguments& arguments, const Traces& traces) {
  Tuning tuning;
  tuning.model = traces.front()->layout().model;
  for (const auto& trace : traces)
    tuning.traces.push_back({trace->path(), trace->layout().prompt_source, trace->num_tokens(), trace->num_rows()});
  tuning.target_text = arguments.target;
  return tuning;
}

// The block masses of the head in every trace; empty when interrupted.
std::vector<HeadMassPtr> MassesOf(analysis::HeadId id, const Traces& traces, int32_t num_threads,
                                  const std::atomic<bool>* cancelled) {
  std::vector<HeadMassPtr> masses;
  for (const auto& trace : traces) {
    HeadMassPtr mass = analysis::HeadMass::Compute(analysis::LoadHead(*trace, id), num_threads, cancelled);
    if (mass == nullptr) return {};
    masses.push_back(std::move(mass));
  }
  return masses;
}

void WriteTuning(const Tuning& tuning, const TuneArguments& arguments) {
  if (arguments.output.empty()) {
    WriteText(TuningTable(tuning), "", false);
  } else {
    const bool json = Extension(arguments.output) == "json";
    WriteText(json ? TuningJson(tuning) : TuningCsv(tuning), arguments.output, arguments.force);
  }
  std::cerr << "headscope: " << TuningSummary(tuning) << '\n';
}

int RunTune(const TuneArguments& arguments) {
  CheckOutput(arguments);
  const MethodChoice method = ParseSearchableMethod(arguments.method);
  const analysis::BudgetTarget target = ParseTarget(arguments.target);
  const Traces traces = OpenTraces(arguments.traces);
  const std::vector<analysis::HeadId> heads = ChooseHeads(arguments.heads, traces);
  CheckMethodsRun(traces.front()->layout().model.head_dim, arguments.traces.front());
  Tuning tuning = Describe(arguments, traces);
  tuning.method = method;
  tuning.target = target;
  tuning.num_heads_chosen = heads.size();

  analysis::BudgetSearchOptions options;
  options.num_threads = arguments.num_threads;
  options.cancelled = InstallInterruptFlag();
  {
    ProgressLine line(arguments.quiet);
    const std::string stage = "tuning " + std::to_string(heads.size()) + (heads.size() == 1 ? " head" : " heads");
    const auto show = [&](double share_of_head) {
      const double done = static_cast<double>(tuning.heads.size()) + share_of_head;
      line.Show(stage, std::lround(100 * done / static_cast<double>(heads.size())), 100, "%");
    };
    for (const analysis::HeadId& id : heads) {
      show(0);
      std::vector<HeadMassPtr> masses;
      try {
        masses = MassesOf(id, traces, arguments.num_threads, options.cancelled);
      } catch (...) {  // one head that cannot be read takes nothing from those that are done
        if (!tuning.heads.empty()) WriteTuning(tuning, arguments);
        throw;
      }
      if (Interrupted()) break;
      std::vector<const analysis::HeadMass*> recordings;
      recordings.reserve(masses.size());
      for (const HeadMassPtr& mass : masses) recordings.push_back(mass.get());
      // The pass over the head's scores, which the masks share, counts as one of them.
      options.progress = [&](int32_t made, int32_t most) { show((1.0 + made) / (2.0 + most)); };
      TunedHead tuned{id, {}};
      const kernels::Status status =
          analysis::SearchBudget(recordings, *method.prefill, method.values, target, options, &tuned.found);
      if (!status.ok() && Interrupted()) break;
      CheckStatus(status, arguments.traces.front() + ", head " + HeadText(id) + ", " + method.name);
      tuning.heads.push_back(std::move(tuned));
      if (Interrupted()) break;
    }
    if (tuning.complete()) show(0);
  }
  if (!tuning.heads.empty()) WriteTuning(tuning, arguments);
  return tuning.complete() ? kDone : kInterrupted;
}

}  // namespace

void AddTuneCommand(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "tune", "Find every head's cheapest budgets of a method that keep a wanted share of attention");
  auto arguments = std::make_shared<TuneArguments>();
  command
      ->add_option("traces", arguments->traces,
                   "Traces of one model; of several, a head's setting holds for the rows of all of them together")
      ->required()
      ->type_name("TRACE");
  command
      ->add_option("--method", arguments->method,
                   "Prefill method; its budgets are searched, and k=v sets the other parameters")
      ->required()
      ->type_name("NAME[:k=v,..]");
  command
      ->add_option(
          "--target", arguments->target,
          "What a head must keep of its rows' attention mass, as a share between 0 and 1: cra=T in every row "
          "(SampleAttention's CRA), cra-p5=T in all but fewer than 5 % of the rows (the window's Meet target), "
          "cra-mean=T on the mean of the rows")
      ->required()
      ->type_name("cra|cra-p5|cra-mean=T");
  command->add_option("--heads", arguments->heads, "Heads, such as 4:3,2:* (all recorded)")->type_name("L:H,..");
  command
      ->add_option(
          "-o,--output", arguments->output,
          "Write the configuration to .json (schema headscope-tuning-1) or .csv; without it a table is printed")
      ->type_name("OUT");
  command->add_option("--threads", arguments->num_threads, "CPU threads (0: all cores)")->capture_default_str();
  command->add_flag("--force", arguments->force, "Replace an existing output");
  command->add_flag("--quiet", arguments->quiet, "No progress");
  command->footer(
      "Kept shares are of the pairs that the model itself attends, budgets in the method's own units (`headscope "
      "methods NAME`).\nCtrl-C writes the heads that are done, marked as a part (\"complete\": false), and exits with "
      "130.");
  command->callback([=, &action] { action = [=] { return RunTune(*arguments); }; });
}

}  // namespace headscope::app
