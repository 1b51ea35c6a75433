// Small things that preview and comparison share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/head_tensors.h"
#include "kernels/status.h"

namespace headscope::analysis {

std::string HeadName(HeadId id);  // "layer:head"

// Prefill methods select for runs of consecutive rows.
kernels::Status CheckPrefillHead(const HeadTensors& head);

struct MassSummary {
  double minimum = 0, mean = 0;
  int64_t worst_row = 0;  // token position of the row with the least mass
};
MassSummary Summarise(const HeadTensors& head, const std::vector<float>& kept_mass);

}  // namespace headscope::analysis
