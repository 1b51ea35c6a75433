// SPDX-License-Identifier: Apache-2.0
// What a rendered map shows, before it has colours: one number per texel.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/report.h"
#include "analysis/types/mask_overlap.h"
#include "tiles/map_texels.h"

namespace headscope::analysis {

struct MapValues {
  int64_t num_rows = 0, num_columns = 0;  // texels
  // kScores: probability. kMask: share of the texel's pairs that is kept. kDifference: probability under the mask less
  // dense probability, by mean or by largest magnitude. kOther: the other's texel less this one's. NaN where the texel
  // has no pairs.
  std::vector<double> values;
  // Of kOverlay and kLost, beside the probability: share of the texel's pairs that is kept.
  std::vector<double> kept{};
  // Of kOverlap, beside the probability: shares that the first keeps alone, the second alone, and both.
  std::vector<std::array<double, kNumKeptBy>> kept_by{};
  NamedDevice device = NamedCpu();  // where they were computed
  // Of RenderRequest::profiles: per texel column the mean probability of its pairs, NaN without one; per texel row the
  // mean over its rows of the mass on the map's columns. Of kOther the head's own.
  std::vector<double> key_mean{}, row_mass{};
};

// How many rows and columns, from the first ones on, two heads have in common: of prompts of different lengths, those
// of the shorter one. Throws UsageError where there is no other head, or it begins with other queries.
struct CommonPart {
  int64_t num_rows = 0, num_columns = 0;
  bool is_shorter = false;  // than one of the heads
};
CommonPart PartInCommon(const HeadTensors& head, const HeadTensors* other);

// `edges` inside the map, and for kOther inside the common part; view, reduction and stop and progress of the request
// are used. Throws CancelledError, and UsageError when the view needs an index of this head, or a head like it, and has
// none, or has no profiles.
MapValues ComputeMapValues(const HeadTensors& head, const RenderSources& sources, const RenderRequest& request,
                           const TexelEdges& edges);

}  // namespace headscope::analysis
