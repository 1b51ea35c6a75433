// The block masses of the heads that were looked at last, so that a slider's mask costs its ragged edges only.
#pragma once

#include <atomic>
#include <cstddef>
#include <future>
#include <list>
#include <memory>
#include <mutex>

#include "analysis/compare.h"
#include "outcome.h"

namespace headscope::app {

// Callable from any thread. A pass over a head outlives the request that began it, because the next position of the
// slider needs it as well; it ends when another head is asked for.
class MassCache {
 public:
  using MassPtr = std::shared_ptr<const analysis::HeadMass>;

  // Computes the head's mass when it is not there, or waits for whoever computes it. nullptr when `cancelled` or when
  // another head was asked for meanwhile. Throws what HeadMass::Compute does; whoever waits for another thread's pass
  // gets its words as a std::runtime_error.
  MassPtr Get(const analysis::HeadTensorsPtr& head, const std::atomic<bool>& cancelled);
  // Ends passes under way and forgets everything.
  void Clear();

 private:
  using Computed = Outcome<MassPtr>;  // nullptr when the pass was ended
  struct Entry {
    analysis::HeadTensorsPtr head;
    std::shared_future<Computed> computed;
    std::shared_ptr<std::atomic<bool>> stop;
  };
  // HeadMass::Compute for `entry`, and word of it to those who wait.
  MassPtr Compute(const Entry& entry, std::promise<Computed>* promise);

  // At most 64 MiB each.
  static constexpr size_t kCapacity = 6;

  std::mutex mutex_;
  std::list<Entry> entries_;  // latest first
};

}  // namespace headscope::app
