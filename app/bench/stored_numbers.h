// SPDX-License-Identifier: Apache-2.0
// Numbers in a problem's dtype, from and to fp32.
#pragma once

#include <vector>

#include "kernels/attention_problem.h"

namespace headscope::app::bench {

void StoreNumbers(const std::vector<float>& values, kernels::DType dtype, char* out);
// As many as `values` has.
void LoadNumbers(const char* in, kernels::DType dtype, std::vector<float>* values);

}  // namespace headscope::app::bench
