// SPDX-License-Identifier: Apache-2.0
// What a decode method in the running model knows of the prompt: its last queries and their log-sum-exp, as recorded
// steps have them, however the prompt came in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <stop_token>

#include "attention_calls.h"
#include "base/errors.h"
#include "checkpoint_files.h"
#include "kernels/contiguous.h"
#include "kernels/cpu_executor.h"
#include "kernels/cpu_scores.h"
#include "kernels/decode_driver.h"
#include "model/checkpoint.h"
#include "model/model_session.h"
#include "model/rope_config.h"
#include "model/transformer.h"

namespace headscope::sparse_model {
namespace {

constexpr double kTheta = 10000;

// What a method may ask for beside q, k and v: of fp32 data, the queries before a RoPE that made data.q of them, and
// norms of values behind the output projection.
struct Extras {
  explicit Extras(const SequenceData& data)
      : plain_q(Widened(data.q, false)), norms(static_cast<size_t>(data.layer.num_qo_heads * data.num_tokens)) {
    const auto dim = static_cast<size_t>(data.layer.head_dim);
    for (size_t row = 0; row < norms.size(); ++row) {
      const auto position = static_cast<double>(row % static_cast<size_t>(data.num_tokens));
      norms[row] = static_cast<float>(1 + std::fmod(position * 0.37, 3.0));
      float* const q = plain_q.data() + row * dim;
      for (size_t i = 0; i < dim / 2; ++i) {
        const double angle = position * std::pow(kTheta, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
        const double a = double{q[i]}, b = double{q[i + dim / 2]};
        q[i] = static_cast<float>(a * std::cos(angle) + b * std::sin(angle));
        q[i + dim / 2] = static_cast<float>(b * std::cos(angle) - a * std::sin(angle));
      }
    }
    rope.theta = kTheta;
    rope.rotary_dim = data.layer.head_dim;
  }

  std::vector<float> plain_q;  // [num_qo_heads, num_tokens, head_dim]
  std::vector<float> norms;    // [num_qo_heads, num_tokens]
  model::RopeConfig rope;
};

// As AttendOnHost, with what the model makes for those that want it.
std::vector<float> AttendWith(const Extras& extras, MethodAttention& backend, const SequenceData& data, int64_t first,
                              int64_t rows, bool of_prompt) {
  const int64_t heads = data.layer.num_qo_heads, dim = data.layer.head_dim;
  std::vector<float> o(static_cast<size_t>(heads * rows * dim)), lse(static_cast<size_t>(heads * rows)), norms;
  for (int64_t head = 0; head < heads; ++head) {
    const auto begin = extras.norms.begin() + head * data.num_tokens + first;
    norms.insert(norms.end(), begin, begin + rows);
  }
  model::AttentionCall call = data.Call(first, rows, of_prompt, data.q.data(), data.k.data(), data.v.data());
  call.rope = &extras.rope;
  const model::AttentionExtras wanted = backend.Wants();
  if (wanted.q_pre_rope) call.q_pre_rope = {extras.plain_q.data() + first * dim, data.num_tokens * dim, dim};
  if (wanted.value_norms) call.value_norms = norms.data();
  call.o = o.data();
  call.lse = lse.data();
  backend.Attend(call);
  return o;
}

// The step at token `at` behind a prompt of all tokens before it, whose last `rows` queries are known, by a driver of
// its own.
std::vector<float> Expected(const SequenceData& data, const MethodChoice& choice, int32_t at, int32_t rows,
                            const Extras* extras = nullptr) {
  const model::AttentionLayer& layer = data.layer;
  kernels::AttentionProblem prompt;
  prompt.num_qo_heads = layer.num_qo_heads;
  prompt.num_kv_heads = layer.num_kv_heads;
  prompt.head_dim = layer.head_dim;
  prompt.scale = static_cast<float>(layer.scale);
  prompt.seq_q = rows;
  prompt.seq_k = at;
  prompt.first_position = at - rows;
  const int64_t head = data.num_tokens * layer.head_dim;
  prompt.q = {data.q.data() + int64_t{at - rows} * layer.head_dim * 4, 0, head, layer.head_dim};
  prompt.k = {data.k.data(), 0, head, layer.head_dim};
  prompt.v = {data.v.data(), 0, head, layer.head_dim};
  std::vector<float> lse(static_cast<size_t>(rows * layer.num_qo_heads));
  EXPECT_TRUE(kernels::RowLse(prompt, 0, {}, lse.data()).ok());
  kernels::DecodeStep step{.problem = prompt};
  step.problem.seq_q = 1;
  step.problem.seq_k = at + 1;
  step.problem.first_position = at;
  step.problem.q.data = data.q.data() + int64_t{at} * layer.head_dim * 4;
  kernels::DecodeDriver driver(*choice.decode, choice.decode_values);
  kernels::DecodePrompt before{.cache = prompt, .lse = lse.data(), .lse_head_stride = rows};
  if (extras != nullptr) {
    before.q_pre_rope = {extras->plain_q.data() + int64_t{at - rows} * layer.head_dim, 0, head, layer.head_dim};
    before.rope = {.theta = static_cast<float>(kTheta)};
    before.value_norms = extras->norms.data();
    before.value_norms_head_stride = data.num_tokens;
  }
  const kernels::Status begun = driver.Begin(before, {});
  EXPECT_TRUE(begun.ok()) << begun.message();
  kernels::DecodeSelection selection;
  EXPECT_TRUE(driver.Append(step, {}).ok());
  const kernels::Status stepped = driver.Step(step, {}, &selection);
  EXPECT_TRUE(stepped.ok()) << stepped.message();
  std::vector<float> o(static_cast<size_t>(layer.num_qo_heads * layer.head_dim));
  EXPECT_TRUE(kernels::DecodeCpu(
                  step.problem, selection,
                  {kernels::ContiguousTensor<void>(o.data(), layer.num_qo_heads, 1, layer.head_dim), nullptr}, {})
                  .ok());
  return o;
}

// Sums of attention are sensitive to every row that is missing, or counted twice.
TEST(PromptQueries, AreThoseOfTheWholePromptHoweverItCameIn) {
  constexpr int32_t kPrompt = 300;
  const SequenceData data(LayerOf(32), kPrompt + 8, /*bf16=*/false, 5);
  for (const char* decode : {"h2o", "snap-kv", "tova"}) {
    const MethodChoice choice =
        Choose("dense", "", decode, std::string(decode) == "snap-kv" ? "window=20,budget=40" : "k=40");
    const int32_t rows = choice.decode->PromptRows(choice.decode_values);
    ASSERT_GT(rows, 0) << decode;
    const std::vector<float> expected = Expected(data, choice, kPrompt, std::min(rows, kPrompt));
    for (const std::vector<int64_t>& passes :
         {std::vector<int64_t>{300}, {64, 64, 64, 64, 44}, {299, 1}, {1, 150, 148, 1}}) {
      const auto backend = AttendByMethods(choice);
      int64_t done = 0;
      for (const int64_t count : passes) {
        AttendOnHost(*backend, data, done, count, /*of_prompt=*/true);
        done += count;
      }
      ASSERT_EQ(done, kPrompt);
      const PassOutput step = AttendOnHost(*backend, data, done, 1, /*of_prompt=*/false);
      EXPECT_LE(LargestDifference(step.o, expected), 1e-5f) << decode << " in " << passes.size() << " passes";
    }
  }
}

// Queries before RoPE, the rope and the norms of values: what a recorded step has of them.
TEST(PromptInputs, AreThoseOfTheWholePromptHoweverItCameIn) {
  constexpr int32_t kPrompt = 300;
  const SequenceData data(LayerOf(32), kPrompt + 40, /*bf16=*/false, 5);
  const Extras extras(data);
  for (const auto& [decode, values] : {std::pair{"expected-attention", "compression_ratio=0.6"},
                                       {"expected-attention", "compression_ratio=0.6,critical=1"},
                                       {"snap-kv", "window=20,budget=40,critical=1"}}) {
    const MethodChoice choice = Choose("dense", "", decode, values);
    const std::vector<float> expected =
        Expected(data, choice, kPrompt, 20 * (std::string(decode) == "snap-kv" ? 1 : 15), &extras);
    for (const std::vector<int64_t>& passes :
         {std::vector<int64_t>{300}, {64, 64, 64, 64, 44}, {299, 1}, {1, 150, 148, 1}}) {
      const auto backend = AttendByMethods(choice);
      int64_t done = 0;
      for (const int64_t count : passes) {
        AttendWith(extras, *backend, data, done, count, /*of_prompt=*/true);
        done += count;
      }
      EXPECT_LE(LargestDifference(AttendWith(extras, *backend, data, done, 1, false), expected), 1e-5f)
          << decode << ":" << values << " in " << passes.size() << " passes";
    }
    // A longer question and its answer, taken back.
    const auto backend = AttendByMethods(choice);
    AttendWith(extras, *backend, data, 0, kPrompt - 10, true);
    AttendWith(extras, *backend, data, kPrompt - 10, 40, true);
    AttendWith(extras, *backend, data, kPrompt + 30, 1, false);
    backend->Rewind(kPrompt - 10);
    AttendWith(extras, *backend, data, kPrompt - 10, 10, true);
    EXPECT_LE(LargestDifference(AttendWith(extras, *backend, data, kPrompt, 1, false), expected), 1e-5f) << decode;
  }
}

TEST(PromptInputs, AreMadeForThoseThatAsk) {
  const auto wants = [](const char* decode, const char* values) {
    const model::AttentionExtras wanted = AttendByMethods(Choose("dense", "", decode, values))->Wants();
    return std::pair(wanted.q_pre_rope, wanted.value_norms);
  };
  EXPECT_EQ(wants("dense", ""), std::pair(false, false));
  EXPECT_EQ(wants("snap-kv", ""), std::pair(false, false));
  EXPECT_EQ(wants("snap-kv", "critical=1"), std::pair(false, true));
  EXPECT_EQ(wants("expected-attention", ""), std::pair(true, false));
  EXPECT_EQ(wants("expected-attention", "critical=1"), std::pair(true, true));
}

TEST(PromptQueries, SurviveThatTheSequenceIsTakenBack) {
  constexpr int32_t kPrompt = 200;
  const SequenceData data(LayerOf(32), kPrompt + 40, /*bf16=*/false, 6);
  const MethodChoice choice = Choose("a-shape", "n_local=32,n_sink=4", "snap-kv", "window=64,budget=80");
  const std::vector<float> expected = Expected(data, choice, kPrompt, 64);
  const auto backend = AttendByMethods(choice);
  AttendOnHost(*backend, data, 0, kPrompt - 10, true);
  AttendOnHost(*backend, data, kPrompt - 10, 40, true);  // a longer question, and its answer
  AttendOnHost(*backend, data, kPrompt + 30, 1, false);
  AttendOnHost(*backend, data, kPrompt + 31, 1, false);
  backend->Rewind(kPrompt - 10);
  AttendOnHost(*backend, data, kPrompt - 10, 10, true);
  EXPECT_LE(LargestDifference(AttendOnHost(*backend, data, kPrompt, 1, false).o, expected), 1e-5f);
}

// The outputs of a prompt's last chunk and three steps. `fail`: what befalls the passes in between.
std::vector<float> Outputs(const MethodChoice& choice, const SequenceData& data,
                           const std::function<void(MethodAttention&, int64_t first, int64_t rows)>& fail,
                           KeptPairs* pairs) {
  constexpr int64_t kChunk = 100;
  const auto backend = AttendByMethods(choice);
  std::vector<float> outputs;
  for (int64_t done = 0; done < data.num_tokens;) {
    const bool of_prompt = done + 3 < data.num_tokens;
    const int64_t rows = of_prompt ? std::min(kChunk, data.num_tokens - 3 - done) : 1;
    if (fail) fail(*backend, done, rows);
    const PassOutput output = AttendOnHost(*backend, data, done, rows, of_prompt);
    if (!of_prompt) outputs.insert(outputs.end(), output.o.begin(), output.o.end());
    done += rows;
  }
  *pairs = backend->Pairs();
  return outputs;
}

// A pass may fail above a layer that has done its part, or be stopped in that layer; then it comes again. Also a longer
// one may fail, such as a question that is withdrawn. What a method kept must be as if nothing had been.
TEST(PromptQueries, APassThatFailedLeavesNothing) {
  const SequenceData data(LayerOf(32), 303, /*bf16=*/false, 9);
  const auto again = [&](MethodAttention& backend, int64_t first, int64_t rows) {
    AttendOnHost(backend, data, first, rows, first + 3 < data.num_tokens);
    backend.Abandon(first);
  };
  const auto longer = [&](MethodAttention& backend, int64_t first, int64_t) {
    if (first != 100) return;
    AttendOnHost(backend, data, first, 200, true);
    backend.Abandon(first);
  };
  const auto stopped = [&](MethodAttention& backend, int64_t first, int64_t rows) {
    std::stop_source stop;
    stop.request_stop();
    model::AttentionCall call =
        data.Call(first, rows, first + 3 < data.num_tokens, data.q.data(), data.k.data(), data.v.data());
    std::vector<float> o(static_cast<size_t>(4 * rows * 32)), lse(static_cast<size_t>(4 * rows));
    call.o = o.data();
    call.lse = lse.data();
    call.stop = stop.get_token();
    EXPECT_THROW(backend.Attend(call), CancelledError);
    backend.Abandon(first);
  };
  int with_state = 0;
  for (const kernels::DecodeMethod* method : kernels::DecodeMethods()) {
    const std::string& name = method->spec().name;
    const MethodChoice choice = Choose("a-shape", "n_local=32,n_sink=4", name, "");
    KeptPairs expected_pairs, pairs;
    std::vector<float> expected;
    try {
      expected = Outputs(choice, data, {}, &expected_pairs);
    } catch (const UsageError&) {
      continue;  // queries before RoPE
    }
    with_state += method->spec().needs_history ? 1 : 0;
    for (const auto& fail : {std::function<void(MethodAttention&, int64_t, int64_t)>(again), {longer}, {stopped}}) {
      EXPECT_EQ(Outputs(choice, data, fail, &pairs), expected) << name;
      EXPECT_EQ(pairs.kept, expected_pairs.kept) << name;
      EXPECT_EQ(pairs.seen, expected_pairs.seen) << name;
    }
  }
  EXPECT_GT(with_state, 3);
}

// A question of one token is prefilled; a step of generation is not.
TEST(PromptQueries, OneRowOfAPromptIsThePrefillMethods) {
  const SequenceData data(LayerOf(32), 100, /*bf16=*/false, 7);
  const auto backend = AttendByMethods(Choose("a-shape", "n_local=16,n_sink=0", "dense", ""));
  AttendOnHost(*backend, data, 0, 98, true);
  const int64_t before = backend->Pairs().kept;
  AttendOnHost(*backend, data, 98, 1, true);
  EXPECT_LE(backend->Pairs().kept - before, 4 * 16);
  const int64_t prompt = backend->Pairs().kept;
  AttendOnHost(*backend, data, 99, 1, false);
  EXPECT_EQ(backend->Pairs().kept - prompt, 4 * 100) << "dense";
}

// Notes what the model says of its passes.
class Witness final : public model::AttentionBackend {
 public:
  void Attend(const model::AttentionCall& call) override {
    if (call.layer == 0) passes.emplace_back(call.num_rows, call.of_prompt);
    dense->Attend(call);
  }
  std::vector<std::pair<int64_t, bool>> passes;
  std::unique_ptr<MethodAttention> dense = AttendByMethods({});
};

TEST(PromptQueries, TheModelSaysWhatBelongsToAPrompt) {
  model::ModelSession session(ReferenceModel(), {ElementType::kFloat32, kCpu, 8, 2});
  Witness witness;
  session.UseAttention(&witness);
  std::vector<int32_t> tokens(17);
  std::iota(tokens.begin(), tokens.end(), 30);
  session.Feed(tokens);
  session.Generate(2);
  session.Feed(std::span(tokens).first(1));
  session.Generate(1);
  const std::vector<std::pair<int64_t, bool>> expected = {{8, true},  {8, true}, {1, true}, {1, false},
                                                          {1, false}, {1, true}, {1, false}};
  EXPECT_EQ(witness.passes, expected);
  session.UseAttention(nullptr);
}

// Notes what of a prompt it is told to be as it was.
class NotesPrompts final : public kernels::DecodeMethod {
 public:
  struct Noted {
    int32_t tokens, rows, unchanged, returns_to;
    friend bool operator==(const Noted&, const Noted&) = default;
  };
  const kernels::MethodSpec& spec() const override { return spec_; }
  int32_t PromptRows(const kernels::ParameterValues&) const override { return kAllRows; }
  std::unique_ptr<kernels::DecodePolicy> NewPolicy(const kernels::ParameterValues&) const override {
    class Policy final : public kernels::DecodePolicy {
     public:
      explicit Policy(std::vector<Noted>* noted) : noted_(*noted) {}
      kernels::Status Begin(const kernels::DecodePrompt& prompt, const kernels::RunOptions&,
                            kernels::DecodeEvictions*) override {
        noted_.push_back({prompt.cache.seq_k, prompt.cache.seq_q, prompt.unchanged, prompt.returns_to});
        return {};
      }
      kernels::Status Step(const kernels::DecodeStep& step, const kernels::RunOptions& options,
                           kernels::DecodeSelection* selection, kernels::DecodeEvictions*) override {
        const kernels::DecodeMethod& dense = kernels::DecodeBaseline();
        return dense.Select(step.problem, kernels::ParameterValues(dense.spec()), options, selection);
      }

     private:
      std::vector<Noted>& noted_;
    };
    return std::make_unique<Policy>(&noted);
  }
  mutable std::vector<Noted> noted;

