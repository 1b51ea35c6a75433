// SPDX-License-Identifier: Apache-2.0
// headscope-contents: reads the metadata of one HDF5 file for headscope, in a process that has no rights.
//
//   headscope-contents STORED_BYTES MEMORY_BYTES SECONDS < FILE > TABLE
//
// libhdf5 has crashes that a crafted file can reach. Here they cost a process that holds nothing: the file is an open
// descriptor, the answer goes through a pipe as a table of contents (trace/contents.h), and everything else is given up
// before the first byte of the file is looked at. Exit status 0, or 1 when the rights could not be given up.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <exception>
#include <string>

#include "contents/file_walk.h"
#include "contents/sandbox.h"

namespace {

bool WriteAll(int descriptor, const std::string& bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t wrote = write(descriptor, bytes.data() + done, bytes.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    done += static_cast<size_t>(wrote);
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  namespace data = headscope::data;
  if (argc != 4) return 2;
  try {
    data::PrepareHdf5();
    const bool filtered =
        data::EnterSandbox({std::strtoull(argv[2], nullptr, 10), std::strtoull(argv[3], nullptr, 10)});
    data::Contents contents = data::DescribeFile(STDIN_FILENO, std::strtoull(argv[1], nullptr, 10));
    contents.without_filter = !filtered;
    _exit(WriteAll(STDOUT_FILENO, data::EncodeContents(contents)) ? 0 : 1);
  } catch (const std::exception&) {
    _exit(1);
  }
}
