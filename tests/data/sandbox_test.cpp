// SPDX-License-Identifier: Apache-2.0
// What is left to the process that parses HDF5: reading its file, memory, and an answer.
#include "contents/sandbox.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>

namespace headscope::data {
namespace {

constexpr uint64_t kMemory = uint64_t{256} << 20;
constexpr int kDone = 7;

// The status of a process that gives its rights up and does this.
int StatusOf(const std::function<void()>& deed, uint64_t seconds = 5) {
  const pid_t child = fork();
  if (child == 0) {
    EnterSandbox({kMemory, seconds});
    deed();
    _exit(kDone);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

TEST(Sandbox, ReadingAndMemoryAreLeft) {
  const std::string self = "/proc/self/exe";
  const int descriptor = open(self.c_str(), O_RDONLY);
  ASSERT_GE(descriptor, 0);
  const int kept = dup(STDIN_FILENO);
  dup2(descriptor, STDIN_FILENO);
  const int status = StatusOf([] {
    char bytes[4] = {};
    void* memory = std::malloc(64 << 20);
    if (pread(STDIN_FILENO, bytes, 4, 0) != 4 || bytes[1] != 'E' || memory == nullptr) _exit(1);
    std::free(memory);
  });
  dup2(kept, STDIN_FILENO);
  close(kept);
  close(descriptor);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kDone) << status;
}

TEST(Sandbox, EverythingElseEndsTheProcess) {
  const std::pair<const char*, std::function<void()>> deeds[] = {
      {"open", [] { open("/etc/passwd", O_RDONLY | O_CLOEXEC); }},
      {"socket", [] { socket(AF_INET, SOCK_STREAM, 0); }},
      {"execve",
       [] {
         char* none[] = {nullptr};
         execve("/bin/true", none, none);
       }},
      {"fork", [] { fork(); }},
      {"kill", [] { kill(getppid(), 0); }},
      {"ptrace", [] { syscall(SYS_ptrace, 0, 0, 0, 0); }},
      {"unlink", [] { unlink("nothing-of-this-name"); }},
      {"code",
       [] {
         static_cast<void>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
       }},
  };
  for (const auto& [name, deed] : deeds) {
    const int status = StatusOf(deed);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS) << name << ": status " << status;
  }
}

TEST(Sandbox, MemoryAndTimeAreBounded) {
  int status = StatusOf([] {
    if (std::malloc(size_t{1} << 30) != nullptr) _exit(1);
  });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kDone) << status;
  status = StatusOf(
      [] {
        for (;;) asm volatile("");
      },
      1);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) << status;
}

}  // namespace
}  // namespace headscope::data
