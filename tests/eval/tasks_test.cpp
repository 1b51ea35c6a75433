// SPDX-License-Identifier: Apache-2.0
#include "eval/tasks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/random.h"
#include "checkpoint_files.h"
#include "eval/evaluate.h"
#include "kernels/decode_method.h"
#include "model/model_session.h"
#include "questionnaire.h"
#include "sparse_model/method_attention.h"
#include "task_maker.h"
#include "trigram.h"

namespace headscope::eval {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kProsePath = HEADSCOPE_SOURCE_DIR "/data/prompts/prose.txt";

class Tasks : public ::testing::Test {
 protected:
  model::Tokenizer tokenizer = model::Tokenizer::Load(ReferenceModel() + "/tokenizer.json");
  std::string prose = ReadWholeFile(kProsePath);
  std::string TextFrom(const TaskPrompt& task, int64_t position) const {
    return tokenizer.Decode({task.tokens.begin() + position, task.tokens.end()});
  }
};

TEST(Answer, IsRightTokenForToken) {
  const auto score = [](const std::vector<int32_t>& given) {
    return ScoreOfAnswer(std::vector<int32_t>{4, 7, 2}, given);
  };
  EXPECT_EQ(score({4, 7, 2}), 1);
  EXPECT_EQ(score({4, 7, 2, 9}), 1) << "what follows the answer is not part of it";
  EXPECT_EQ(score({4, 7, 3}), 0);
  EXPECT_EQ(score({7, 4, 2}), 0);
  EXPECT_THROW(score({4, 7}), std::invalid_argument);
}

TEST_F(Tasks, HaveExactlyTheLengthAskedForAndRepeatForASeed) {
  for (const std::string& name : TaskNames()) {
    for (const int64_t length : {4096, 4097, 60000}) {
      const TaskPrompt task = MakeTask(name, length, 5, tokenizer, prose);
      EXPECT_EQ(static_cast<int64_t>(task.tokens.size() + task.answer.size()), length) << name;
      EXPECT_EQ(task.tokens.front(), 0);
      EXPECT_EQ(task.tokens, MakeTask(name, length, 5, tokenizer, prose).tokens);
      EXPECT_NE(task.tokens, MakeTask(name, length, 6, tokenizer, prose).tokens);
    }
  }
}

TEST_F(Tasks, FactsStandWhereTheySayAndHoldTheAnswer) {
  const TaskPrompt passkey = MakeTask("passkey", 4096, 3, tokenizer, prose);
  const std::string question = TextFrom(passkey, static_cast<int64_t>(passkey.tokens.size()) - 11);
  const size_t at = question.find("The pass key for ");
  ASSERT_NE(at, std::string::npos) << question;
  EXPECT_THAT(TextFrom(passkey, passkey.fact_positions.at(0)),
              StartsWith(question.substr(at) + passkey.answer_text + ".\n"));

  const TaskPrompt kv = MakeTask("kv", 8192, 3, tokenizer, prose);
  EXPECT_THAT(TextFrom(kv, kv.fact_positions.at(0)), StartsWith("{\"key\": \""));
  EXPECT_THAT(TextFrom(kv, kv.fact_positions.at(0)).substr(0, 45),
              HasSubstr("\"value\": \"" + kv.answer_text + "\"}\n"));
  EXPECT_EQ(kv.answer_text.size(), 5U);

  const TaskPrompt variables = MakeTask("variables", 4096, 3, tokenizer, prose);
  ASSERT_EQ(variables.fact_positions.size(), 3U);
  EXPECT_TRUE(std::is_sorted(variables.fact_positions.begin(), variables.fact_positions.end()));
  const std::string first = TextFrom(variables, variables.fact_positions[0]);
  EXPECT_THAT(variables.answer_text, HasSubstr(" = " + first.substr(0, 15)));  // VAR ABC = 12345

  const TaskPrompt values = MakeTask("many-values", 4096, 3, tokenizer, prose);
  ASSERT_EQ(values.fact_positions.size(), 4U);
  EXPECT_TRUE(std::is_sorted(values.fact_positions.begin(), values.fact_positions.end()));
  std::string joined;
  for (const int64_t position : values.fact_positions) {
    const std::string fact = TextFrom(values, position);
    const size_t number = fact.find(" is: ") + 5;
    joined += (joined.empty() ? "" : ", ") + fact.substr(number, fact.find('.') - number);
    EXPECT_EQ(fact.substr(0, number), TextFrom(values, values.fact_positions[0]).substr(0, number)) << "one key";
  }
  EXPECT_EQ(joined, values.answer_text) << "in the order of the text";

  const TaskPrompt keys = MakeTask("many-keys", 4096, 3, tokenizer, prose);
  const std::string asked = TextFrom(keys, static_cast<int64_t>(keys.tokens.size()) - 60);
  size_t read_to = asked.rfind("The special magic numbers for ");
  ASSERT_NE(read_to, std::string::npos) << asked;
  for (size_t i = 0; i < 4; ++i) {  // each fact names one of the keys in the question, and its number is in the answer
    const std::string fact = TextFrom(keys, keys.fact_positions.at(i));
    const std::string key = fact.substr(std::string("One of the special magic numbers for ").size(), 4);
    EXPECT_NE(asked.find(key, read_to), std::string::npos) << key;
    const size_t number = fact.find(" is: ") + 5;
    EXPECT_THAT(keys.answer_text, HasSubstr(fact.substr(number, fact.find('.') - number)));
  }

  const TaskPrompt frequent = MakeTask("frequent-word", 4096, 3, tokenizer, prose);
  ASSERT_EQ(frequent.fact_positions.size(), 12U);
  for (const int64_t position : frequent.fact_positions)
    EXPECT_THAT(TextFrom(frequent, position), StartsWith("Coded word: " + frequent.answer_text + "\n"));

  const TaskPrompt repeat = MakeTask("repeat", 4096, 3, tokenizer, prose);
  const auto chunk = repeat.tokens.begin() + repeat.fact_positions.at(0);
  EXPECT_TRUE(std::equal(chunk, chunk + 14, repeat.tokens.end() - 14));
  EXPECT_TRUE(std::equal(repeat.answer.begin(), repeat.answer.end(), chunk + 14));
  EXPECT_EQ(repeat.answer.size(), 50U);
}

TEST_F(Tasks, KeysWordsAndRepeatedTextStandWhereTheySay) {
  for (const char* name : {"one-key", "one-of-many-keys"}) {
    const TaskPrompt one = MakeTask(name, 4096, 3, tokenizer, prose);
    ASSERT_EQ(one.fact_positions.size(), 1U);
    const std::string fact = TextFrom(one, one.fact_positions[0]);
    const std::string key = fact.substr(std::string("One of the special magic numbers for ").size(), 4);
    EXPECT_THAT(fact, HasSubstr(" is: " + one.answer_text + ".\n"));
    const std::string whole = TextFrom(one, 0);
    EXPECT_TRUE(whole.ends_with("The special magic number for " + key + " is: ")) << name;
    EXPECT_EQ(whole.find("numbers for " + key), whole.rfind("numbers for " + key)) << "one fact names the key";
    size_t facts = 0;
    for (size_t at = whole.find("One of the special"); at != std::string::npos;
         at = whole.find("One of the special", at + 1))
      ++facts;
    EXPECT_EQ(facts, name == std::string("one-key") ? 1U : 24U);
  }

  const TaskPrompt common = MakeTask("common-words", 4096, 3, tokenizer, prose);
  ASSERT_EQ(common.fact_positions.size(), 40U);
  std::map<std::string, int> times;
  const std::string list = TextFrom(common, 0);
  const std::string before = "Word of the list: ";
  for (size_t at = list.find(before); at != std::string::npos; at = list.find(before, at + 1))
    ++times[list.substr(at + before.size(), 6)];
  EXPECT_EQ(times.size(), 24U);
  std::string most;  // a map's keys are in alphabetical order
  for (const auto& [word, count] : times) {
    EXPECT_EQ(count, common.answer_text.find(word) == std::string::npos ? 2 : 10) << word;
    if (count == 10) most += (most.empty() ? " " : ", ") + word;
  }
  EXPECT_EQ(most, common.answer_text);

  const TaskPrompt words = MakeTask("repeat-text", 4096, 3, tokenizer, prose);
  const std::string line = TextFrom(words, words.fact_positions.at(0));
  const std::string text = TextFrom(words, 0);
  const std::string shown = line.substr(0, line.find(words.answer_text));
  EXPECT_GT(shown.size(), 50U);
  EXPECT_TRUE(text.ends_with(shown)) << shown;
  EXPECT_THAT(line, StartsWith(shown + words.answer_text + ".\n"));
}

// A trace cannot hold such an answer. Of the seeds up to 400, these three draw the token of the zero byte.
TEST_F(Tasks, NoAnswerHoldsAZeroByte) {
  const TaskMaker maker(tokenizer, prose);
  for (const uint64_t seed : {254, 304, 320}) {
    const TaskSet set = maker.Make(FindTask("repeat"), 1024, seed, 1);
    ASSERT_EQ(set.questions.size(), 1U);
    EXPECT_EQ(set.questions[0].answer.size(), 50U);
    EXPECT_EQ(set.questions[0].answer_text.find('\0'), std::string::npos) << seed;
  }
}

TEST_F(Tasks, FactsAreSpreadOverTheWholeText) {
  std::array<int, 4> quarter{};
  for (uint64_t seed = 0; seed < 80; ++seed) {
    ++quarter.at(static_cast<size_t>(MakeTask("passkey", 4096, seed, tokenizer, prose).fact_positions.at(0) / 1024));
  }
  for (const int count : quarter) EXPECT_GE(count, 8);
}

TEST_F(Tasks, TooShortLengthNamesTheLeast) {
  try {
    MakeTask("kv", 1000, 1, tokenizer, prose);
    FAIL();
  } catch (const UsageError& error) {
    const std::string text = error.what();
    const int64_t least = std::stoll(text.substr(text.find("at least ") + 9));
    EXPECT_EQ(static_cast<int64_t>(MakeTask("kv", least, 1, tokenizer, prose).tokens.size()) + 5, least);
    EXPECT_THROW(MakeTask("kv", least - 1, 1, tokenizer, prose), UsageError);
  }
  EXPECT_THROW(MakeTask("chess", 4096, 1, tokenizer, prose), UsageError);
}

TEST_F(Tasks, QuestionsOfOneContextDiffer) {
  const TaskMaker maker(tokenizer, prose);
  const TaskSet set = maker.Make(FindTask("passkey"), 4096, 1, 100);
  ASSERT_EQ(set.questions.size(), 17U);
  std::set<std::vector<int32_t>> different;
  for (const TaskQuestion& question : set.questions) different.insert(question.tokens);
  EXPECT_EQ(different.size(), 17U);
}

// A folder with the shipped config.json and tokenizer.json and no weights: what is refused with a reason of its own was
// refused before weights were looked for.
class EvaluateWithoutWeights : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"config.json", "tokenizer.json"})
      folder.Write(name, ReadWholeFile(ReferenceModel() + "/" + name));
    request = Request();
  }
  EvaluateRequest Request() const {
    EvaluateRequest made;
    made.model_dir = folder.path();
    made.prose_path = kProsePath;
    return made;
  }
  template <typename Error>
  std::string Refusal() const {
    try {
      Evaluate(
          request, [](const TaskScore&) { ADD_FAILURE() << "a refused run gave a score"; },
          [](const Progress&) { ADD_FAILURE() << "a refused run began"; }, {});
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  }
  TemporaryFolder folder;
  EvaluateRequest request;
};

