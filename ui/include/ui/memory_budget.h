// SPDX-License-Identifier: Apache-2.0
// One budget for all that the window keeps only to be faster: heads, their masses, tiles of the map, statistics. What
// was used longest ago leaves first, whatever cache it is in.
//
// The budget owns what is kept, and a cache has weak pointers to it: a value that has left is made again when somebody
// asks for it, and one that is still in use stays the same. Callable from any thread; constant or logarithmic time.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>

namespace headscope::ui {

class MemoryBudget {
 public:
  static constexpr int64_t kLeastBytes = int64_t{256} << 20;
  // Pinned values may leave no room for others: so much stays for those, for a view's tiles must not push each other
  // out.
  static constexpr int64_t kLeastUnpinnedBytes = int64_t{128} << 20;
  // A quarter of the machine's memory, at least kLeastBytes.
  static int64_t DefaultBytes();

  explicit MemoryBudget(int64_t capacity_bytes = DefaultBytes()) : capacity_(capacity_bytes) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  void SetCapacity(int64_t bytes);
  int64_t capacity() const;
  // Kept values and fixed ones. At most the capacity; more only where pinned and fixed bytes, kLeastUnpinnedBytes and
  // the newest value need it.
  int64_t used() const;

  // Keeps a value, or counts as a use of it. The newest stays whatever its size.
  void Keep(const std::shared_ptr<const void>& value, int64_t bytes);
  // The value that a cache remembers, kept anew; null when it has left.
  template <typename T>
  std::shared_ptr<const T> Find(const std::weak_ptr<const T>& remembered, int64_t bytes) {
    std::shared_ptr<const T> value = remembered.lock();
    if (value) Keep(value, bytes);
    return value;
  }
  void Use(const void* value);  // of a value that is kept; any other changes nothing
  // A pinned value that is kept does not leave: what is on show.
  void Pin(const void* value, bool pinned);
  void Release(const void* value);
  // Between the two, what is released is held, and comes back in one piece: freeing the hundreds of tiles of a closed
  // trace takes longer than a frame, so another thread does it. Not counted any more. The calls do not nest.
  void HoldReleased();
  std::shared_ptr<void> TakeReleased();
  // Calls `call` each time that so many bytes have left since the last time, when the last of them are freed (unless
  // somebody still uses them), on the thread that made them leave. What is held for TakeReleased does not count.
  void CallWhenLeft(int64_t bytes, std::function<void()> call);
  // Bytes of an owner that cannot leave; 0: none any more.
  void SetFixed(const void* owner, int64_t bytes);

 private:
  struct Entry {
    std::shared_ptr<const void> value;
    int64_t bytes = 0;
    bool pinned = false;
  };
  using Entries = std::list<Entry>;
  // Takes out what is beyond the capacity, for the caller to let go of without the lock.
  Entries TakeExcess();
  // Runs `take`, which returns what leaves, under the lock; lets go of that, and makes the call, without.
  template <typename Take>
  void LetGo(Take take);

  mutable std::mutex mutex_;
  int64_t capacity_;
  int64_t used_ = 0, unpinned_ = 0;
  Entries entries_;  // used latest first
  std::map<const void*, Entries::iterator> places_;
  std::map<const void*, int64_t> fixed_;
  bool holds_released_ = false;
  Entries released_;
  int64_t left_ = 0, call_after_ = 0;
  std::function<void()> call_;
};

}  // namespace headscope::ui
