// SPDX-License-Identifier: Apache-2.0
// Memory that was freed goes back to the system.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>

#include "analysis/task_queue.h"
#include "statistics_job.h"
#include "ui/memory_budget.h"

namespace headscope::app {

// The C library keeps the pages of most of what is freed: of a quarter million small blocks, and of the tensors of
// heads and tiles, once the first of their size was freed.
void ReturnFreePages();

// Does it on a thread of its own, and never beside what is measured. The C library could be told to map such blocks one
// by one, which are the system's when they are freed; the scratch memory of what is measured would then be mapped and
// cleared at every repeat.
class PageReturner {
 public:
  // What was still in use when it was asked, and the scratch memory of that use, is free a moment later.
  static constexpr std::chrono::milliseconds kAgainAfter{500};

  // Tests give a function and a time of their own.
  explicit PageReturner(std::shared_ptr<MeasuringGate> gate, std::function<void()> return_pages = ReturnFreePages,
                        std::chrono::milliseconds again_after = kAgainAfter);
  ~PageReturner();
  PageReturner(const PageReturner&) = delete;
  PageReturner& operator=(const PageReturner&) = delete;

  // From any thread; never waits. Within kAgainAfter, and once more as long after it if nobody has asked again.
  void Ask();

 private:
  void ReturnWhenQuiet(const std::stop_token& stop);

  const std::shared_ptr<MeasuringGate> gate_;
  const std::function<void()> return_pages_;
  const std::chrono::milliseconds again_after_;
  analysis::TaskQueue queue_;  // last: its destructor joins work that uses the members above
};

// One that is asked when kLeftBeforeReturn bytes have left the budget since the last time.
inline constexpr int64_t kLeftBeforeReturn = int64_t{32} << 20;
std::shared_ptr<PageReturner> ReturnWhatLeaves(ui::MemoryBudget* memory, std::shared_ptr<MeasuringGate> gate,
                                               std::function<void()> return_pages = ReturnFreePages);

}  // namespace headscope::app
