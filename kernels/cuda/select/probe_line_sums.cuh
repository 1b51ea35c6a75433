// SPDX-License-Identifier: Apache-2.0
// The probe's sums along columns and diagonals.
#pragma once

#include <cuda_runtime.h>

#include "select/probe_scores.cuh"

namespace headscope::kernels::selection {

// Column and diagonal sums of one warp strip.
//
// Diagonals: let key group g be the g-th 8 keys of the strip. A lane's value of row group n and key group g lies on
// diagonal 8 (n - g) + (2 j + e) - i with i = lane / 4, j = lane % 4. Register n collects class n - g: when the next
// key group comes, every register moves up one place, and what leaves at the top is complete. 8 neighbouring diagonals
// 8 b .. 8 b + 7 take their values from class b where 2 j + e >= i and from class b + 1 elsewhere; three exchanges
// along lines of equal (2 j + e - i) mod 8 add up the eight keys. Two key groups share them: in the first exchange a
// lane keeps one group's values and gives the other's away.
class LineSums {
 public:
  __device__ LineSums(const ProbeParams& params, const UnitRows& rows, int64_t unit, int32_t warp_strip)
      : p_(params),
        lane_(static_cast<int>(threadIdx.x) % 32),
        columns_(params.columns + unit * params.column_pitch),
        slashes_(params.slashes + (unit * params.NumWarpStrips() + warp_strip) * params.slash_pitch),
        low_(HighestSlash(rows, warp_strip * params.keys_per_warp) - 7) {
#pragma unroll
    for (int n = 0; n < kRowGroups; ++n) class_[n][0] = class_[n][1] = 0;
    left_[0] = left_[1] = 0;
  }

  // Probabilities of keys [key, key + kTileKeys).
  __device__ __forceinline__ void Add(int32_t key, const float (&p)[kRowGroups][4]) {
    float columns[2];
    float2 slashes[2];
#pragma unroll
    for (int g = 0; g < 2; ++g) {
      float2 column{0, 0};
#pragma unroll
      for (int n = 0; n < kRowGroups; ++n) {
        column.x += p[n][2 * g];
        column.y += p[n][2 * g + 1];
        class_[n][0] += p[n][2 * g];
        class_[n][1] += p[n][2 * g + 1];
      }
      columns[g] = column.x + column.y;
      slashes[g] = TakeCompleted();
    }
    if (!p_.stripes) {
      StoreColumns(key, columns);
      StoreSlashes(slashes);
      return;
    }
    column_stripe_ += columns[0] + columns[1];
    stripe_open_ = true;
    if ((key / kTileKeys) % (kStripe / kTileKeys) == kStripe / kTileKeys - 1) StoreColumnStripe(key);
    AddToSlashStripe(slashes[0]);
    AddToSlashStripe(slashes[1]);
  }

  // After the strip's last keys; `key` is one of the last tile's.
  __device__ __forceinline__ void Finish(int32_t key) {
#pragma unroll 1
    for (int g = 0; g < kRowGroups; g += 2) {
      const float2 slashes[2] = {TakeCompleted(), TakeCompleted()};
      if (p_.stripes) {
        AddToSlashStripe(slashes[0]);
        AddToSlashStripe(slashes[1]);
      } else {
        StoreSlashes(slashes);
      }
    }
    if (!p_.stripes) return;
    if (stripe_open_) StoreColumnStripe(key);
    StoreSlashStripe();
    for (int slot = slash_slot_ + lane_; slot < p_.slash_pitch; slot += 32) slashes_[slot] = 0;
  }

 private:
  // Ends a key group: its 8 complete diagonals leave, the classes move up.
  __device__ __forceinline__ float2 TakeCompleted() {
    const int i = lane_ / 4;
    const int j = lane_ % 4;
    float(&top)[2] = class_[kRowGroups - 1];
    const float2 completed = {2 * j >= i ? top[0] : left_[0], 2 * j + 1 >= i ? top[1] : left_[1]};
    left_[0] = top[0];
    left_[1] = top[1];
#pragma unroll
    for (int n = kRowGroups - 1; n > 0; --n) {
      class_[n][0] = class_[n - 1][0];
      class_[n][1] = class_[n - 1][1];
    }
    class_[0][0] = class_[0][1] = 0;
    return completed;
  }

