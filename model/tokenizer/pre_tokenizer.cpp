// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/pre_tokenizer.h"

#include <algorithm>

#include "tokenizer/script_runs.h"

namespace headscope::model {
namespace {

// Joins parts that lie side by side into pieces, as a behaviour wants it. Holds one piece back: the next part may join.
class Joiner {
 public:
  Joiner(SplitBehavior behavior, const PreTokenizer::Visit& visit) : behavior_(behavior), visit_(visit) {}

  void Take(std::string_view part, bool matches) {
    if (behavior_ == SplitBehavior::kRemoved && matches) {
      Flush();
      return;
    }
    if (!held_.empty() && Joins(matches))
      held_ = {held_.data(), held_.size() + part.size()};
    else {
      Flush();
      held_ = part;
    }
    last_matches_ = matches;
  }
  void Flush() {
    if (!held_.empty()) visit_(held_);
    held_ = {};
  }

 private:
  bool Joins(bool matches) const {
    switch (behavior_) {
      case SplitBehavior::kMergedWithPrevious:
        return matches && !last_matches_;
      case SplitBehavior::kMergedWithNext:
        return !matches && last_matches_;
      case SplitBehavior::kContiguous:
        return matches == last_matches_;
      default:
        return false;
    }
  }
  SplitBehavior behavior_;
  const PreTokenizer::Visit& visit_;
  std::string_view held_;
  bool last_matches_ = false;
};

}  // namespace

PreTokenizer::PreTokenizer(const std::vector<PreTokenizerStep>& steps) : steps_(steps) {
  for (const PreTokenizerStep& step : steps_) {
    const bool splits = step.kind == PreTokenizerStep::Kind::kSplit;
    splitters_.emplace_back(step.pattern, splits ? step.reads : Splitter::Pattern::kLiteral);
  }
}

void PreTokenizer::ForEachPiece(std::string_view text, bool first, const Visit& visit) const {
  Run(0, text, first, visit);
}

void PreTokenizer::Run(size_t step, std::string_view text, bool first, const Visit& visit) const {
  using Kind = PreTokenizerStep::Kind;
  using Prefix = PreTokenizerStep::Prefix;
  if (text.empty()) return;
  if (step == steps_.size()) {
    visit(text);
    return;
  }
  const PreTokenizerStep& now = steps_[step];
  if (now.kind == Kind::kPrefixSpace) {
    if (text.front() == ' ')
      Run(step + 1, text, first, visit);
    else
      Run(step + 1, std::string(1, ' ').append(text), first, visit);
    return;
  }
  if (now.kind == Kind::kMetaspace) {
    std::string marked;
    for (const char c : text) {
      if (c == ' ')
        marked += now.pattern;
      else
        marked += c;
    }
    const bool wanted = now.prefix == Prefix::kAlways || (now.prefix == Prefix::kFirst && first);
    if (wanted && !marked.starts_with(now.pattern)) marked.insert(0, now.pattern);
    const std::string_view whole = marked;
    for (size_t begin = 0; begin < whole.size();) {
      const size_t next = now.cuts ? whole.find(now.pattern, begin + 1) : std::string_view::npos;
      const size_t end = std::min(next, whole.size());
      Run(step + 1, whole.substr(begin, end - begin), first && begin == 0, visit);
      begin = end;
    }
    return;
  }
  const char* begin = text.data();
  if (now.kind == Kind::kScripts) {
    ForEachScriptRun(text, [&](std::string_view run) { Run(step + 1, run, first && run.data() == begin, visit); });
    return;
  }
  const Visit next = [&](std::string_view piece) { Run(step + 1, piece, first && piece.data() == begin, visit); };
  Joiner joiner(now.behavior, next);
  splitters_[step].ForEachPart(text,
                               [&](std::string_view part, bool matches) { joiner.Take(part, matches != now.invert); });
  joiner.Flush();
}

}  // namespace headscope::model
