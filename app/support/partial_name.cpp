// SPDX-License-Identifier: Apache-2.0
#include "support/partial_name.h"

#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string_view>

namespace headscope::app {
namespace fs = std::filesystem;

namespace {

constexpr std::string_view kMark = ".partial-";

// When the process started, in the system's ticks since it booted; 0 when there is no such process.
uint64_t StartOf(const std::string& process) {
  std::ifstream file("/proc/" + process + "/stat");
  std::ostringstream all;
  all << file.rdbuf();
  const std::string text = all.str();
  const size_t name_end = text.rfind(')');  // a program's name may hold anything
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  constexpr int kStartAfterName = 20;  // field 22 of the line
  for (int i = 0; i < kStartAfterName; ++i) fields >> field;
  uint64_t start = 0;
  std::from_chars(field.data(), field.data() + field.size(), start);
  return start;
}

// Tells machines that share a folder apart, and containers of one machine.
std::string Machine() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  std::error_code unreadable;
  const std::string all = name.data() + fs::read_symlink("/proc/self/ns/pid", unreadable).string();
  uint32_t hash = 2166136261U;  // FNV-1a
  for (const char letter : all) hash = (hash ^ static_cast<uint8_t>(letter)) * 16777619U;
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%08x", hash);
  return text.data();
}

// What follows the mark in this process' names, and in every name of this machine.
std::string Writer() {
  return Machine() + "-" + std::to_string(::getpid()) + "-" + std::to_string(StartOf("self")) + "-";
}

}  // namespace

fs::path FreePartialName(const fs::path& folder, const std::string& extension) {
  const std::string writer = std::string(kMark) + Writer();
  for (int number = 1;; ++number) {
    fs::path candidate = folder / (writer + std::to_string(number) + extension);
    if (fs::symlink_status(candidate).type() == fs::file_type::not_found) return candidate;
  }
}

void RemoveLeftovers(const fs::path& folder) {
  if (StartOf("self") == 0) return;  // without /proc every process seems gone
  const std::string ours = std::string(kMark) + Machine() + "-";
  std::error_code error;
  for (fs::directory_iterator entry(folder.empty() ? "." : folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(ours)) continue;
    const size_t process_end = name.find('-', ours.size());
    const size_t start_end = process_end == std::string::npos ? process_end : name.find('-', process_end + 1);
    if (start_end == std::string::npos) continue;
    const std::string process = name.substr(ours.size(), process_end - ours.size());
    const std::string start = name.substr(process_end + 1, start_end - process_end - 1);
    if (process.empty() || process.find_first_not_of("0123456789") != std::string::npos) continue;
    if (std::to_string(StartOf(process)) == start) continue;
    std::error_code kept;  // somebody else's, in a folder of several people
    fs::remove(entry->path(), kept);
  }
}

}  // namespace headscope::app
