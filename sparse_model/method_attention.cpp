// SPDX-License-Identifier: Apache-2.0
#include "sparse_model/method_attention.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/check_status.h"
#include "base/errors.h"
#include "earlier_rows.h"
#include "kernels/cpu_scores.h"
#include "kernels/decode_driver.h"
#include "kernels/prompt_passes.h"
#include "model/rope_config.h"
#include "model_device.h"
#include "query_rows.h"

namespace headscope::sparse_model {
namespace {

using kernels::Status;

// Rows kept for a method that takes as many as there are: all of a long prompt's would outweigh its keys.
constexpr int32_t kMostPromptRows = 1024;

void Require(const Status& status, const model::AttentionCall& call, const std::string& method) {
  if (!status.ok()) CheckStatus(status, method + " in layer " + std::to_string(call.layer));
}

// Query heads [first, end) of a call, whole groups or heads of one group, as a call of their own.
class HeadsOfCall {
 public:
  HeadsOfCall(const model::AttentionCall& whole, int32_t first, int32_t end) : facts_(*whole.facts), call_(whole) {
    const int32_t group = facts_.num_qo_heads / facts_.num_kv_heads, first_kv = first / group;
    const int64_t element = SizeOf(whole.type);
    const auto skip = [element](model::AttentionCall::Tensor* tensor, int64_t heads) {
      if (tensor->data != nullptr)
        tensor->data = static_cast<const std::byte*>(tensor->data) + heads * tensor->head_stride * element;
    };
    skip(&call_.q, first);
    skip(&call_.q_pre_rope, first);
    skip(&call_.k, first_kv);
    skip(&call_.v, first_kv);
    call_.o = static_cast<std::byte*>(whole.o) + first * whole.num_rows * facts_.v_head_dim * element;
    call_.lse += first * whole.num_rows;
    call_.first_qo_head += first;
    call_.first_kv_head += first_kv;
    call_.layer_group_size = group;
    facts_.num_qo_heads = end - first;
    facts_.num_kv_heads = (end - 1) / group - first_kv + 1;
    if (!facts_.sinks.empty()) facts_.sinks = {whole.facts->sinks.begin() + first, whole.facts->sinks.begin() + end};
    call_.facts = &facts_;
  }
  HeadsOfCall(const HeadsOfCall&) = delete;
  HeadsOfCall& operator=(const HeadsOfCall&) = delete;

  const model::AttentionCall& call() const { return call_; }

 private:
  model::AttentionLayer facts_;
  model::AttentionCall call_;
};

class Methods final : public MethodAttention {
 public:
  explicit Methods(const MethodChoice& choice)
      : prefill_of_head_(choice.prefill_of_head),
        prefill_(choice.prefill != nullptr ? *choice.prefill : kernels::PrefillBaseline()),
        decode_(choice.decode != nullptr ? *choice.decode : kernels::DecodeBaseline()),
        prefill_values_(choice.prefill != nullptr ? choice.prefill_values : kernels::ParameterValues(prefill_.spec())),
        decode_values_(choice.decode != nullptr ? choice.decode_values : kernels::ParameterValues(decode_.spec())),
        options_{.num_threads = choice.num_threads},
        trace_lse_(choice.trace_lse),
        has_decode_method_(choice.decode != nullptr),
        prompt_rows_(std::min(decode_.PromptRows(decode_values_), kMostPromptRows)),
        inputs_(decode_.Inputs(decode_values_)) {}

  model::AttentionExtras Wants() const override {
    return {.q_pre_rope = inputs_.q_pre_rope, .value_norms = inputs_.value_norms};
  }

  bool HasStepsOfItsOwn() const override { return has_decode_method_; }

