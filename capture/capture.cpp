// SPDX-License-Identifier: Apache-2.0
#include "capture/capture.h"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <functional>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "base/progress_meter.h"
#include "base/stopwatch.h"
#include "checked_request.h"
#include "data/trace_files.h"
#include "data/trace_files_writer.h"
#include "data/unfinished_file.h"
#include "eval/tasks.h"
#include "model/checkpoint.h"
#include "model/transformer.h"
#include "one_capture.h"
#include "recorder.h"
#include "sparse_model/own_dense.h"

namespace headscope::capture {
namespace {

// Feeds the model, announces every pass to the recorder, and stops between passes when it is cancelled.
class CaptureRun {
 public:
  CaptureRun(model::Transformer* model, const model::Tokenizer* tokenizer, Recorder* recorder,
             const std::stop_token& stop)
      : model_(model), tokenizer_(tokenizer), recorder_(recorder), stop_(stop) {}

  // `readable`: told how many tokens can be read, when they are more than before; may be empty.
  void TellOf(std::function<void(int64_t tokens)> readable) { readable_ = std::move(readable); }
  const std::stop_token& stop() const { return stop_; }

  std::vector<float> Pass(std::span<const int32_t> tokens, data::TokenPhase phase, model::LogitsOf logits) {
    std::vector<data::TokenRecord> records;
    records.reserve(tokens.size());
    for (const int32_t id : tokens) {
      // A padded embedding's id has none.
      std::string text = tokenizer_ != nullptr && tokenizer_->Has(id) ? tokenizer_->TokenBytes(id) : "";
      records.push_back({.id = id, .phase = phase, .step = step_, .text = std::move(text)});
    }
    ++step_;
    recorder_->BeginPass(std::move(records));
    std::vector<float> result;
    try {
      result = model_->Forward(tokens, logits, recorder_, stop_);
    } catch (const CancelledError&) {
      recorder_->AbandonPass();
      return {};
    }
    recorder_->EndPass();
    if (const int64_t flushed = recorder_->tokens_flushed(); flushed > told_) {
      if (readable_) readable_(flushed);
      told_ = flushed;
    }
    return result;
  }

  std::string Text(const std::vector<int32_t>& generated) const {
    return tokenizer_ == nullptr ? "" : tokenizer_->Decode(generated, /*keep_special_tokens=*/true);
  }

