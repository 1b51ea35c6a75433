// SPDX-License-Identifier: Apache-2.0
// What messages call a head, and what is asked of it before methods run on it.
#pragma once

#include <string>

#include "analysis/head_tensors.h"
#include "kernels/status.h"

namespace headscope::analysis {

std::string HeadName(HeadId id);  // "layer:head"

// Prefill methods select for runs of consecutive rows. kUnsupported, with the remedy, for a head without rows or with
// gaps between them.
kernels::Status CheckPrefillHead(const HeadFrame& frame, HeadId id);
inline kernels::Status CheckPrefillHead(const HeadTensors& head) {
  return CheckPrefillHead(head, head.id);
}

}  // namespace headscope::analysis
