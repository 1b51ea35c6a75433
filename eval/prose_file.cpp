// SPDX-License-Identifier: Apache-2.0
#include "eval/prose_file.h"

#include "base/errors.h"
#include "model/input_file.h"

namespace headscope::eval {

std::string ReadProse(const std::string& path) {
  constexpr int64_t kMaxProseBytes = 256 << 20;
  if (path.empty())
    throw UsageError(
        {.field = "prose_path", .problem = "it is empty", .remedy = "name a text to fill the prompt of a task with"});
  return model::ReadSmallFile(path, kMaxProseBytes);
}

}  // namespace headscope::eval
