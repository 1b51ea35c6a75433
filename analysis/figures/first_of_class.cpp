// SPDX-License-Identifier: Apache-2.0
#include "figures/first_of_class.h"

#include <set>

#include "figures/head_rows.h"

namespace headscope::analysis {

FirstOfClass ChooseFirstOfClass(const FigureInput& input) {
  const std::vector<std::vector<HeadStatistics>> statistics = StatisticsOfAll(input);
  FirstOfClass chosen{input, std::vector<std::vector<std::string>>(input.traces.size())};
  for (size_t trace = 0; trace < input.traces.size(); ++trace) {
    chosen.input.traces[trace].heads.clear();
    std::set<HeadClass> seen;
    for (const HeadStatistics& head : statistics[trace]) {
      // One head stands for all that look near, whoever holds the mass there: a panel for each would be too much of the
      // same, and too small for a pane.
      const bool near = head.head_class == HeadClass::kSink || head.head_class == HeadClass::kLocal;
      if (!seen.insert(near ? HeadClass::kSinkLocal : head.head_class).second) continue;
      chosen.input.traces[trace].heads.push_back(head.id);
      chosen.titles[trace].push_back((input.traces.size() > 1 ? input.traces[trace].name + ", " : "") +
                                     HeadClassName(head.head_class) + " (" + std::to_string(head.id.layer) + ":" +
                                     std::to_string(head.id.head) + ")");
    }
  }
  return chosen;
}

}  // namespace headscope::analysis
