// SPDX-License-Identifier: Apache-2.0
// headscope compare TRACE (--method NAME[:k=v,..].. | --config FILE) [--heads ..] [--measure layer|head] [--repeat N]
// [--decode-rows N] [--device ..] [--save-index FILE] [--save-rows FILE] [-o OUT.json|.csv|.h5]
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>

#include "analysis/head_sweeps.h"
#include "analysis/prefill_heads.h"
#include "analysis/result_files.h"
#include "base/check_status.h"
#include "base/device.h"
#include "base/errors.h"
#include "base/file_format.h"
#include "choices/device_choice.h"
#include "choices/head_results.h"
#include "choices/head_selection.h"
#include "choices/head_settings.h"
#include "choices/method_choice.h"
#include "choices/saved_index.h"
#include "choices/torch_decode.h"
#include "choices/trace_index.h"
#include "choices/tuning_traces.h"
#include "commands/command.h"
#include "commands/common_options.h"
#include "commands/comparison_table.h"
#include "commands/head_notes.h"
#include "data/index_file.h"
#include "data/trace_reader.h"
#include "kernels/method_names.h"
#include "support/exit_codes.h"
#include "support/interrupt.h"
#include "support/messages.h"
#include "support/output_file.h"
#include "support/progress_line.h"
#include "support/run_origin.h"

namespace headscope::app {
namespace {

struct CompareArguments {
  std::string trace, heads, output, config, save_index, save_rows, measure = "layer";
  std::string budget_method;     // of a configuration that holds budgets
  double compression_ratio = 0;  // 0: not given
  bool measure_was_given = false, as_published = false;
  Device device = kCpu;
  std::vector<std::string> methods;
  analysis::CompareOptions options;
  bool force = false, quiet = false;
};

// What is run on the heads at these places of the chosen ones.
struct Asked {
  std::vector<size_t> places;
  std::vector<analysis::AskedMethod> methods;
};

// What the configuration gives each of the heads, and maybe others; empty without one.
HeadSettings Configured(const CompareArguments& arguments, const data::TraceReader& trace,
                        const std::vector<analysis::HeadId>& heads) {
  if (arguments.config.empty()) return {};
  if (arguments.as_published && HoldsBudgets(arguments.config))
    throw UsageError(
        {.field = "minference-code", .problem = "it is for MInference's best patterns", .remedy = "leave it out"});
  if (!HoldsBudgets(arguments.config)) {
    const std::vector<RangeSettings> settings = ReadHeadSettings(arguments.config, arguments.as_published);
    const HeadSettings& of_length = SettingsFor(settings, PromptTokens(trace), arguments.config);
    CheckSettingsAreOfModel(of_length, arguments.config, trace.path(), HeadsOfLayers(trace));
    return of_length;
  }
  const int percent = static_cast<int>(std::lround(100 * arguments.compression_ratio));
  if (percent < 1 || percent > 99 || std::abs(100 * arguments.compression_ratio - percent) > 1e-6) {
    throw UsageError({.field = "compression-ratio",
                      .problem = arguments.config + " has budgets for every hundredth",
                      .remedy = "give the share to evict, from 0.01 to 0.99"});
  }
  if (arguments.budget_method.empty()) {
    throw UsageError({.field = "budget-method",
                      .problem = arguments.config + " only says how many tokens stay",
                      .remedy = "name a method with a budget that chooses them"});
  }
  const MethodChoice method = ParseMethod(arguments.budget_method, "budget-method");
  std::vector<LayerHeads> layers;
  for (const int32_t number : trace.layout().layers) {
    if (std::ranges::find(heads, number, &analysis::HeadId::layer) == heads.end()) continue;
    const data::LayerFacts& facts = trace.layer(trace.LayerSlot(number));
    layers.push_back({number, facts.num_qo_heads, facts.num_kv_heads});
  }
  int64_t fewest = 0;
  HeadSettings settings = ReadHeadBudgets(arguments.config, {method.name, method.values}, percent,
                                          trace.layout().model.num_layers, layers, trace.num_tokens(), &fewest);
  if (fewest > 0)
    Say(std::to_string(fewest) + " heads keep more than the file allows: " + method.spec->name + "'s least budget");
  return settings;
}

bool IsPrefill(const analysis::AskedMethod& asked) {
  return kernels::FindMethod(asked.name).decode == nullptr;
}

// Heads in chunks that the configuration passes over: those of prefill methods have no settings for them, and nobody
// named them. None where none of the heads has a setting, or where a method of the configuration might run on them.
std::vector<analysis::HeadId> PassedOver(const CompareArguments& arguments, const HeadSettings& settings,
                                         const data::TraceReader& trace, const std::vector<analysis::HeadId>& heads) {
  const auto is_set = [&](const analysis::HeadId& head) { return settings.contains(head); };
  if (arguments.config.empty() || !arguments.heads.empty() || std::ranges::none_of(heads, is_set) ||
      !std::ranges::all_of(settings, [](const auto& setting) { return IsPrefill(setting.second); }))
    return {};
  std::vector<analysis::HeadId> chunked = ChunkedAmong(trace, heads);
  std::erase_if(chunked, is_set);
  return chunked;
}

// Without a configuration all heads run the same. With one, each runs its own first, unless it is passed over, and
// heads of equal ones share a run.
std::vector<Asked> AskedOf(const CompareArguments& arguments, const HeadSettings& settings,
                           const std::vector<analysis::HeadId>& heads, const std::vector<analysis::HeadId>& passed_over,
                           const std::vector<analysis::AskedMethod>& of_all) {
  std::vector<Asked> asked;
  for (size_t i = 0; i < heads.size(); ++i) {
    std::vector<analysis::AskedMethod> methods;
    if (!arguments.config.empty() && std::ranges::count(passed_over, heads[i]) == 0) {
      const auto own = settings.find(heads[i]);
      if (own == settings.end())
        throw UsageError({.file = arguments.config,
                          .problem = "it has no setting for head " + HeadText(heads[i]),
                          .remedy = "choose other heads with --heads"});
      methods.push_back(own->second);
    }
    methods.insert(methods.end(), of_all.begin(), of_all.end());
    const auto same = std::ranges::find_if(asked, [&](const Asked& one) { return one.methods == methods; });
    if (same == asked.end()) {
      asked.push_back({{i}, std::move(methods)});
    } else {
      same->places.push_back(i);
    }
  }
  return asked;
}

// Who names a head wants every prefill method there, and is told before anything is measured that one does not run.
void CheckNamedRun(const data::TraceReader& trace, const std::vector<analysis::HeadId>& heads,
                   const std::vector<Asked>& asked) {
  for (const Asked& one : asked) {
    if (std::ranges::none_of(one.methods, IsPrefill)) continue;
    std::vector<analysis::HeadId> some;
    for (const size_t place : one.places) some.push_back(heads[place]);
    CheckStatus(analysis::CheckPrefillHeads(trace, some), trace.path());
  }
}

// Methods that do not run on some of the heads.
class LeftOut {
 public:
  // `beside`: what else to know of the reason; may be empty.
  void Add(const analysis::AskedMethod& method, const std::string& where, const kernels::Status& why,
           const std::string& beside) {
    const std::string reason = why.message() + beside;
    sentences_.push_back(where + ": without " + method.name + " (" + reason + ")");
    if (first_.ok()) first_ = {why.code(), where + ": " + reason};
  }
  // Where nothing was measured, the first reason is the command's error.
  void Check(const std::string& trace, bool measured) const {
    if (!measured) CheckStatus(first_, trace);
  }
  void Print() const {
    for (const std::string& sentence : sentences_) Say(sentence);
  }