  void Attend(const model::AttentionCall& call) override {
    if (call.facts->chunk > 0) {
      throw UsageError({.field = "layer",
                        .value = std::to_string(call.layer),
                        .problem = "it attends within blocks of " + std::to_string(call.facts->chunk) +
                                   " tokens, which methods do not",
                        .remedy = "let the model run dense"});
    }
    if (call.facts->selected > 0) {
      throw UsageError({.field = "layer",
                        .value = std::to_string(call.layer),
                        .problem = "it attends to the " + std::to_string(call.facts->selected) +
                                   " tokens that its own index chooses, which methods do not",
                        .remedy = "let the model run dense"});
    }
    options_.stop = call.stop;
    if (call.layer <= pass_layer_) pairs_before_pass_ = pairs_;
    pass_layer_ = call.layer;
    pass_first_ = call.num_tokens - call.num_rows;
    ModelDevice& device = DeviceOf(call);
    Require(device.Begin(call), call, prefill_.spec().name);
    KeepValueNorms(call);
    if (call.of_prompt || call.num_rows > 1) {
      Prefill(call, &device);
    } else {
      Decode(call, &device);
    }
    if (trace_lse_ && !AttendedToAll(call)) Require(device.WholeLse(call), call, "the log-sum-exp of all keys");
    if (call.of_prompt || call.num_rows > 1) KeepQueries(call, &device);
    pairs_.seen += SeenPairs(ProblemOf(call));
  }

  void Rewind(int64_t num_tokens) override {
    for (auto& [layer, state] : layers_) {
      if (num_tokens == 0) state.driver = nullptr;  // with all that it holds
      state.keys = nullptr;
      state.unchanged = std::min(state.unchanged, num_tokens);
      state.queries.Rewind(num_tokens);
      for (auto& [head, rows] : state.earlier_rows) rows.Rewind(num_tokens);
    }
    for (const auto* device : {&host_, &gpu_}) {
      if (*device != nullptr) (*device)->Rewind(num_tokens);
    }
    pass_first_ = kNoPass;
  }

  // The layers above the one that failed know nothing of the pass; those below have made their step, and expect it
  // again.
  void Abandon(int64_t num_tokens) override {
    if (pass_first_ != num_tokens) return;  // it failed before any layer's attention
    for (auto& [layer, state] : layers_) {
      state.queries.Rewind(num_tokens);
      for (auto& [head, rows] : state.earlier_rows) rows.Rewind(num_tokens);
      state.again = state.num_tokens == num_tokens + 1;
    }
    pairs_ = pairs_before_pass_;
    pass_first_ = kNoPass;
    pass_layer_ = kNoLayer;
  }

  KeptPairs Pairs() const override { return pairs_; }
  const std::vector<std::string>& Notes() const override { return notes_; }

 private:
  // A layer's prompt, and its decode steps, one after the other. The cache of the steps before must stay where it is
  // for a method that keeps what it saw of them.
  struct LayerState {
    explicit LayerState(int32_t prompt_rows) : queries(prompt_rows) {}
    QueryRows queries;
    std::map<int32_t, EarlierRows> earlier_rows;  // by the first query head of those that share a method
    std::unique_ptr<kernels::DecodeDriver> driver;
    int64_t num_tokens = 0;  // of the last step
    const void* keys = nullptr;
    int64_t unchanged = 0;    // tokens that are what they were when the driver began
    int64_t last_pass = 0;    // first token of the last pass of several
    int32_t first_token = 0;  // of the last step's problem
    kernels::DecodeSelection selection;
    std::vector<float> value_norms;        // [tokens, num_qo_heads], of a method that asks for them
    std::vector<float> shown_value_norms;  // [num_qo_heads, tokens]
    // Of a method whose steps have an order: the last one's vectors, whether the method has seen its output, and
    // whether its pass failed, so that it comes again.
    std::vector<std::byte> step;
    bool attended = false, again = false;
  };

  static constexpr int64_t kNoPass = -1;
  static constexpr int32_t kNoLayer = std::numeric_limits<int32_t>::max();

