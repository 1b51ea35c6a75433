// SPDX-License-Identifier: Apache-2.0
// headscope capture MODEL_DIR (--text S | --prompt FILE | --task NAME --length N) -o OUT.h5
// headscope capture MODEL_DIR --prompts FILE.jsonl -o FOLDER [--resume]
#include <algorithm>
#include <charconv>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "analysis/types/printable.h"
#include "base/byte_text.h"
#include "base/errors.h"
#include "base/number_list.h"
#include "base/output_claim.h"
#include "base/quoted_text.h"
#include "capture/batch.h"
#include "capture/capture.h"
#include "capture/stored_points.h"
#include "choices/head_selection.h"
#include "commands/command.h"
#include "commands/common_options.h"
#include "commands/model_attention.h"
#include "commands/record_plan.h"
#include "eval/tasks.h"
#include "model/capture_points.h"
#include "model/input_file.h"
#include "model/layer_placement.h"
#include "model/model_config.h"
#include "model/model_session.h"
#include "model/model_types.h"
#include "support/capture_cost.h"
#include "support/capture_time.h"
#include "support/exit_codes.h"
#include "support/interrupt.h"
#include "support/listed.h"
#include "support/option_checks.h"
#include "support/output_file.h"
#include "support/paths.h"
#include "support/progress_line.h"

