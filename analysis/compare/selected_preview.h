// SPDX-License-Identifier: Apache-2.0
// The preview of a mask that was selected already.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>

#include "analysis/compare.h"
#include "kernels/method.h"
#include "kernels/sparse_index.h"
#include "kernels/status.h"

namespace headscope::analysis {

// As PreviewMask, of the index that SelectOnHead gives on the head, or a GPU's selector, which took select_ms.
kernels::Status PreviewSelected(const HeadMass& mass, const kernels::PrefillMethod& method,
                                const kernels::ParameterValues& values,
                                std::shared_ptr<const kernels::SparseIndex> index, double select_ms,
                                int32_t num_threads, const std::stop_token& stop, MaskPreview* preview);

}  // namespace headscope::analysis
