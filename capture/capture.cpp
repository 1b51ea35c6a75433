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
#include "base/number_list.h"
#include "base/output_claim.h"
#include "base/progress_meter.h"
#include "base/row_selection.h"
#include "base/stopwatch.h"
#include "capture/prompt_file.h"
#include "data/trace_files.h"
#include "data/trace_files_writer.h"
#include "data/unfinished_file.h"
#include "eval/prose_file.h"
#include "eval/tasks.h"
#include "head_choice.h"
#include "model/checkpoint.h"
#include "model/input_file.h"
#include "model/layer_placement.h"
#include "model/model_tokenizer.h"
#include "model/transformer.h"
#include "one_capture.h"
#include "recorder.h"
#include "sparse_model/own_dense.h"
#include "trace_target.h"

namespace headscope::capture {
namespace {

struct Prompt {
  std::vector<int32_t> tokens;
  std::string source;
  std::string answer;
  std::vector<int32_t> answer_tokens;
};

// `count`: how many tokens the prompt has, as text.
[[noreturn]] void RefuseLongPrompt(const CaptureRequest& request, const std::string& count,
                                   const model::ModelConfig& config) {
  const std::string decoded =
      request.decode_tokens == 0 ? "" : " and decoding adds " + std::to_string(request.decode_tokens);
  Fault fault{
      .file = request.prompt_file.value_or(""),
      .problem = "the prompt has " + count + " tokens" + decoded + ", but the model has " + PositionsText(config),
      .remedy = std::string("use a shorter prompt") + (request.decode_tokens == 0 ? "" : " or decode fewer tokens")};
  if (request.task) {
    fault.field = "length";
    fault.value = std::to_string(request.task_length);
    fault.remedy = "choose a smaller number or decode fewer tokens";  // without those the length itself is refused
  }
  throw UsageError(fault);
}

// `tokenizer` may be null where the request gives tokens.
Prompt ReadPrompt(const CaptureRequest& request, const model::Tokenizer* tokenizer, const model::ModelConfig& config) {
  const int given = static_cast<int>(request.text.has_value()) + static_cast<int>(request.prompt_file.has_value()) +
                    static_cast<int>(request.task.has_value()) + static_cast<int>(!request.tokens.empty());
  if (given != 1)
    throw UsageError({.problem = "a capture needs exactly one of a text, a prompt file, tokens and a task",
                      .remedy = "give one of them"});
  if (!request.tokens.empty()) {
    for (const int32_t id : request.tokens) {
      if (id >= 0 && id < config.vocabulary_size) continue;
      throw UsageError({.field = "tokens",
                        .value = std::to_string(id),
                        .problem = "the model's ids are 0 to " + std::to_string(config.vocabulary_size - 1),
                        .remedy = "give ids of its own tokenizer"});
    }
    return {request.tokens, "tokens", "", {}};
  }
  if (request.task) {
    const eval::TaskPrompt task = eval::MakeTask(*request.task, request.task_length, request.task_seed, *tokenizer,
                                                 eval::ReadProse(request.prose_path));
    return {task.tokens,
            "task " + *request.task + " length " + std::to_string(request.task_length) + " seed " +
                std::to_string(request.task_seed),
            task.answer_text, task.answer};
  }
  const std::string text = request.text ? *request.text : ReadPromptFile(*request.prompt_file);
  const std::string source =
      request.text ? "text" : "prompt " + std::filesystem::path(*request.prompt_file).filename().string();
  if (text.empty())
    model::Refuse(request.text ? kPromptItself : *request.prompt_file, "", "is empty", "give at least one character");
  if (const size_t valid = model::Utf8Length(text); valid < text.size()) {
    model::Refuse(kPromptItself, "", "is not UTF-8 at byte " + std::to_string(valid),
                  "give it in a locale of UTF-8, or as a file");
  }
  try {
    Prompt prompt = {tokenizer->Encode(text, /*add_special_tokens=*/true, config.max_positions), source, "", {}};
    if (prompt.tokens.empty())
      throw BadInputError({.problem = "has no token by the model's tokenizer", .remedy = "give another text"});
    return prompt;
  } catch (const model::TooManyTokens& too_many) {
    RefuseLongPrompt(request, "at least " + std::to_string(too_many.at_least), config);
  } catch (BadInputError& error) {
    error.SetFile(request.text ? kPromptItself : *request.prompt_file);
    throw;
  }
}

std::string FolderName(const std::string& path) {
  const std::filesystem::path whole = std::filesystem::absolute(path).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

// What of the request depends on the model's sizes alone. Throws UsageError before any weight is read.
struct RecordedHeads {
  std::vector<int32_t> layers;
  std::vector<std::vector<int32_t>> qo_heads;  // of each of them
};

const char* MixerName(const model::ModelConfig& config) {
  return config.mixer.kind == model::MixerKind::kDeltaRule ? "recurrence" : "short convolution";
}

// Of those that have heads: all of them where none is named.
std::vector<int32_t> ChooseLayers(const std::vector<int32_t>& named, const model::ModelConfig& config) {
  std::vector<int32_t> chosen = ChooseNumbers(named, config.num_layers, "layer");
  const auto has_no_heads = [&](int32_t layer) { return config.layers[static_cast<size_t>(layer)].other_mixer; };
  if (named.empty()) {
    std::erase_if(chosen, has_no_heads);
  } else if (const auto without = std::find_if(chosen.begin(), chosen.end(), has_no_heads); without != chosen.end()) {
    throw UsageError(
        {.field = "layers",
         .value = std::to_string(*without),
         .problem = std::string("the layer has a ") + MixerName(config) + " instead of attention, so it has no heads",
         .remedy = "name layers with attention, or none to record all of those"});
  }
  return chosen;
}

// The query heads of one layer, which need not have as many as others.
std::vector<int32_t> ChooseHeads(const CaptureRequest& request, const model::ModelConfig& config, int32_t number) {
  const model::AttentionLayer& layer = config.layers[static_cast<size_t>(number)];
  if (request.kv_heads.empty()) return ChooseNumbers(request.heads, layer.num_qo_heads, "head");
  return GroupsOf(ChooseNumbers(request.kv_heads, layer.num_kv_heads, "kv-head"), layer.num_qo_heads,
                  layer.num_kv_heads);
}

// An encoder reads the whole text at once, and its attention is no method's.
void RequireOnePass(const CaptureRequest& request) {
  if (request.decode_tokens > 0) {
    throw UsageError({.field = "decode",
                      .value = std::to_string(request.decode_tokens),
                      .problem = "the model is an encoder, which generates no tokens",
                      .remedy = "leave it at 0, or name a decoder"});
  }
  if (request.attention != nullptr) {
    throw UsageError(
        {.field = "attention",
         .value = request.attention_text,
         .problem =
             "the model is an encoder, whose rows also attend to later tokens, but every method needs causal attention",
         .remedy = "leave it out, or name a decoder"});
  }
}

RecordedHeads CheckAgainstConfig(const CaptureRequest& request, const model::ModelConfig& config) {
  RequireHeads(config, request.model_dir);
  if (IsEncoder(config)) RequireOnePass(request);
  if (request.task) RequirePositions(config, "length", request.task_length);
  RequirePositions(config, "decode", request.decode_tokens);
  if (!request.heads.empty() && !request.kv_heads.empty()) {
    throw UsageError({.field = "kv-heads",
                      .value = NumberListText(request.kv_heads),
                      .problem = "heads are named as well, and either alone says which heads are recorded",
                      .remedy = "name one of them"});
  }
  RecordedHeads chosen{ChooseLayers(request.layers, config), {}};
  for (const int32_t layer : chosen.layers) chosen.qo_heads.push_back(ChooseHeads(request, config, layer));
  return chosen;
}

void CheckPositions(const CaptureRequest& request, const Prompt& prompt, const model::ModelConfig& config) {
  const int64_t needed = static_cast<int64_t>(prompt.tokens.size()) + request.decode_tokens;
  if (needed <= config.max_positions) return;
  RefuseLongPrompt(request, std::to_string(prompt.tokens.size()), config);
}

data::NormPlace NormOf(model::QkNorm norm) {
  switch (norm) {
    case model::QkNorm::kNone:
      return data::NormPlace::kNone;
    case model::QkNorm::kEachHead:
      return data::NormPlace::kHeadBeforeRope;
    case model::QkNorm::kEachHeadAfterRope:
      return data::NormPlace::kHeadAfterRope;
    case model::QkNorm::kAllHeads:
      return data::NormPlace::kLayerBeforeRope;
  }
  return data::NormPlace::kUnknown;
}

// What the configuration says of a layer, for the trace.
data::LayerFacts FactsOf(const model::ModelConfig& config, int32_t layer, const std::vector<int32_t>& qo_heads) {
  const model::AttentionLayer& from = config.layers[static_cast<size_t>(layer)];
  data::LayerFacts facts;
  facts.num_qo_heads = from.num_qo_heads;
  facts.num_kv_heads = from.num_kv_heads;
  facts.head_dim = from.head_dim;
  facts.v_head_dim = from.v_head_dim;
  facts.qo_heads = qo_heads;
  facts.kv_heads = KvHeadsOf(qo_heads, from.num_qo_heads, from.num_kv_heads);
  facts.softmax_scale = static_cast<float>(from.scale);
  facts.soft_cap = static_cast<float>(from.soft_cap);
  facts.window = from.window;
  facts.chunk = from.chunk;
  facts.bidirectional = !from.causal;
  facts.sinks = from.sinks;
  facts.kv_layer = from.kv_layer;
  if (from.rope < 0) {
    facts.rope.convention = data::RopeConvention::kNone;
  } else {
    const model::RopeConfig& rope = config.ropes[static_cast<size_t>(from.rope)];
    if (rope.interleaved) facts.rope.convention = data::RopeConvention::kInterleaved;
    facts.rope.theta = static_cast<float>(rope.theta);
    facts.rope.num_dims = rope.rotary_dim == from.head_dim ? 0 : rope.rotary_dim;
    facts.rope.first_dim = rope.first_dim;
    facts.rope.attention_factor = static_cast<float>(rope.attention_factor);
  }
  facts.norm = NormOf(from.qk_norm);
  if (from.output_gate) facts.output_gate = data::OutputGate::kPerChannel;
  return facts;
}

std::string TokenizerHash(const std::string& model_dir) {
  model::Sha256 hash;
  hash.Add(model::InputFile(model::TokenizerPath(model_dir)));
  return hash.HexDigest();
}

// All but the hashes of weights and tokenizer.
data::TraceLayout MakeLayout(const CaptureRequest& request, const model::ModelConfig& config, ElementType captured,
                             const RecordedHeads& heads, const Prompt& prompt) {
  data::TraceLayout layout;
  layout.model.name = FolderName(request.model_dir);
  layout.model.model_type = config.model_type;
  layout.model.config_json = config.json;
  layout.model.num_layers = config.num_layers;
  layout.model.num_qo_heads = config.num_qo_heads;
  layout.model.num_kv_heads = config.num_kv_heads;
  layout.model.head_dim = config.head_dim;
  layout.max_tokens = static_cast<int64_t>(prompt.tokens.size()) + request.decode_tokens;
  layout.layers = heads.layers;
  layout.encoding = captured;
  layout.attention = request.attention_text;
  for (size_t slot = 0; slot < layout.layers.size(); ++slot) {
    layout.facts.push_back(FactsOf(config, layout.layers[slot], heads.qo_heads[slot]));
    data::LayerFacts& facts = layout.facts.back();
    for (const model::CapturePoint point : request.record) facts.*StoredFact(point) = true;
    if (facts.has_residual) facts.hidden_size = config.hidden_size;
    facts.selection = SelectionOf(config, layout.layers[slot], layout.max_tokens);
  }
  const data::LayerKind without_attention =
      config.mixer.kind == model::MixerKind::kDeltaRule ? data::LayerKind::kLinear : data::LayerKind::kNone;
  for (const model::AttentionLayer& layer : config.layers)
    layout.model.layer_kinds.push_back(layer.other_mixer  ? without_attention
                                       : layer.window > 0 ? data::LayerKind::kSliding
                                       : layer.chunk > 0  ? data::LayerKind::kChunked
                                                          : data::LayerKind::kAttention);
  layout.row_selection = request.rows;
  layout.prompt_source = prompt.source;
  layout.task_answer = prompt.answer;
  // An answer that the decode steps have no room for is not judged.
  if (std::ssize(prompt.answer_tokens) <= request.decode_tokens)
    layout.answer_tokens = static_cast<int32_t>(prompt.answer_tokens.size());
  return layout;
}

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

}  // namespace

std::vector<std::string> InputFiles(const CaptureRequest& request) {
  std::vector<std::string> files;
  if (request.prompt_file) files.push_back(*request.prompt_file);
  if (request.task) files.push_back(request.prose_path);
  std::error_code unreadable;  // told when the folder is read
  for (const auto& entry : std::filesystem::directory_iterator(request.model_dir, unreadable)) {
    const std::string extension = entry.path().extension().string();
    if (extension == ".json" || extension == ".safetensors") files.push_back(entry.path().string());
  }
  files.push_back(model::TokenizerPath(request.model_dir));  // .json as well, or a list of another name
  return files;
}

namespace {

Fault Unrecorded(const std::string& why, const std::string& remedy) {
  return {.problem = "recording: " + why, .remedy = remedy};
}

// All that is refused before a weight is read: before a file is made, and what config.json, tokenizer.json and the free
// space decide.
class Plan {
 public:
  enum class For { kWriting, kEstimate };
  Plan(const CaptureRequest& request, ModelInUse* in_use, For what = For::kWriting) : rows_(CheckedRows(request)) {
    if (what == For::kWriting) {
      claim_.emplace(request.output_path, "capture");
      target_.emplace(request.output_path, request.overwrite, request.num_files);
    }
    if (!in_use->config) in_use->config = model::ReadModelConfig(request.model_dir);
    const model::ModelConfig& config = *in_use->config;
    const RecordedHeads heads = CheckAgainstConfig(request, config);
    // Before the tokenizer, which a folder without weights that are read mostly lacks as well.
    const ElementType captured = model::CapturedType(request.model_dir, SessionOf(request));
    ReadTokenizer(request, config, in_use);
    prompt_ = ReadPrompt(request, in_use->tokenizer ? &*in_use->tokenizer : nullptr, config);
    CheckPositions(request, prompt_, config);
    layout_ = MakeLayout(request, config, captured, heads, prompt_);
    if (in_use->tokenizer) layout_.model.tokenizer_sha256 = TokenizerHash(request.model_dir);
    // What is recorded is all that the prompt is read for, unless it is gone on with.
    if (request.decode_tokens == 0) last_layer_ = *std::ranges::max_element(layout_.layers);
    rows_.Draw(num_prompt_tokens());
    num_rows_ = rows_.Count(num_prompt_tokens()) + request.decode_tokens;
    const auto files = data::LayoutsOfFiles(layout_, data::DealLayers(layout_, request.num_files, num_rows_));
    for (const data::TraceLayout& file : files) bytes_ += TraceBytes(file, layout_.max_tokens, num_rows_);
    if (target_) target_->RequireSpace(bytes_);
  }