 private:
  std::vector<std::string> sentences_;
  kernels::Status first_;
};

// A budget that is a file's nobody can raise, which is what the method may ask for. `of_all`: the methods that were
// asked for by themselves.
std::string BesideBudgets(const CompareArguments& arguments, const std::vector<analysis::AskedMethod>& of_all,
                          const analysis::AskedMethod& method) {
  if (!HoldsBudgets(arguments.config) || std::ranges::find(of_all, method) != of_all.end()) return {};
  return "; the budget is that of " + arguments.config + ", which rises as --compression-ratio falls";
}

// By head, in the order of `heads`, then method; those that run.
std::vector<analysis::MethodResult> Measure(const data::TraceReader& trace, const std::vector<analysis::HeadId>& heads,
                                            const std::vector<Asked>& asked, analysis::ComparisonSweep comparison,
                                            bool quiet) {
  ProgressLine line(quiet);
  const std::function<void(const analysis::SweepProgress&)> show = ShowComparing(&line);
  std::vector<std::vector<analysis::MethodResult>> by_head(heads.size());
  size_t done = 0;  // heads
  for (const Asked& one : asked) {
    std::vector<analysis::HeadId> some;
    for (const size_t place : one.places) some.push_back(heads[place]);
    analysis::SweepOptions sweep;
    sweep.stop = StopOnInterrupt();
    sweep.progress = [&](analysis::SweepProgress at) {
      at.share =
          (static_cast<double>(done) + at.share * static_cast<double>(some.size())) / static_cast<double>(heads.size());
      if (done + some.size() < heads.size()) at.total = at.done + 1;  // others follow
      show(at);
    };
    comparison.methods = one.methods;
    std::vector<analysis::MethodResult> results;
    CheckStatus(analysis::SweepComparisons(trace, some, comparison, sweep, &results));
    for (analysis::MethodResult& result : results) {
      const auto head = std::ranges::find(some, result.head);
      by_head[one.places[static_cast<size_t>(head - some.begin())]].push_back(std::move(result));
    }
    done += some.size();
  }
  std::vector<analysis::MethodResult> results;
  for (std::vector<analysis::MethodResult>& head : by_head) std::ranges::move(head, std::back_inserter(results));
  return results;
}

// Before anything is measured.
// Refuses to write two results to one file.
void CheckApart(const char* field, const std::string& path, const char* other, const std::string& other_path) {
  if (path.empty() || other_path.empty() ||
      std::filesystem::weakly_canonical(path) != std::filesystem::weakly_canonical(other_path))
    return;
  throw UsageError({.field = field,
                    .value = path,
                    .problem = std::string(other) + " writes there",
                    .remedy = "choose another name"});
}

void CheckSaveRows(const CompareArguments& arguments) {
  if (arguments.save_rows.empty()) return;
  if (std::ranges::count(analysis::kRowFormats, FindFileFormat(arguments.save_rows)) == 0)
    throw UsageError(
        {.field = "save-rows", .value = arguments.save_rows, .problem = "the extension must be .csv or .h5"});
  CheckOutputTarget(arguments.save_rows, arguments.force, {arguments.trace, arguments.config});
  CheckApart("save-rows", arguments.save_rows, "-o", arguments.output);
  CheckApart("save-rows", arguments.save_rows, "--save-index", arguments.save_index);
}

void CheckSaveIndex(const CompareArguments& arguments, const std::vector<MethodChoice>& choices) {
  if (arguments.save_index.empty()) return;
  if (!arguments.config.empty() || choices.size() != 1 || choices.front().prefill == nullptr)
    throw UsageError({.field = "save-index",
                      .problem = "it keeps what one prefill method chooses",
                      .remedy = "give one --method, and no --config"});
  CheckOutputTarget(arguments.save_index, arguments.force, {arguments.trace});
  CheckApart("save-index", arguments.save_index, "-o", arguments.output);
}

int RunCompare(CompareArguments arguments) {
  if (arguments.as_published && arguments.config.empty())
    throw UsageError({.field = "minference-code",
                      .problem = "it says how MInference's best patterns are read",
                      .remedy = "give them by --config"});
  if (arguments.methods.empty() && arguments.config.empty())
    throw UsageError({.problem = "there is nothing to compare", .remedy = "give --method or --config"});
  if (!arguments.output.empty())
    CheckResultsTarget(arguments.output, arguments.force, {arguments.trace, arguments.config});
  if ((arguments.compression_ratio != 0 || !arguments.budget_method.empty()) && !HoldsBudgets(arguments.config)) {
    throw UsageError({.problem = "--compression-ratio and --budget-method are for a --config of budgets (.npy)",
                      .remedy = "methods take a ratio as a parameter"});
  }
  const std::vector<MethodChoice> choices = ParseMethods(arguments.methods);
  CheckSaveIndex(arguments, choices);
  CheckSaveRows(arguments);
  analysis::ComparisonSweep comparison;
  comparison.measure = ParseMeasure(arguments.measure);
  if (!arguments.config.empty()) {
    if (arguments.measure_was_given && comparison.measure == analysis::Measure::kLayer)
      throw UsageError(
          {.field = "measure",
           .value = "layer",
           .problem = "a configuration may give the heads of a layer different methods, which no single launch runs",
           .remedy = "leave --measure out to time each head by itself"});
    comparison.measure = analysis::Measure::kHead;
  }
  std::vector<analysis::AskedMethod> of_all;
  for (const MethodChoice& choice : choices) of_all.push_back({choice.name, choice.values});
  const data::TraceReader trace(arguments.trace);
  std::vector<analysis::HeadId> heads = ParseHeadsAsTyped(arguments.heads, analysis::RecordedHeads(trace));
  CheckQueryRows(trace);
  CheckMethodsRun(trace, heads);
  for (const MethodChoice& choice : choices) CheckMethodIsOfModel(choice.name, trace);
  UseDevice(arguments.device);
  arguments.options.device = arguments.device;
  if (!arguments.device.is_gpu()) arguments.options.other_dense = TorchDecode(arguments.options.num_threads);

  const HeadSettings configured = Configured(arguments, trace, heads);
  const std::vector<analysis::HeadId> passed_over = PassedOver(arguments, configured, trace, heads);
  std::string of_chunked;
  if (!passed_over.empty()) {
    const bool nothing_runs = std::ranges::all_of(of_all, IsPrefill);
    of_chunked =
        (nothing_runs ? "left out " : arguments.config + " has no setting for ") + ChunkedText(trace, passed_over);
    if (nothing_runs)
      std::erase_if(heads, [&](const analysis::HeadId& head) { return std::ranges::count(passed_over, head) > 0; });
  }
  const std::vector<Asked> asked = AskedOf(arguments, configured, heads, passed_over, of_all);
  if (!arguments.heads.empty()) CheckNamedRun(trace, heads, asked);
  HeadNotes head_notes;
  comparison.options = arguments.options;
  comparison.options.keep_rows = !arguments.save_rows.empty();
  comparison.look = [&](const analysis::HeadTensors& head) { head_notes.Look(head, trace); };
  LeftOut left_out;
  comparison.left_out = [&](const analysis::AskedMethod& method, const std::string& where, const kernels::Status& why) {
    // An input that the trace lacks is missing at any budget.
    const bool may_be_the_budget = why.code() == kernels::StatusCode::kInvalidArgument;
    left_out.Add(method, where, why, may_be_the_budget ? BesideBudgets(arguments, of_all, method) : "");
  };
  std::vector<analysis::MethodResult> results = Measure(trace, heads, asked, comparison, arguments.quiet);
  for (analysis::MethodResult& result : results) result.origin = OriginOf(trace);
  std::vector<std::string> notes;  // each once, in order
  for (const analysis::MethodResult& result : results) {
    if (!result.note.empty() && std::find(notes.begin(), notes.end(), result.note) == notes.end())
      notes.push_back(result.note);
  }
  left_out.Check(arguments.trace, !results.empty());
  head_notes.Print();
  if (!of_chunked.empty()) Say(of_chunked);
  left_out.Print();
  if (!arguments.save_index.empty()) {
    std::erase_if(heads, [&](const analysis::HeadId& head) {
      return std::ranges::find(results, head, &analysis::MethodResult::head) == results.end();
    });
    const data::IndexFile index = IndexOfTrace(trace, heads, choices.front(), comparison.measure,
                                               arguments.options.num_threads, StopOnInterrupt());
    WriteIndex(index, arguments.save_index, arguments.force);
  }
  if (!arguments.save_rows.empty()) {
    WriteKeptRows(results, arguments.save_rows, arguments.force);
  }
  for (const std::string& note : notes) Say(note);
  if (arguments.output.empty()) {
    WriteText(ComparisonTable(results), "", false);
  } else {
    WriteResults(results, arguments.output, arguments.force);
  }
  return kDone;
}

}  // namespace

void AddCompareCommand(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("compare", "Run sparse methods next to dense attention on recorded heads");
  auto arguments = std::make_shared<CompareArguments>();
  command->add_option("trace", arguments->trace, "Trace")->required()->type_name("TRACE");
  AddMethodsOption(command, &arguments->methods,
                   "Method and parameters; may be repeated (`headscope methods` lists them)");
  command
      ->add_option(
          "--config", arguments->config,
          "Configuration that gives each head its own method: from `headscope tune`, MInference's best "
          "patterns, or LU-KV's budgets (.npy). Each head is then timed by itself. Of a file with ranges of lengths, "
          "that of the trace's")
      ->type_name("FILE");
  AddPublishedCodeFlag(command, &arguments->as_published);
  command
      ->add_option("--compression-ratio", arguments->compression_ratio,
                   "With LU-KV's budgets: the share of all heads' tokens to evict, from 0.01 to 0.99")
      ->type_name("R");
  AddMethodOption(command, "--budget-method", &arguments->budget_method,
                  "Eviction method that is given LU-KV's budgets");
  AddRecordedHeadsOption(command, &arguments->heads);
  CLI::Option* const measure = command
                                   ->add_option("--measure", arguments->measure,
                                                "What is timed: layer (all recorded heads of the head's layer in one "
                                                "launch, as a model runs them) or head (by itself)")
                                   ->capture_default_str()
                                   ->type_name("layer|head");
  AddRepeatOption(command, &arguments->options.repeats);
  AddDecodeRowsOption(command, &arguments->options.decode_rows)->capture_default_str();
  AddDeviceOption(command, &arguments->device);
  AddThreadsOption(command, &arguments->options.num_threads);
  command
      ->add_option(
          "--save-index", arguments->save_index,
          "Write what the prefill method keeps on every measured head to one index file, to be run on other traces "
          "of the model that have the same length (`headscope methods` says how); .json: for other programs")
      ->type_name("FILE");
  command
      ->add_option("--save-rows", arguments->save_rows,
                   "Write the mass that every row keeps under every method, a line each, to .csv or .h5")
      ->type_name("FILE");
  AddOutputOptions(command, &arguments->output, &arguments->force, "Write the results to .json, .csv or .h5");
  AddQuietOption(command, &arguments->quiet);
  command->callback([=, &action] {
    arguments->measure_was_given = measure->count() > 0;
    action = [=] { return RunCompare(*arguments); };
  });
}

}  // namespace headscope::app
