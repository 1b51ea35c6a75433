// SPDX-License-Identifier: Apache-2.0
#include "task_maker.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/errors.h"

namespace headscope::eval {
namespace {

constexpr size_t kLeastProse = 64;  // tokens; with less filler the facts are not hidden in anything

}  // namespace

TaskMaker::TaskMaker(const model::Tokenizer& tokenizer, std::string_view text)
    : text_(tokenizer), begin_(tokenizer.Encode("", true)), prose_(text_.Encode(text)) {
  for (size_t i = 0; i < prose_.size(); ++i) {
    if (tokenizer.TokenBytes(prose_[i]).ends_with('\n')) line_starts_.push_back((i + 1) % prose_.size());
  }
  if (line_starts_.empty())
    throw UsageError({.problem = "the filler text has no line breaks", .remedy = "name a text with many lines"});
}

// Filler that ends at a random line's end, with the facts at random line starts of it.
TaskSet TaskMaker::Place(const Draft& draft, const Task& task, int64_t length, Random* random) const {
  size_t fixed = begin_.size();
  for (const Fact& fact : draft.facts) fixed += fact.tokens.size();
  size_t longest = 0;
  for (const DraftQuestion& asked : draft.questions)
    longest = std::max(longest, asked.question.tokens.size() + asked.question.answer.size());
  fixed += longest;
  if (length < static_cast<int64_t>(fixed + kLeastProse)) {
    throw UsageError({.field = "length",
                      .value = std::to_string(length),
                      .problem = "the task " + std::string(task.name()) + " needs at least " +
                                 std::to_string(fixed + kLeastProse) + " tokens with this tokenizer"});
  }
  const size_t need = static_cast<size_t>(length) - fixed;
  const size_t end = line_starts_[random->Below(line_starts_.size())];
  const size_t begin = (end + prose_.size() - need % prose_.size()) % prose_.size();
  const auto token_at = [&](size_t i) { return prose_[(begin + i) % prose_.size()]; };
  std::vector<size_t> cuts = {0};
  for (size_t i = 1; i < need; ++i) {
    if (text_.tokenizer().TokenBytes(token_at(i - 1)).ends_with('\n')) cuts.push_back(i);
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
  for (const DraftQuestion& asked : draft.questions) {
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

TaskSet TaskMaker::Make(const Task& task, int64_t length, uint64_t seed, int32_t num_questions) const {
  if (num_questions < 1)
    throw UsageError(
        {.field = "num_questions", .value = std::to_string(num_questions), .problem = "must be at least 1"});
  if (!task.asks()) {
    const auto least = static_cast<int64_t>(begin_.size()) + 1;
    if (length < least)
      throw UsageError(
          {.field = "length",
           .value = std::to_string(length),
           .problem = "the task " + std::string(task.name()) + " needs at least " + std::to_string(least) + " tokens"});
    return {WindowAndRest(length, seed).tokens, {}};
  }
  Random random(seed);
  return Place(task.Make(text_, &random, static_cast<size_t>(num_questions)), task, length, &random);
}

}  // namespace headscope::eval