  // A prompt of token ids needs no tokenizer: without one that can be read, the trace has no texts, and in_use says
  // why.
  static void ReadTokenizer(const CaptureRequest& request, const model::ModelConfig& config, ModelInUse* in_use) {
    if (in_use->tokenizer) return;
    try {
      in_use->tokenizer = model::LoadModelTokenizer(request.model_dir, config);
    } catch (const BadInputError& error) {
      if (request.tokens.empty()) {
        NoTokenizerError refusal(error.fault());
        refusal.AddRemedy("or give the prompt as token ids, which needs no tokenizer");
        throw refusal;
      }
      in_use->why_no_texts = error.what();
    }
  }

  static model::SessionOptions SessionOf(const CaptureRequest& request) {
    return {.dtype = request.dtype,
            .device = request.device,
            .chunk_tokens = request.chunk_tokens,
            .num_threads = request.num_threads};
  }
  const RowSelection& rows() const { return rows_; }
  const TraceTarget& target() const { return *target_; }  // of one for writing
  const Prompt& prompt() const { return prompt_; }
  int64_t num_prompt_tokens() const { return static_cast<int64_t>(prompt_.tokens.size()); }
  int64_t num_rows() const { return num_rows_; }
  int64_t bytes() const { return bytes_; }
  std::optional<int32_t> last_layer() const { return last_layer_; }
  data::TraceLayout& layout() { return layout_; }

