// SPDX-License-Identifier: Apache-2.0
#include "support/sudden_end.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <system_error>

#include "data/unfinished_file.h"
#include "support/exit_codes.h"
#include "support/messages.h"

namespace headscope::app {
namespace {

void Write(const char* text) {
  // There is nobody left to tell that stderr cannot be written.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, std::strlen(text));
}

[[noreturn]] void OnTerminate() noexcept {
  try {
    if (const std::exception_ptr failure = std::current_exception(); failure != nullptr)
      std::rethrow_exception(failure);
  } catch (const std::bad_alloc&) {
    EndSuddenly(kOutOfMemory);
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again) EndSuddenly(kOutOfThreads);
  } catch (...) {
  }
  data::RemoveUnfinishedFiles();
  std::abort();  // a defect: the signal leaves a core that tells where
}

bool MemoryIsShort() {
  constexpr size_t kLittle = size_t{16} << 20;
  void* const more = ::mmap(nullptr, kLittle, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (more == MAP_FAILED) return true;
  ::munmap(more, kLittle);
  return false;
}

std::atomic<bool> expected{false};

// Libraries written in C use what they were not given, or end the process themselves, by exit (HDF5 does both) or by a
// signal (GLib). Whether memory is what was missing the system says, asked for a little more.
void OnExit() {
  if (expected.load()) return;
  if (MemoryIsShort()) EndSuddenly(kOutOfMemory);
  data::RemoveUnfinishedFiles();
}

extern "C" void OnFault(int signal) {
  if (MemoryIsShort()) EndSuddenly(kOutOfMemory);
  data::RemoveUnfinishedFiles();
  ::raise(signal);  // by the system's own handler, which SA_RESETHAND has put back: a core that tells where
}

}  // namespace

// What there may be no memory for is not asked for: no string, no stream.
void EndSuddenly(const char* sentence) noexcept {
  static std::atomic<bool> ending{false};
  if (ending.exchange(true)) {  // another thread came first, and takes the process with it
    while (true) ::pause();
  }
  data::RemoveUnfinishedFiles();
  Write("headscope: ");
  Write(sentence);
  Write("\n");
  ::_exit(kDeviceOrMemoryMissing);
}

void EndIsExpected() {
  expected.store(true);
}

void EndAtOnce([[maybe_unused]] int code) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  std::cout.flush();
  std::fflush(nullptr);
  std::quick_exit(code);
#endif
}

void PrepareForSuddenEnd() {
  std::set_terminate(OnTerminate);
  std::atexit(OnExit);
  // The sanitizers' own handlers tell more.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  static std::array<char, 64 << 10> stack;  // the fault may be the end of the other one
  stack_t alternative{};
  alternative.ss_sp = stack.data();
  alternative.ss_size = stack.size();
  ::sigaltstack(&alternative, nullptr);
  struct sigaction action = {};
  action.sa_handler = OnFault;
  action.sa_flags = SA_ONSTACK | static_cast<int>(SA_RESETHAND);
  ::sigemptyset(&action.sa_mask);
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGTRAP}) ::sigaction(signal, &action, nullptr);
#endif
}

}  // namespace headscope::app
