// SPDX-License-Identifier: Apache-2.0
// The disk space that files which are written at the same time lack together. Each of several writers that asks for its
// own part alone finds it free, and all of them together fill the disk.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace headscope::data {

class SpaceNeeded {
 public:
  // The file `path` is to have `bytes` bytes. Returns what all files lack now, itself included; a file that is not
  // there lacks nothing.
  int64_t Ask(const std::string& path, int64_t bytes);
  // It is finished, or given up.
  void Forget(const std::string& path);

 private:
  std::mutex mutex_;
  std::map<std::string, int64_t> wanted_;
};

}  // namespace headscope::data