  // The query of a step's problem, and the key and value of its token, on the host.
  static std::vector<std::byte> VectorsOf(const kernels::AttentionProblem& problem) {
    std::vector<std::byte> bytes;
    const auto add = [&](const kernels::StridedTensor<const void>& from, int32_t heads, int64_t row, int64_t dim) {
      const int64_t size = kernels::SizeOf(problem.dtype);
      for (int64_t head = 0; head < heads; ++head) {
        const auto* const vector =
            static_cast<const std::byte*>(from.data) + (head * from.head_stride + row * from.row_stride) * size;
        bytes.insert(bytes.end(), vector, vector + dim * size);
      }
    };
    add(problem.q, problem.num_qo_heads, 0, problem.head_dim);
    add(problem.k, problem.num_kv_heads, problem.seq_k - 1, problem.head_dim);
    add(problem.v, problem.num_kv_heads, problem.seq_k - 1, problem.ValueDim());
    return bytes;
  }

  ModelDevice& DeviceOf(const model::AttentionCall& call) {
    std::unique_ptr<ModelDevice>& device = call.on_device ? gpu_ : host_;
    if (device == nullptr) device = call.on_device ? MakeGpuDevice(options_) : MakeHostDevice(options_);
    return *device;
  }

  LayerState& StateOf(const model::AttentionCall& call) {
    return layers_.try_emplace(call.layer, prompt_rows_).first->second;
  }

  // Whether the pass attended to every key that the layer lets a row see: its log-sum-exp is that of all keys.
  bool AttendedToAll(const model::AttentionCall& call) const {
    if (!call.of_prompt && call.num_rows == 1)
      return decode_.spec().baseline || decode_.IsDenseLayer(decode_values_, call.layer);
    return prefill_of_head_ == nullptr && prefill_.spec().baseline;
  }

  static int64_t SeenPairs(const kernels::AttentionProblem& problem) {
    int64_t pairs = 0;
    for (int64_t row = 0; row < problem.seq_q; ++row)
      pairs += problem.num_qo_heads * (problem.first_position + row + 1 - int64_t{SeenFrom(problem, row)});
    return pairs;
  }

  void Note(const std::string& note) {
    if (!note.empty() && std::find(notes_.begin(), notes_.end(), note) == notes_.end()) notes_.push_back(note);
  }

  void Prefill(const model::AttentionCall& call, ModelDevice* device) {
    if (prefill_of_head_ == nullptr) {
      PrefillBy(prefill_, prefill_values_, call, device);
      return;
    }
    const int32_t heads = call.facts->num_qo_heads, group = heads / call.facts->num_kv_heads;
    const int64_t tokens = call.prompt_tokens > 0 ? call.prompt_tokens : call.num_tokens;
    std::vector<const PrefillSetting*> settings;
    for (int32_t head = 0; head < heads; ++head) settings.push_back(&prefill_of_head_(call.layer, head, tokens));
    // Where the heads from `first` on that share a setting end, at `end` at the latest.
    const auto end_of_equals = [&](int32_t first, int32_t end) {
      int32_t head = first + 1;
      while (head < end && *settings[static_cast<size_t>(head)] == *settings[static_cast<size_t>(first)]) ++head;
      return head;
    };
    for (int32_t first = 0; first < heads;) {
      // Whole groups together; what shares a setting inside a group otherwise.
      int32_t end = end_of_equals(first, heads);
      const int32_t of_whole_groups = end - end % group;
      end = first % group == 0 && of_whole_groups > first ? of_whole_groups
                                                          : std::min(end, first - first % group + group);
      const HeadsOfCall part(call, first, end);
      const PrefillSetting& setting = *settings[static_cast<size_t>(first)];
      PrefillBy(*setting.method, setting.values, part.call(), device);
      first = end;
    }
  }

