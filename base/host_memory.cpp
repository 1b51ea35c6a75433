// SPDX-License-Identifier: Apache-2.0
#include "base/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <string>

namespace headscope {
namespace {

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The number that a text begins with, behind spaces; -1 where there is none.
int64_t NumberAt(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && number >= 0 ? number : -1;
}

// The number behind `key`; -1 where that is not there.
int64_t NumberBehind(std::string_view key, std::string_view text) {
  const size_t at = text.find(key);
  return at == std::string_view::npos ? -1 : NumberAt(text.substr(at + key.size()));
}

}  // namespace

int64_t AvailableBytes(std::string_view meminfo) {
  const int64_t kilobytes = NumberBehind("MemAvailable:", meminfo);
  return kilobytes < 0 || kilobytes > INT64_MAX / 1024 ? -1 : kilobytes * 1024;
}

int64_t LeftOfGroup(std::string_view most, std::string_view used, std::string_view stat) {
  const int64_t limit = NumberAt(most), taken = NumberAt(used);  // "max" is no number: no limit
  if (limit < 0 || taken < 0) return -1;
  const int64_t cache = std::max<int64_t>(0, NumberBehind("\ninactive_file ", stat));
  return std::clamp<int64_t>(limit - taken + std::min(cache, taken), 0, limit);
}

int64_t FreeHostBytes() {
  int64_t free_bytes = AvailableBytes(TextOf("/proc/meminfo"));
  if (free_bytes < 0)  // a container that hides the file
    free_bytes = int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGE_SIZE) / 2;
  const int64_t left = LeftOfGroup(TextOf("/sys/fs/cgroup/memory.max"), TextOf("/sys/fs/cgroup/memory.current"),
                                   TextOf("/sys/fs/cgroup/memory.stat"));
  return left < 0 ? free_bytes : std::min(free_bytes, left);
}

}  // namespace headscope
