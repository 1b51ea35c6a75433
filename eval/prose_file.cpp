// SPDX-License-Identifier: Apache-2.0
#include "eval/prose_file.h"

#include "base/errors.h"
#include "model/input_file.h"

namespace headscope::eval {

std::string ReadProse(const std::string& path) {
  constexpr int64_t kMaxProseBytes = 256 << 20;
  if (path.empty()) throw UsageError("prose_path is empty: a task needs a text to fill its prompt with");
  return model::ReadSmallFile(path, kMaxProseBytes);
}

}  // namespace headscope::eval
