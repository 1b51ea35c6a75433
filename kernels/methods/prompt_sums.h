// SPDX-License-Identifier: Apache-2.0
// What a method makes of a whole prompt whatever its parameters are, kept for the next setting that is tried on it: a
// slider, or a search, asks for hundreds on one prompt, and the sums of its attention cost more than all that follows.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "kernels/decode_policy.h"

namespace headscope::kernels::internal {

// The last few prompts' sums by query head and key, found by the numbers that they were made of: reading these takes a
// few hundredths of the time of a long prompt's sums, and it does not matter where they lie. May be used from several
// threads.
class PromptSums {
 public:
  using Columns = std::vector<std::vector<float>>;  // [batch * num_qo_heads][seq_k]
  using Fingerprint = std::array<uint64_t, 3>;

  static constexpr size_t kMostPrompts = 2;                  // of two maps side by side
  static constexpr int32_t kLeastRows = 512;                 // of fewer the sums take as long as reading the keys
  static constexpr int64_t kMostNumbers = int64_t{1} << 20;  // of one prompt, whose sums are not kept if it has more

  // Of the rows and keys that are summed. Nothing where they would not be kept: where the prompt is not tried again, or
  // begins again behind a part of it, for which the policy keeps what it needs.
  static std::optional<Fingerprint> Of(const DecodePrompt& prompt);

  std::shared_ptr<const Columns> Find(const Fingerprint& prompt);  // null: not here
  void Keep(const Fingerprint& prompt, std::shared_ptr<const Columns> columns);

 private:
  struct Kept {
    Fingerprint prompt;
    std::shared_ptr<const Columns> columns;
  };
  std::mutex mutex_;
  std::list<Kept> kept_;  // the newest first
};

}  // namespace headscope::kernels::internal