  void PrefillBy(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                 const model::AttentionCall& call, ModelDevice* device) {
    const kernels::AttentionProblem problem = ProblemOf(call);
    kernels::SparseIndex index;
    std::string note;
    const kernels::ParameterValues of_prompt = kernels::AtPromptLength(method, values, call.prompt_tokens);
    const auto prefill = [&](const kernels::PrefillMethod& chooser) {
      Require(device->Prefill(call, chooser, of_prompt, &index, &note), call, method.spec().name);
    };
    if (const auto* const behind = dynamic_cast<const kernels::GoesByEarlierQueries*>(&method); behind != nullptr) {
      prefill(BehindEarlierRows(method, *behind, &StateOf(call).earlier_rows[call.first_qo_head]));
    } else {
      prefill(method);
    }
    Note(note);
    if (method.spec().baseline) {
      pairs_.kept += SeenPairs(problem);
      return;
    }
    std::vector<kernels::ColumnRange> ranges;
    for (int32_t head = 0; head < problem.num_qo_heads; ++head) {
      for (int32_t row = 0; row < problem.seq_q; ++row) {
        ranges.clear();
        kernels::AppendKeptRanges(index.View(), 0, head, row, &ranges);
        const int64_t first = SeenFrom(problem, row);
        for (const kernels::ColumnRange& range : ranges)
          pairs_.kept += std::max<int64_t>(0, range.end - std::max<int64_t>(range.begin, first));
      }
    }
  }

  // The prompt's attention, as recorded steps have it, is over every key that the layer lets a row see.
  void KeepQueries(const model::AttentionCall& call, ModelDevice* device) {
    if (decode_.IsDenseLayer(decode_values_, call.layer)) return;
    LayerState& state = StateOf(call);
    state.last_pass = call.num_tokens - call.num_rows;
    state.unchanged = std::min(state.unchanged, state.last_pass);
    QueryRows& queries = state.queries;
    const int64_t rows = queries.Wanted(call.num_rows);
    if (rows == 0) return;
    kernels::AttentionProblem last;
    Require(device->OnHost(call, &last), call, decode_.spec().name);
    const int64_t skipped = call.num_rows - rows;
    last.q.data =
        static_cast<const std::byte*>(last.q.data) + skipped * last.q.row_stride * kernels::SizeOf(last.dtype);
    last.seq_q = static_cast<int32_t>(rows);
    last.first_position += static_cast<int32_t>(skipped);
    std::vector<float> lse(static_cast<size_t>(rows * last.num_qo_heads));
    if (trace_lse_ || (prefill_of_head_ == nullptr && prefill_.spec().baseline)) {  // it is what the call has
      kernels::AttentionOutput output;
      Require(device->Output(call, &output), call, decode_.spec().name);
      for (int64_t head = 0; head < last.num_qo_heads; ++head)
        std::copy_n(output.lse + head * call.num_rows + skipped, rows, lse.begin() + head * rows);
    } else {
      Require(kernels::RowLse(last, last.window, options_, lse.data()), call, decode_.spec().name);
    }
    kernels::StridedTensor<const void> plain_q{call.q_pre_rope.data, 0, call.q_pre_rope.head_stride,
                                               call.q_pre_rope.row_stride};
    if (plain_q.data != nullptr) {
      plain_q.data =
          static_cast<const std::byte*>(plain_q.data) + skipped * plain_q.row_stride * kernels::SizeOf(last.dtype);
    }
    queries.Append(last, last.first_position, lse.data(), plain_q);
  }

  // Those of tokens that were taken back go; a sequence whose beginning nobody saw has none.
  void KeepValueNorms(const model::AttentionCall& call) {
    if (call.value_norms == nullptr) return;
    std::vector<float>& norms = StateOf(call).value_norms;
    const int64_t heads = call.facts->num_qo_heads, first = call.num_tokens - call.num_rows;
    if (std::ssize(norms) < first * heads) return;
    norms.resize(static_cast<size_t>(first * heads));
    for (int64_t row = 0; row < call.num_rows; ++row) {
      for (int64_t head = 0; head < heads; ++head) norms.push_back(call.value_norms[head * call.num_rows + row]);
    }
  }

