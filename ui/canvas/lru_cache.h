// SPDX-License-Identifier: Apache-2.0
// A map that holds at most so many bytes: what was not asked for longest goes first. Entries may be pinned, which keeps
// the coarsest tile of a head at hand however far the view is zoomed in. Constant time per operation.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <utility>

namespace headscope::ui {

template <typename Key, typename Value>
class LruCache {
 public:
  explicit LruCache(int64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  // Adds or replaces, then evicts down to the capacity. The entry just put stays even when it alone is larger: the
  // caller needs it now.
  void Put(const Key& key, Value value, int64_t bytes, bool pinned = false) {
    Erase(key);
    order_.push_front(Entry{key, std::move(value), bytes, pinned});
    index_[key] = order_.begin();
    bytes_ += bytes;
    Evict();
  }

  // Null when absent. Counts as a use.
  Value* Find(const Key& key) {
    const auto found = index_.find(key);
    if (found == index_.end()) return nullptr;
    order_.splice(order_.begin(), order_, found->second);
    return &found->second->value;
  }

  bool Contains(const Key& key) const { return index_.contains(key); }

  void Erase(const Key& key) {
    const auto found = index_.find(key);
    if (found == index_.end()) return;
    bytes_ -= found->second->bytes;
    order_.erase(found->second);
    index_.erase(found);
  }

  void Clear() {
    order_.clear();
    index_.clear();
    bytes_ = 0;
  }

  int64_t bytes() const { return bytes_; }
  int64_t capacity_bytes() const { return capacity_bytes_; }
  int64_t size() const { return static_cast<int64_t>(index_.size()); }

 private:
  struct Entry {
    Key key;
    Value value;
    int64_t bytes = 0;
    bool pinned = false;
  };

  void Evict() {
    auto candidate = order_.end();
    while (bytes_ > capacity_bytes_ && candidate != order_.begin()) {
      --candidate;
      if (candidate == order_.begin()) return;
      if (candidate->pinned) continue;
      bytes_ -= candidate->bytes;
      index_.erase(candidate->key);
      candidate = order_.erase(candidate);
    }
  }

  int64_t capacity_bytes_;
  int64_t bytes_ = 0;
  std::list<Entry> order_;  // most recent use first
  std::map<Key, typename std::list<Entry>::iterator> index_;
};

}  // namespace headscope::ui
