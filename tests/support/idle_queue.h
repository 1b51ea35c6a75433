// SPDX-License-Identifier: Apache-2.0
// Waiting for a task queue to come to rest.
#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <limits>
#include <memory>
#include <stop_token>

#include "analysis/task_queue.h"

namespace headscope::test {

// Returns when nothing waits or runs, and what is done was posted: when the last of all tasks is alone.
inline void WaitIdle(analysis::TaskQueue* queue) {
  const auto alone = std::make_shared<std::promise<void>>();
  queue->Submit(
      "rest", -std::numeric_limits<int32_t>::max(),
      [queue, alone](const std::stop_token& stop) {
        queue->WaitUntilAlone(stop, std::chrono::minutes(10));
        alone->set_value();
      },
      nullptr);
  alone->get_future().wait();
}

}  // namespace headscope::test