TEST_F(EvaluateWithoutWeights, RefusesTheRequestFirst) {
  EXPECT_THAT(Refusal<BadInputError>(), HasSubstr("model.safetensors")) << "a good request gets as far as the weights";
  request.lengths = {4096, 17000};
  EXPECT_THAT(Refusal<UsageError>(), StartsWith("length 17000: the model has 16384 positions"));
  request.lengths = {4096, 600};
  request.tasks = {"passkey", "kv"};
  EXPECT_THAT(Refusal<UsageError>(), HasSubstr("the task kv needs at least"));
  request.tasks = {"passkey", "nosuch"};
  EXPECT_THAT(Refusal<UsageError>(), HasSubstr("\"nosuch\""));
  request = Request();
  request.samples = 0;
  EXPECT_THAT(Refusal<UsageError>(), StartsWith("samples 0"));
  request = Request();
  request.prose_path.clear();
  EXPECT_THAT(Refusal<UsageError>(), StartsWith("prose_path"));
  request.prose_path = folder.File("no-such.txt");
  EXPECT_THAT(Refusal<BadInputError>(), HasSubstr("no-such.txt"));
  request = Request();
  request.model_dir = folder.File("no-such-model");
  EXPECT_THAT(Refusal<BadInputError>(), HasSubstr("no-such-model/config.json"));
}

