// SPDX-License-Identifier: Apache-2.0
// The tensors of the heads that are judged one by one. Only the newest is held: a head at 128K tokens takes hundreds of
// megabytes, and a copy costs far less than the pass over its scores that follows.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "analysis/measured_heads.h"
#include "analysis/outside_mass.h"

namespace headscope::analysis {

class JudgedHeads {
 public:
  // kGpuWhereExact: their kept masses are computed on the GPU.
  JudgedHeads(MeasuredHeadsPtr measured, HeadPlace place) : measured_(std::move(measured)), place_(place) {}

  const HeadTensors& Get(HeadId id) {
    if (newest_ == nullptr || newest_->id != id) {
      newest_.reset();  // before the next is made
      newest_ = measured_->Head(id, place_);
      outside_.reset();
    }
    return *newest_;
  }

  // Mean over all recorded rows of the head's mass that lies outside a cut trace. Costs a pass over the scores of the
  // rows that lack keys, once a head.
  double MeanOutside(HeadId id, int32_t num_threads) {
    const HeadTensors& head = Get(id);
    if (!outside_) outside_ = MeanOutsideMass(head, MassInTrace(head, num_threads), 0, head.num_rows);
    return *outside_;
  }

 private:
  const MeasuredHeadsPtr measured_;
  const HeadPlace place_;
  HeadTensorsPtr newest_;
  std::optional<double> outside_;  // the newest's
};

}  // namespace headscope::analysis
