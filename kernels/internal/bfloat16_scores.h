// SPDX-License-Identifier: Apache-2.0
// Scores of long rows of bfloat16, two components an instruction, on CPUs that have one for it (AVX512-BF16: since
// Zen 4, Cooper Lake), and by their matrix unit where they have one (AMX: since Sapphire Rapids). A product of two such
// numbers is exact in fp32, and sums are fp32: only the order of additions differs from ScoreBlock's.
#pragma once

#include <cstdint>
#include <vector>

namespace headscope::kernels::internal {

// What multiplies such numbers, each with all before it.
enum class BFloat16Unit : uint8_t { kNone, kVectors, kTiles };
// The last that this machine has and the limit lets be used.
BFloat16Unit BestBFloat16Unit();
// Of tests, which run each way on a machine that has several: nothing behind `most` is used from now on, in the whole
// process.
void LimitBFloat16(BFloat16Unit most);

// Whether the instruction may be used. Without it ScoreBFloat16 gives the same numbers, slowly.
bool HasBFloat16Products();

// Whether such products take less time than fp32's: by the matrix unit, and by vectors on AMD's. Intel's multiply no
// more pairs a cycle than fp32 numbers, and fewer measured (docs/bench_results.md).
bool BFloat16ProductsPay();

// The rows that are a product's columns (keys, or groups of queries), by panels of kPanelLanes, in pairs of components:
// [panel][pair][row][2].
class BFloat16Keys {
 public:
  BFloat16Keys() = default;
  // rows: [num_rows, width], contiguous; width is even.
  BFloat16Keys(const uint16_t* rows, int32_t num_rows, int32_t width);
  int32_t num_rows() const { return num_rows_; }
  int32_t width() const { return width_; }
  const uint16_t* data() const { return pairs_.data(); }

 private:
  int32_t num_rows_ = 0, width_ = 0;
  std::vector<uint16_t> pairs_;
};

// scores[i * ld + j] = scale * q_i . k_j for i < num_rows and keys j < num_keys; what lies behind these, up to a whole
// panel of 64, is overwritten, so ld is at least num_keys rounded up to 64. q: [num_rows, width], contiguous.
void ScoreBFloat16(const uint16_t* q, int32_t num_rows, const BFloat16Keys& keys, int32_t num_keys, float scale,
                   float* scores, int64_t ld);

}  // namespace headscope::kernels::internal
