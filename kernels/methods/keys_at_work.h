// SPDX-License-Identifier: Apache-2.0
// What selectors make of a KV head's keys, where query heads that share them are on several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace headscope::kernels::internal {

// Of the KV heads that are at work: made for the first who asks, gone with the last.
template <typename Keys>
class KeysAtWork {
 public:
  // Of all sequences.
  explicit KeysAtWork(int64_t num_kv_heads) : heads_(static_cast<size_t>(num_kv_heads)) {}

  // Keys(arguments..), the same for all who ask for a head.
  template <typename... Arguments>
  std::shared_ptr<const Keys> Of(int64_t kv_head, const Arguments&... arguments) {
    Head& head = heads_[static_cast<size_t>(kv_head)];
    const std::lock_guard lock(head.mutex);
    std::shared_ptr<const Keys> keys = head.keys.lock();
    if (keys == nullptr) {
      keys = std::make_shared<const Keys>(arguments...);
      head.keys = keys;
    }
    return keys;
  }

 private:
  struct Head {
    std::mutex mutex;
    std::weak_ptr<const Keys> keys;
  };
  std::vector<Head> heads_;
};

}  // namespace headscope::kernels::internal