namespace headscope::app {
namespace {

struct CaptureArguments {
  capture::CaptureRequest request;
  std::string layers, heads, kv_heads;
  AttentionArguments attention;
  std::vector<std::string> record;
  std::string prompts, chat, plan;
  bool resume = false, quiet = false, dry_run = false;
};

std::string CapturePointNames() {
  std::vector<std::string> names;
  names.reserve(std::size(model::kCapturePoints));
  for (const model::CapturePointInfo& info : model::kCapturePoints) names.emplace_back(info.name);
  return Listed(names);
}

model::CapturePoint ParseCapturePoint(const std::string& name) {
  for (const model::CapturePointInfo& info : model::kCapturePoints) {
    if (info.name == name) return info.point;
  }
  throw UsageError(
      {.field = "record", .problem = Quoted(name) + " is not known", .remedy = "choose from " + CapturePointNames()});
}

// The keys of a plan that hold, by the fields that errors name.
using KeysOfPlan = std::map<std::string, std::string>;

// What the file says holds where the command line does not say it. Heads and KV heads are one choice.
KeysOfPlan TakeRecordPlan(const CLI::App& command, CaptureArguments* arguments) {
  KeysOfPlan taken;
  if (arguments->plan.empty()) return taken;
  constexpr int64_t kMostBytes = int64_t{16} << 20;
  const RecordPlan plan = ParseRecordPlan(model::ReadSmallFile(arguments->plan, kMostBytes), arguments->plan);
  const auto take = [&](const std::string& field, auto& from, auto* to, const std::string& key) {
    if (!from || command.count("--" + field) > 0) return;
    *to = *from;
    taken[field] = key;
  };
  take("layers", plan.layers, &arguments->layers, "layers");
  if (command.count("--heads") == 0 && command.count("--kv-heads") == 0) {
    take("heads", plan.heads, &arguments->heads, "heads");
    take("kv-heads", plan.kv_heads, &arguments->kv_heads, "kv_heads");
  }
  take("rows", plan.rows, &arguments->request.rows, "rows");
  take("record", plan.points, &arguments->record, "points");
  take("decode", plan.decode, &arguments->request.decode_tokens, "decode");
  take("files", plan.files, &arguments->request.num_files, "files");
  if (plan.dtype && command.count("--dtype") == 0) {
    try {
      arguments->request.dtype = ParseComputeType(*plan.dtype);
    } catch (UsageError& error) {
      error.SetFile(arguments->plan);
      throw;
    }
  }
  return taken;
}

// "  heads      0-7 (KV 0-3)", or a line for each layer where they differ.
std::string PlannedHeads(const data::TraceLayout& layout) {
  const auto heads = [](const data::LayerFacts& facts) {
    return NumberListText(facts.qo_heads) + " (KV " + NumberListText(facts.kv_heads) + ")";
  };
  const std::string first = heads(layout.facts.front());
  if (std::ranges::all_of(layout.facts, [&](const data::LayerFacts& facts) { return heads(facts) == first; }))
    return "  heads      " + first + "\n";
  std::string text;
  for (size_t slot = 0; slot < layout.layers.size(); ++slot)
    text += "  layer " + std::to_string(layout.layers[slot]) + ": heads " + heads(layout.facts[slot]) + "\n";
  return text;
}

// What the captures would record, as `info` shows a trace: what they have in common once, then a line for each file.
int ShowPlans(const CaptureArguments& arguments, const std::vector<capture::BatchPlan>& plans) {
  const capture::CaptureRequest& request = arguments.request;
  const model::CheckpointSummary model = model::ReadCheckpointSummary(request.model_dir, /*with_hash=*/false);
  const model::ModelConfig config = model::ReadModelConfig(request.model_dir);
  // Of several prompts the longest decides, as it does when the model is loaded.
  const auto longest = std::ranges::max_element(
      plans, {}, [](const capture::BatchPlan& plan) { return plan.capture.layout.max_tokens; });
  model::Placement placement;
  if (longest != plans.end()) placement = longest->capture.placement;
  const std::vector<Device>& layer_devices = placement.layers;
  const Device device = layer_devices.empty() ? request.device : layer_devices.front();
  const int64_t number_bytes = NumberBytes(model, request.dtype, device);
  CaptureTime time;
  double seconds = 0;
  int64_t bytes = 0, of_model = 0, of_recorder = 0;
  std::ostringstream files;
  for (const capture::BatchPlan& plan : plans) {
    const CaptureCost cost =
        CostOf(config, model,
               {.prompt_tokens = plan.capture.num_prompt_tokens,
                .decode_tokens = request.decode_tokens,
                .chunk_tokens = request.chunk_tokens,
                .on_gpu = device.is_gpu() && !IsSpread(layer_devices) && !request.attention,
                .recorded_bytes = capture::LayerBytesOfToken(plan.capture.bytes, plan.capture.layout),
                .points = request.record,
                .layer_devices = layer_devices,
                .last_layer = plan.capture.last_layer},
               number_bytes);
    if (!IsSpread(layer_devices)) seconds += time.About(cost, number_bytes, device);
    of_model = std::max(of_model, cost.model_bytes);
    of_recorder =
        std::max(of_recorder, capture::RecorderBytes(plan.capture, capture::UsesGpu(request.device, placement)));
    bytes += plan.capture.bytes;
    files << "  " << analysis::Printable(plan.path) << ": " << plan.capture.num_prompt_tokens << " prompt tokens, "
          << plan.capture.num_rows << " query rows, " << ByteText(plan.capture.bytes)
          << (request.num_files > 1 ? " in " + std::to_string(request.num_files) + " files" : "") << '\n';
  }
  std::ostringstream out;
  out << "nothing is written (--dry-run)\n";
  if (!plans.empty()) {
    const data::TraceLayout& layout = plans.front().capture.layout;
    out << "  model      " << analysis::Printable(layout.model.name) << " (" << analysis::Printable(model.model_type)
        << ")\n";
    if (const std::string& why = plans.front().capture.why_no_texts; !why.empty())
      out << "  texts      none: " << analysis::Printable(why) << '\n';
    if (plans.size() == 1) out << "  prompt     " << analysis::Printable(layout.prompt_source) << '\n';
    out << "  layers     " << NumberListText(layout.layers) << '\n'
        << PlannedHeads(layout) << "  rows       " << analysis::Printable(layout.row_selection) << '\n'
        << "  generated  " << request.decode_tokens << (request.decode_tokens == 1 ? " token\n" : " tokens\n")
        << "  values     " << NameOf(layout.encoding) << '\n'
        << "  recorded   " << Listed(capture::RecordedNames(layout.facts)) << '\n';
  }
  if (plans.size() != 1) out << "  traces     " << plans.size() << ", " << ByteText(bytes) << " together\n";
  out << files.str();
  if (!layer_devices.empty()) out << "  devices    " << model::PlacementText(layer_devices) << '\n';
  if (!placement.passed_over.empty()) out << "  left out   " << analysis::Printable(placement.passed_over) << '\n';
  if (!plans.empty()) {
    out << "  memory     about "
        << (device.is_gpu()
                ? ByteText(of_model) + " on " + (layer_devices.empty() ? DeviceText(device) : "these devices") + ", " +
                      ByteText(of_recorder) + " here"
                : ByteText(of_model + of_recorder))
        << '\n';
  }
  if (seconds > 0) out << "  time       about " << FormatDuration(seconds) << '\n';
  WriteText(out.str(), "", false);
  return kDone;
}

// Of prompts that are ids, where the model's tokenizer cannot be read.
void TellOfTexts(const std::string& why_none) {
  if (!why_none.empty())
    std::cerr << "token ids are recorded without their texts: " << analysis::Printable(why_none) << '\n';
}

void TellOfPlaces(const model::Placement& placement) {
  if (!placement.layers.empty()) std::cerr << model::PlacementText(placement.layers) << '\n';
  if (!placement.passed_over.empty()) std::cerr << analysis::Printable(placement.passed_over) << '\n';
}

int RunOne(const CaptureArguments& arguments, const std::stop_token& stop) {
  const capture::CaptureRequest& request = arguments.request;
  capture::CaptureResult result;
  {
    ProgressLine line(arguments.quiet);
    result = capture::Capture(
        request, [&](const Progress& progress) { line.Show(progress); }, stop);
  }
  const char* verdict = !result.interrupted   ? ""
                        : result.path.empty() ? "interrupted before a token was recorded, so there is no trace: "
                                              : "interrupted; the trace is valid and shorter: ";
  std::cerr << verdict << result.num_tokens << " tokens, " << result.num_rows << " query rows, "
            << ByteText(result.bytes) << " in " << FormatDuration(result.seconds) << '\n';
  TellOfPlaces(result.placement);
  TellOfTexts(result.why_no_texts);
  if (!result.generated_text.empty()) std::cerr << "generated: " << analysis::Printable(result.generated_text) << '\n';
  if (result.answer_score) std::cerr << "the task's answer is " << (*result.answer_score == 1 ? "right\n" : "wrong\n");
  if (!result.path.empty()) WriteText(result.path + "\n", "", false);
  return result.interrupted ? kInterrupted : kDone;
}

int RunMany(const CaptureArguments& arguments, const std::stop_token& stop) {
  const capture::BatchRequest request{arguments.request, arguments.prompts, arguments.resume};
  capture::BatchResult result;
  {
    ProgressLine line(arguments.quiet);
    result = capture::CaptureBatch(
        request, [&](const Progress& progress) { line.Show(progress); }, stop);
  }
  std::cerr << (result.interrupted ? "interrupted; finished traces are kept, and --resume continues: " : "")
            << result.num_done << " of " << result.num_prompts << " prompts are done; this run wrote "
            << result.num_tokens << " tokens, " << ByteText(result.bytes) << " in " << FormatDuration(result.seconds)
            << '\n';
  TellOfPlaces(result.placement);
  TellOfTexts(result.why_no_texts);
  WriteText(result.manifest_path + "\n", "", false);
  return result.interrupted ? kInterrupted : kDone;
}

// Numbers, between which commas or spaces stand.
std::vector<int32_t> ParseTokens(const std::string& text) {
  const auto parts = [](char c) { return c == ' ' || c == ','; };
  std::vector<int32_t> tokens;
  const char* const end = text.data() + text.size();
  for (const char* at = std::find_if_not(text.data(), end, parts); at < end; at = std::find_if_not(at, end, parts)) {
    int32_t id = 0;
    const auto [behind, error] = std::from_chars(at, end, id);
    if (error != std::errc() || id < 0 || (behind < end && !parts(*behind))) {
      throw UsageError({.field = "tokens",
                        .value = Quoted(text),
                        .problem = "it is not a list of token ids",
                        .remedy = "write whole numbers such as 1,2,3; a text is given with --text"});
    }
    tokens.push_back(id);
    at = behind;
  }
  return tokens;
}

int RunPlanned(CaptureArguments arguments) {
  capture::CaptureRequest& request = arguments.request;
  const int sources = int{request.text.has_value()} + int{request.prompt_file.has_value()} +
                      int{request.task.has_value()} + int{!request.tokens.empty()} + int{!arguments.prompts.empty()};
  if (sources != 1) {
    throw UsageError({.problem = "capture needs exactly one of --text, --prompt, --tokens, --task and --prompts, and " +
                                 std::string(sources == 0 ? "none" : "more") + " is given",
                      .remedy = "give one of them"});
  }
  request.prose_path = ProsePath();
  request.layers = ParseNumberList(arguments.layers, "layers");
  request.heads = ParseNumberList(arguments.heads, "heads");
  request.kv_heads = ParseNumberList(arguments.kv_heads, "kv-heads");
  if (arguments.prompts.empty()) {
    {
      const OutputClaim nobody_writes(request.output_path, "capture");
    }  // before its file, which is there, is spoken of
    CheckOutputTarget(request.output_path, request.overwrite, capture::InputFiles(request));
    capture::CheckTraceName(request.output_path);
  }
  const ModelAttention attention =
      ChooseAttention(arguments.attention, request.model_dir, request.num_threads, /*trace_lse=*/true, request.device);
  request.attention = attention.backend.get();
  request.attention_text = attention.text;
  for (const std::string& name : arguments.record) request.record.push_back(ParseCapturePoint(name));
  const std::stop_token stop = StopOnInterrupt();
  if (arguments.dry_run) {
    if (arguments.prompts.empty()) return ShowPlans(arguments, {{request.output_path, capture::PlanCapture(request)}});
    return ShowPlans(arguments, capture::PlanBatch({request, arguments.prompts, arguments.resume}, stop));
  }
  const int code = arguments.prompts.empty() ? RunOne(arguments, stop) : RunMany(arguments, stop);
  TellNotes(attention);
  return code;
}

int RunCapture(const CLI::App& command, CaptureArguments arguments) {
  const capture::CaptureRequest& request = arguments.request;
  if (!arguments.chat.empty()) {
    throw UsageError({.field = "chat",
                      .value = arguments.chat,
                      .problem = "headscope does not render chat templates: they are Jinja programs, and no "
                                 "well-maintained C++ library for Jinja is packaged",
                      .remedy = "capture from Python, with `python -m headscope.capture " + request.model_dir +
                                " --chat " + arguments.chat + "`, or give the rendered text with --text"});
  }
  const std::string plan_file = arguments.plan;
  const KeysOfPlan from_plan = TakeRecordPlan(command, &arguments);
  const bool one_prompt = arguments.prompts.empty();
  try {
    return RunPlanned(std::move(arguments));
  } catch (capture::EarlierBatchError& error) {
    error.AddRemedy("continue the earlier run with --resume, or replace it with --force");
    throw;
  } catch (capture::NoTokenizerError& error) {
    error.AddRemedy(one_prompt ? "--tokens takes them" : R"(a line of --prompts takes them as {"tokens": [..]})");
    throw;
  } catch (UsageError& error) {
    const auto key = from_plan.find(error.fault().field);
    if (error.fault().file.empty() && key != from_plan.end()) {
      error.SetField(key->second);
      error.SetFile(plan_file);
    }
    throw;
  }
}

}  // namespace

void AddCaptureCommand(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("capture", "Run a model on a prompt and record every head's Q, K, V and LSE into a trace");
  auto arguments = std::make_shared<CaptureArguments>();
  capture::CaptureRequest& request = arguments->request;
  command
      ->add_option("model", request.model_dir,
                   "Checkpoint folder (config.json, safetensors, tokenizer.json) whose model_type is one of: " +
                       model::KnownModelTypes())
      ->required()
      ->type_name("MODEL_DIR");
  command->add_option("--text", request.text, "The prompt itself");
  command->add_option("--prompt", request.prompt_file, "The prompt, from a UTF-8 file")->type_name("FILE");
  command
      ->add_option_function<std::string>(
          "--tokens", [&request](const std::string& given) { request.tokens = ParseTokens(given); },
          "The prompt as token ids, used as given")
      ->type_name("1,2,3");
  command
      ->add_option("--chat", arguments->chat,
                   "A conversation to render with the model's chat template; not done here: the Python command for it "
                   "is printed")
      ->type_name("FILE.json");
  CLI::Option* prompts =
      command
          ->add_option(
              "--prompts", arguments->prompts,
              R"(Many prompts, one JSON object per line: {"text": ".."} or {"tokens": [..]}, and a "name"; each )"
              "becomes a trace in the folder named by -o, whose manifest.json lists them")
          ->type_name("FILE.jsonl");
  command->add_flag("--resume", arguments->resume, "Continue an unfinished run of --prompts in its folder")
      ->needs(prompts);
  CLI::Option* task = AddTaskOption(command, &request.task, "A prompt with a known answer: " + eval::TasksWithHelp())
                          ->type_name("NAME");
  AddTaskLengthOption(command, &request.task_length)->needs(task);
  AddSeedOption(command, &request.task_seed, "Seed of the task")->needs(task);
  AddOutputOptions(command, &request.output_path, &request.overwrite,
                   "Trace to write; with --prompts, the folder for their traces", "OUT.h5")
      ->required();
  AddFilesOption(command, &request.num_files, "written by a thread each");
  AddModelHeadsOptions(command, &arguments->layers, &arguments->heads);
  command->add_option("--kv-heads", arguments->kv_heads, "In place of --heads: KV heads, with all query heads of each")
      ->type_name("A,B");
  command
      ->add_option("--rows", request.rows,
                   "Query rows of the prompt to record: all, last:N, every:N, random:N, random:N:SEED, or ranges "
                   "A:B,C:D of rows A to B-1")
      ->capture_default_str();
  LimitIntegers(
      command->add_option("--decode", request.decode_tokens, "Tokens to generate and record after the prompt"), 0)
      ->capture_default_str();
  std::string record_help = "What to record besides q, k, v and lse: ";
  for (const model::CapturePointInfo& info : model::kCapturePoints) {
    record_help += (info.point == model::kCapturePoints.front().point ? "" : "; ") + std::string(info.name) + ", " +
                   std::string(info.help);
  }
  command->add_option("--record", arguments->record, record_help)->delimiter(',')->type_name("a,b");
  command
      ->add_option("--record-plan", arguments->plan,
                   std::string("Read what to record from a file: {\"format\": \"") + kRecordPlanFormat +
                       "\", \"layers\": [0, 1], \"rows\": \"last:16\", ..} with the keys layers, heads or kv_heads, "
                       "rows, points (of --record), decode, files and dtype; command-line options take precedence")
      ->type_name("FILE.json");
  command->add_flag(
      "--dry-run", arguments->dry_run,
      "Print what would be recorded, with its size and the approximate memory and time, and write nothing");
  AddAttentionOptions(command, &arguments->attention);
  AddComputeTypeOption(command, &request.dtype);
  command
      ->add_option_function<std::string>(
          "--device",
          [&request](const std::string& text) {
            request.place_by_memory = text == "auto";
            try {
              request.device = request.place_by_memory ? kCpu : ParseDevice(text);
            } catch (UsageError& error) {
              error.AddRemedy("or it is auto, which places the layers by free memory");
              throw;
            }
          },
          "cpu, cuda or cuda:N; auto: as many layers as fit go to this machine's GPUs, the rest to the CPU")
      ->default_str(DeviceText(request.device));
  LimitIntegers(command->add_option(
                    "--chunk", request.chunk_tokens,
                    "Tokens per prefill step; without it 1024, on one GPU more where they fit it (docs/capture.md)"),
                1);
  AddThreadsOption(command, &request.num_threads);
  AddQuietOption(command, &arguments->quiet);
  command->callback([=, &action] { action = [=] { return RunCapture(*command, *arguments); }; });
}

}  // namespace headscope::app
