// SPDX-License-Identifier: Apache-2.0
// Products with weights, by whichever of LibTorch's libraries multiplies them, beside the same product in double.
#include "network/linear.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace headscope::model {
namespace {

constexpr int64_t kIn = 160, kOut = 192;  // a weight large enough for oneDNN

double LargestError(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const at::Tensor exact =
      at::linear(x.to(at::kDouble), weight.to(at::kDouble), bias.defined() ? bias.to(at::kDouble) : at::Tensor());
  const at::Tensor got = Linear(x, weight, bias);
  EXPECT_EQ(got.sizes(), exact.sizes());
  EXPECT_EQ(got.scalar_type(), x.scalar_type());
  return got.to(at::kDouble).sub(exact).abs().max().item<double>();
}

TEST(Linear, IsTheProductHoweverManyRowsThereAre) {
  const at::Tensor weight = at::rand({kOut, kIn}) - 0.5, bias = at::rand({kOut});
  for (const int64_t rows : {1, 15, 16, 17, 333}) {
    const at::Tensor x = at::rand({rows, kIn}) - 0.5;
    EXPECT_LE(LargestError(x, weight, bias), 1e-5) << rows;
    EXPECT_LE(LargestError(x, weight, {}), 1e-5) << rows << " without a bias";
  }
}

TEST(Linear, TakesPartsAndTransposesOfTensors) {
  const at::Tensor whole = at::rand({64, 2 * kIn}) - 0.5, weights = at::rand({kIn, 2 * kOut}) - 0.5;
  const at::Tensor x = whole.narrow(1, 7, kIn);
  EXPECT_LE(LargestError(x, weights.narrow(1, 3, kOut).t(), {}), 1e-5);
  EXPECT_LE(LargestError(x, weights.t().narrow(0, 5, kOut), {}), 1e-5);
  EXPECT_LE(LargestError(x, weights.t().contiguous().narrow(0, 5, kOut), {}), 1e-5);
}

TEST(Linear, OfBf16StaysBf16) {
  const at::Tensor x = (at::rand({64, kIn}) - 0.5).to(at::kBFloat16);
  const at::Tensor weight = (at::rand({kOut, kIn}) - 0.5).to(at::kBFloat16);
  EXPECT_LE(LargestError(x, weight, {}), 0.05);
}

}  // namespace
}  // namespace headscope::model
