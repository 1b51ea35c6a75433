// SPDX-License-Identifier: Apache-2.0
// The heads of figures that have a panel for each kind of head.
#pragma once

#include <string>
#include <vector>

#include "analysis/figures.h"

namespace headscope::analysis {

struct FirstOfClass {
  FigureInput input;  // with the chosen heads alone
  std::vector<std::vector<std::string>>
      titles;  // [trace][head]: class and number, and the trace where there are several
};

// Of every trace the first head of each class that occurs.
FirstOfClass ChooseFirstOfClass(const FigureInput& input);

}  // namespace headscope::analysis
