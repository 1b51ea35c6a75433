// SPDX-License-Identifier: Apache-2.0
// The tensors of the heads that are judged one by one. Only the newest is held: a head at 128K tokens takes hundreds of
// megabytes, and a copy costs far less than the pass over its scores that follows.
#pragma once

#include <utility>

#include "analysis/measured_heads.h"

namespace headscope::analysis {

class JudgedHeads {
 public:
  // kGpuWhereExact: their kept masses are computed on the GPU.
  JudgedHeads(MeasuredHeadsPtr measured, HeadPlace place) : measured_(std::move(measured)), place_(place) {}

  const HeadTensors& Get(HeadId id) {
    if (newest_ == nullptr || newest_->id != id) {
      newest_.reset();  // before the next is made
      newest_ = measured_->Head(id, place_);
    }
    return *newest_;
  }

 private:
  const MeasuredHeadsPtr measured_;
  const HeadPlace place_;
  HeadTensorsPtr newest_;
};

}  // namespace headscope::analysis
