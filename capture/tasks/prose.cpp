#include "tasks/prose.h"

#include "checkpoint/input_file.h"

namespace headscope::capture {

std::string ReadProse(const std::string& path) {
  constexpr int64_t kMaxProseBytes = 256 << 20;
  return ReadSmallFile(path.empty() ? std::string(HEADSCOPE_SHARE_DIR) + "/prompts/prose.txt" : path, kMaxProseBytes);
}

}  // namespace headscope::capture
