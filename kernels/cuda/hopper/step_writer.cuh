// SPDX-License-Identifier: Apache-2.0
// How a scheduler warp hands on items and steps, whatever it makes these of.
#pragma once

#include <cute/arch/cluster_sm90.hpp>

#include "hopper/traits.cuh"

namespace headscope::kernels::hopper {

// All lanes of the warp call every function together.
template <class T>
class StepWriter {
 public:
  __device__ StepWriter(const typename T::Params& params, SharedStorage<T>& shared, int lane)
      : p_(params), s_(shared), lane_(lane) {}

  // Tells the consumers which item is next, their `work`-th, and brings its queries; no sequence: none is.
  __device__ void Announce(uint32_t work, const typename T::Place& place) {
    const uint32_t slot = work % T::kQuerySlots;
    for (int part = 0; part < T::kQueryParts; ++part) {
      WaitEmpty(s_.q_empty[part], work);
      uint64_t* const full = &s_.q_full[part][slot];
      if (lane_ == 0) {
        s_.places[part][slot] = place;
        if (place.sequence < 0) {
          Mbarrier::arrive(full);
        } else {
          Mbarrier::arrive_and_expect_tx(full, T::kQueryBytes / T::kQueryParts);
        }
      }
      __syncwarp();
      if (place.sequence >= 0 && cute::elect_one_sync()) T::CopyQueries(p_, place, part, s_.q[slot], full);
      __syncwarp();
    }
  }

  // The next step: write(step) fills in, by one lane, what its readers look at. item: whose keys it names; start: of
  // its segments.
  template <class Start, class Write>
  __device__ void Publish(const typename T::Place& item, uint32_t flags, const Start& start, const Write& write) {
    typename T::KeyPlace key_place{};
    if constexpr (T::kPacked) {
      if ((flags & (kStepGathered | kStepEnd)) == 0) flags = FindPlaces(p_, item, start, lane_, flags, &key_place);
    }
    WaitEmpty(s_.step_empty, step_);
    if constexpr (T::kPacked) {
      if (lane_ > 0 && lane_ < T::kPieces) {
        s_.key_places[step_ % T::kStepRing][lane_] = key_place;
        Mbarrier::arrive(&s_.step_full[step_ % T::kStepRing]);
      }
    }
    if (lane_ == 0) {
      Step& step = s_.steps[step_ % T::kStepRing];
      write(step);
      step.flags = flags;
      if constexpr (T::kPacked) s_.key_places[step_ % T::kStepRing][0] = key_place;
      Mbarrier::arrive(&s_.step_full[step_ % T::kStepRing]);
    }
    __syncwarp();
    ++step_;
  }

 private:
  const typename T::Params& p_;
  SharedStorage<T>& s_;
  const int lane_;
  uint32_t step_ = 0;  // published so far, over all items
};

}  // namespace headscope::kernels::hopper
