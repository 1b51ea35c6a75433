// SPDX-License-Identifier: Apache-2.0
// Copies of quantised keys and values: neighbouring pieces of the images come by one bulk copy; single columns are
// gathered, of V as rows, which the loader warps then transpose.
#pragma once

#include "fp8/fp8_traits.cuh"
#include "hopper/loader.cuh"

namespace headscope::kernels::fp8 {

// What a Loader copies by. T: the traits of one of the FP8 kernels.
template <class T>
class ImageCopies {
 public:
  using Source = hopper::StepSource<T>;

  __device__ ImageCopies(const Fp8Params& params, hopper::SharedStorage<T>& shared, int warp, int lane)
      : p_(params), s_(shared), warp_(warp), lane_(lane) {}

  __device__ void CopyKeys(const Source& source, char* stage, uint64_t* full) const {
    Copy(p_.k_image, stage, full, source);
  }
  __device__ void CopyValues(const Source& source, char* stage, uint64_t* full) const {
    Copy(p_.v_columns, stage, full, source);
  }

  __device__ void GatherKeys(const Source& source, char* stage, uint64_t* full) const {
    SendForRows(source, stage, full);
  }
  __device__ void GatherValues(const Source& source, char* stage, uint64_t* full) const {
    TransposeRows(source, stage, full);
  }

  __device__ void ZeroUnread(const Source& source, char* stage) const {
    const int worker = (warp_ - 1) * 32 + lane_;
    CUTE_UNROLL
    for (int i = 0; i < T::kSegments; ++i) {
      const uint32_t unread = source.unread[i];
      if (unread == 0) continue;
      // Chunk `half` of a component has keys 16 * half to 16 * half + 15 of the piece: as words of four.
      uint32_t keep[2][4];
      CUTE_UNROLL
      for (int word = 0; word < 8; ++word) {
        uint32_t bytes = 0;
        CUTE_UNROLL
        for (int b = 0; b < 4; ++b) bytes |= (unread >> KeyAt(4 * word + b) & 1u) != 0 ? 0u : 0xffu << (8 * b);
        keep[word / 4][word % 4] = bytes;
      }
      CUTE_UNROLL
      for (int half = 0; half < 2; ++half) {
        CUTE_NO_UNROLL
        for (int component = worker; component < kHeadDim; component += 32 * (kLoaderWarps - 1)) {
          auto* const chunk = reinterpret_cast<uint4*>(stage + i * kPieceBytes + component * kPieceTokens +
                                                       ((half ^ component / 4 % 2) << 4));
          uint4 values = *chunk;
          values.x &= keep[half][0];
          values.y &= keep[half][1];
          values.z &= keep[half][2];
          values.w &= keep[half][3];
          *chunk = values;
        }
      }
    }
  }

 private:
  static constexpr int kThreads = 32 * kLoaderWarps;

  // Of all sequences' KV heads.
  __device__ int64_t Head(const Source& source) const {
    return static_cast<int64_t>(source.sequence) * p_.num_kv_heads + source.kv_head;
  }

  __device__ void SendForRows(const Source& source, char* stage, uint64_t* full) const {
    GatherRows(p_.k_image, stage, source);
    cutlass::arch::cpasync_barrier_arrive_noinc(full);
  }

