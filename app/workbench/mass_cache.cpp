// SPDX-License-Identifier: Apache-2.0
#include "mass_cache.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

#include "base/errors.h"
#include "base/stop.h"

namespace headscope::app {
namespace {

// How soon a request that only waits notices that it is stale, and gives its worker back.
constexpr std::chrono::milliseconds kLookAtStop(5);

// At most 64 MiB.
int64_t BytesOf(const analysis::HeadMass& mass) {
  if (mass.block_columns() == 0) return 0;
  const int64_t blocks = (mass.head().num_tokens + mass.block_columns() - 1) / mass.block_columns();
  return mass.head().num_rows * blocks * static_cast<int64_t>(sizeof(float));
}

}  // namespace

void MassCache::Keep(const MassPtr& mass) {
  memory_->Keep(mass, BytesOf(*mass));
  memory_->Use(&mass->head());
  memory_->Pin(mass.get(), IsWanted(&mass->head()));
}

bool MassCache::IsWanted(const analysis::HeadTensors* head) const {
  return std::any_of(wanted_.begin(), wanted_.end(), [&](const auto& wanted) { return wanted.lock().get() == head; });
}

void MassCache::EndUnwanted() {
  std::erase_if(entries_, [&](const Entry& entry) {
    const analysis::HeadTensorsPtr head = entry.head.lock();
    const bool wanted = head && IsWanted(head.get());
    if (entry.computed.valid()) {
      if (!wanted) entry.stop.request_stop();
      return !wanted;
    }
    const MassPtr mass = entry.mass.lock();
    if (mass) memory_->Pin(mass.get(), wanted);
    return !mass;
  });
}

void MassCache::Leave(ui::MapView view) {
  const std::lock_guard lock(mutex_);
  wanted_[static_cast<size_t>(view)].reset();
  EndUnwanted();
}

MassCache::MassPtr MassCache::Get(ui::MapView view, const analysis::HeadTensorsPtr& head, const std::stop_token& stop) {
  std::optional<std::promise<Computed>> promise;
  Entry entry;
  {
    const std::lock_guard lock(mutex_);
    StopIfAsked(stop);  // a stale request must not end the pass of the head on show
    wanted_[static_cast<size_t>(view)] = head;
    EndUnwanted();
    const auto known =
        std::find_if(entries_.begin(), entries_.end(), [&](const Entry& other) { return other.head.lock() == head; });
    // The budget, which has a lock of its own, may let go of masses at any moment.
    const MassPtr ready = known == entries_.end() ? nullptr : known->mass.lock();
    if (ready) {
      Keep(ready);
      return ready;
    }
    if (known == entries_.end() || !known->computed.valid()) {
      if (known != entries_.end()) entries_.erase(known);
      promise.emplace();
      entry = {head, promise->get_future().share(), {}, {}};
      entries_.push_front(entry);
    } else {
      entry = *known;
    }
  }
  if (promise) return Compute(head, entry, &*promise);
  while (entry.computed.wait_for(kLookAtStop) != std::future_status::ready) StopIfAsked(stop);
  return entry.computed.get().Get();
}

MassCache::MassPtr MassCache::Compute(const analysis::HeadTensorsPtr& head, const Entry& entry,
                                      std::promise<Computed>* promise) {
  const auto forget = [&] {
    const std::lock_guard lock(mutex_);
    std::erase_if(entries_, [&](const Entry& other) { return other.stop == entry.stop; });
  };
  const MassPtr mass = MakeForAll(
      promise,
      "the masses of head " + std::to_string(head->id.layer) + ":" + std::to_string(head->id.head) +
          " could not be computed for an unknown reason; try again",
      [&] { return MassPtr(analysis::HeadMass::Compute(head, 0, entry.stop.get_token())); }, forget);
  const std::lock_guard lock(mutex_);
  const auto known =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& other) { return other.stop == entry.stop; });
  if (known == entries_.end()) return mass;  // forgotten meanwhile: nobody will ask for it
  known->computed = {};
  known->mass = mass;
  Keep(mass);
  return mass;
}

void MassCache::Clear() {
  const std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_) {
    entry.stop.request_stop();
    memory_->Release(entry.mass.lock().get());
  }
  entries_.clear();
  wanted_ = {};
}

}  // namespace headscope::app
