// SPDX-License-Identifier: Apache-2.0
// The block masses of the heads that were looked at last, so that a slider's mask costs its ragged edges only.
#pragma once

#include <cstdint>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <stop_token>
#include <utility>

#include "analysis/compare.h"
#include "outcome.h"
#include "ui/memory_budget.h"

namespace headscope::app {

// Callable from any thread. A pass over a head outlives the request that began it, because the next position of the
// slider needs it as well; it ends when another head is asked for.
class MassCache {
 public:
  using MassPtr = std::shared_ptr<const analysis::HeadMass>;

  // `memory` decides how many masses stay; the one that was asked for last always does.
  explicit MassCache(std::shared_ptr<ui::MemoryBudget> memory) : memory_(std::move(memory)) {}

  // Computes the head's mass when it is not there, or waits for whoever computes it. nullptr when stopped or when
  // another head was asked for meanwhile. Throws what HeadMass::Compute does; whoever waits for another thread's pass
  // gets its words as a FailedError.
  MassPtr Get(const analysis::HeadTensorsPtr& head, const std::stop_token& stop);
  // Ends passes under way and forgets everything.
  void Clear();

 private:
  using Computed = Outcome<MassPtr>;  // nullptr when the pass was ended
  struct Entry {
    std::weak_ptr<const analysis::HeadTensors> head;
    std::shared_future<Computed> computed;  // valid while the pass is under way
    std::weak_ptr<const analysis::HeadMass> mass;
    std::stop_source stop;
  };
  // HeadMass::Compute for `entry`, and word of it to those who wait.
  MassPtr Compute(const analysis::HeadTensorsPtr& head, const Entry& entry, std::promise<Computed>* promise);
  // A use of the mass, then of its head: a mass that stays without its head would hold that uncounted. Under the lock.
  void Keep(const MassPtr& mass);

  const std::shared_ptr<ui::MemoryBudget> memory_;
  std::mutex mutex_;
  std::list<Entry> entries_;
  std::weak_ptr<const analysis::HeadMass> newest_;
};

}  // namespace headscope::app
