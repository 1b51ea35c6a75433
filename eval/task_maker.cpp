#include "task_maker.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <stdexcept>
#include <utility>

namespace headscope::eval {
namespace {

constexpr size_t kNumNeedles = 17;  // one asked for, 16 distractors
constexpr size_t kNumRecords = 128;
constexpr size_t kNumChains = 5;
constexpr size_t kNamesPerChain = 3;  // two hops
constexpr size_t kRepeatedTokens = 64;
constexpr size_t kCueTokens = 14;
constexpr size_t kLeastProse = 64;  // tokens; with less filler the facts are not hidden in anything

std::string Digits(Random* random, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += static_cast<char>('0' + random->Below(10));
  return text;
}

std::string Capitals(Random* random, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += static_cast<char>('A' + random->Below(26));
  return text;
}

template <typename Draw>
std::string Fresh(std::set<std::string>* used, const Draw& draw) {
  std::string drawn = draw();
  while (!used->insert(drawn).second) drawn = draw();
  return drawn;
}

// `count` different numbers below `bound`, in random order.
std::vector<size_t> Choose(Random* random, size_t bound, size_t count) {
  std::vector<size_t> numbers(bound);
  std::iota(numbers.begin(), numbers.end(), size_t{0});
  for (size_t i = 0; i < count; ++i) std::swap(numbers[i], numbers[i + random->Below(bound - i)]);
  numbers.resize(count);
  return numbers;
}

}  // namespace

struct TaskMaker::Fact {
  std::vector<int32_t> tokens;
  size_t ordered_group = SIZE_MAX;  // facts of one group keep their order
};

struct TaskMaker::Question {
  TaskQuestion question;
  std::vector<size_t> facts;  // that the answer needs, by index
};

struct TaskMaker::Draft {
  std::vector<Fact> facts;
  std::vector<Question> questions;
};

TaskMaker::TaskMaker(const model::Tokenizer& tokenizer, std::string_view text)
    : tokenizer_(tokenizer), begin_(tokenizer.Encode("", true)), prose_(Encode(text)), line_feed_(Encode("\n").at(0)) {
  for (size_t i = 0; i < prose_.size(); ++i) {
    if (tokenizer_.TokenBytes(prose_[i]).ends_with('\n')) line_starts_.push_back((i + 1) % prose_.size());
  }
  if (line_starts_.empty()) throw std::invalid_argument("the filler text has no line end; name a text of many lines");
  for (int32_t id = 0; id < tokenizer_.vocabulary_size(); ++id) {
    const std::string shown = tokenizer_.Decode({id});
    if (!shown.empty() && shown.find('\n') == std::string::npos) plain_.push_back(id);
  }
}

// The tokens of head + answer + rest as one text, cut before the answer and after it.
TaskQuestion TaskMaker::MakeQuestion(const std::string& head, const std::string& answer,
                                     const std::string& rest) const {
  const std::vector<int32_t> whole = Encode(head + answer + rest);
  TaskQuestion question;
  question.answer_text = answer;
  size_t bytes = 0;
  for (const int32_t id : whole) {
    const size_t token_begin = bytes;
    bytes += tokenizer_.TokenBytes(id).size();
    if (bytes <= head.size()) {
      question.tokens.push_back(id);
    } else if (token_begin < head.size() + answer.size()) {
      question.answer.push_back(id);
    }
  }
  return question;
}

TaskMaker::Draft TaskMaker::Needles(Random* random, int32_t num_questions) const {
  Draft draft;
  std::set<std::string> used;
  std::vector<std::pair<std::string, std::string>> rows;
  for (size_t i = 0; i < kNumNeedles; ++i) {
    const std::string key = Fresh(&used, [&] { return Digits(random, 5); });
    rows.emplace_back(key, Digits(random, 5));
    draft.facts.push_back({Encode("The pass key for " + key + " is " + rows.back().second + ".\n")});
  }
  for (const size_t i : Choose(random, kNumNeedles, std::min(kNumNeedles, static_cast<size_t>(num_questions)))) {
    draft.questions.push_back(
        {MakeQuestion("The pass key for " + rows[i].first + " is", " " + rows[i].second, ".\n"), {i}});
  }
  return draft;
}

TaskMaker::Draft TaskMaker::Records(Random* random, int32_t num_questions) const {
  Draft draft;
  std::set<std::string> used;
  std::vector<std::pair<std::string, std::string>> rows;
  for (size_t i = 0; i < kNumRecords; ++i) {
    const std::string key = Fresh(&used, [&] { return Digits(random, 5); });
    rows.emplace_back(key, Digits(random, 5));
    draft.facts.push_back({Encode("{\"key\": \"" + key + "\", \"value\": \"" + rows.back().second + "\"}\n")});
  }
  for (const size_t i : Choose(random, kNumRecords, std::min(kNumRecords, static_cast<size_t>(num_questions)))) {
    draft.questions.push_back(
        {MakeQuestion("{\"get\": \"" + rows[i].first + "\", \"value\": \"", rows[i].second, "\"}\n"), {i}});
  }
  return draft;
}

TaskMaker::Draft TaskMaker::Chains(Random* random, int32_t num_questions) const {
  Draft draft;
  std::set<std::string> used_names;
  std::set<std::string> used_values;
  std::vector<std::vector<std::string>> chains;
  std::vector<std::string> values;
  for (size_t chain = 0; chain < kNumChains; ++chain) {
    std::vector<std::string> names;
    for (size_t i = 0; i < kNamesPerChain; ++i)
      names.push_back(Fresh(&used_names, [&] { return Capitals(random, 3); }));
    values.push_back(Fresh(&used_values, [&] { return Digits(random, 5); }));
    draft.facts.push_back({Encode("VAR " + names[0] + " = " + values.back() + "\n"), chain});
    for (size_t i = 1; i < names.size(); ++i)
      draft.facts.push_back({Encode("VAR " + names[i] + " = VAR " + names[i - 1] + "\n"), chain});
    chains.push_back(std::move(names));
  }
  for (const size_t chain : Choose(random, kNumChains, std::min(kNumChains, static_cast<size_t>(num_questions)))) {
    const std::vector<std::string>& names = chains[chain];
    std::string answer;
    for (size_t i = names.size() - 1; i-- > 0;) answer += " = VAR " + names[i];
    Question question{MakeQuestion("Trace: VAR " + names.back(), answer + " = " + values[chain], "\n"), {}};
    for (size_t i = 0; i < names.size(); ++i) question.facts.push_back(chain * kNamesPerChain + i);
    draft.questions.push_back(std::move(question));
  }
  return draft;
}

TaskMaker::Draft TaskMaker::Repetitions(Random* random, int32_t num_questions) const {
  Draft draft;
  for (size_t i = 0; i < static_cast<size_t>(num_questions); ++i) {
    std::vector<int32_t> chunk;
    while (chunk.size() < kRepeatedTokens) {
      const int32_t id = plain_[random->Below(plain_.size())];
      // A trace holds the answer as text that ends at its first zero byte.
      if (tokenizer_.TokenBytes(id).find('\0') == std::string::npos) chunk.push_back(id);
    }
    Question question;
    question.question.tokens.assign(chunk.begin(), chunk.begin() + kCueTokens);
    question.question.answer.assign(chunk.begin() + kCueTokens, chunk.end());
    question.question.answer_text = tokenizer_.Decode(question.question.answer);
    question.facts = {i};
    draft.questions.push_back(std::move(question));
    chunk.push_back(line_feed_);
    draft.facts.push_back({std::move(chunk)});
  }
  return draft;
}

// Filler that ends at a random line's end, with the facts at random line starts of it.
TaskSet TaskMaker::Place(const Draft& draft, std::string_view name, int64_t length, Random* random) const {
  size_t fixed = begin_.size();
  for (const Fact& fact : draft.facts) fixed += fact.tokens.size();
  size_t longest = 0;
  for (const Question& asked : draft.questions)
    longest = std::max(longest, asked.question.tokens.size() + asked.question.answer.size());
  fixed += longest;
  if (length < static_cast<int64_t>(fixed + kLeastProse)) {
    throw std::invalid_argument("--length " + std::to_string(length) + ": the task " + std::string(name) +
                                " needs at least " + std::to_string(fixed + kLeastProse) +
                                " tokens with this tokenizer");
  }
  const size_t need = static_cast<size_t>(length) - fixed;
  const size_t end = line_starts_[random->Below(line_starts_.size())];
  const size_t begin = (end + prose_.size() - need % prose_.size()) % prose_.size();
  const auto token_at = [&](size_t i) { return prose_[(begin + i) % prose_.size()]; };
  std::vector<size_t> cuts = {0};
  for (size_t i = 1; i < need; ++i) {
    if (tokenizer_.TokenBytes(token_at(i - 1)).ends_with('\n')) cuts.push_back(i);
  }

  // Uniform places; within an ordered group the places are dealt out in rising order.
  std::vector<size_t> place(draft.facts.size());
  for (size_t& at : place) at = cuts[random->Below(cuts.size())];
  for (size_t i = 0; i < place.size();) {
    size_t j = i + 1;
    while (draft.facts[i].ordered_group != SIZE_MAX && j < place.size() &&
           draft.facts[j].ordered_group == draft.facts[i].ordered_group)
      ++j;
    std::sort(place.begin() + static_cast<std::ptrdiff_t>(i), place.begin() + static_cast<std::ptrdiff_t>(j));
    i = j;
  }
  std::vector<size_t> order(place.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return place[a] < place[b]; });