 private:
  static RowSelection CheckedRows(const CaptureRequest& request) {
    if (request.decode_tokens < 0)
      throw UsageError(
          {.field = "decode", .value = std::to_string(request.decode_tokens), .problem = "it must not be negative"});
    if (request.chunk_tokens < 1)
      throw UsageError(
          {.field = "chunk", .value = std::to_string(request.chunk_tokens), .problem = "it must be at least 1"});
    std::vector<std::string> outputs = data::FilesNamedFor(request.output_path);
    outputs.push_back(request.output_path);
    for (const std::string& input : InputFiles(request)) {
      for (const std::string& output : outputs) {
        std::error_code not_there;
        if (!std::filesystem::equivalent(output, input, not_there)) continue;
        throw UsageError({.field = "output",
                          .value = output,
                          .problem = "it is the same file as " + input + ", which the capture reads",
                          .remedy = "name another"});
      }
    }
    return RowSelection(request.rows);
  }

  RowSelection rows_;
  std::optional<OutputClaim> claim_;
  std::optional<TraceTarget> target_;
  Prompt prompt_;
  data::TraceLayout layout_;
  int64_t num_rows_ = 0;
  int64_t bytes_ = 0;
  std::optional<int32_t> last_layer_;
};

}  // namespace

model::Placement PlaceLayers(const CaptureRequest& request, int64_t tokens, std::optional<int32_t> last_layer) {
  if (!request.place_by_memory) return {};
  model::Placement placement =
      model::PlaceByMemory(request.model_dir, Plan::SessionOf(request), tokens, request.record, last_layer);
  const std::vector<Device>& placed = placement.layers;
  const bool several = std::ranges::any_of(placed, [&](const Device& one) { return one != placed.front(); });
  if (several && request.attention != nullptr) {
    throw UsageError({.field = "attention",
                      .value = request.attention_text,
                      .problem = "the model is spread over several devices (" + model::PlacementText(placed) +
                                 "), but methods run on one",
                      .remedy = "name one device, or leave the method out"});
  }
  return placement;
}

CapturePlan PlanWith(const CaptureRequest& request, ModelInUse* in_use) {
  Plan plan(request, in_use);
  in_use->most_tokens = std::max(in_use->most_tokens, plan.layout().max_tokens);
  in_use->last_layer = plan.last_layer();
  return {.layout = std::move(plan.layout()),
          .num_prompt_tokens = plan.num_prompt_tokens(),
          .num_rows = plan.num_rows(),
          .bytes = plan.bytes(),
          .num_files = request.num_files,
          .last_layer = plan.last_layer(),
          .why_no_texts = in_use->why_no_texts};
}

CapturePlan PlanCapture(const CaptureRequest& request) {
  ModelInUse in_use;
  CapturePlan plan = PlanWith(request, &in_use);
  plan.placement = PlaceLayers(request, plan.layout.max_tokens, plan.last_layer);
  return plan;
}

CapturePlan EstimateCapture(const CaptureRequest& request) {
  ModelInUse in_use;
  Plan plan(request, &in_use, Plan::For::kEstimate);
  return {.layout = plan.layout(),
          .num_prompt_tokens = plan.num_prompt_tokens(),
          .num_rows = plan.num_rows(),
          .bytes = plan.bytes(),
          .num_files = request.num_files,
          .last_layer = plan.last_layer(),
          .placement = PlaceLayers(request, plan.layout().max_tokens, plan.last_layer())};
}

CaptureResult CaptureWith(const CaptureRequest& request, ModelInUse* in_use, const ProgressFunction& progress,
                          const std::stop_token& stop) {
  Plan plan(request, in_use);
  data::TraceLayout& layout = plan.layout();
  const TraceTarget& target = plan.target();
  if (in_use->transformer == nullptr) {
    model::SessionOptions options = Plan::SessionOf(request);
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
    recorder.emplace(&*writer, layout, plan.rows(), plan.num_prompt_tokens(), keep);
    CaptureRun run(model, in_use->tokenizer ? &*in_use->tokenizer : nullptr, &*recorder, stop);
    if (request.readable) run.TellOf([&](int64_t tokens) { request.readable(files.front(), tokens); });
    const int64_t pass_tokens = IsEncoder(model->config()) ? plan.num_prompt_tokens() : request.chunk_tokens;
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
