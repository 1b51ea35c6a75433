// Small things that preview and comparison share.
#pragma once

#include <string>

#include "analysis/head_tensors.h"
#include "analysis/types/comparison.h"
#include "kernels/status.h"

namespace headscope::analysis {

std::string HeadName(HeadId id);  // "layer:head"

// Prefill methods select for runs of consecutive rows.
kernels::Status CheckPrefillHead(const HeadTensors& head);

// Of a result whose times are set: dense attention's time by that of selection and attention.
inline double Speedup(const MethodResult& result) {
  return result.dense_attend.median_ms / (result.select.median_ms + result.attend.median_ms);
}

}  // namespace headscope::analysis