  // Lanes with j < 2 hold key group j in the end.
  __device__ __forceinline__ void StoreColumns(int32_t key, const float (&columns)[2]) {
    const int j = lane_ % 4;
    const bool odd = j % 2 != 0;
    float sum = odd ? columns[1] : columns[0];
    sum += __shfl_xor_sync(kFullWarp, odd ? columns[0] : columns[1], 1);
    sum += __shfl_xor_sync(kFullWarp, sum, 2);
    const int32_t at = key + 8 * j + lane_ / 4;
    if (j < 2 && at < p_.column_pitch) columns_[at] = sum;
  }

  // Lanes with i < 4 keep the first key group, those with i >= 4 the second.
  __device__ __forceinline__ void StoreSlashes(const float2 (&slashes)[2]) {
    const int i = lane_ / 4;
    const int j = lane_ % 4;
    const bool second = i >= 4;
    const bool odd = i % 2 != 0;
    float2 sum = second ? slashes[1] : slashes[0];
    const float2 given = second ? slashes[0] : slashes[1];
    sum.x += __shfl_xor_sync(kFullWarp, given.x, 18);  // i ^ 4, j ^ 2
    sum.y += __shfl_xor_sync(kFullWarp, given.y, 18);
    const int two_on = (i ^ 2) * 4 + ((j + ((i & 2) != 0 ? 3 : 1)) & 3);
    sum.x += __shfl_sync(kFullWarp, sum.x, two_on);
    sum.y += __shfl_sync(kFullWarp, sum.y, two_on);
    // One key on is the other of the lane's two rows, or the first or second row of the neighbour.
    const float near = __shfl_xor_sync(kFullWarp, odd ? sum.y : sum.x, 4);
    const float far = __shfl_sync(kFullWarp, odd ? sum.x : sum.y, (i ^ 1) * 4 + ((j + (odd ? 3 : 1)) & 3));
    // Lanes with i = 0 and i = 4 hold diagonals 2 j - i and the next, modulo 8; the higher lies first.
    if (i % 4 == 0) {
      const int up = (2 * j - i) & 7;
      *reinterpret_cast<float2*>(slashes_ + slash_slot_ + 2 * i + 6 - up) = {sum.y + far, sum.x + near};
    }
    slash_slot_ += 16;
  }

  __device__ __forceinline__ float WarpSum(float sum) const {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(kFullWarp, sum, offset);
    return sum;
  }

  __device__ __forceinline__ void StoreColumnStripe(int32_t key) {
    const float sum = WarpSum(column_stripe_);
    if (lane_ == 0) columns_[key / kStripe] = sum;
    column_stripe_ = 0;
    stripe_open_ = false;
  }

  // Diagonals low_ .. low_ + 7 in the lanes: the lane's are 2 j - i and the next, modulo 8. They reach into two stripes
  // or end one every 16 key groups.
  __device__ __forceinline__ void AddToSlashStripe(float2 slashes) {
    const int left = kStripe - (low_ & (kStripe - 1));  // of low_'s stripe, from low_ on
    if (left >= 8 && left < kStripe) {
      slash_stripe_ += slashes.x + slashes.y;
    } else {
      const int up = lane_ % 4 * 2 - lane_ / 4;
      const bool x_above = (up & 7) >= left || left == kStripe;
      const bool y_above = ((up + 1) & 7) >= left || left == kStripe;
      slash_stripe_ += (x_above ? slashes.x : 0.0f) + (y_above ? slashes.y : 0.0f);
      StoreSlashStripe();
      slash_stripe_ = (x_above ? 0.0f : slashes.x) + (y_above ? 0.0f : slashes.y);
    }
    low_ -= 8;
  }

  __device__ __forceinline__ void StoreSlashStripe() {
    const float sum = WarpSum(slash_stripe_);
    if (lane_ == 0 && slash_slot_ < p_.slash_pitch) slashes_[slash_slot_] = sum;
    slash_stripe_ = 0;
    ++slash_slot_;
  }

  const ProbeParams& p_;
  const int lane_;
  float* const columns_;
  float* const slashes_;
  int32_t low_;             // the lowest of the diagonals that are complete next
  int32_t slash_slot_ = 0;  // where the next diagonals, or their stripe, are stored
  float column_stripe_ = 0;
  float slash_stripe_ = 0;
  bool stripe_open_ = false;  // column_stripe_ holds something that is not stored
  float class_[kRowGroups][2];
  float left_[2];
};

}  // namespace headscope::kernels::selection
