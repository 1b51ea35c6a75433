// SPDX-License-Identifier: Apache-2.0
// The tensors of the heads that are judged one by one. Only the newest is held: a head at 128K tokens takes hundreds of
// megabytes, and a copy costs far less than the pass over its scores that follows.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "analysis/measured_heads.h"

namespace headscope::analysis {

class JudgedHeads {
 public:
  // Their kept masses are computed on the device.
  JudgedHeads(MeasuredHeadsPtr measured, const Device& device) : measured_(std::move(measured)), device_(device) {}

  const HeadTensors& Get(HeadId id) {
    if (newest_ == nullptr || newest_->id != id) {
      newest_.reset();  // before the next is made
      newest_ = measured_->Head(id, device_);
    }
    return *newest_;
  }

  // Mean over the judged rows of the head's mass that lies outside a cut trace: compute(head), which may cost a pass
  // over scores, once a head, whatever is judged on it.
  template <typename Compute>
  double MeanOutside(HeadId id, const Compute& compute) {
    const HeadTensors& head = Get(id);
    const auto known = std::find_if(outside_.begin(), outside_.end(), [&](const auto& one) { return one.first == id; });
    if (known != outside_.end()) return known->second;
    outside_.emplace_back(id, compute(head));
    return outside_.back().second;
  }

 private:
  const MeasuredHeadsPtr measured_;
  const Device device_;
  HeadTensorsPtr newest_;
  std::vector<std::pair<HeadId, double>> outside_;
};

}  // namespace headscope::analysis
