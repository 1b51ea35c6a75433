// SPDX-License-Identifier: Apache-2.0
#include "data/unfinished_file.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

namespace headscope::data {
namespace {

// More than any command writes at a time, a trace in 64 files among them; one that finds no slot free is only not
// removed at a sudden end.
std::array<std::atomic<char*>, 128> names;

}  // namespace

UnfinishedFile::UnfinishedFile(const std::string& path) : exceptions_(std::uncaught_exceptions()) {
  char* name = ::strdup(path.c_str());
  if (name == nullptr) throw std::bad_alloc();  // a file that nobody would remove is not begun
  for (size_t slot = 0; slot < names.size(); ++slot) {
    char* none = nullptr;
    if (names[slot].compare_exchange_strong(none, name)) {
      slot_ = static_cast<int>(slot);
      return;
    }
  }
  std::free(name);
}

UnfinishedFile::~UnfinishedFile() {
  const int slot = slot_;
  if (slot >= 0 && std::uncaught_exceptions() > exceptions_) ::unlink(names[static_cast<size_t>(slot)].load());
  Keep();
}

void UnfinishedFile::Keep() noexcept {
  if (const int slot = slot_.exchange(-1); slot >= 0) std::free(names[static_cast<size_t>(slot)].exchange(nullptr));
}

void RemoveUnfinishedFiles() noexcept {
  for (std::atomic<char*>& name : names) {
    if (const char* path = name.exchange(nullptr); path != nullptr) ::unlink(path);
  }
}

}  // namespace headscope::data
