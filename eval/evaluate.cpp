// SPDX-License-Identifier: Apache-2.0
#include "eval/evaluate.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/errors.h"
#include "base/progress_meter.h"
#include "base/stopwatch.h"
#include "model/model_config.h"
#include "model/model_tokenizer.h"
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

// How many answer tokens are the model's first choice after the question and the right answer up to there.
int64_t PreferredTokens(model::ModelSession* session, const TaskQuestion& question, const std::stop_token& stop) {
  std::vector<int32_t> tokens = question.tokens;
  tokens.insert(tokens.end(), question.answer.begin(), question.answer.end());
  const std::vector<float> logits = session->FeedAllLogits(tokens, stop);
  const auto vocabulary = static_cast<size_t>(session->summary().vocabulary_size);
  int64_t preferred = 0;
  for (size_t i = 0; i < question.answer.size(); ++i) {
    const auto row = std::span(logits).subspan((question.tokens.size() + i - 1) * vocabulary, vocabulary);
    preferred += std::max_element(row.begin(), row.end()) - row.begin() == question.answer[i] ? 1 : 0;
  }
  return preferred;
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
        if (on_answer_) {
          on_answer_({score->task, score->length, tokenizer_.Decode(set.context), tokenizer_.Decode(question.tokens),
                      tokenizer_.Decode(question.answer), tokenizer_.Decode(generated), size, right});
        }
        if (right) {
          preferred += size;  // the generated answer is the right one, so every token was the first choice
        } else {
          session_.Rewind(context);
          preferred += PreferredTokens(&session_, question, stop_);
        }
        Done(Questionnaire::TokensOf(question));
        exact += right ? 1 : 0;
        answer_tokens += size;
        ++score->samples;
      }
    }
    score->exact = static_cast<double>(exact) / std::max(1, score->samples);
    score->per_token = static_cast<double>(preferred) / static_cast<double>(std::max<int64_t>(1, answer_tokens));
  }

  void ScoreProse(TaskScore* score) {
    // Logits of all tokens at once would be large; a window's first tokens have no trigram yet, so both models are
    // scored from the third on.
    constexpr size_t kSlice = 512;
    double nats = 0;
    double trigram_nats = 0;
    int64_t tokens_scored = 0;
    const auto vocabulary = static_cast<size_t>(session_.summary().vocabulary_size);
    while (score->samples < questionnaire_.NumWindows()) {
      const TaskMaker::ProseWindow window = questionnaire_.NextWindow(*score);
      TrigramModel trigram(session_.summary().vocabulary_size);
      trigram.Count(window.rest);
      const std::span<const int32_t> tokens(window.tokens);
      session_.Reset();
      for (size_t done = 0; done < tokens.size(); done += kSlice) {
        const size_t count = std::min(kSlice, tokens.size() - done);
        const std::vector<float> logits = session_.FeedAllLogits(tokens.subspan(done, count), stop_);
        for (size_t i = 0; i < count && done + i + 1 < tokens.size(); ++i) {
          const size_t target = done + i + 1;
          if (target < 2) continue;
          nats += Nats(std::span(logits).subspan(i * vocabulary, vocabulary), tokens[target]);
          trigram_nats -= std::log(trigram.Probability(tokens, target));
          ++tokens_scored;
        }
        Done(static_cast<int64_t>(count));
      }
      ++score->samples;
      ++score->contexts;
    }
    score->nats_per_token = nats / static_cast<double>(std::max<int64_t>(1, tokens_scored));
    score->trigram_nats_per_token = trigram_nats / static_cast<double>(std::max<int64_t>(1, tokens_scored));
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