  // What a method asks for of a prompt's tokens beside its queries.
  void ShowInputs(const model::AttentionCall& call, LayerState* state, kernels::DecodePrompt* prompt) const {
    if (const model::RopeConfig* const rope = inputs_.q_pre_rope ? call.rope : nullptr; rope != nullptr) {
      prompt->rope = {.theta = static_cast<float>(rope->theta),
                      .num_dims = rope->rotary_dim,
                      .first_dim = rope->first_dim,
                      .interleaved = rope->interleaved,
                      .attention_factor = static_cast<float>(rope->attention_factor)};
    }
    const int64_t heads = call.facts->num_qo_heads, tokens = prompt->cache.seq_k, first = prompt->first_token;
    if (std::ssize(state->value_norms) < (first + tokens) * heads || !inputs_.value_norms) return;
    state->shown_value_norms.resize(static_cast<size_t>(heads * tokens));
    for (int64_t head = 0; head < heads; ++head) {
      for (int64_t token = 0; token < tokens; ++token)
        state->shown_value_norms[static_cast<size_t>(head * tokens + token)] =
            state->value_norms[static_cast<size_t>((first + token) * heads + head)];
    }
    prompt->value_norms = state->shown_value_norms.data();
    prompt->value_norms_head_stride = tokens;
    prompt->value_norms_batch_stride = heads * tokens;
  }

  kernels::DecodeDriver& DriverOf(const model::AttentionCall& call, const kernels::DecodeStep& step) {
    LayerState& state = StateOf(call);
    if (state.driver == nullptr) state.driver = std::make_unique<kernels::DecodeDriver>(decode_, decode_values_);
    const void* const keys = call.k.data;
    const bool follows = state.keys != nullptr && state.num_tokens + 1 == call.num_tokens;
    if (follows && state.keys != keys && !state.driver->AnyOrder()) {
      throw UsageError(
          {.problem = decode_.spec().name + " in layer " + std::to_string(call.layer) + ": the model's cache has moved",
           .remedy = "reserve room for all tokens first"});
    }
    if (!follows || state.keys != keys) {
      state.keys = nullptr;  // until it has begun
      kernels::DecodePrompt prompt;
      prompt.first_token = step.first_token;
      prompt.cache = step.problem;
      --prompt.cache.seq_k;
      prompt.layer = call.layer;
      prompt.num_layers = call.num_layers;
      prompt.cache.window = call.facts->window;
      state.queries.Show(&prompt);
      ShowInputs(call, &state, &prompt);
      prompt.unchanged = static_cast<int32_t>(std::exchange(state.unchanged, 0));
      prompt.returns_to = static_cast<int32_t>(state.last_pass);
      Require(state.driver->Begin(prompt, options_), call, decode_.spec().name);
      state.unchanged = prompt.first_token + prompt.cache.seq_k;
    }
    state.num_tokens = call.num_tokens;
    state.keys = keys;
    return *state.driver;
  }

  // What the layers below attend to at this step, where they see the same tokens.
  std::vector<const kernels::DecodeSelection*> LowerLayers(const model::AttentionCall& call, int32_t first) const {
    std::vector<const kernels::DecodeSelection*> lower(static_cast<size_t>(call.layer), nullptr);
    for (const auto& [layer, state] : layers_) {
      if (layer < call.layer && state.num_tokens == call.num_tokens)
        lower[static_cast<size_t>(layer)] = state.first_token == first ? &state.selection : &no_choice_;
    }
    return lower;
  }

  // A step of a method whose steps have an order is made whole: in its middle nobody could go on.
  kernels::RunOptions Unstopped() const {
    kernels::RunOptions options = options_;
    if (decode_.NeedsHistory(decode_values_)) options.stop = {};
    return options;
  }

