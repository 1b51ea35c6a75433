// SPDX-License-Identifier: Apache-2.0
#include "head_choice.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/errors.h"
#include "base/number_list.h"

namespace headscope::capture {

std::vector<int32_t> ChooseNumbers(const std::vector<int32_t>& chosen, int32_t count, const std::string& what) {
  if (chosen.empty()) {
    std::vector<int32_t> all(static_cast<size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  const std::set<int32_t> sorted(chosen.begin(), chosen.end());
  const auto refused =
      std::find_if(sorted.begin(), sorted.end(), [&](int32_t number) { return number < 0 || number >= count; });
  if (refused != sorted.end()) {
    throw UsageError({.field = what + "s",
                      .value = NumberListText({sorted.begin(), sorted.end()}),
                      .problem = "the model has no " + what + " " + std::to_string(*refused) + ", only 0 to " +
                                 std::to_string(count - 1),
                      .remedy = "choose one of those"});
  }
  return {sorted.begin(), sorted.end()};
}

std::vector<int32_t> KvHeadsOf(const std::vector<int32_t>& qo_heads, int32_t num_qo_heads, int32_t num_kv_heads) {
  std::set<int32_t> kv_heads;
  for (const int32_t head : qo_heads) kv_heads.insert(head / (num_qo_heads / num_kv_heads));
  return {kv_heads.begin(), kv_heads.end()};
}

std::vector<int32_t> GroupsOf(const std::vector<int32_t>& kv_heads, int32_t num_qo_heads, int32_t num_kv_heads) {
  const int32_t group_size = num_qo_heads / num_kv_heads;
  std::set<int32_t> qo_heads;
  for (const int32_t head : kv_heads) {
    for (int32_t i = 0; i < group_size; ++i) qo_heads.insert(head * group_size + i);
  }
  return {qo_heads.begin(), qo_heads.end()};
}

}  // namespace headscope::capture
