// SPDX-License-Identifier: Apache-2.0
// Products with weights, by whichever of LibTorch's libraries multiplies them, beside the same product in double.
#include "network/linear.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace headscope::model {
namespace {

constexpr int64_t kIn = 512, kOut = 1024;  // oneDNN's from 128 rows on

// Where the processor is one on which oneDNN is faster, and this LibTorch has it.
bool IsOneDnnsMachine() {
#ifdef __x86_64__
  return at::Context::hasMKLDNN() && !__builtin_cpu_is("intel") && __builtin_cpu_supports("avx512f") != 0;
#else
  return false;
#endif
}

double LargestError(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const at::Tensor exact =
      at::linear(x.to(at::kDouble), weight.to(at::kDouble), bias.defined() ? bias.to(at::kDouble) : at::Tensor());
  const at::Tensor got = Linear(x, weight, bias);
  EXPECT_EQ(got.sizes(), exact.sizes());
  EXPECT_EQ(got.scalar_type(), x.scalar_type());
  return got.to(at::kDouble).sub(exact).abs().max().item<double>();
}

// Sums of 512 products of at most 1/4: rounding leaves some 1e-5 of them.
constexpr double kTolerance = 3e-5;

TEST(Linear, IsTheProductHoweverManyRowsThereAre) {
  const at::Tensor weight = at::rand({kOut, kIn}) - 0.5, bias = at::rand({kOut});
  for (const int64_t rows : {1, 31, 127, 128, 129, 333}) {
    const at::Tensor x = at::rand({rows, kIn}) - 0.5;
    EXPECT_EQ(OneDnnTakes(x, weight), rows >= 128 && IsOneDnnsMachine()) << rows;
    EXPECT_LE(LargestError(x, weight, bias), kTolerance) << rows;
    EXPECT_LE(LargestError(x, weight, {}), kTolerance) << rows << " without a bias";
  }
  const at::Tensor head = at::rand({1 << 17, kIn});
  EXPECT_FALSE(OneDnnTakes(at::rand({1, kIn}), head)) << "a step's only row";
  EXPECT_EQ(OneDnnTakes(at::rand({32, kIn}), head), IsOneDnnsMachine());
}

TEST(Linear, TakesPartsAndTransposesOfTensors) {
  const at::Tensor whole = at::rand({192, 2 * kIn}) - 0.5, weights = at::rand({kIn, 2 * kOut}) - 0.5;
  const at::Tensor x = whole.narrow(1, 7, kIn);
  EXPECT_EQ(OneDnnTakes(x, weights.t().contiguous().narrow(0, 5, kOut)), IsOneDnnsMachine());
  EXPECT_FALSE(OneDnnTakes(x, weights.narrow(1, 3, kOut).t())) << "not contiguous";
  EXPECT_LE(LargestError(x, weights.narrow(1, 3, kOut).t(), {}), kTolerance);
  EXPECT_LE(LargestError(x, weights.t().narrow(0, 5, kOut), {}), kTolerance);
  EXPECT_LE(LargestError(x, weights.t().contiguous().narrow(0, 5, kOut), {}), kTolerance);
}

TEST(Linear, OfBf16StaysBf16) {
  const at::Tensor x = (at::rand({192, kIn}) - 0.5).to(at::kBFloat16);
  const at::Tensor weight = (at::rand({kOut, kIn}) - 0.5).to(at::kBFloat16);
  EXPECT_LE(LargestError(x, weight, {}), 0.05);
}

}  // namespace
}  // namespace headscope::model