  TaskSet set;
  set.context = begin_;
  std::vector<int64_t> position(draft.facts.size());
  size_t at = 0;
  for (const size_t fact : order) {
    for (; at < place[fact]; ++at) set.context.push_back(token_at(at));
    position[fact] = static_cast<int64_t>(set.context.size());
    set.context.insert(set.context.end(), draft.facts[fact].tokens.begin(), draft.facts[fact].tokens.end());
  }
  for (; at < need; ++at) set.context.push_back(token_at(at));
  for (const Question& asked : draft.questions) {
    set.questions.push_back(asked.question);
    for (const size_t fact : asked.facts) set.questions.back().fact_positions.push_back(position[fact]);
  }
  return set;
}

TaskMaker::ProseWindow TaskMaker::WindowAndRest(int64_t length, uint64_t seed) const {
  Random random(seed);
  ProseWindow window{begin_, {}};
  const size_t begin = line_starts_[random.Below(line_starts_.size())];
  size_t taken = 0;
  for (; window.tokens.size() < static_cast<size_t>(length); ++taken)
    window.tokens.push_back(prose_[(begin + taken) % prose_.size()]);
  for (; taken < prose_.size(); ++taken) window.rest.push_back(prose_[(begin + taken) % prose_.size()]);
  return window;
}

TaskSet TaskMaker::Make(std::string_view name, int64_t length, uint64_t seed, int32_t num_questions) const {
  TaskHelp(name);  // refuses an unknown name
  if (num_questions < 1) throw std::invalid_argument("num_questions must be at least 1");
  if (name == "prose") {
    const auto least = static_cast<int64_t>(begin_.size()) + 1;
    if (length < least)
      throw std::invalid_argument("--length " + std::to_string(length) + ": the task prose needs at least " +
                                  std::to_string(least) + " tokens");
    return {WindowAndRest(length, seed).tokens, {}};
  }
  Random random(seed);
  const Draft draft = name == "passkey"     ? Needles(&random, num_questions)
                      : name == "kv"        ? Records(&random, num_questions)
                      : name == "variables" ? Chains(&random, num_questions)
                                            : Repetitions(&random, num_questions);
  return Place(draft, name, length, &random);
}

}  // namespace headscope::eval