 private:
  const kernels::MethodSpec spec_ = {.name = "notes-prompts",
                                     .phase = kernels::Phase::kDecode,
                                     .chosen_per = kernels::ChosenPer::kKvHead,
                                     .needs_history = true};
};

// Questions about one context: what was there before them is the same for each.
TEST(PromptQueries, AreUnchangedUpToWhereTheSequenceWasTakenBackTo) {
  const SequenceData data(LayerOf(32), 400, /*bf16=*/false, 5);
  NotesPrompts notes;
  MethodChoice choice = Choose("dense", "", "dense", "");
  choice.decode = &notes;
  choice.decode_values = kernels::ParameterValues(notes.spec());
  const auto backend = AttendByMethods(choice);
  const auto ask = [&](int64_t from, int64_t rows) {
    AttendOnHost(*backend, data, from, rows, /*of_prompt=*/true);
    for (int64_t step = 0; step < 3; ++step) AttendOnHost(*backend, data, from + rows + step, 1, /*of_prompt=*/false);
  };
  AttendOnHost(*backend, data, 0, 300, /*of_prompt=*/true);
  ask(300, 20);
  backend->Rewind(300);
  ask(300, 20);
  backend->Rewind(300);
  ask(300, 30);
  backend->Rewind(250);
  ask(250, 40);
  backend->Rewind(0);
  ask(0, 280);
  const std::vector<NotesPrompts::Noted> expected = {
      {320, 320, 0, 300}, {320, 320, 300, 300}, {330, 330, 300, 300}, {290, 290, 250, 250}, {280, 280, 0, 0}};
  EXPECT_EQ(notes.noted, expected);
}

// Requests a stop in a layer of a pass.
class Stopper final : public model::AttentionBackend {
 public:
  void Attend(const model::AttentionCall& call) override {
    dense->Attend(call);
    ++calls;
    if (call.layer == 2) stop.request_stop();
  }
  int calls = 0;
  std::stop_source stop;
  std::unique_ptr<MethodAttention> dense = AttendByMethods({});
};

TEST(ModelStops, InsideAPassAndForgetsIt) {
  model::ModelSession session(ReferenceModel(), {ElementType::kFloat32, kCpu, 64, 2});
  const std::vector<int32_t> tokens(40, 300);
  session.Feed(tokens);
  Stopper stopper;
  session.UseAttention(&stopper);
  EXPECT_THROW(session.Feed(tokens, {}, stopper.stop.get_token()), CancelledError);
  EXPECT_EQ(stopper.calls, 3) << "no layer behind the one in which it was asked to stop";
  EXPECT_EQ(session.num_tokens(), 40);
  stopper.stop = std::stop_source();
  stopper.calls = 0;
  EXPECT_THROW(session.Generate(5, -1, stopper.stop.get_token()), CancelledError);
  EXPECT_EQ(stopper.calls, 3);
  EXPECT_EQ(session.num_tokens(), 40);
  session.UseAttention(nullptr);
}

// Forwards to a method's attention, and requests a stop in one call.
class StoppedOnce final : public model::AttentionBackend {
 public:
  StoppedOnce(const MethodChoice& choice, int at) : at_(at), methods_(AttendByMethods(choice)) {}
  void Attend(const model::AttentionCall& call) override {
    methods_->Attend(call);
    if (++calls_ == at_) stop.request_stop();
  }
  void Rewind(int64_t num_tokens) override { methods_->Rewind(num_tokens); }
  void Abandon(int64_t num_tokens) override { methods_->Abandon(num_tokens); }
  std::stop_source stop;

