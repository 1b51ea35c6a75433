// SPDX-License-Identifier: Apache-2.0
#include "eval/evaluate.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <span>
#include <string_view>

#include "base/errors.h"
#include "base/progress_meter.h"
#include "base/stopwatch.h"
#include "model/model_config.h"
#include "model/model_tokenizer.h"
#include "model/pass_memory.h"
#include "questionnaire.h"
#include "sparse_model/own_dense.h"
#include "trigram.h"

namespace headscope::eval {
namespace {

// -log p(target) of one row of logits.
double Nats(std::span<const float> logits, int32_t target) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return largest + std::log(sum) - static_cast<double>(logits[static_cast<size_t>(target)]);
}

int64_t IsPreferred(std::span<const float> logits, int32_t token) {
  return std::max_element(logits.begin(), logits.end()) - logits.begin() == token ? 1 : 0;
}

// How many answer tokens are the model's first choice after the question and the right answer up to there. Methods
// attend to the answer in the steps in which they generate; dense attention takes it all at once.
int64_t PreferredTokens(model::ModelSession* session, bool by_methods, const TaskQuestion& question,
                        const std::stop_token& stop) {
  int64_t preferred = 0;
  if (by_methods) {
    preferred += IsPreferred(session->Feed(question.tokens, {}, stop), question.answer.front());
    session->FeedSteps(
        std::span(question.answer).first(question.answer.size() - 1),
        [&](size_t i, std::span<const float> logits) { preferred += IsPreferred(logits, question.answer[i + 1]); },
        stop);
    return preferred;
  }
  std::vector<int32_t> tokens = question.tokens;
  tokens.insert(tokens.end(), question.answer.begin(), question.answer.end());
  const std::vector<float> logits = session->FeedAllLogits(tokens, stop);
  const auto vocabulary = static_cast<size_t>(session->summary().vocabulary_size);
  for (size_t i = 0; i < question.answer.size(); ++i) {
    const auto row = std::span(logits).subspan((question.tokens.size() + i - 1) * vocabulary, vocabulary);
    preferred += IsPreferred(row, question.answer[i]);
  }
  return preferred;
}

bool BeginsCharacter(char byte) {  // in UTF-8
  return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
}

int64_t NumCharacters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), BeginsCharacter);
}

// Characters of the answer before the first that was generated otherwise.
int64_t MatchedCharacters(std::string_view answer, std::string_view generated) {
  const auto differs = std::mismatch(answer.begin(), answer.end(), generated.begin(), generated.end()).first;
  const auto same = static_cast<size_t>(differs - answer.begin());
  const int64_t begun = NumCharacters(answer.substr(0, same));
  // The bytes of one character may agree in part.
  return same < answer.size() && !BeginsCharacter(answer[same]) ? begun - 1 : begun;
}

// Of a text that is scored by steps, what stands before them: of 6,400 characters the first 6,000 in SparQ's program.
size_t PromptOfText(size_t num_tokens) {
  return num_tokens - std::max(num_tokens / 16, std::min<size_t>(2, num_tokens - 1));
}

void CheckRequest(const EvaluateRequest& request, const model::ModelConfig& config) {
  const auto at_least_one = [](const char* name, int64_t value) {
    if (value < 1)
      throw UsageError({.field = name, .value = std::to_string(value), .problem = "it must be at least 1"});
  };
  RequireDecoder(config, request.model_dir);
  if (request.attention != nullptr) RequireHeads(config, request.model_dir);  // which it would attend in
  at_least_one("samples", request.samples);
  at_least_one("questions", request.questions_per_context);
  for (const std::string& task : request.tasks) FindTask(task);  // refuses an unknown name
  for (const int64_t length : request.lengths) {
    at_least_one("length", length);
    RequirePositions(config, "length", length);
  }
}

