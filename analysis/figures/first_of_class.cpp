// SPDX-License-Identifier: Apache-2.0
#include "figures/first_of_class.h"

#include <set>
#include <utility>

#include "figures/head_rows.h"

namespace headscope::analysis {
namespace {

// "a", "a and b", "a, b and c".
std::string Joined(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

}  // namespace

std::vector<StandIn> ChooseStandIns(const std::vector<HeadClass>& heads) {
  std::vector<StandIn> chosen;
  std::set<HeadClass> seen;
  bool near_is_there = false;
  for (size_t head = 0; head < heads.size(); ++head) {
    if (!seen.insert(heads[head]).second) continue;
    if (InfoOf(heads[head]).is_near && std::exchange(near_is_there, true)) continue;
    chosen.push_back({head, {}});
  }
  for (StandIn& one : chosen) {
    if (!InfoOf(heads[one.head]).is_near) continue;
    for (const HeadClassInfo& info : kHeadClasses) {
      if (info.is_near && info.head_class != heads[one.head] && seen.contains(info.head_class))
        one.others.push_back(info.head_class);
    }
  }
  return chosen;
}

FirstOfClass ChooseFirstOfClass(const FigureInput& input) {
  const std::vector<std::vector<HeadStatistics>> statistics = StatisticsOfAll(input);
  FirstOfClass chosen{input, std::vector<std::vector<std::string>>(input.traces.size())};
  for (size_t trace = 0; trace < input.traces.size(); ++trace) {
    chosen.input.traces[trace].heads.clear();
    std::vector<HeadClass> classes;
    for (const HeadStatistics& head : statistics[trace]) classes.push_back(head.head_class);
    for (const StandIn& one : ChooseStandIns(classes)) {
      const HeadStatistics& head = statistics[trace][one.head];
      chosen.input.traces[trace].heads.push_back(head.id);
      std::vector<std::string> others;
      for (const HeadClass other : one.others) others.emplace_back(HeadClassName(other));
      chosen.titles[trace].push_back((input.traces.size() > 1 ? input.traces[trace].name + ", " : "") +
                                     HeadClassName(head.head_class) +
                                     (others.empty() ? "" : ", also for " + Joined(others)) + " (" +
                                     std::to_string(head.id.layer) + ":" + std::to_string(head.id.head) + ")");
    }
  }
  return chosen;
}

std::string FirstOfClassText() {
  std::vector<std::string> near;
  for (const HeadClassInfo& info : kHeadClasses) {
    if (info.is_near) near.emplace_back(info.name);
  }
  return "the first head of each class (one for " + Joined(near) + ")";
}

}  // namespace headscope::analysis
