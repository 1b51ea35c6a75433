// SPDX-License-Identifier: Apache-2.0
// The loader warps: bring the keys and values that steps name. Neighbouring keys come by the copy engine, sent for by
// one thread; single columns are gathered by all three warps with 16-byte cp.async, into the same stages and under the
// same barriers, so that the consumers see little difference.
#pragma once

#include <cute/arch/cluster_sm90.hpp>

#include "hopper/traits.cuh"

namespace headscope::kernels::hopper {

// What a loader needs of a step.
template <class T>
struct StepSource {
  int32_t start[T::kSegments];
  uint32_t unread[T::kSegments];
  int64_t columns;
  int32_t num_columns;
  int32_t kv_head;
  int32_t sequence;
  uint32_t flags;
  uint32_t number;             // of the step
  typename T::KeyPlace place;  // of packed sequences: of the first key
};

// Where a test holds loader warps up, by a specialisation for the traits of its own kernel. Elsewhere it is nothing.
template <class T>
struct LoaderStall {
  __device__ static void Wait(int /*warp*/, uint32_t /*step*/) {}
};

// Copies moves keys and values of one kind of tensor into a stage:
// - CopyKeys and CopyValues(source, stage, full), by one thread: send for them, as one arrival at `full`;
// - GatherKeys and GatherValues(source, stage, full), by all loader threads: single columns, each thread's arrival;
// - ZeroUnread(source, stage), by the warps that send for nothing: values that came with a segment and belong to keys
//   that nobody asked for become zeros. Their weight is 0, but 0 * NaN is NaN.
template <class T, class Copies>
class Loader {
 public:
  // `warp`: 0 to kLoaderWarps - 1.
  __device__ Loader(const typename T::Params& params, SharedStorage<T>& shared, int warp)
      : s_(shared),
        warp_(warp),
        lane_(static_cast<int>(threadIdx.x) % 32),
        copies_(params, shared, warp, static_cast<int>(threadIdx.x) % 32) {}

  __device__ void Run() {
    // Keys go one step ahead of values: their stage is free half a step earlier, and they are needed first. Only an
    // item's last values do not wait for the step behind them, which may not be known before the item is done.
    //
    // Every warp waits for every stage to be empty and then arrives for itself, whether it brings something or not: a
    // stage is full, and so can be emptied once more, only when all three warps have seen it empty for that step, so
    // that none of them can be overtaken by two uses of a stage and wait for a phase that never comes back.
    StepSource<T> before{.flags = kStepLast};
    for (uint32_t number = 0;; ++number) {
      const StepSource<T> step = Read(number);
      if ((step.flags & kStepEnd) != 0) return;
      LoaderStall<T>::Wait(warp_, number);
      LoadKeys(number, step);
      if ((before.flags & kStepLast) == 0) LoadValues(number - 1, before);
      if ((step.flags & kStepLast) != 0) LoadValues(number, step);
      before = step;
    }
  }

 private:
  __device__ void LoadKeys(uint32_t number, const StepSource<T>& source) {
    const uint32_t stage = number % T::kStages;
    WaitEmpty(s_.k_empty, number);
    __syncwarp();
    if constexpr (T::kReadsLists) {
      if ((source.flags & kStepGathered) != 0) {
        copies_.GatherKeys(source, s_.k[stage], &s_.k_full[stage]);
        return;
      }
    }
    if (cute::elect_one_sync()) {
      if (warp_ == 0) copies_.CopyKeys(source, s_.k[stage], &s_.k_full[stage]);
      ArriveMany(&s_.k_full[stage], warp_ == 0 ? 31 : 32);
    }
    __syncwarp();
  }

  __device__ void LoadValues(uint32_t number, const StepSource<T>& source) {
    BringValues(number, source);
    if (KeepsSteps()) LetGo(number);
  }

  // Of packed sequences whoever copies reads the keys' places in the step, so that it is let go of behind its values.
  // Their boxes are many where pages are small, so that another warp sends for values.
  static constexpr int kValueWarp = T::kPacked ? 1 : 0;
  __device__ bool CopiesBoxes() const { return warp_ <= kValueWarp; }
  __device__ bool KeepsSteps() const { return T::kPacked && CopiesBoxes(); }
  __device__ void LetGo(uint32_t number) {
    if (lane_ == 0) Mbarrier::arrive(&s_.step_empty[number % T::kStepRing]);
  }

  __device__ void BringValues(uint32_t number, const StepSource<T>& source) {
    const uint32_t stage = number % T::kStages;
    WaitEmpty(s_.v_empty, number);
    __syncwarp();
    if constexpr (T::kReadsLists) {
      if ((source.flags & kStepGathered) != 0) {
        copies_.GatherValues(source, s_.v[stage], &s_.v_full[stage]);
        return;
      }
    }
    const bool zero = (source.flags & kStepUnreadValues) != 0;
    if (zero && warp_ != 0) {
      Mbarrier::wait(&s_.v_landed[stage], landed_phases_ >> stage & 1u);
      landed_phases_ ^= 1u << stage;
      copies_.ZeroUnread(source, s_.v[stage]);
      // Each thread for itself, so that no consumer waits for another's zeros.
      cutlass::arch::fence_view_async_shared();
      Mbarrier::arrive(&s_.v_full[stage]);
      return;
    }
    if (cute::elect_one_sync()) {
      const bool copies = warp_ == (zero ? 0 : kValueWarp);
      if (copies) copies_.CopyValues(source, s_.v[stage], zero ? &s_.v_landed[stage] : &s_.v_full[stage]);
      ArriveMany(&s_.v_full[stage], copies && !zero ? 31 : 32);
    }
    __syncwarp();
  }

  // Reads what this warp needs of a step of its kind: nothing but the flags where warp 0 alone has work.
  __device__ StepSource<T> Read(uint32_t number) {
    WaitFull(s_.step_full, number);
    const Step& step = s_.steps[number % T::kStepRing];
    StepSource<T> source{};
    source.flags = FromLane0([&] { return step.flags; });
    const bool gathered = T::kReadsLists && (source.flags & kStepGathered) != 0;
    if (gathered) {
      source.columns = FromLane0([&] { return step.columns; });
      source.num_columns = FromLane0([&] { return step.num_columns; });
    } else if (warp_ == 0) {
      for (int i = 0; !T::kPacked && i < T::kSegments; ++i) source.start[i] = FromLane0([&] { return step.start[i]; });
    } else if ((source.flags & kStepUnreadValues) != 0) {
      for (int i = 0; i < T::kSegments; ++i) source.unread[i] = FromLane0([&] { return step.unread[i]; });
    }
    if constexpr (T::kPacked) {
      source.place.page = FromLane0([&] { return s_.key_places[number % T::kStepRing][0].page; });
      source.place.row = FromLane0([&] { return s_.key_places[number % T::kStepRing][0].row; });
    }
    if (gathered || CopiesBoxes()) {
      source.kv_head = FromLane0([&] { return step.kv_head; });
      source.sequence = FromLane0([&] { return step.sequence; });
    }
    source.number = number;
    if (!KeepsSteps()) LetGo(number);
    __syncwarp();
    return source;
  }

  template <class Get>
  __device__ auto FromLane0(const Get& get) const {
    decltype(get()) value{};
    if (lane_ == 0) value = get();
    return __shfl_sync(kAllLanes, value, 0);
  }

  SharedStorage<T>& s_;
  const int warp_;
  const int lane_;
  Copies copies_;
  uint32_t landed_phases_ = 0;  // bit s: the phase of v_landed[s] that comes next
};

}  // namespace headscope::kernels::hopper
