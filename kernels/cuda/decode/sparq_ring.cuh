// The stream of key rows: every thread has a ring of its own in shared memory, filled by asynchronous copies of its own
// tokens, past the end of an item into the next one. So memory has requests while a block selects and attends, and
// threads neither wait for each other nor need barriers to read what they themselves requested.
#pragma once

#include "decode/sparq_shared.cuh"
#include "decode/tensor_core.cuh"

namespace headscope::kernels::decode {

// Waits until at most `pending` of the newest groups of asynchronous copies are under way.
__device__ __forceinline__ void WaitForGroups(int pending) {
  static_assert(kMaxBatches == 2);
  if (pending > 0) {  // the instruction wants a constant
    asm volatile("cp.async.wait_group 1;" ::: "memory");
  } else {
    asm volatile("cp.async.wait_group 0;" ::: "memory");
  }
}

// Waits for all of the thread's asynchronous copies, those in no group yet among them.
__device__ __forceinline__ void WaitForCopies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// Where a thread's tokens of an item lie.
template <typename T>
struct KeySource {
  const T* from;  // the first of them in component 0
  bool live[2];   // whether the item has tokens of a piece; rows are padded to multiples of 8
  const int* component;

  __device__ __forceinline__ explicit KeySource(const SpanView& view)
      : from(static_cast<const T*>(view.p.kt) + view.Sequence() * view.p.kt_batch + view.KvHead() * view.p.kt_head +
             view.first + PlaceInSpan(0, 0)),
        live{PlaceInSpan(0, 0) < view.tokens, PlaceInSpan(1, 0) < view.tokens},
        component(view.choice.component) {}
};

// plan.batches batches of kBatchRows rows. A batch is used and then requested anew, in a circle.
template <typename T>
class KeyRing {
 public:
  using Source = KeySource<T>;

  __device__ __forceinline__ KeyRing(const SparqPlan& plan, char* shared)
      : mine_(shared + plan.ring + threadIdx.x * 16), batches_(plan.batches) {}

  // Requests rows row .. row + kBatchRows - 1 into the present batch.
  __device__ __forceinline__ void Request(const KeySource<T>& source, int row, int64_t kt_component) {
#pragma unroll
    for (int r = 0; r < kBatchRows; ++r) {
      const T* from = source.from + source.component[row + r] * kt_component;
#pragma unroll
      for (int piece = 0; piece < 2; ++piece) {
        if (source.live[piece]) CopyAsync(Place(r, piece), from + piece * 8 * kSparqThreads);
      }
    }
  }
  // Closes the request, if there was any, and goes on to the next batch, the oldest.
  __device__ __forceinline__ void Advance() {
    asm volatile("cp.async.commit_group;" ::: "memory");
    if (++batch_ == batches_) batch_ = 0;
  }
  // The present batch, once it has arrived. A dead piece is whatever shared memory held.
  __device__ __forceinline__ void Take(uint4 (&raw)[kBatchRows][2]) const {
    WaitForGroups(batches_ - 1);
#pragma unroll
    for (int r = 0; r < kBatchRows; ++r) {
#pragma unroll
      for (int piece = 0; piece < 2; ++piece) raw[r][piece] = *reinterpret_cast<const uint4*>(Place(r, piece));
    }
  }
  // Requests the first item's first batches.
  __device__ __forceinline__ void Begin(const SparqPlan&, const KeySource<T>& source, int64_t kt_component) {
    for (int batch = 0; batch < batches_; ++batch) {
      Request(source, batch * kBatchRows, kt_component);
      Advance();
    }
  }
  // Calls use(row, raw) for all batches of an item of plan.rows rows and requests what comes behind them. prepare() is
  // called once before the first request of `next`: as late as there are a ring's requests under way, for what it does
  // then costs no time. What the thread had requested before the stream has then arrived.
  template <typename Use, typename Prepare>
  __device__ __forceinline__ void Stream(const SparqParams& p, const KeySource<T>& source, const KeySource<T>& next,
                                         bool has_next, Use&& use, Prepare&& prepare) {
    const int rows = p.plan.rows, ahead = batches_ * kBatchRows;
    const int prepared = min(ahead, rows - ahead);
#pragma unroll 1
    for (int row = 0; row < rows; row += kBatchRows) {
      uint4 raw[kBatchRows][2];
      Take(raw);
      use(row, raw);
      if (row == prepared && has_next) {
        if (prepared < ahead) WaitForCopies();  // else the batch taken was requested later
        prepare();
      }
      if (row + ahead < rows) {
        Request(source, row + ahead, p.kt_component);
      } else if (has_next) {
        Request(next, row + ahead - rows, p.kt_component);
      }
      Advance();
    }
  }

 private:
  __device__ __forceinline__ char* Place(int r, int piece) const {
    return mine_ + ((batch_ * kBatchRows + r) * 2 + piece) * kSparqThreads * 16;
  }

  char* mine_;
  int batches_, batch_ = 0;
};

}  // namespace headscope::kernels::decode
