// SPDX-License-Identifier: Apache-2.0
// The heads of figures that have a panel for each kind of head.
#pragma once

#include <string>
#include <vector>

#include "analysis/figures.h"
#include "analysis/types/head_class.h"

namespace headscope::analysis {

struct FirstOfClass {
  FigureInput input;  // with the chosen heads alone
  // [trace][head]: class and number, other classes that it stands for, and the trace where there are several.
  std::vector<std::vector<std::string>> titles;
};

// Of every trace the first head of each class that occurs; one stands for all near classes (HeadClassInfo::is_near): a
// panel for each would be too much of the same, and too small for a pane.
FirstOfClass ChooseFirstOfClass(const FigureInput& input);
// The same for a caption: "the first head of each class (one for sink, sink+local and local)".
std::string FirstOfClassText();

// A head by its place among those given, and the other classes that occur and that it stands for, in the order of
// kHeadClasses.
struct StandIn {
  size_t head = 0;
  std::vector<HeadClass> others;
};
std::vector<StandIn> ChooseStandIns(const std::vector<HeadClass>& heads);

}  // namespace headscope::analysis
