// SPDX-License-Identifier: Apache-2.0
#include "example_traces.h"

#include <filesystem>

#include "eval/tasks.h"

namespace headscope::app {
namespace {

// Of 60 tokens with the shipped model's tokenizer, its start of text among them. Whatever stood after a word the first
// time is what an induction head reads when the word comes again.
constexpr char kSentence[] = "Vera sold nine keys to Otto Lunn at the mill gate, then rode off home. ";

}  // namespace

std::vector<ui::Example> ExampleTraces(const std::string& shipped_trace, const std::string& model_dir,
                                       const std::string& folder) {
  std::vector<ui::Example> examples;
  // One that is made here, under this name.
  const auto made = [&](const std::string& name) {
    ui::CaptureSettings made_by;
    made_by.model_dir = model_dir;
    made_by.output_path = (std::filesystem::path(folder) / name).string();
    made_by.overwrite = true;
    ui::Example example;
    example.path = made_by.output_path;
    example.made_by = std::move(made_by);
    return example;
  };
  if (!folder.empty()) {
    ui::Example& twice = examples.emplace_back(made("induction-60.h5"));
    twice.title = "60 tokens: a sentence, twice";
    twice.help = "An induction head: in the second sentence, every word reads what followed it in the first.";
    twice.made_by->prompt_text = std::string(kSentence) + kSentence;
    twice.metric = "induction";
  }
  if (!shipped_trace.empty()) {
    ui::Example& shipped = examples.emplace_back();
    shipped.title = "4,090 tokens: a hidden pass key";
    shipped.help = "The answer's query finds the pass key far back in the prompt.";
    shipped.path = shipped_trace;
  }
  if (!folder.empty()) {
    const std::string& task = eval::TaskNames().front();
    constexpr int64_t kFullLength = 16384;
    ui::Example& full = examples.emplace_back(made(task + "-" + std::to_string(kFullLength) + ".h5"));
    full.title = "16,384 tokens: the model's full length";
    full.help = "The longer the prompt, the fewer of its keys a head needs: try the methods here.";
    full.cost = "330 MB, a few minutes";
    full.made_by->task = task;
    full.made_by->task_length = kFullLength;
  }
  return examples;
}

}  // namespace headscope::app