TEST_F(EvaluateWithoutWeights, RefusesATokenThatTheModelHasNoEmbeddingFor) {
  const model::Tokenizer tokenizer = model::Tokenizer::Load(folder.File("tokenizer.json"));
  nlohmann::json config = nlohmann::json::parse(ReadWholeFile(folder.File("config.json")));
  config["vocab_size"] = tokenizer.vocabulary_size() + 5;  // padding
  folder.Write("config.json", config.dump());
  EXPECT_THAT(Refusal<BadInputError>(), HasSubstr("model.safetensors"));
  config["vocab_size"] = tokenizer.vocabulary_size() - 1;
  folder.Write("config.json", config.dump());
  const std::string last = std::to_string(tokenizer.vocabulary_size() - 1);
  EXPECT_THAT(Refusal<BadInputError>(), AllOf(HasSubstr("tokenizer.json"), HasSubstr("token \""),
                                              HasSubstr("has the id " + last), HasSubstr("vocab_size")));
}

TEST(Random, IsSplitMix64) {
  Random random(1234567);  // the first value that the authors' C program gives for this seed
  EXPECT_EQ(random.Next(), 6457827717110365317U);
}

TEST(Trigram, ProbabilitiesSumToOneAndLearn) {
  TrigramModel model(5);
  const std::vector<int32_t> text = {0, 1, 2, 0, 1, 2, 0, 1, 3, 4, 0, 1};
  model.Count(text);
  for (const std::vector<int32_t>& history : {std::vector<int32_t>{0, 1}, {1, 3}, {4, 4}, {2, 4}}) {
    double sum = 0;
    for (int32_t next = 0; next < 5; ++next)
      sum += model.Probability(std::vector<int32_t>{history[0], history[1], next}, 2);
    EXPECT_NEAR(sum, 1, 1e-12);
  }
  EXPECT_GT(model.Probability(std::vector<int32_t>{0, 1, 2}, 2), model.Probability(std::vector<int32_t>{0, 1, 4}, 2));
}