 private:
  model::Transformer* model_;
  const model::Tokenizer* tokenizer_;  // may be null
  Recorder* recorder_;
  std::stop_token stop_;
  std::function<void(int64_t tokens)> readable_;
  int64_t told_ = 0;
  int32_t step_ = 0;
};

int32_t ArgMax(const std::vector<float>& logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// Runs the prompt, in passes of so many tokens, and the decode steps through the model and the recorder. The trace is
// complete unless the result says interrupted.
CaptureResult Record(const CaptureRequest& request, const data::TraceLayout& layout, const Prompt& prompt,
                     int64_t pass_tokens, const ProgressFunction& progress, data::TraceFilesWriter* writer,
                     Recorder* recorder, CaptureRun* run) {
  const Stopwatch watch;
  const auto prompt_tokens = static_cast<int64_t>(prompt.tokens.size());
  const std::span<const int32_t> tokens(prompt.tokens);
  std::vector<float> logits;
  ProgressMeter prefill("prefill", ProgressUnit::kTokens, prompt_tokens, progress);
  for (int64_t done = 0; done < prompt_tokens && !run->stop().stop_requested();) {
    const int64_t count = std::min<int64_t>(pass_tokens, prompt_tokens - done);
    const bool last = done + count == prompt_tokens;
    logits = run->Pass(tokens.subspan(static_cast<size_t>(done), static_cast<size_t>(count)), data::TokenPhase::kPrompt,
                       last && request.decode_tokens > 0 ? model::LogitsOf::kLastToken : model::LogitsOf::kNone);
    if (run->stop().stop_requested()) break;
    done += count;
    prefill.Report(done);
  }
  std::vector<int32_t> generated;
  ProgressMeter decode("decode", ProgressUnit::kTokens, request.decode_tokens, progress);
  while (static_cast<int64_t>(generated.size()) < request.decode_tokens && !run->stop().stop_requested()) {
    generated.push_back(ArgMax(logits));
    logits = run->Pass(std::span(generated).last(1), data::TokenPhase::kDecode, model::LogitsOf::kLastToken);
    decode.Report(static_cast<int64_t>(generated.size()));
  }
  recorder->Drain();
  CaptureResult result;
  result.num_tokens = recorder->num_tokens();
  result.num_rows = recorder->num_rows();
  // An interrupted trace is readable up to here and says complete = 0.
  result.interrupted = result.num_tokens < layout.max_tokens;
  if (layout.answer_tokens > 0 && std::ssize(generated) >= layout.answer_tokens) {
    result.answer_score = eval::ScoreOfAnswer(prompt.answer_tokens, generated);
    writer->SetAnswerScore(*result.answer_score);
  }
  if (!result.interrupted) writer->Finish();
  result.generated_text = run->Text(generated);
  result.seconds = watch.Seconds();
  return result;
}

Fault Unrecorded(const std::string& why, const std::string& remedy) {
  return {.problem = "recording: " + why, .remedy = remedy};
}

int64_t PassTokens(const CaptureRequest& request, CheckedRequest* plan, const model::Transformer& model) {
  if (IsEncoder(model.config())) return plan->num_prompt_tokens();
  if (request.chunk_tokens > 0) return request.chunk_tokens;
  return model.PassTokens(plan->num_prompt_tokens(), LayerBytesOfToken(plan->bytes(), plan->layout()), request.record);
}

}  // namespace

CaptureResult CaptureWith(const CaptureRequest& request, ModelInUse* in_use, const ProgressFunction& progress,
                          const std::stop_token& stop) {
  CheckedRequest plan(request, in_use);
  data::TraceLayout& layout = plan.layout();
  const TraceTarget& target = plan.target();
  if (in_use->transformer == nullptr) {
    model::SessionOptions options = SessionOf(request);
    in_use->placement = PlaceLayers(request, std::max(in_use->most_tokens, layout.max_tokens), plan.last_layer());
    options.layer_devices = in_use->placement.layers;
    options.last_layer = plan.last_layer();
    options.dense_executor = sparse_model::OwnDense();
    in_use->transformer = model::OpenTransformer(request.model_dir, options, progress, stop);
    in_use->weights_sha256 = model::Checkpoint(request.model_dir).WeightsSha256(stop);
  }
  model::Transformer* const model = in_use->transformer.get();
  layout.model.weights_sha256 = in_use->weights_sha256;
  for (size_t slot = 0; slot < layout.layers.size(); ++slot)  // they stand among the weights
    layout.facts[slot].sinks = model->config().layers[static_cast<size_t>(layout.layers[slot])].sinks;
  model->Rewind(0);
  model->UseAttention(request.attention);
  model->EndBehind(plan.last_layer().value_or(model->config().num_layers - 1));
  // Layers that were placed for a batch's longest prompt have room for its cache, and none for growing by doubling.
  model->Reserve(in_use->placement.layers.empty() ? layout.max_tokens
                                                  : std::max(in_use->most_tokens, layout.max_tokens));
  model->BeginPrompt(plan.num_prompt_tokens());

  const std::vector<std::string> files = target.WritingFiles();
  std::deque<data::UnfinishedFile> unfinished;
  // Each once it is made: what somebody else has put there since is theirs.
  const auto made = [&](const std::string& file) { unfinished.emplace_back(file); };
  std::optional<data::TraceFilesWriter> writer(std::in_place, target.writing_path(), layout, request.num_files,
                                               /*overwrite=*/false, plan.num_rows(), data::TraceStorage::kPlain, made);
  std::optional<Recorder> recorder;
  const auto leave = [&] { return target.Leave(recorder ? recorder->Stop() : 0); };
  CaptureResult result;
  try {
    // What can be read is a trace, if a short one, and stays however the run ends.
    const auto keep = [&] {
      for (data::UnfinishedFile& file : unfinished) file.Keep();
    };
    recorder.emplace(&*writer, layout, plan.rows(), plan.num_prompt_tokens(),
                     UsesGpu(request.device, in_use->placement), keep);
    CaptureRun run(model, in_use->tokenizer ? &*in_use->tokenizer : nullptr, &*recorder, stop);
    if (request.readable) run.TellOf([&](int64_t tokens) { request.readable(files.front(), tokens); });
    const int64_t pass_tokens = PassTokens(request, &plan, *model);
    result = Record(request, layout, plan.prompt(), pass_tokens, progress, &*writer, &*recorder, &run);
  } catch (Error& error) {
    error.AddRemedy(leave());
    throw;
  } catch (const std::bad_alloc&) {
    const std::string left = leave();
    throw DeviceError({.problem = "recording " + std::to_string(layout.max_tokens) + " tokens: the memory is used up",
                       .remedy = "close other programs, or record fewer heads or tokens; " + left});
  } catch (const std::system_error& error) {
    const std::string left = leave();
    if (error.code() != std::errc::resource_unavailable_try_again) throw FailedError(Unrecorded(error.what(), left));
    throw DeviceError(Unrecorded("the system allows headscope no more threads", "close other programs; " + left));
  } catch (const std::exception& error) {
    throw FailedError(Unrecorded(error.what(), leave()));
  }
  if (result.interrupted) {
    leave();
    if (result.num_tokens > 0) result.path = files.front();
  } else {
    target.Complete();
    result.path = data::TraceFilePath(request.output_path, 1, request.num_files);
  }
  result.placement = in_use->placement;
  result.why_no_texts = in_use->why_no_texts;
  recorder.reset();
  writer.reset();  // closes the files, whose sizes are known then
  if (result.path.empty()) return result;
  const std::string& written = result.interrupted ? target.writing_path() : request.output_path;
  for (const std::string& file : data::TraceFilePaths(written, request.num_files)) {
    std::error_code gone;
    const auto size = std::filesystem::file_size(file, gone);
    if (!gone) result.bytes += static_cast<int64_t>(size);
  }
  return result;
}

CaptureResult Capture(const CaptureRequest& request, const ProgressFunction& progress, const std::stop_token& stop) {
  try {
    ModelInUse in_use;
    return CaptureWith(request, &in_use, progress, stop);
  } catch (const CancelledError&) {  // before there was a file
    CaptureResult nothing;
    nothing.interrupted = true;
    return nothing;
  }
}

}  // namespace headscope::capture
