// SPDX-License-Identifier: Apache-2.0
// Which layers and heads a capture records.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace headscope::capture {

// `chosen` sorted without repeats, all of [0, count) when it is empty. Throws UsageError naming `what` for a
// number outside.
std::vector<int32_t> ChooseNumbers(const std::vector<int32_t>& chosen, int32_t count, const std::string& what);

// The KV heads that the query heads read, sorted.
std::vector<int32_t> KvHeadsOf(const std::vector<int32_t>& qo_heads, int32_t num_qo_heads, int32_t num_kv_heads);

// All query heads that read one of the KV heads, sorted.
std::vector<int32_t> GroupsOf(const std::vector<int32_t>& kv_heads, int32_t num_qo_heads, int32_t num_kv_heads);

}  // namespace headscope::capture
