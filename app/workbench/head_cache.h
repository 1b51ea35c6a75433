// SPDX-License-Identifier: Apache-2.0
// The heads that were looked at last, in memory. Callable from any thread; a head asked for twice at the same time is
// read once.
#pragma once

#include <array>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <mutex>

#include "analysis/head_tensors.h"
#include "base/device.h"
#include "outcome.h"
#include "ui/workbench.h"

namespace headscope::app {

// The GPU of the window's work, where the machine has one: the first.
inline constexpr Device kWindowsGpu = CudaDevice(0);

class HeadCache {
 public:
  // `trace` must outlive the cache. `memory` decides how many heads stay; those that the maps show always do.
  HeadCache(const data::TraceReader& trace, std::shared_ptr<ui::MemoryBudget> memory);
  ~HeadCache();
  HeadCache(const HeadCache&) = delete;
  HeadCache& operator=(const HeadCache&) = delete;

  // Reads the head when it is not there, and throws as analysis::LoadHead; so does who waits for another thread's
  // reading.
  analysis::HeadTensorsPtr Get(analysis::HeadId id);
  // The same for what a map shows: it stays until that map shows another head, or Leave.
  analysis::HeadTensorsPtr Show(ui::MapView view, analysis::HeadId id);
  void Leave(ui::MapView view);
  // Never reads and never waits: nullptr when the head is not there (yet).
  analysis::HeadTensorsPtr TryGet(analysis::HeadId id);
  // For passes over all heads, which would only push the others out: reads past the cache.
  analysis::HeadTensorsPtr GetUncached(analysis::HeadId id, const Device& device = kCpu);

 private:
  using Reading = Outcome<analysis::HeadTensorsPtr>;
  struct Entry {
    std::shared_future<Reading> reading;  // valid while somebody reads it
    std::weak_ptr<const analysis::HeadTensors> head;
  };
  // LoadHead, and word of it to those who wait.
  analysis::HeadTensorsPtr Read(analysis::HeadId id, std::promise<Reading>* promise);
  // What the budget holds of an entry; null when it has left. Under the lock.
  analysis::HeadTensorsPtr Find(const Entry& entry) const;
  void Pin(ui::MapView view, const analysis::HeadTensorsPtr& head);  // null: none any more; under the lock

  const data::TraceReader& trace_;
  const std::shared_ptr<ui::MemoryBudget> memory_;
  std::mutex mutex_;
  std::map<analysis::HeadId, Entry> entries_;
  std::array<std::weak_ptr<const analysis::HeadTensors>, ui::kMapViews.size()> shown_;
};

}  // namespace headscope::app
