// SPDX-License-Identifier: Apache-2.0
// The heads that were looked at, as a browser's back and forward. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "analysis/types/head_statistics.h"

namespace headscope::ui {

class HeadHistory {
 public:
  // The head is looked at now; what lay forward is forgotten. Looking at the same head again changes nothing.
  void Visit(analysis::HeadId head) {
    if (!heads_.empty() && heads_[at_] == head) return;
    if (!heads_.empty()) heads_.resize(at_ + 1);
    heads_.push_back(head);
    if (heads_.size() > kMost) heads_.erase(heads_.begin());
    at_ = heads_.size() - 1;
  }
  bool CanGoBack() const { return at_ > 0; }
  bool CanGoForward() const { return at_ + 1 < heads_.size(); }
  std::optional<analysis::HeadId> Back() {
    if (!CanGoBack()) return std::nullopt;
    return heads_[--at_];
  }
  std::optional<analysis::HeadId> Forward() {
    if (!CanGoForward()) return std::nullopt;
    return heads_[++at_];
  }
  void Clear() { *this = HeadHistory(); }

 private:
  static constexpr size_t kMost = 200;
  std::vector<analysis::HeadId> heads_;
  size_t at_ = 0;
};

}  // namespace headscope::ui
