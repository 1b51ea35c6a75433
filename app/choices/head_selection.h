// SPDX-License-Identifier: Apache-2.0
// Lists as people type them: "0-3,7" and "L:H,L:H-H,*:H".
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "analysis/types/head_statistics.h"

namespace headscope::app {

// "0-3,7" to {0, 1, 2, 3, 7}, sorted, without repeats; an empty text to an empty list. Throws UsageError naming
// `field`.
std::vector<int32_t> ParseNumberList(const std::string& text, const std::string& field);

// Heads chosen from `recorded` by "L:H" items with numbers, ranges or '*' on either side ("4:3", "2:*", "*:0-3"); an
// empty text chooses all. A range may run over layers or heads that were not recorded, and ends at the last one at
// most. Sorted, without repeats. Throws UsageError naming `field` when an item is malformed or chooses nothing.
std::vector<analysis::HeadId> ParseHeads(const std::string& text, const std::vector<analysis::HeadId>& recorded,
                                         const std::string& field = "heads");

// The same in the order in which they were typed (an item's own heads by layer, then head), each once.
std::vector<analysis::HeadId> ParseHeadsAsTyped(const std::string& text, const std::vector<analysis::HeadId>& recorded,
                                                const std::string& field = "heads");

// "4:3", as ParseHeads takes it.
std::string HeadText(analysis::HeadId id);

// "a:b" to {a, b} with 0 <= a < b <= limit; an empty side means the end. Throws UsageError naming `field`.
std::pair<int64_t, int64_t> ParseRange(const std::string& text, int64_t limit, const std::string& field);

// "WxH" in pixels, 16 to 16384 each. Throws UsageError.
std::pair<int32_t, int32_t> ParseSize(const std::string& text, const std::string& field);

}  // namespace headscope::app