class Evaluation {
 public:
  // All of them outlive the evaluation. total_tokens: Questionnaire::CountTokens.
  Evaluation(const EvaluateRequest& request, const Questionnaire& questionnaire, const model::Tokenizer& tokenizer,
             int64_t total_tokens, model::ModelSession* session, const ProgressFunction& progress,
             const std::function<void(const Answer&)>& on_answer, const std::stop_token& stop)
      : request_(request),
        questionnaire_(questionnaire),
        tokenizer_(tokenizer),
        on_answer_(on_answer),
        session_(*session),
        stop_(stop),
        meter_("evaluating", ProgressUnit::kTokens, total_tokens, progress, ProgressMeter::RateOver::kWholeStage) {}

  TaskScore Score(const std::string& task, int64_t length) {
    const Stopwatch watch;
    TaskScore score;
    score.task = task;
    score.length = length;
    score.asks = FindTask(task).asks();
    if (!score.asks) {
      ScoreProse(&score);
    } else {
      ScoreQuestions(&score);
    }
    score.seconds = watch.Seconds();
    return score;
  }

 private:
  void Done(int64_t tokens) {
    tokens_done_ += tokens;
    meter_.Report(tokens_done_);
  }

  void ScoreQuestions(TaskScore* score) {
    int64_t exact = 0;
    int64_t preferred = 0;
    int64_t answer_tokens = 0;
    int64_t matched = 0;
    while (score->samples < request_.samples) {
      const TaskSet set = questionnaire_.NextSet(*score);
      ++score->contexts;
      session_.Reset();
      session_.Feed(
          set.context, [this](const Progress& context) { meter_.Report(tokens_done_ + context.done); }, stop_);
      Done(static_cast<int64_t>(set.context.size()));
      for (const TaskQuestion& question : set.questions) {
        const auto context = static_cast<int64_t>(set.context.size());
        session_.Rewind(context);
        session_.Feed(question.tokens, {}, stop_);
        const auto size = static_cast<int64_t>(question.answer.size());
        const std::vector<int32_t> generated = session_.Generate(size, /*last_token=*/-1, stop_);
        const bool right = ScoreOfAnswer(question.answer, generated) == 1;
        const std::string expected = tokenizer_.Decode(question.answer), given = tokenizer_.Decode(generated);
        matched += MatchedCharacters(expected, given);
        if (on_answer_) {
          on_answer_({score->task, score->length, tokenizer_.Decode(set.context), tokenizer_.Decode(question.tokens),
                      expected, given, size, right});
        }
        if (right) {
          preferred += size;  // the generated answer is the right one, so every token was the first choice
        } else {
          session_.Rewind(context);
          preferred += PreferredTokens(&session_, request_.attention != nullptr, question, stop_);
        }
        Done(Questionnaire::TokensOf(question));
        exact += right ? 1 : 0;
        answer_tokens += size;
        ++score->samples;
      }
    }
    score->exact = static_cast<double>(exact) / std::max(1, score->samples);
    score->per_token = static_cast<double>(preferred) / static_cast<double>(std::max<int64_t>(1, answer_tokens));
    score->matched_characters = static_cast<double>(matched) / std::max(1, score->samples);
  }

  void ScoreProse(TaskScore* score) {
    double nats = 0;
    double trigram_nats = 0;
    int64_t tokens_scored = 0;
    int64_t characters = 0;
    while (score->samples < questionnaire_.NumWindows()) {
      const TaskMaker::ProseWindow window = questionnaire_.NextWindow(*score);
      TrigramModel trigram(session_.summary().vocabulary_size);
      trigram.Count(window.rest);
      const std::span<const int32_t> tokens(window.tokens);
      // A window's first tokens have no trigram yet, so both models are scored from the third on.
      const auto score_next = [&](size_t read, std::span<const float> logits) {
        const size_t target = read + 1;
        if (target < 2 || target >= tokens.size()) return;
        nats += Nats(logits, tokens[target]);
        trigram_nats -= std::log(trigram.Probability(tokens, target));
        characters += NumCharacters(tokenizer_.TokenBytes(tokens[target]));
        ++tokens_scored;
      };
      session_.Reset();
      if (request_.attention != nullptr && request_.attention->HasStepsOfItsOwn()) {
        ReadInSteps(tokens, score_next);
      } else {
        ReadAtOnce(tokens, score_next);
      }
      ++score->samples;
      ++score->contexts;
    }
    score->nats_per_token = nats / static_cast<double>(std::max<int64_t>(1, tokens_scored));
    score->trigram_nats_per_token = trigram_nats / static_cast<double>(std::max<int64_t>(1, tokens_scored));
    score->bits_per_character = nats / std::numbers::ln2 / static_cast<double>(std::max<int64_t>(1, characters));
  }

