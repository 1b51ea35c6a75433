// SPDX-License-Identifier: Apache-2.0
#include "ui/memory_budget.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace headscope::ui {

int64_t MemoryBudget::DefaultBytes() {
  constexpr int64_t kShare = 4;
  return std::max(kLeastBytes, int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGE_SIZE) / kShare);
}

MemoryBudget::Entries MemoryBudget::TakeExcess() {
  Entries excess;
  auto candidate = entries_.end();
  while (candidate != entries_.begin() && used_ > capacity_ && unpinned_ > std::min(capacity_, kLeastUnpinnedBytes)) {
    --candidate;
    if (candidate == entries_.begin()) break;
    if (candidate->pinned) continue;
    used_ -= candidate->bytes;
    unpinned_ -= candidate->bytes;
    places_.erase(candidate->value.get());
    const auto leaving = candidate++;
    excess.splice(excess.end(), entries_, leaving);
  }
  return excess;
}

template <typename Take>
void MemoryBudget::LetGo(Take take) {
  std::function<void()> call;
  {
    Entries leaving;  // destroyed after the lock
    const std::lock_guard lock(mutex_);
    leaving = take();
    for (const Entry& entry : leaving) left_ += entry.bytes;
    if (call_ && left_ >= call_after_) {
      left_ = 0;
      call = call_;
    }
  }
  if (call) call();
}

void MemoryBudget::CallWhenLeft(int64_t bytes, std::function<void()> call) {
  const std::lock_guard lock(mutex_);
  left_ = 0;
  call_after_ = bytes;
  call_ = std::move(call);
}

void MemoryBudget::SetCapacity(int64_t bytes) {
  LetGo([&] {
    capacity_ = bytes;
    return TakeExcess();
  });
}

int64_t MemoryBudget::capacity() const {
  const std::lock_guard lock(mutex_);
  return capacity_;
}

int64_t MemoryBudget::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

void MemoryBudget::Keep(const std::shared_ptr<const void>& value, int64_t bytes) {
  if (!value) return;
  LetGo([&] {
    const auto place = places_.find(value.get());
    if (place != places_.end()) {
      entries_.splice(entries_.begin(), entries_, place->second);
    } else {
      entries_.push_front({value, bytes, false});
      places_[value.get()] = entries_.begin();
      used_ += bytes;
      unpinned_ += bytes;
    }
    return TakeExcess();
  });
}

void MemoryBudget::Use(const void* value) {
  const std::lock_guard lock(mutex_);
  const auto place = places_.find(value);
  if (place != places_.end()) entries_.splice(entries_.begin(), entries_, place->second);
}

void MemoryBudget::Pin(const void* value, bool pinned) {
  const std::lock_guard lock(mutex_);
  const auto place = places_.find(value);
  if (place == places_.end() || place->second->pinned == pinned) return;
  place->second->pinned = pinned;
  unpinned_ += pinned ? -place->second->bytes : place->second->bytes;
}

void MemoryBudget::Release(const void* value) {
  LetGo([&] {
    Entries released;
    const auto place = places_.find(value);
    if (place == places_.end()) return released;
    used_ -= place->second->bytes;
    if (!place->second->pinned) unpinned_ -= place->second->bytes;
    Entries& to = holds_released_ ? released_ : released;
    to.splice(to.end(), entries_, place->second);
    places_.erase(place);
    return released;
  });
}

void MemoryBudget::HoldReleased() {
  const std::lock_guard lock(mutex_);
  holds_released_ = true;
}

std::shared_ptr<void> MemoryBudget::TakeReleased() {
  auto released = std::make_shared<Entries>();
  const std::lock_guard lock(mutex_);
  holds_released_ = false;
  released->splice(released->end(), released_);
  return released;
}

void MemoryBudget::SetFixed(const void* owner, int64_t bytes) {
  LetGo([&] {
    int64_t& fixed = fixed_[owner];
    used_ += bytes - fixed;
    fixed = bytes;
    if (bytes == 0) fixed_.erase(owner);
    return TakeExcess();
  });
}

}  // namespace headscope::ui