 private:
  int at_, calls_ = 0;
  std::unique_ptr<MethodAttention> methods_;
};

TEST(ModelStops, AndAGenerationGoesOnAsIfItHadNot) {
  model::ModelSession session(ReferenceModel(), {ElementType::kFloat32, kCpu, 64, 2});
  std::vector<int32_t> tokens(100);
  std::iota(tokens.begin(), tokens.end(), 300);
  const int layers = session.summary().num_layers;
  for (const char* decode : {"h2o", "sparq"}) {
    const MethodChoice choice = Choose("dense", "", decode, std::string(decode) == "h2o" ? "k=24" : "k=8");
    std::vector<int32_t> expected;
    for (const int at : {-1, 2 * layers + layers / 2, 3 * layers + 2, 5 * layers + 1}) {
      StoppedOnce attention(choice, at);
      session.UseAttention(&attention);
      session.Reset();
      session.Feed(tokens);
      std::vector<int32_t> generated;
      while (generated.size() < 8) {
        try {
          const std::vector<int32_t> next = session.Generate(1, -1, attention.stop.get_token());
          generated.insert(generated.end(), next.begin(), next.end());
        } catch (const CancelledError&) {
          attention.stop = std::stop_source();
        }
      }
      if (at < 0) expected = generated;
      EXPECT_EQ(generated, expected) << decode << ", stopped in call " << at;
      session.UseAttention(nullptr);
    }
  }
}

TEST(ModelStops, BetweenTwoWeights) {
  std::stop_source stop;
  int64_t read = 0, total = 0;
  const ProgressFunction progress = [&](const Progress& at) {
    read = at.done;
    total = at.total;
    stop.request_stop();
  };
  EXPECT_THROW(
      model::OpenTransformer(ReferenceModel(), {ElementType::kFloat32, kCpu, 64, 2}, progress, stop.get_token()),
      CancelledError);
  EXPECT_LT(read, total);
  EXPECT_THROW(static_cast<void>(model::Checkpoint(ReferenceModel()).WeightsSha256(stop.get_token())), CancelledError);
}

TEST(ModelStops, InsideAMethodsAttention) {
  const SequenceData data(LayerOf(64), 4000, /*bf16=*/false, 8);
  const auto backend = AttendByMethods({});
  model::AttentionCall call = data.Call(0, 4000, true, data.q.data(), data.k.data(), data.v.data());
  std::vector<float> o(4 * 4000 * 64), lse(4 * 4000);
  call.o = o.data();
  call.lse = lse.data();
  std::stop_source stop;
  stop.request_stop();
  call.stop = stop.get_token();
  EXPECT_THROW(backend->Attend(call), CancelledError);
}

// Each begins with what it asks of the prompt, and keeps something.
TEST(PromptQueries, EveryRegisteredDecodeMethodRunsInAModel) {
  // Of a prompt in three passes: the weights are packed anew for each.
  model::ModelSession session(ReferenceModel(), {ElementType::kFloat32, kCpu, 150, 2});
  std::vector<int32_t> tokens(400);
  std::iota(tokens.begin(), tokens.end(), 300);
  int refused = 0;
  for (const kernels::DecodeMethod* method : kernels::DecodeMethods()) {
    MethodChoice choice;
    choice.num_threads = 2;
    choice.decode = method;
    choice.decode_values = kernels::ParameterValues(method->spec());
    const auto backend = AttendByMethods(choice);
    session.Reset();
    session.UseAttention(backend.get());
    session.Feed(tokens);
    const int64_t before = backend->Pairs().kept;
    try {
      session.Generate(3);
      EXPECT_GT(backend->Pairs().kept, before) << method->spec().name;
    } catch (const UsageError& error) {
      // The model hands attention its queries behind RoPE alone.
      EXPECT_THAT(error.what(), ::testing::HasSubstr("queries before RoPE")) << method->spec().name;
      ++refused;
    }
    session.UseAttention(nullptr);
  }
  EXPECT_LE(refused, 1);
}

}  // namespace
}  // namespace headscope::sparse_model
