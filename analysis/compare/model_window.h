// SPDX-License-Identifier: Apache-2.0
// A model's own sliding window, and the masks of methods that know nothing of it.
//
// A head with a window attends only to the newest `window` tokens of a row, whatever a method chooses. So a method's
// mask on such a head is what the method keeps inside the window, and kept fractions are shares of the pairs that the
// window lets the model see. Everything that compares methods on a head selects here, and nowhere else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "analysis/head_tensors.h"
#include "kernels/method.h"
#include "kernels/sparse_index.h"
#include "kernels/status.h"

namespace headscope::analysis {

// Whether the heads' window hides an earlier token from some recorded row.
bool WindowHides(const HeadFrame& frame);

// Pairs of a recorded row and a column that it attends to.
int64_t AttendedPairs(const HeadFrame& frame);

// Pairs that an index of one head inside its window keeps, as a share of the attended ones; 0 when there are none.
double KeptFraction(const HeadFrame& frame, const kernels::SparseIndexView& index);

// method.Select on a problem of heads with that frame, then kernels::CutToWindow where the window hides anything.
// Errors are the method's.
kernels::Status SelectInside(const HeadFrame& frame, const kernels::AttentionProblem& problem,
                             const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                             const kernels::RunOptions& options, kernels::SparseIndex* index);
// The same on one head; kUnsupported where no method runs on it (head_checks.h).
kernels::Status SelectOnHead(const HeadTensors& head, const kernels::PrefillMethod& method,
                             const kernels::ParameterValues& values, const kernels::RunOptions& options,
                             kernels::SparseIndex* index);
// The same at each of the settings, in their order: `each` gets a setting's place and its index before the next one is
// made, as indices of a long prompt take megabytes; only where the method has costly work that settings share are they
// made at once. Errors also those of `each`, which end it.
using EachIndex = std::function<kernels::Status(size_t place, kernels::SparseIndex index)>;
kernels::Status SelectEachOnHead(const HeadTensors& head, const kernels::PrefillMethod& method,
                                 std::span<const kernels::ParameterValues> settings, const kernels::RunOptions& options,
                                 const EachIndex& each);

}  // namespace headscope::analysis
