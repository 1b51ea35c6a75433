// SPDX-License-Identifier: Apache-2.0
// What SparQ keeps beside the KV cache (kernels/cpu_sparq.h), for one head.
#pragma once

#include <cstdint>

#include "kernels/attention_problem.h"

namespace headscope::kernels::internal {

// The mean of all rows of a KV head's V: mean [v_head_dim].
void MeanValueOfHead(const AttentionProblem& problem, int32_t sequence, int32_t kv_head, float* mean);

}  // namespace headscope::kernels::internal
