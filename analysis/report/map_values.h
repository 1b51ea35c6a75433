// SPDX-License-Identifier: Apache-2.0
// What a rendered map shows, before it has colours: one number per texel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/report.h"
#include "tiles/texels.h"

namespace headscope::analysis {

struct MapValues {
  int64_t num_rows = 0, num_columns = 0;  // texels
  // kScores: probability. kMask: share of the texel's pairs that is kept. kDifference: probability under the mask less
  // dense probability, by mean or by largest magnitude. NaN where the texel has no pairs.
  std::vector<double> values;
  std::string device = "cpu";  // where they were computed, or the GPU's name
};

// `edges` inside the map; view, reduction and stop and progress of the request are used, and without texels it was
// stopped. Throws UsageError when the view needs an index of this head and has none.
MapValues ComputeMapValues(const HeadTensors& head, const kernels::SparseIndexView* index, const RenderRequest& request,
                           const TexelEdges& edges);

}  // namespace headscope::analysis
