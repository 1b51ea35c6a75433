// SPDX-License-Identifier: Apache-2.0
#include "data/space_needed.h"

#include <sys/stat.h>

#include <algorithm>

namespace headscope::data {

int64_t SpaceNeeded::Ask(const std::string& path, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  wanted_[path] = bytes;
  int64_t missing = 0;
  for (const auto& [file, wanted] : wanted_) {
    struct stat now {};
    if (::stat(file.c_str(), &now) == 0) missing += std::max<int64_t>(0, wanted - now.st_size);
  }
  return missing;
}

void SpaceNeeded::Forget(const std::string& path) {
  const std::lock_guard lock(mutex_);
  wanted_.erase(path);
}

}  // namespace headscope::data
