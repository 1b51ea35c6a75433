// SPDX-License-Identifier: Apache-2.0
// Scores of long rows of bfloat16, two components an instruction, on CPUs that have one for it (AVX512-BF16: since
// Zen 4, Cooper Lake), and by their matrix unit where they have one (AMX: since Sapphire Rapids). A product of two such
// numbers is exact in fp32, and sums are fp32: only the order of additions differs from ScoreBlock's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace headscope::kernels::internal {

// Whether this machine's instruction is there. Without it ScoreBFloat16 gives the same numbers, slowly.
bool HasBFloat16Products();

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

// Whether this machine has the scores of fp32 rows faster from parts of bfloat16 than by fp32 products: where it has a
// matrix unit.
bool HasProductsOfParts();

// fp32 rows as the sum of three of bfloat16, which is exact but for numbers below 1e-30.
class BFloat16Parts {
 public:
  BFloat16Parts() = default;
  // rows: [num_rows, width], contiguous.
  BFloat16Parts(const float* rows, int32_t num_rows, int32_t width);
  int32_t num_rows() const { return num_rows_; }
  int32_t width() const { return width_; }
  const uint16_t* part(size_t number) const { return parts_[number].data(); }

 private:
  int32_t num_rows_ = 0, width_ = 0;
  std::array<std::vector<uint16_t>, 3> parts_;
};

// The same as a product's columns.
class BFloat16KeyParts {
 public:
  BFloat16KeyParts() = default;
  explicit BFloat16KeyParts(const BFloat16Parts& rows);
  int32_t num_rows() const { return parts_[0].num_rows(); }
  const BFloat16Keys& part(size_t number) const { return parts_[number]; }

 private:
  std::array<BFloat16Keys, 3> parts_;
};

// As ScoreBFloat16 of rows [first_row, first_row + num_rows), where HasProductsOfParts(): of the nine products of parts
// the six that an fp32 product has room for. width is a multiple of 32; scores of rows up to a multiple of 16 are
// overwritten.
void ScoreInParts(const BFloat16Parts& q, int32_t first_row, int32_t num_rows, const BFloat16KeyParts& keys,
                  int32_t num_keys, float scale, float* scores, int64_t ld);

}  // namespace headscope::kernels::internal