  // What moves a layer's method on; after an error it begins anew.
  void Advance(const model::AttentionCall& call, const Status& status) {
    if (!status.ok()) StateOf(call).keys = nullptr;
    Require(status, call, decode_.spec().name);
  }

  void Step(const model::AttentionCall& call, const kernels::DecodeStep& step, std::vector<std::byte> vectors) {
    kernels::DecodeDriver& driver = DriverOf(call, step);
    LayerState& state = StateOf(call);
    state.first_token = step.first_token;
    state.step = std::move(vectors);
    state.attended = false;
    Advance(call, driver.Append(step, Unstopped()));
    Advance(call, driver.Step(step, Unstopped(), &state.selection));
  }

  // A method is shown the keys that the layer's window holds, and no window.
  void Decode(const model::AttentionCall& call, ModelDevice* device) {
    const std::string& name = decode_.spec().name;
    kernels::AttentionProblem whole = ProblemOf(call);
    const int32_t first = SeenFrom(whole, 0);
    // A choice by place looks at no tensor, nor does a dense layer.
    const bool dense = decode_.IsDenseLayer(decode_values_, call.layer);
    if (!decode_.spec().IsStatic() && !dense) {
      ModelDevice::ChoosingStep chosen;
      const bool wants_lse = call.wants_lse && !trace_lse_;  // that of every key is made in its place
      Require(device->DecodeByMethod(call, first, decode_, decode_values_, wants_lse, &chosen), call, name);
      if (chosen.made) {
        pairs_.kept += whole.GroupSize() * chosen.num_kept;
        return;
      }
      if (!chosen.why_not.empty()) Note(name + " selects on the CPU: " + chosen.why_not);
      Require(device->OnHost(call, &whole), call, name);
    }
    kernels::DecodeStep step{.problem = StepFrom(whole, first), .first_token = first};
    const std::vector<const kernels::DecodeSelection*> lower = LowerLayers(call, first);
    step.lower_layers = lower;
    LayerState& state = StateOf(call);
    const bool in_order = decode_.NeedsHistory(decode_values_) && !dense;
    std::vector<std::byte> vectors = in_order ? VectorsOf(whole) : std::vector<std::byte>();
    const bool made = std::exchange(state.again, false) && in_order && state.num_tokens == call.num_tokens &&
                      state.keys == call.k.data && state.step == vectors;
    if (!made) Step(call, step, std::move(vectors));
    Require(device->Decode(call, first, state.selection), call, name);
    if (state.driver->WantsOutput() && !state.attended) {
      kernels::AttentionOutput output;
      Require(device->Output(call, &output), call, name);
      Advance(call, state.driver->Attended(step, state.selection, output, Unstopped()));
      state.attended = true;
    }
    const kernels::DecodeSelection& selection = state.selection;
    pairs_.kept += whole.GroupSize() * kernels::NumTokens(selection, step.problem.seq_k);
  }

  const PrefillOfHead prefill_of_head_;
  const kernels::PrefillMethod& prefill_;
  const kernels::DecodeMethod& decode_;
  const kernels::ParameterValues prefill_values_, decode_values_;
  kernels::RunOptions options_;  // stop: of the call
  const bool trace_lse_, has_decode_method_;
  const int32_t prompt_rows_;
  const kernels::DecodeMethod::PromptInputs inputs_;
  std::unique_ptr<ModelDevice> host_, gpu_;
  std::map<int32_t, LayerState> layers_;
  const kernels::DecodeSelection no_choice_ = kernels::NoChoice();  // of a lower layer that sees other tokens
  std::vector<std::string> notes_;
  KeptPairs pairs_, pairs_before_pass_;
  int64_t pass_first_ = kNoPass;   // position of the last pass's first token
  int32_t pass_layer_ = kNoLayer;  // the last layer that was attended
};

}  // namespace

std::unique_ptr<MethodAttention> AttendByMethods(const MethodChoice& choice) {
  return std::make_unique<Methods>(choice);
}

}  // namespace headscope::sparse_model