TEST_F(Tasks, ModelFindsWhatItsContextHolds) {
  EvaluateRequest request;
  request.model_dir = ReferenceModel();
  request.tasks = {"passkey", "variables", "repeat", "prose"};
  request.lengths = {1024};
  request.samples = 4;
  request.questions_per_context = 4;
  request.prose_path = kProsePath;
  int reported = 0;
  std::vector<Progress> seen;
  const std::vector<TaskScore> scores = Evaluate(
      request, [&](const TaskScore&) { ++reported; },
      [&](const Progress& progress) {
        if (progress.stage != "loading model") seen.push_back(progress);
      },
      {});
  ASSERT_EQ(scores.size(), 4U);
  EXPECT_EQ(reported, 4);
  // One count over all tasks: a context, its questions (passkey 4, variables 4, repeat 4), and the window of prose.
  ASSERT_FALSE(seen.empty());
  EXPECT_GT(seen.front().total, 4 * 1024);
  EXPECT_LT(seen.front().total, 5 * 1024);
  for (size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i].stage, "evaluating");
    EXPECT_EQ(seen[i].total, seen.front().total);
    EXPECT_GE(seen[i].done, i > 0 ? seen[i - 1].done : 0);
  }
  EXPECT_EQ(seen.back().done, seen.back().total);
  EXPECT_GE(seen[seen.size() / 2].remaining_s, 0);
  for (size_t i = 0; i < 3; ++i) EXPECT_GE(scores[i].exact, 0.75) << scores[i].task;
  EXPECT_GT(scores[2].per_token, 0.9);
  EXPECT_LT(scores[3].nats_per_token, 3.5);
  EXPECT_LT(scores[3].nats_per_token, scores[3].trigram_nats_per_token);
}

