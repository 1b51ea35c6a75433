// SPDX-License-Identifier: Apache-2.0
#include "internal/waiting_threads.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <thread>

namespace headscope::kernels::internal {
namespace {

// The state is one word, so that a late thread cannot take a ticket of a loop that has ended: loop number, tickets
// (workers that may still begin), and workers inside.
constexpr uint64_t kOneInside = 1;
constexpr uint64_t kInsideMask = 0xffff;
constexpr int kTicketShift = 16;
constexpr uint64_t kOneTicket = uint64_t{1} << kTicketShift;
constexpr uint64_t kTicketMask = uint64_t{0xffff} << kTicketShift;
constexpr int kLoopShift = 32;

constexpr auto kLookFor = std::chrono::microseconds(50);

uint64_t Tickets(uint64_t state) {
  return (state & kTicketMask) >> kTicketShift;
}

// Tells the processor that this thread spins, so that its core's other thread runs the faster.
void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// Looks at `done` until it is true or the time is up; whether it was.
template <typename Done>
bool Spin(std::chrono::microseconds time, const Done& done) {
  const auto end = std::chrono::steady_clock::now() + time;
  do {
    for (int i = 0; i < 64; ++i) {
      if (done()) return true;
      Pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

class Crew {
 public:
  bool Run(int32_t num_workers, void (*work)(void*, int32_t), void* context) {
    if (taken_.test_and_set(std::memory_order_acquire)) return false;
    const int32_t helpers = std::min(num_workers - 1, Grow(num_workers - 1));
    work_ = work;
    context_ = context;
    ++loop_;
    state_.store(uint64_t{loop_} << kLoopShift | static_cast<uint64_t>(helpers) << kTicketShift,
                 std::memory_order_seq_cst);
    loops_begun_.fetch_add(1, std::memory_order_seq_cst);
    loops_begun_.notify_all();
    work(context, 0);
    state_.fetch_and(~kTicketMask, std::memory_order_relaxed);
    const auto all_out = [this] { return (state_.load(std::memory_order_acquire) & kInsideMask) == 0; };
    while (!Spin(kLookFor, all_out)) std::this_thread::yield();
    taken_.clear(std::memory_order_release);
    return true;
  }

 private:
  // Threads that there are, once it has been tried to have `wanted` of them.
  int32_t Grow(int32_t wanted) {
    try {
      for (; threads_ < wanted; ++threads_) std::thread([this] { Help(); }).detach();
    } catch (const std::exception&) {
      // No more threads, or no memory for them: those that there are share the work.
    }
    return threads_;
  }

  void Help() {
    while (true) {
      const uint32_t begun = loops_begun_.load(std::memory_order_seq_cst);
      uint64_t state = 0;
      const auto ticket = [&] { return Tickets(state = state_.load(std::memory_order_seq_cst)) > 0; };
      if (!Spin(kLookFor, ticket)) {
        loops_begun_.wait(begun, std::memory_order_seq_cst);
        continue;
      }
      if (!state_.compare_exchange_strong(state, state - kOneTicket + kOneInside, std::memory_order_acq_rel)) continue;
      work_(context_, static_cast<int32_t>(Tickets(state)));
      state_.fetch_sub(kOneInside, std::memory_order_release);
    }
  }

  std::atomic_flag taken_;                // guards what is not atomic, but for work_ and context_ in Help()
  std::atomic<uint64_t> state_{0};        // work_ and context_ stand still while a ticket or a worker is out
  std::atomic<uint32_t> loops_begun_{0};  // what a sleeping thread waits on
  void (*work_)(void*, int32_t) = nullptr;
  void* context_ = nullptr;
  uint32_t loop_ = 0;
  int32_t threads_ = 0;
};

}  // namespace

bool RunOnWaitingThreads(int32_t num_workers, void (*work)(void*, int32_t), void* context) {
  // Never destroyed: its threads wait until the process ends, also while static objects are being destroyed.
  static Crew& crew = *new Crew;
  return crew.Run(num_workers, work, context);
}

}  // namespace headscope::kernels::internal
