// SPDX-License-Identifier: Apache-2.0
// Files that are not worth keeping should the process end before they are finished.
//
// An exception that passes by removes such a file. But a library may end the process where no exception can: a thread
// that cannot be started, memory that is missing in a place that does not throw. For that end the names are kept here.
#pragma once

#include <atomic>
#include <string>

namespace headscope::data {

class UnfinishedFile {
 public:
  // Before the file is made, where nobody else can have taken its name: an end while it is made removes it too. Where
  // somebody can, once it is made: theirs would be removed otherwise. Throws std::bad_alloc.
  explicit UnfinishedFile(const std::string& path);
  ~UnfinishedFile();  // removes the file when an exception ends its scope
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;
  void Keep() noexcept;  // from now on whatever is there stays; for any thread

 private:
  int exceptions_;
  std::atomic<int> slot_ = -1;
};

// Removes them all. Takes no lock and no memory, so that it may be called where the process ends.
void RemoveUnfinishedFiles() noexcept;

}  // namespace headscope::data
