// SPDX-License-Identifier: Apache-2.0
// What messages call a head, and what is asked of it and of an index before methods run on it.
#pragma once

#include <string>

#include "analysis/head_tensors.h"
#include "kernels/sparse_index.h"
#include "kernels/status.h"

namespace headscope::analysis {

std::string HeadName(HeadId id);  // "layer:head"

// Prefill methods select for runs of consecutive rows. kUnsupported, with the remedy, for a head without rows or with
// gaps between them.
kernels::Status CheckPrefillHead(const HeadFrame& frame, HeadId id);
inline kernels::Status CheckPrefillHead(const HeadTensors& head) {
  return CheckPrefillHead(head, head.id);
}

// kInvalidArgument for an index of other heads, rows or columns than this head's.
kernels::Status CheckIndex(const HeadTensors& head, const kernels::SparseIndexView& index);

}  // namespace headscope::analysis
