// SPDX-License-Identifier: Apache-2.0
// Small traces of heads with outliers, sinks and long tails, whose log-sum-exp is computed in float64.
#pragma once

#include <string>

namespace headscope::analysis::testing {

// 900 tokens, 2 layers of 4 query heads over 2 KV heads; the second layer has a window; queries and keys before RoPE.
void WriteOracleTrace(const std::string& path);

// 700 tokens, layers 0, 1 and 3 of 4, which differ: 4 heads whose keys have 192 and whose values have 128 components; 6
// heads with a window, learned sinks and a soft cap; 2 heads with sinks, whose values are the keys' first 48
// components.
void WriteDifferingTrace(const std::string& path);

}  // namespace headscope::analysis::testing
