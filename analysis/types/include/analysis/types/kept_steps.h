// SPDX-License-Identifier: Apache-2.0
// What a decode method keeps on a head's generation steps, as plain data: tiles count it, the window draws it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/sparse_index.h"

namespace headscope::analysis {

struct KeptStep {
  int32_t position = 0;                    // token of the step's query
  kernels::ColumnRange attended;           // keys that the query sees: up to its own, inside the model's window
  std::vector<kernels::ColumnRange> kept;  // of these, as sorted, disjoint, maximal intervals
};

// Consecutive recorded rows, one generation step each.
struct KeptSteps {
  int64_t first_row = 0;  // recorded row of steps[0]
  std::vector<KeptStep> steps;

  int64_t end_row() const { return first_row + static_cast<int64_t>(steps.size()); }
};
using KeptStepsPtr = std::shared_ptr<const KeptSteps>;

}  // namespace headscope::analysis
