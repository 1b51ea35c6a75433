// SPDX-License-Identifier: Apache-2.0
// Rows' largest scores beside what cuda_attend_test.cpp compares with float64: scores that are no numbers, calls that
// want no LSE, and the same bits every time. Skipped without a GPU.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "cuda_attend_run.h"
#include "run_seed.h"
#include "support/gpu.h"

namespace headscope::kernels {
namespace {

using testing::AttendCase;
using testing::AttendRun;
using testing::Executor;
using testing::Pattern;
using testing::SeedFor;

class CudaRowMaxCalls : public ::testing::TestWithParam<AttendCase> {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_GPU();
    ASSERT_NO_FATAL_FAILURE(run_.Make(GetParam(), SeedFor("row max calls " + NameOf(GetParam()))));
    run_.AskForRowMax();
  }
  // Every component of a row of one of the problem's tensors becomes NaN.
  void Spoil(const StridedTensor<const void>& tensor, int32_t head, int32_t row) {
    const int64_t size = SizeOf(run_.problem().dtype);
    auto* const first = static_cast<char*>(const_cast<void*>(tensor.data)) +
                        (head * tensor.head_stride + row * tensor.row_stride) * size;
    ASSERT_EQ(cudaMemset(first, 0xff, static_cast<size_t>(run_.problem().head_dim * size)), cudaSuccess);
  }
  // What a head's row keeps.
  std::vector<ColumnRange> KeptBy(int32_t head, int32_t row) const {
    std::vector<ColumnRange> ranges;
    AppendKeptRanges(run_.host_index().View(), 0, head, row, &ranges);
    return ranges;
  }

  AttendRun run_;
};

// A key of the first KV head and a query of the last head are no numbers: so is the largest score of each row that
// keeps that key, and of that query. All others keep their bits.
TEST_P(CudaRowMaxCalls, AreNanWhereAScoreIs) {
  const AttentionProblem& p = run_.problem();
  ASSERT_TRUE(run_.Attend(GetParam().executor).ok());
  const std::vector<float> sound = run_.DownloadRowMax();
  int32_t row_of_key = p.seq_q - 1;
  while (row_of_key > 0 && KeptBy(0, row_of_key).empty()) --row_of_key;
  ASSERT_FALSE(KeptBy(0, row_of_key).empty());
  const ColumnRange range_of_key = KeptBy(0, row_of_key).back();
  const int32_t key = (range_of_key.begin + range_of_key.end) / 2, query = p.seq_q / 2, last_head = p.num_qo_heads - 1;
  ASSERT_NO_FATAL_FAILURE(Spoil(p.k, 0, key));
  ASSERT_NO_FATAL_FAILURE(Spoil(p.q, last_head, query));
  ASSERT_TRUE(run_.Attend(GetParam().executor).ok());
  const std::vector<float> measured = run_.DownloadRowMax();
  int spoilt = 0, whole = 0;
  for (int32_t head = 0; head < p.num_qo_heads; ++head) {
    for (int32_t row = 0; row < p.seq_q; ++row) {
      const std::vector<ColumnRange> kept = KeptBy(head, row);
      const bool meets_key =
          head < p.GroupSize() && std::any_of(kept.begin(), kept.end(), [&](const ColumnRange& range) {
            return range.begin <= key && key < range.end;
          });
      const bool is_query = head == last_head && row == query && !kept.empty();
      const size_t at = AttendRun::kGuardLse + static_cast<size_t>(head * p.seq_q + row);
      if (meets_key || is_query) {
        ASSERT_TRUE(std::isnan(measured[at])) << "row " << row << " of head " << head << ": " << measured[at];
        ++spoilt;
      } else {
        ASSERT_EQ(std::bit_cast<uint32_t>(measured[at]), std::bit_cast<uint32_t>(sound[at]))
            << "row " << row << " of head " << head << ": " << measured[at] << ", was " << sound[at];
        ++whole;
      }
    }
  }
  EXPECT_GT(spoilt, 0);
  EXPECT_GT(whole, 0);
}

// The same bits again, and without an LSE.
TEST_P(CudaRowMaxCalls, DoNotNeedAnLse) {
  ASSERT_TRUE(run_.Attend(GetParam().executor).ok());
  const std::vector<char> o = run_.DownloadO();
  const std::vector<float> row_max = run_.DownloadRowMax();
  ASSERT_TRUE(run_.Attend(GetParam().executor, nullptr, /*with_lse=*/false).ok());
  ASSERT_NO_FATAL_FAILURE(run_.ExpectGuards());
  EXPECT_TRUE(run_.DownloadO() == o);
  EXPECT_EQ(std::memcmp(run_.DownloadRowMax().data(), row_max.data(), row_max.size() * sizeof(float)), 0);
  for (const float value : run_.DownloadLse()) ASSERT_EQ(std::bit_cast<uint32_t>(value), 0xfbfbfbfbu);
}

std::vector<AttendCase> CallCases() {
  std::vector<AttendCase> cases;
  for (const Pattern pattern : {Pattern::kDense, Pattern::kRandom, Pattern::kHalves, Pattern::kColumns}) {
    AttendCase c{.pattern = pattern, .seq_q = 490, .seq_k = 0, .num_qo_heads = 4, .num_kv_heads = 2};
    for (const int32_t head_dim : {64, 128, 192, 256}) {
      c.head_dim = head_dim;
      c.v_head_dim = head_dim == 192 ? 128 : 0;
      for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
        c.dtype = dtype;
        cases.push_back(c);
      }
      c.soft_cap = 5.0f;
      cases.push_back(c);
      c.soft_cap = 0.0f;
    }
    c.highest_sink = 30.0f;
    c.rule = {MaskKind::kCausalWindow, 200, 10};
    c.head_dim = 128;
    c.dtype = DType::kBFloat16;
    cases.push_back(c);
    c.executor = Executor::kSimple;
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      c.dtype = dtype;
      cases.push_back(c);
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Table, CudaRowMaxCalls, ::testing::ValuesIn(CallCases()),
                         [](const auto& parameter) { return NameOf(parameter.param); });

}  // namespace
}  // namespace headscope::kernels