// What a decode method says of a model is said of its steps: no score under its name is dense attention's.
TEST_F(Tasks, StepsBehindThePromptAreTheDecodeMethods) {
  EvaluateRequest request;
  request.model_dir = ReferenceModel();
  request.tasks = {"passkey", "repeat-text", "prose"};
  request.lengths = {640};
  request.samples = 2;
  request.questions_per_context = 2;
  request.prose_path = kProsePath;
  const auto scores_under = [&](const char* method, const std::map<std::string, double>& set) {
    std::unique_ptr<sparse_model::MethodAttention> attention;
    if (method != nullptr) {
      sparse_model::MethodChoice choice;
      choice.decode = kernels::FindDecodeMethod(method);
      choice.decode_values = kernels::ParameterValues(choice.decode->spec());
      for (const auto& [name, value] : set) EXPECT_EQ(choice.decode_values.Set(choice.decode->spec(), name, value), "");
      attention = sparse_model::AttendByMethods(choice);
    }
    request.attention = attention.get();
    return Evaluate(request, [](const TaskScore&) {}, {}, {});
  };
  const std::vector<TaskScore> dense = scores_under(nullptr, {}), steps = scores_under("dense", {}),
                               window = scores_under("sliding-window", {{"n_local", 8}});
  for (size_t i = 0; i < 2; ++i) {
    SCOPED_TRACE(dense[i].task);
    EXPECT_EQ(steps[i].exact, dense[i].exact);
    EXPECT_EQ(steps[i].per_token, dense[i].per_token);
    EXPECT_EQ(steps[i].matched_characters, dense[i].matched_characters);
    EXPECT_LT(window[i].exact, 0.5);
    EXPECT_LT(window[i].per_token, 0.5 * dense[i].per_token) << "in answers that are wrong, too";
    EXPECT_LT(window[i].matched_characters, dense[i].matched_characters);
  }

  // Of prose, the last sixteenth: 40 tokens in steps, of which 39 predict a token.
  const Questionnaire questionnaire(request, tokenizer);
  TaskScore first;
  first.length = 640;
  const TaskMaker::ProseWindow prose_window = questionnaire.NextWindow(first);
  model::ModelSession session(ReferenceModel(), {});
  const std::vector<float> logits = session.FeedAllLogits(prose_window.tokens);
  const auto vocabulary = static_cast<size_t>(session.summary().vocabulary_size);
  double nats = 0;
  for (size_t read = 600; read < 639; ++read) {
    double sum = 0;
    for (size_t id = 0; id < vocabulary; ++id) sum += std::exp(static_cast<double>(logits[read * vocabulary + id]));
    const auto next = static_cast<size_t>(prose_window.tokens[read + 1]);
    nats += std::log(sum) - static_cast<double>(logits[read * vocabulary + next]);
  }
  // Keys that are rounded to 16 bits behind another order of sums differ by a unit here and there.
  EXPECT_NEAR(steps[2].nats_per_token, nats / 39, 3e-3);
  const std::string text = tokenizer.Decode({prose_window.tokens.begin() + 601, prose_window.tokens.end()});
  const auto characters = std::count_if(text.begin(), text.end(), [](char byte) { return (byte & 0xC0) != 0x80; });
  EXPECT_NEAR(steps[2].bits_per_character, nats / std::log(2.0) / static_cast<double>(characters), 2e-3);
  EXPECT_GT(window[2].nats_per_token, steps[2].nats_per_token + 0.05);
  EXPECT_EQ(window[2].trigram_nats_per_token, steps[2].trigram_nats_per_token) << "the same tokens";
}

}  // namespace
}  // namespace headscope::eval
