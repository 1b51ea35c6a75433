// SPDX-License-Identifier: Apache-2.0
// headscope eval MODEL_DIR [--task ..] [--length ..] [--samples N] [--attention METHOD[:k=v]] [--attention-config
// FILE]: does the model find what its context holds?
#include <functional>
#include <iomanip>
#include <memory>
#include <sstream>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "commands/answer_file.h"
#include "commands/command.h"
#include "commands/common_options.h"
#include "commands/model_attention.h"
#include "eval/evaluate.h"
#include "support/exit_codes.h"
#include "support/interrupt.h"
#include "support/option_checks.h"
#include "support/output_file.h"
#include "support/paths.h"
#include "support/progress_line.h"
#include "support/run_origin.h"

namespace headscope::app {
namespace {

struct EvalArguments {
  eval::EvaluateRequest request;
  AttentionArguments attention;
  std::string output;
  bool force = false, quiet = false;
};

std::string Line(const eval::TaskScore& score) {
  std::ostringstream out;
  out << std::left << std::setw(12) << score.task << std::right << std::setw(8) << score.length << std::setw(9)
      << score.samples << std::setw(10) << score.contexts << std::fixed << std::setprecision(3);
  if (!score.asks) {
    out << std::setw(30) << "" << std::setw(10) << score.nats_per_token << std::setw(10) << score.trigram_nats_per_token
        << std::setw(11) << score.bits_per_character;
  } else {
    out << std::setw(10) << score.exact << std::setw(11) << score.per_token << std::setw(9) << std::setprecision(1)
        << score.matched_characters << std::setw(31) << "";
  }
  out << std::setw(9) << std::setprecision(1) << score.seconds;
  return out.str();
}

// Share of the pairs of a row and a key that attention kept.
std::string KeptText(const sparse_model::KeptPairs& pairs) {
  std::ostringstream out;
  out << std::setw(8) << std::fixed << std::setprecision(2)
      << 100 * static_cast<double>(pairs.kept) / static_cast<double>(pairs.seen) << '%';
  return out.str();
}

int RunEval(EvalArguments arguments) {
  arguments.request.model_dir = ModelDirOrShipped(arguments.request.model_dir);
  arguments.request.prose_path = ProsePath();
  const ModelAttention attention =
      ChooseAttention(arguments.attention, arguments.request.model_dir, arguments.request.session.num_threads,
                      /*trace_lse=*/false, arguments.request.session.device);
  arguments.request.attention = attention.backend.get();
  if (!arguments.output.empty()) {
    CheckAnswerFile(arguments.output);
    CheckOutputTarget(arguments.output, arguments.force);
  }
  std::vector<eval::Answer> answers;
  std::function<void(const eval::Answer&)> keep;
  if (!arguments.output.empty()) keep = [&](const eval::Answer& answer) { answers.push_back(answer); };
  const std::stop_token stop = StopOnInterrupt();
  {
    ProgressLine line(arguments.quiet);
    std::string header =
        "task          tokens  samples  contexts     exact  per token  matched      nats   trigram  bits/char  "
        "seconds" +
        std::string(attention.backend ? "     kept\n" : "\n");
    sparse_model::KeptPairs before;
    // The header comes with the first score, so that a refused run prints nothing.
    const auto print = [&](const eval::TaskScore& score) {
      line.Clear();
      std::string kept;
      if (attention.backend) {
        const sparse_model::KeptPairs pairs = attention.backend->Pairs();
        kept = KeptText({pairs.kept - before.kept, pairs.seen - before.seen});
        before = pairs;
      }
      WriteText(std::exchange(header, "") + Line(score) + kept + '\n', "", false);
    };
    eval::Evaluate(
        arguments.request, print, [&](const Progress& progress) { line.Show(progress); }, stop, keep);
  }
  TellNotes(attention);
  if (!arguments.output.empty() && !stop.stop_requested()) {
    const AnswerOrigin origin{.model = arguments.request.model_dir,
                              .device = DeviceText(arguments.request.session.device),
                              .written_at = OriginOf({}, {}).measured_at,
                              .attention = &attention};
    WriteText(AnswerFile(answers, origin, arguments.output), arguments.output, arguments.force);
  }
  return stop.stop_requested() ? kInterrupted : kDone;
}

}  // namespace

void AddEvalCommand(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("eval", "Score a model on tasks with a known answer, with headscope's own generation");
  auto arguments = std::make_shared<EvalArguments>();
  eval::EvaluateRequest& request = arguments->request;
  command->add_option("model", request.model_dir, "Checkpoint folder, as capture takes it (the shipped model)")
      ->type_name("MODEL_DIR");
  AddTaskOption(command, &request.tasks, "Tasks: " + eval::TasksWithHelp())->capture_default_str();
  LimitIntegers(command->add_option("--length", request.lengths, "Tokens of prompt and answer"), 1)
      ->delimiter(',')
      ->capture_default_str()
      ->type_name("N,M");
  LimitIntegers(command->add_option("--samples", request.samples, "Questions per task and length"), 1, 100'000)
      ->capture_default_str();
  LimitIntegers(command->add_option("--questions", request.questions_per_context,
                                    "Questions per context, each asked independently"),
                1, 100'000)
      ->capture_default_str();
  AddSeedOption(command, &request.seed, "Seed of the tasks");
  AddAttentionOptions(command, &arguments->attention);
  AddComputeTypeOption(command, &request.session.dtype);
  AddDeviceOption(command, &request.session.device);
  AddThreadsOption(command, &request.session.num_threads);
  AddOutputOptions(command, &arguments->output, &arguments->force,
                   "Write every question with its answer to .csv or .json, under the column names of the kvpress "
                   "library's evaluation (press_name, compression_ratio, context, question, predicted_answer, ..)");
  AddQuietOption(command, &arguments->quiet);
  command->footer(
      "exact: share of the questions whose whole answer the model gives; per token: share of the answers' tokens that "
      "it ranks first, given the correct tokens before them; matched: characters of the answer before the first that "
      "the model gives otherwise, on average; nats: loss per token of prose, bits/char: the same by characters, "
      "trigram: loss of a trigram model; kept: share of the query-key pairs that attention kept, over prompt and "
      "answers together.\n"
      "With a decode method, answers are scored step by step, and prose is read in steps from the last sixteenth of "
      "its tokens on, which alone are scored: compare it with `--attention decode/dense`, which scores the same "
      "tokens. The prompt has most of the pairs, and a decode method leaves it dense: `headscope compare` says how "
      "many keys such a method reads per step.");
  command->callback([=, &action] { action = [=] { return RunEval(*arguments); }; });
}

}  // namespace headscope::app
