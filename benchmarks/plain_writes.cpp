// SPDX-License-Identifier: Apache-2.0
#include "plain_writes.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <future>
#include <vector>

#include "base/errors.h"

namespace headscope {

void WritePlainly(const std::string& path, int64_t bytes, const PrepareBlock& prepare) {
  const std::vector<char> from(size_t{8} << 20, 'x');
  const int file = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  const auto fail = [&](const char* problem) {
    throw FailedError({.file = path, .problem = std::string(problem) + " (" + std::strerror(errno) + ")"});
  };
  if (file < 0) fail("cannot be created");
  for (int64_t done = 0; done < bytes; done += static_cast<int64_t>(kPlainBlock)) {
    std::span<const char> block(from.data() + static_cast<size_t>(done) % from.size(), kPlainBlock);
    if (prepare) block = prepare(block);
    if (::write(file, block.data(), block.size()) != std::ssize(block)) {
      ::close(file);
      fail("cannot be written");
    }
  }
  ::close(file);
}

void InThreads(int count, const std::function<void(int)>& work) {
  std::vector<std::future<void>> threads;
  for (int number = 0; number < count; ++number) threads.push_back(std::async(std::launch::async, work, number));
  for (std::future<void>& one : threads) one.get();
}

}  // namespace headscope
