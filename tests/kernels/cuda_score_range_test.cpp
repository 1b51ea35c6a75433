// SPDX-License-Identifier: Apache-2.0
// The CUDA executor where the online softmax has work to do: scores that rise, fall, leap or lie far from zero along
// the keys, in another way for even and odd rows, against float64 on the host. Skipped without a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "cuda_lists.h"
#include "device_array.h"
#include "float_codes.h"
#include "kernels/contiguous.h"
#include "kernels/cuda_executor.h"
#include "kernels/sparse_index.h"
#include "run_seed.h"
#include "support/gpu.h"

namespace headscope::kernels {
namespace {

using testing::DeviceArray;
using testing::MakeLists;
using testing::Pattern;

// What the scores of even rows follow along the keys, in nats; those of odd rows follow the negative.
// Late: nothing until the last tiles of each row. Peaks: leaps of up to 120 nats anywhere. Enormous: scores of up to
// 1e18, whose last bit is worth more than any weight's range, with many equal ones.
enum class Course { kRising, kFalling, kStairs, kSpikes, kFarBelow, kLate, kPeaks, kEnormous };

struct Case {
  Course course;
  int32_t head_dim = 128;
  DType dtype = DType::kBFloat16;
  Pattern pattern = Pattern::kDense;
  ElementRule rule = {MaskKind::kCausal, 0, 0};
  int32_t num_heads = 1;    // all with the same queries and keys; of many, more items than are dealt
  bool unpromised = false;  // the executor is not told that every head keeps everything
  bool with_row_max = false;
};

std::string NameOfCase(const Case& c) {
  const char* const courses[] = {"rising", "falling", "stairs", "spikes", "far_below", "late", "peaks", "enormous"};
  return std::string(courses[static_cast<int>(c.course)]) + "_d" + std::to_string(c.head_dim) +
         (c.dtype == DType::kBFloat16 ? "_bf16_" : "_fp16_") + testing::NameOf(c.pattern) +
         (c.rule.kind == MaskKind::kCausalWindow ? "_window" : "") +
         (c.num_heads > 1 ? "_h" + std::to_string(c.num_heads) : "") + (c.unpromised ? "_unpromised" : "") +
         (c.with_row_max ? "_row_max" : "");
}
void PrintTo(const Case& c, std::ostream* out) {
  *out << NameOfCase(c);
}

// A whole number of at most 255, so that both element types hold it.
float CourseAt(Course course, int32_t key, int32_t num_keys) {
  switch (course) {
    case Course::kRising:
      return std::floor(200.0f * static_cast<float>(key) / static_cast<float>(num_keys)) - 100.0f;
    case Course::kFalling:
      return 100.0f - std::floor(200.0f * static_cast<float>(key) / static_cast<float>(num_keys));
    case Course::kStairs:
      return 25.0f * static_cast<float>(key / 96) - 120.0f;
    case Course::kSpikes:
      return key % 160 == 77 ? 40.0f + static_cast<float>(key / 160) : 0.0f;
    case Course::kFarBelow:
      return -250.0f;
    case Course::kLate:
      return key < num_keys / 2 ? -100.0f : static_cast<float>(key % 128) - 64.0f;
    case Course::kPeaks:
      return static_cast<float>(key * 7919 % 241) - 120.0f;
    case Course::kEnormous:
      return static_cast<float>(key * 7919 % 61) - 30.0f;
  }
  return 0;
}

class CudaScoreRange : public ::testing::TestWithParam<Case> {};

TEST_P(CudaScoreRange, MatchesFloat64) {
  SKIP_WITHOUT_GPU();
  const Case& c = GetParam();
  constexpr int32_t kLength = 900;
  const auto head_dim = static_cast<size_t>(c.head_dim);
  const size_t count = static_cast<size_t>(kLength) * head_dim;
  std::vector<float> q(count), k(count), v(count);
  const uint32_t seed = testing::SeedFor(NameOfCase(c));
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> quarter(-1, 1);
  std::uniform_int_distribution<int> eighth(-15, 15);
  for (size_t i = 0; i < count; ++i) {
    q[i] = static_cast<float>(quarter(random)) / 4;
    k[i] = static_cast<float>(quarter(random)) / 4;
    v[i] = static_cast<float>(eighth(random)) / 8;
  }
  // Scores of 30 * 2^55 = 1e18 come from these alone: fp32 could not hold the rest beside them.
  const bool enormous = c.course == Course::kEnormous;
  if (enormous) std::fill(q.begin(), q.end(), 0.0f);
  const float query_size = enormous ? 0x1p30f : 1.0f, key_size = enormous ? 0x1p25f : 1.0f;
  for (int32_t row = 0; row < kLength; ++row) {
    q[static_cast<size_t>(row) * head_dim] = row % 2 == 0 ? query_size : -query_size;
    k[static_cast<size_t>(row) * head_dim] = CourseAt(c.course, row, kLength) * key_size;
  }
  const auto encode = [&](const std::vector<float>& values) {
    std::vector<uint16_t> codes(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      codes[i] = test::ToCode(values[i], c.dtype);
      EXPECT_EQ(test::FromCode(codes[i], c.dtype), values[i]);  // few bits, so nothing is rounded
    }
    return codes;
  };
  const std::vector<uint16_t> head_codes = encode(q), k_codes = encode(k), v_codes = encode(v);
  const auto num_heads = static_cast<size_t>(c.num_heads);
  std::vector<uint16_t> q_codes;
  for (size_t head = 0; head < num_heads; ++head) q_codes.insert(q_codes.end(), head_codes.begin(), head_codes.end());
  const DeviceArray<uint16_t> device_q(q_codes), device_k(k_codes), device_v(v_codes),
      device_o(std::vector<uint16_t>(num_heads * count, 0x7fff));  // NaN
  const std::vector<float> no_numbers(num_heads * kLength, std::numeric_limits<float>::quiet_NaN());
  const DeviceArray<float> device_lse(no_numbers), device_row_max(no_numbers);

  AttentionProblem problem;
  problem.num_qo_heads = c.num_heads;
  problem.num_kv_heads = 1;
  problem.head_dim = c.head_dim;
  problem.seq_q = problem.seq_k = kLength;
  problem.dtype = c.dtype;
  problem.scale = 1;
  SetContiguousTensors(device_q.get(), device_k.get(), device_v.get(), &problem);
  AttentionOutput output;
  output.o = ContiguousTensor<void>(device_o.get(), problem.num_qo_heads, problem.seq_q, problem.head_dim);
  output.lse = device_lse.get();
  if (c.with_row_max) output.row_max = device_row_max.get();
  const SparseIndex index = MakeLists({1, c.num_heads, kLength, kLength, 0, 128, c.rule}, c.pattern, seed);
  CudaIndexBuffers device_index;
  ASSERT_TRUE(UploadIndex(index.View(), &device_index).ok());
  if (c.unpromised) device_index.view.keeps_everything = false;
  const Status status = AttendCuda(problem, device_index.view, output, nullptr);
  ASSERT_TRUE(status.ok()) << status.message();
  const std::vector<uint16_t> all_o = device_o.Download();
  const std::vector<float> all_lse = device_lse.Download(), all_row_max = device_row_max.Download();

  // The last head's.
  const std::vector<uint16_t> o(all_o.end() - static_cast<int64_t>(count), all_o.end());
  const std::vector<float> lse(all_lse.end() - kLength, all_lse.end());
  const std::vector<float> largest(all_row_max.end() - kLength, all_row_max.end());
  double error = 0;
  double norm = 0;
  for (int32_t row = 0; row < kLength; ++row) {
    std::vector<ColumnRange> ranges;
    AppendKeptRanges(index.View(), 0, c.num_heads - 1, row, &ranges);
    std::vector<std::pair<int32_t, double>> scores;
    double row_max = -std::numeric_limits<double>::infinity();
    for (const ColumnRange& range : ranges) {
      for (auto key = static_cast<int32_t>(range.begin); key < range.end; ++key) {
        double score = 0;
        for (size_t d = 0; d < head_dim; ++d) {
          score += static_cast<double>(q[static_cast<size_t>(row) * head_dim + d]) *
                   static_cast<double>(k[static_cast<size_t>(key) * head_dim + d]);
        }
        scores.emplace_back(key, score);
        row_max = std::max(row_max, score);
      }
    }
    const float got_max = largest[static_cast<size_t>(row)];
    if (!c.with_row_max) {
      ASSERT_TRUE(std::isnan(got_max)) << "nobody asked for the largest score of row " << row;
    } else if (scores.empty()) {
      ASSERT_EQ(got_max, -std::numeric_limits<float>::infinity()) << "row " << row;
    } else {
      ASSERT_NEAR(got_max, row_max, 1e-4 + 1e-6 * std::abs(row_max)) << "row " << row;
    }
    double sum = 0;
    std::vector<double> expected(head_dim, 0.0);
    for (const auto& [key, score] : scores) {
      const double weight = std::exp(score - row_max);
      sum += weight;
      for (size_t d = 0; d < head_dim; ++d) {
        expected[d] += weight * static_cast<double>(v[static_cast<size_t>(key) * head_dim + d]);
      }
    }
    for (size_t d = 0; d < head_dim; ++d) {
      const double want = scores.empty() ? 0.0 : expected[d] / sum;
      const double got = test::FromCode(o[static_cast<size_t>(row) * head_dim + d], c.dtype);
      ASSERT_TRUE(std::isfinite(got)) << "row " << row;
      error += (got - want) * (got - want);
      norm += want * want;
    }
    if (scores.empty()) {
      ASSERT_EQ(lse[static_cast<size_t>(row)], -std::numeric_limits<float>::infinity()) << "row " << row;
    } else {
      // An LSE of 1e18 is only as exact as fp32 is there.
      const double expected_lse = row_max + std::log(sum);
      ASSERT_NEAR(lse[static_cast<size_t>(row)], expected_lse, 2e-3 + (enormous ? 2e-7 * std::abs(expected_lse) : 0.0))
          << "row " << row;
    }
  }
  EXPECT_LE(std::sqrt(error / norm), c.dtype == DType::kBFloat16 ? 5e-3 : 1e-3);
}

std::vector<Case> Cases() {
  constexpr ElementRule kWindow{MaskKind::kCausalWindow, 200, 10};
  std::vector<Case> cases;
  for (const Course course : {Course::kRising, Course::kFalling, Course::kStairs, Course::kSpikes, Course::kFarBelow,
                              Course::kLate, Course::kPeaks}) {
    for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
      cases.push_back({.course = course, .dtype = dtype});
    }
    cases.push_back({.course = course, .pattern = Pattern::kRandom});
    cases.push_back({.course = course, .rule = kWindow});
  }
  for (const int32_t head_dim : {64, 256}) {
    for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
      cases.push_back({.course = Course::kStairs, .head_dim = head_dim, .dtype = dtype});
      cases.push_back({.course = Course::kPeaks, .head_dim = head_dim, .dtype = dtype});
    }
  }
  // Wide items.
  for (const Course course : {Course::kRising, Course::kFalling, Course::kStairs, Course::kSpikes, Course::kFarBelow,
                              Course::kLate, Course::kPeaks}) {
    for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
      cases.push_back({.course = course, .head_dim = 64, .dtype = dtype, .num_heads = 160});
    }
  }
  cases.push_back({.course = Course::kEnormous, .head_dim = 64, .num_heads = 160});
  // fp16 holds no number of that size.
  for (const int32_t head_dim : {64, 128, 256}) cases.push_back({.course = Course::kEnormous, .head_dim = head_dim});
  cases.push_back({.course = Course::kEnormous, .pattern = Pattern::kRandom});
  cases.push_back({.course = Course::kEnormous, .rule = kWindow});
  const size_t count = cases.size();
  for (size_t i = 0; i < count; ++i) {
    Case c = cases[i];
    const bool is_dense = c.pattern == Pattern::kDense && c.rule.kind == MaskKind::kCausal;
    if (c.num_heads == 1) {
      c.with_row_max = true;
      cases.push_back(c);
      c.with_row_max = false;
    }
    if (!is_dense) continue;
    c.unpromised = true;
    cases.push_back(c);
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Table, CudaScoreRange, ::testing::ValuesIn(Cases()),
                         [](const auto& parameter) { return NameOfCase(parameter.param); });

}  // namespace
}  // namespace headscope::kernels