  // A thread takes four keys by four components at a time, the four keys of which are neighbours in the columns.
  __device__ void TransposeRows(const Source& source, char* stage, uint64_t* full) const {
    Meet();  // nobody reads the rows before any more
    GatherRows(p_.v_rows, s_.gathered, source);
    asm volatile("cp.async.wait_all;" ::: "memory");
    Meet();
    const int thread = warp_ * 32 + lane_;
    constexpr int kQuads = T::kTileColumns / 4 * (kHeadDim / 4);
    CUTE_NO_UNROLL
    for (int quad = thread; quad < kQuads; quad += kThreads) {
      const int component = quad % 32 * 4;
      const int place = quad / 32 * 4;  // of the first key, counted over the tile's pieces
      uint32_t rows[4];
      CUTE_UNROLL
      for (int b = 0; b < 4; ++b) {
        const int row = place / 32 * 32 + KeyAt(place % 32 + b);
        rows[b] = *reinterpret_cast<const uint32_t*>(s_.gathered + row * kHeadDim + ((component / 16 ^ row % 8) << 4) +
                                                     component % 16);
      }
      const uint32_t low01 = __byte_perm(rows[0], rows[1], 0x5140), high01 = __byte_perm(rows[0], rows[1], 0x7362);
      const uint32_t low23 = __byte_perm(rows[2], rows[3], 0x5140), high23 = __byte_perm(rows[2], rows[3], 0x7362);
      const uint32_t columns[4] = {__byte_perm(low01, low23, 0x5410), __byte_perm(low01, low23, 0x7632),
                                   __byte_perm(high01, high23, 0x5410), __byte_perm(high01, high23, 0x7632)};
      CUTE_UNROLL
      for (int c = 0; c < 4; ++c) {
        const int row = component + c;
        *reinterpret_cast<uint32_t*>(stage + place / 32 * kPieceBytes + row * kPieceTokens +
                                     ((place % 32 / 16 ^ row / 4 % 2) << 4) + place % 16) = columns[c];
      }
    }
    cutlass::arch::fence_view_async_shared();
    Mbarrier::arrive(full);
  }

  // Issues a step's copies, as one arrival at `full`.
  __device__ void Copy(const uint8_t* image, char* stage, uint64_t* full, const Source& step) const {
    Mbarrier::arrive_and_expect_tx(full, T::kStageBytes);
    const uint8_t* const head = image + Head(step) * p_.k_pieces * kPieceBytes;
    // Behind the last key begin pieces of zeros.
    const auto piece = [&](int i) {
      return head + static_cast<int64_t>((step.start[i] + kPieceTokens - 1) / kPieceTokens) * kPieceBytes;
    };
    if ((step.flags & hopper::kStepWhole) != 0) {
      BulkCopy(piece(0), stage, T::kStageBytes, full);
      return;
    }
    CUTE_UNROLL
    for (int i = 0; i < T::kSegments; ++i) BulkCopy(piece(i), stage + i * kPieceBytes, kPieceBytes, full);
  }

  // Each 16-byte chunk of a row goes to its place under the 128-byte swizzle. Rows behind the last column are zeros.
  __device__ void GatherRows(const uint8_t* image, char* stage, const Source& step) const {
    const int32_t* const columns = p_.index.columns + step.columns;
    const uint8_t* const head = image + Head(step) * p_.k_pieces * kPieceBytes;
    const uint32_t to = cute::cast_smem_ptr_to_uint(stage);
    const int chunk = lane_ % 8;
    // A warp copies four rows at once.
    CUTE_NO_UNROLL
    for (int first = warp_ * 4; first < T::kTileColumns; first += kLoaderWarps * 4) {
      const int row = first + lane_ / 8;
      const bool present = row < step.num_columns;
      const int column = present ? columns[row] : 0;
      const int key = static_cast<int>(min(static_cast<uint32_t>(column), static_cast<uint32_t>(p_.index.seq_k - 1)));
      const uint8_t* const from = head + static_cast<int64_t>(key) * kHeadDim + ((chunk ^ key % 8) << 4);
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                       to + static_cast<uint32_t>(row * kHeadDim + ((chunk ^ row % 8) << 4))),
                   "l"(from), "r"(present ? 16 : 0)
                   : "memory");
    }
  }

  __device__ static void Meet() {
    asm volatile("bar.sync %0, %1;" ::"r"(hopper::kLoaderBarrier), "r"(kThreads) : "memory");
  }

  const Fp8Params& p_;
  hopper::SharedStorage<T>& s_;
  const int warp_;
  const int lane_;
};

}  // namespace headscope::kernels::fp8
