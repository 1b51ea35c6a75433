// SPDX-License-Identifier: Apache-2.0
// Prefill methods whose costly part is the same at several settings of one problem.
#pragma once

#include <span>
#include <vector>

#include "kernels/attention_problem.h"
#include "kernels/method_spec.h"
#include "kernels/run_options.h"
#include "kernels/sparse_index.h"
#include "kernels/status.h"

namespace headscope::kernels {

class SelectsSeveral {
 public:
  virtual ~SelectsSeveral() = default;
  // What PrefillMethod::Select makes at each of the settings, in their order, with the costly part done once for all of
  // them. Errors as its own; *indices is then unchanged.
  virtual Status SelectEach(const AttentionProblem& problem, std::span<const ParameterValues> settings,
                            const RunOptions& options, std::vector<SparseIndex>* indices) const = 0;
};

}  // namespace headscope::kernels
