// SPDX-License-Identifier: Apache-2.0
#include "trace/contents_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/program_files.h"
#include "data/trace_schema.h"

namespace headscope::data {
namespace {

using Clock = std::chrono::steady_clock;

// An installed headscope has it in its library folder. In a build it lies beside the program, and tests, which lie
// elsewhere, know where that is.
std::string FindProgram() {
  const bool installed = IsInstalled();
  std::string path = ((installed ? InstalledLibraryFolder() : ProgramFolder()) / "headscope-contents").string();
  if (access(path.c_str(), X_OK) == 0) return path;
  if (!installed && access(HEADSCOPE_CONTENTS_PROGRAM, X_OK) == 0) return HEADSCOPE_CONTENTS_PROGRAM;
  throw FailedError({.file = path,
                     .problem = "is missing, and headscope reads HDF5 files through this program",
                     .remedy = "build or install it again"});
}

[[noreturn]] void RefuseToStart(int error) {
  if (error == ENOMEM) throw std::bad_alloc();
  throw FailedError(
      {.problem = std::string("the process that reads HDF5 files cannot be started (") + std::strerror(error) + ")",
       .remedy = "close other programs or raise the limits of this one (ulimit -u, ulimit -n)"});
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { Close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return number_; }
  void Close() {
    if (const int number = std::exchange(number_, -1); number >= 0) close(number);
  }

 private:
  int number_;
};

// Ends with its owner, whatever it is doing.
class Process {
 public:
  Process(const std::string& program, const std::vector<std::string>& arguments, int input, int output) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    if (posix_spawn_file_actions_init(&actions) != 0 || posix_spawnattr_init(&attributes) != 0) throw std::bad_alloc();
    // The two are moved out of the way first: each may be one of 0 to 2 already.
    const Descriptor in(fcntl(input, F_DUPFD_CLOEXEC, 3)), out(fcntl(output, F_DUPFD_CLOEXEC, 3));
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int error = in.get() < 0 || out.get() < 0 ? errno : 0;
    if (error == 0) error = posix_spawn_file_actions_adddup2(&actions, in.get(), STDIN_FILENO);
    if (error == 0) error = posix_spawn_file_actions_adddup2(&actions, out.get(), STDOUT_FILENO);
    if (error == 0) error = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    std::vector<char*> raw{const_cast<char*>(program.c_str())};
    for (const std::string& argument : arguments) raw.push_back(const_cast<char*>(argument.c_str()));
    raw.push_back(nullptr);
    // Of the environment only where libraries lie, for a system without HDF5's archive.
    const char* libraries = std::getenv("LD_LIBRARY_PATH");
    std::string path = std::string("LD_LIBRARY_PATH=") + (libraries != nullptr ? libraries : "");
    char* environment[] = {libraries != nullptr ? path.data() : nullptr, nullptr};
    if (error == 0) error = posix_spawn(&pid_, program.c_str(), &actions, &attributes, raw.data(), environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (error != 0) {
      pid_ = -1;
      RefuseToStart(error);
    }
  }
  ~Process() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      Wait(0);
    }
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Its status when it has ended, or ends until `deadline`.
  int EndedUntil(Clock::time_point deadline) {
    for (int pause = 100; pid_ > 0 && Clock::now() < deadline; pause = std::min(2 * pause, 20000)) {
      if (Wait(WNOHANG)) break;
      usleep(static_cast<useconds_t>(pause));
    }
    return pid_ > 0 ? -1 : status_;
  }

 private:
  bool Wait(int options) {
    pid_t ended = 0;
    while ((ended = waitpid(pid_, &status_, options)) < 0 && errno == EINTR) {
    }
    if (ended == 0) return false;
    if (ended < 0) status_ = 0;  // the program that loaded us lets the system collect its children
    pid_ = -1;
    return true;
  }

  pid_t pid_ = -1;
  int status_ = 0;
};

// Bytes that are there until `deadline`, at most `size`; fewer only at the end or after it.
size_t ReadUntil(int descriptor, char* out, size_t size, Clock::time_point deadline) {
  size_t done = 0;
  while (done < size) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd ready{descriptor, POLLIN, 0};
    const int count = left > 0 ? poll(&ready, 1, static_cast<int>(std::min<int64_t>(left, 1000))) : 0;
    if (left <= 0 || (count < 0 && errno != EINTR)) break;
    if (count <= 0) continue;
    const ssize_t got = read(descriptor, out + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

std::string WhatHappened(int status) {
  if (status < 0) return "did not finish with it";
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) return "took far more time than a file of this size needs";
  if (WIFSIGNALED(status)) return std::string("failed on it (") + strsignal(WTERMSIG(status)) + ")";
  return "failed on it";
}

void WarnOfNoFilter() {
  static std::once_flag once;
  std::call_once(once, [] {
    std::fprintf(stderr,
                 "headscope: this kernel cannot filter system calls (seccomp), so untrusted files are read with limits "
                 "on memory and time only\n");
  });
}

}  // namespace

ContentsLimits::ContentsLimits(int64_t stored_bytes) {
  const auto bytes = static_cast<uint64_t>(stored_bytes);
  memory_bytes = (uint64_t{192} << 20) + bytes / 16;
  seconds = 2 + (bytes >> 30);
  table_bytes = (uint64_t{8} << 20) + bytes / 4;
  wall_seconds = 20 + 4 * static_cast<int64_t>(seconds);
}

Contents ReadContents(int descriptor, int64_t stored_bytes, std::string* problem) {
  const ContentsLimits limits(stored_bytes);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) RefuseToStart(errno);
  const Descriptor answer(ends[0]);
  Descriptor theirs(ends[1]);
  Process process(FindProgram(),
                  {std::to_string(stored_bytes), std::to_string(limits.memory_bytes), std::to_string(limits.seconds)},
                  descriptor, theirs.get());
  theirs.Close();
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(limits.wall_seconds);

  Contents contents;
  std::array<char, kContentsHeaderBytes> header{};
  if (ReadUntil(answer.get(), header.data(), header.size(), deadline) < header.size()) {
    *problem = WhatHappened(process.EndedUntil(deadline));
    return contents;
  }
  const uint64_t length = ContentsLength(header);
  if (length == 0 || length > limits.table_bytes) {
    *problem = "gave an answer that headscope does not accept";
    return contents;
  }
  std::vector<char> bytes(length);
  std::memcpy(bytes.data(), header.data(), header.size());
  const size_t rest = length - header.size();
  if (ReadUntil(answer.get(), bytes.data() + header.size(), rest, deadline) < rest) {
    *problem = WhatHappened(process.EndedUntil(deadline));
  } else if (!DecodeContents(bytes, &contents)) {
    *problem = "gave an answer that headscope does not accept";
  }
  if (contents.without_filter) WarnOfNoFilter();
  return contents;
}

}  // namespace headscope::data
