// SPDX-License-Identifier: Apache-2.0
#include "free_pages.h"

#include <cstdlib>  // declares __GLIBC__
#include <mutex>
#include <utility>
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace headscope::app {

void ReturnFreePages() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

PageReturner::PageReturner(std::shared_ptr<MeasuringGate> gate, std::function<void()> return_pages,
                           std::chrono::milliseconds again_after)
    : gate_(std::move(gate)),
      return_pages_(std::move(return_pages)),
      again_after_(again_after),
      queue_(1, [](const auto& call) { call(); }) {}

PageReturner::~PageReturner() {
  queue_.Cancel("");
  const std::lock_guard lock(gate_->mutex);
  gate_->opened.notify_all();
}

void PageReturner::Ask() {
  // The task before makes room when its wait is over, so that however many ask, it is done twice a second at most.
  const auto work = [this](const std::stop_token& stop) {
    ReturnWhenQuiet(stop);
    {
      std::unique_lock lock(gate_->mutex);
      gate_->opened.wait_for(lock, again_after_, [&] { return stop.stop_requested(); });
    }
    ReturnWhenQuiet(stop);
  };
  queue_.Submit("return", 0, work, nullptr);
}

void PageReturner::ReturnWhenQuiet(const std::stop_token& stop) {
  const auto is_open = [this] { return gate_->pauses == 0; };
  while (true) {
    {
      std::unique_lock lock(gate_->mutex);
      gate_->opened.wait(lock, [&] { return is_open() || stop.stop_requested(); });
    }
    if (stop.stop_requested()) return;
    // Who pauses from here on waits; who did so before the lock was had is seen.
    const std::lock_guard returning(gate_->returning);
    {
      const std::lock_guard lock(gate_->mutex);
      if (!is_open()) continue;
    }
    return return_pages_();
  }
}

std::shared_ptr<PageReturner> ReturnWhatLeaves(ui::MemoryBudget* memory, std::shared_ptr<MeasuringGate> gate,
                                               std::function<void()> return_pages) {
  auto returner = std::make_shared<PageReturner>(std::move(gate), std::move(return_pages));
  memory->CallWhenLeft(kLeftBeforeReturn, [weak = std::weak_ptr<PageReturner>(returner)] {
    if (const auto asked = weak.lock()) asked->Ask();
  });
  return returner;
}

}  // namespace headscope::app
