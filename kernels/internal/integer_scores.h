// SPDX-License-Identifier: Apache-2.0
// Scores of long rows rounded to whole numbers of 16 bits, with bounds on what rounding changes. CPUs with AVX512-VNNI
// multiply and add two pairs of them in the time of one pair of fp32.
//
// A row is cut into pieces of kPieceComponents. Its scale is such that no piece is longer than kLongestPiece, so that
// the products of a piece's components, all of them or any, sum to less than 2^31 (Cauchy and Schwarz). Pieces are
// added in fp32. Of rows x and y, rounded to x' and y', x.y - x'.y' = (x - x').y + x'.(y - y'), at most
// |x - x'| |y| + |x'| |y - y'|.
#pragma once

#include <cstdint>
#include <vector>

namespace headscope::kernels::internal {

inline constexpr int32_t kPieceComponents = 64;
// With the rounding of 64 components, 4 at most, still below sqrt(2^31).
inline constexpr float kLongestPiece = 46336.0f;

// What multiplies them: vectors of any kind, and an instruction that multiplies and adds.
enum class IntegerUnit : uint8_t { kVectors, kFused };
IntegerUnit BestIntegerUnit();
// Whether it takes less time to choose by rounded scores first than by fp32 alone: with the instruction. By vectors it
// was measured to take more with AVX2 (docs/bench_results.md).
bool IntegerProductsPay();
// Of tests, which run each way on a machine that has it, and on any: in the whole process.
void LimitIntegers(IntegerUnit most);
enum class IntegerUse : uint8_t { kNever, kWherePaying, kAlways };
void UseIntegers(IntegerUse asked);
// Likewise: by how many bits numbers are shorter than they could be, so that rounding matters.
void ShortenIntegers(int32_t bits);

// Of a rounded row: what 1 stands for, at least the row's length and at least what rounding took from it. Not finite
// where the row is not, and its numbers are zeros.
struct RoundedRow {
  float step = 0, length = 0, error = 0;
};
// numbers: [width]. by_powers: steps are powers of two, by which rows of bfloat16's numbers lose less, and often
// nothing; others keep up to one bit less.
RoundedRow RoundRow(const float* row, int32_t width, bool by_powers, int16_t* numbers);

// Rows of numbers, one behind the other: [num_rows, width]. width is even.
struct IntegerRows {
  int32_t width = 0;
  bool by_powers = false;
  std::vector<int16_t> numbers;
  std::vector<RoundedRow> rows;

  void Reserve(int64_t num_rows);
  void Append(const float* row);
  int32_t num_rows() const { return static_cast<int32_t>(rows.size()); }
};

// Up to 64 rows as the columns of a product: [pair of components][column][2].
class IntegerColumns {
 public:
  void Start(int32_t width, bool by_powers);  // without columns
  void Append(const float* row);
  void Finish();  // behind the last
  int32_t width() const { return width_; }
  const std::vector<RoundedRow>& columns() const { return columns_; }
  const int16_t* data() const { return pairs_.data(); }

 private:
  int32_t width_ = 0;
  bool by_powers_ = false;
  int64_t row_step_ = 0;
  std::vector<int16_t> rows_, pairs_;
  std::vector<RoundedRow> columns_;
};

// scores[i * 64 + j] = scale * x_i . y_j, of rows i of [begin, end) from the first on and columns j of [from, 64) with
// `from` a multiple of 16; 0 for columns that are not there.
void ScoreIntegers(const IntegerRows& rows, int32_t begin, int32_t end, const IntegerColumns& columns, int32_t from,
                   float scale, float* scores);

}  // namespace headscope::kernels::internal