  using OnLogits = std::function<void(size_t read, std::span<const float> logits)>;

  // Logits of every token. Those of all tokens at once would be large.
  void ReadAtOnce(std::span<const int32_t> tokens, const OnLogits& on_logits) {
    constexpr size_t kSlice = 512;
    const auto vocabulary = static_cast<size_t>(session_.summary().vocabulary_size);
    for (size_t done = 0; done < tokens.size(); done += kSlice) {
      const size_t count = std::min(kSlice, tokens.size() - done);
      const std::vector<float> logits = session_.FeedAllLogits(tokens.subspan(done, count), stop_);
      for (size_t i = 0; i < count; ++i) on_logits(done + i, std::span(logits).subspan(i * vocabulary, vocabulary));
      Done(static_cast<int64_t>(count));
    }
  }

  // Logits of the steps behind the prompt alone: those of the prompt are not the decode method's.
  void ReadInSteps(std::span<const int32_t> tokens, const OnLogits& on_logits) {
    const size_t prompt = PromptOfText(tokens.size());
    session_.Feed(
        tokens.first(prompt), [this](const Progress& read) { meter_.Report(tokens_done_ + read.done); }, stop_);
    Done(static_cast<int64_t>(prompt));
    session_.FeedSteps(
        tokens.subspan(prompt),
        [&](size_t i, std::span<const float> logits) {
          on_logits(prompt + i, logits);
          Done(1);
        },
        stop_);
  }

  const EvaluateRequest& request_;
  const Questionnaire& questionnaire_;
  const model::Tokenizer& tokenizer_;
  const std::function<void(const Answer&)>& on_answer_;
  model::ModelSession& session_;
  std::stop_token stop_;
  ProgressMeter meter_;
  int64_t tokens_done_ = 0;
};

}  // namespace

std::vector<TaskScore> Evaluate(const EvaluateRequest& request, const std::function<void(const TaskScore&)>& on_score,
                                const ProgressFunction& progress, const std::stop_token& stop,
                                const std::function<void(const Answer&)>& on_answer) {
  const model::ModelConfig config = model::ReadModelConfig(request.model_dir);
  CheckRequest(request, config);
  const model::Tokenizer tokenizer = model::LoadModelTokenizer(request.model_dir, config);
  const Questionnaire questionnaire(request, tokenizer);
  const int64_t total_tokens = questionnaire.CountTokens(stop);
  if (stop.stop_requested()) return {};
  std::vector<TaskScore> scores;
  try {
    model::SessionOptions options = request.session;
    // A method chooses anew in every pass, and the seconds of dense attention beside it are to be those of the same
    // passes.
    if (options.chunk_tokens == 0) options.chunk_tokens = model::kPassTokens;
    options.dense_executor = sparse_model::OwnDense();
    model::ModelSession session(request.model_dir, options, progress, stop);
    session.UseAttention(request.attention);
    Evaluation evaluation(request, questionnaire, tokenizer, total_tokens, &session, progress, on_answer, stop);
    for (const std::string& task : request.tasks) {
      for (const int64_t length : request.lengths) {
        scores.push_back(evaluation.Score(task, length));
        if (on_score) on_score(scores.back());
      }
    }
  } catch (const CancelledError&) {  // what was scored stands
  }
  return scores;
}

}  // namespace headscope::eval
