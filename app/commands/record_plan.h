// SPDX-License-Identifier: Apache-2.0
// A file that says what a capture records, in place of options: `capture --record-plan FILE.json`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headscope::app {

inline constexpr const char* kRecordPlanFormat = "headscope-record-1";

// What the file says; what it leaves out is not there. Each stands for the option of its name, and is text as that
// option takes it, so that one reader checks both.
struct RecordPlan {
  std::optional<std::string> layers, heads, kv_heads, rows, dtype;
  std::optional<std::vector<std::string>> points;  // --record
  std::optional<int64_t> decode;
  std::optional<int32_t> files;
};

// {"format": "headscope-record-1", "layers": [0, 1] or "0-1", "heads" or "kv_heads": likewise, "rows": "last:16",
// "points": ["pre-rope"], "dtype": "fp32", "decode": 8, "files": 4}; all but the format may be left out. `file` names
// the source in messages. Throws BadInputError that names the key: one that is not known, given twice or of another
// type, or both kinds of heads.
RecordPlan ParseRecordPlan(std::string_view text, const std::string& file);

}  // namespace headscope::app
