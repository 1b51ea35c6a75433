// SPDX-License-Identifier: Apache-2.0
// The block masses of the heads that were looked at last, so that a slider's mask costs its ragged edges only.
#pragma once

#include <array>
#include <cstdint>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <stop_token>
#include <utility>

#include "analysis/compare.h"
#include "outcome.h"
#include "ui/workbench.h"

namespace headscope::app {

// Callable from any thread. A pass over a head outlives the request that began it, because the next position of the
// slider needs it as well; it ends when no map wants its head any more.
class MassCache {
 public:
  using MassPtr = std::shared_ptr<const analysis::HeadMass>;

  // `memory` decides how many masses stay; those that the maps asked for last always do.
  explicit MassCache(std::shared_ptr<ui::MemoryBudget> memory) : memory_(std::move(memory)) {}

  // Computes the head's mass when it is not there, or waits for whoever computes it. Throws what HeadMass::Compute
  // does: CancelledError when stopped or when `view` asked for another head meanwhile. Whoever waits for another
  // thread's pass gets its words.
  MassPtr Get(ui::MapView view, const analysis::HeadTensorsPtr& head, const std::stop_token& stop);
  void Leave(ui::MapView view);  // it wants no head any more
  // Ends passes under way and forgets everything.
  void Clear();

 private:
  using Computed = Outcome<MassPtr>;
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
  bool IsWanted(const analysis::HeadTensors* head) const;  // by a map; under the lock
  void EndUnwanted();                                      // passes, and pins; under the lock

  const std::shared_ptr<ui::MemoryBudget> memory_;
  std::mutex mutex_;
  std::list<Entry> entries_;
  // By map. A head that has left is not that of a pass, since a pass holds its head.
  std::array<std::weak_ptr<const analysis::HeadTensors>, ui::kMapViews.size()> wanted_;
};

}  // namespace headscope::app
