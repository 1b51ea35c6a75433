// SPDX-License-Identifier: Apache-2.0
// What DeepSeek's index chooses where the families' test cannot compare it: equal scores, short rows, rows in passes.
#include "network/token_index.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stop_token>
#include <vector>

#include "base/errors.h"
#include "network/attention.h"

namespace headscope::model {
namespace {

std::vector<int32_t> RowOf(const at::Tensor& chosen, int64_t row) {
  const auto* first = chosen[row].const_data_ptr<int32_t>();
  return {first, first + chosen.size(1)};
}

// One head of one number whose weight is 1: a token's score is its key where that is positive, else 0.
at::Tensor ChosenOf(const std::vector<float>& keys, int64_t rows, int64_t count) {
  const at::Tensor k = at::tensor(keys).unsqueeze(1);
  return ChooseTokens({at::ones({1, rows, 1}), k.narrow(0, k.size(0) - rows, rows).unsqueeze(0), at::ones({1, rows})},
                      k, count, {});
}

TEST(TokenIndex, TakesTheBestAndOfEqualOnesTheFirst) {
  EXPECT_EQ(RowOf(ChosenOf({1, 5, -3, 4, 2}, 1, 3), 0), (std::vector<int32_t>{1, 3, 4}));
  EXPECT_EQ(RowOf(ChosenOf({-1, -5, 3, -4, -2, -7}, 1, 3), 0), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(RowOf(ChosenOf({2, 2, 2, 2}, 1, 2), 0), (std::vector<int32_t>{0, 1}));
}

TEST(TokenIndex, FillsUpRowsThatSeeFewer) {
  const at::Tensor chosen = ChosenOf({1, -2, 3, -4}, 4, 3);
  EXPECT_EQ(RowOf(chosen, 0), (std::vector<int32_t>{0, -1, -1}));
  EXPECT_EQ(RowOf(chosen, 1), (std::vector<int32_t>{0, 1, -1}));
  EXPECT_EQ(RowOf(chosen, 2), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(RowOf(chosen, 3), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(ChosenOf({1, 2}, 2, 8).size(1), 2) << "no more than there are";
}

TEST(TokenIndex, ChoosesTheSameInPasses) {
  constexpr int64_t kTokens = 90, kCount = 16;
  at::manual_seed(3);
  const at::Tensor q = at::randn({3, kTokens, 4}), k = at::randn({1, kTokens, 4}), weights = at::randn({3, kTokens});
  const at::Tensor whole = ChooseTokens({q, k, weights}, k.squeeze(0), kCount, {});
  int64_t first = 0;
  for (const int64_t rows : {37, 1, 29, 23}) {
    const at::Tensor part =
        ChooseTokens({q.narrow(1, first, rows), k.narrow(1, first, rows), weights.narrow(1, first, rows)},
                     k.squeeze(0).narrow(0, 0, first + rows), kCount, {});
    for (int64_t row = 0; row < rows; ++row) EXPECT_EQ(RowOf(part, row), RowOf(whole, first + row)) << first + row;
    first += rows;
  }
}

TEST(TokenIndex, ChoosesAndAttendsTheSameInBlocks) {
  constexpr int64_t kTokens = 90, kRows = 75, kCount = 16, kPast = kTokens - kRows;
  at::manual_seed(4);
  const at::Tensor index_q = at::randn({3, kRows, 4}), index_k = at::randn({1, kTokens, 4}),
                   weights = at::randn({3, kRows});
  const IndexVectors of_pass{index_q, index_k.narrow(1, kPast, kRows), weights};
  const at::Tensor whole = ChooseTokens(of_pass, index_k.squeeze(0), kCount, {});

  const at::Tensor q = at::randn({4, kRows, 8}), k = at::randn({2, kTokens, 8}), v = at::randn({2, kTokens, 5});
  // By the definition, in float64.
  const at::Tensor scores =
      at::matmul(q.to(at::kDouble), k.repeat_interleave(2, 0).transpose(1, 2).to(at::kDouble)).mul(0.3);
  at::Tensor hidden = at::ones({kRows, kTokens}, at::kBool);
  for (int64_t row = 0; row < kRows; ++row) {
    for (const int32_t token : RowOf(whole, row)) {
      if (token >= 0) hidden[row][token] = false;
    }
  }
  const at::Tensor shares = scores.masked_fill(hidden, -std::numeric_limits<double>::infinity()).softmax(-1);
  const at::Tensor defined = at::matmul(shares, v.repeat_interleave(2, 0).to(at::kDouble));

  // Blocks of seven rows and less than one, the last of them of fewer.
  for (const int64_t block_rows : {7, 0}) {
    const at::Tensor chosen =
        ChooseTokens(of_pass, index_k.squeeze(0), kCount, {}, std::max<int64_t>(3 * kTokens * block_rows, 1));
    EXPECT_TRUE(chosen.equal(whole)) << block_rows;
    const int64_t one_head = 100 * block_rows;  // a row's scores and what pads them
    const at::Tensor output =
        AttendSelected(q, k, v, 0.3, whole, /*with_lse=*/false, std::max<int64_t>(one_head, 1)).output;
    EXPECT_LT(output.to(at::kDouble).sub(defined).abs().max().item<double>(), 1e-5) << block_rows;
  }
}

TEST(TokenIndex, StopsBetweenBlocks) {
  std::stop_source stop;
  stop.request_stop();
  const at::Tensor k = at::ones({4, 1});
  EXPECT_THROW(ChooseTokens({at::ones({1, 4, 1}), k.unsqueeze(0), at::ones({1, 4})}, k, 2, stop.get_token()),
               CancelledError);
}

}  // namespace
}  // namespace headscope::model
