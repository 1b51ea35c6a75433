// SPDX-License-Identifier: Apache-2.0
// The write side of a decode step: a cache that grows token by token, its component-major copy and the running mean of
// V, against the whole cache transposed and averaged at once. What lies around them must stay as it was.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "device_array.h"
#include "float_codes.h"
#include "kernels/cuda_decode.h"
#include "run_seed.h"
#include "support/gpu.h"

namespace headscope::kernels {
namespace {

using testing::DeviceArray;

struct Case {
  DType dtype;
  int32_t head_dim;
  bool keys;  // whether the copy of K is kept
  bool mean;  // whether the mean of V is
};

class CudaAppendToken : public ::testing::TestWithParam<Case> {};

TEST_P(CudaAppendToken, GrowsAsTheWholeCacheSays) {
  SKIP_WITHOUT_GPU();
  const Case& c = GetParam();
  constexpr int32_t kBatch = 2, kHeads = 3, kTokens = 75, kCapacity = 80;
  constexpr int64_t kPad = 8;  // between heads, of every tensor
  const int64_t dim = c.head_dim;
  const bool bf16 = c.dtype == DType::kBFloat16;
  const auto encode = bf16 ? test::ToBFloat16 : test::ToFloat16;
  const auto decode = bf16 ? test::FromBFloat16 : test::FromFloat16;
  std::mt19937 random(testing::FreshSeed());
  std::normal_distribution<float> normal(0.5f, 1.0f);

  const int64_t head = kCapacity * dim + kPad, all = kBatch * kHeads * head;
  std::vector<uint16_t> k(static_cast<size_t>(all)), v(k.size());
  for (uint16_t& x : k) x = encode(normal(random));
  for (uint16_t& x : v) x = encode(normal(random));
  constexpr uint16_t kGuard = 0x7abc;
  const DeviceArray<uint16_t> keys(k), values(v), transposed(std::vector<uint16_t>(k.size(), kGuard));
  const DeviceArray<float> mean(std::vector<float>(static_cast<size_t>(kBatch * kHeads * dim + kPad), 0.0f));

  AttentionProblem problem;
  problem.batch = kBatch;
  problem.num_qo_heads = 2 * kHeads;
  problem.num_kv_heads = kHeads;
  problem.head_dim = c.head_dim;
  problem.seq_q = 1;
  problem.dtype = c.dtype;
  problem.k = {keys.get(), kHeads * head, head, dim};
  problem.v = {values.get(), kHeads * head, head, dim};
  const TransposedKeys layout{c.keys ? transposed.get() : nullptr, kHeads * head, head, kCapacity};
  for (int32_t token = 0; token < kTokens; ++token) {
    problem.seq_k = token + 1;
    problem.first_position = token;
    const Status status = AppendTokenCuda(problem, layout, c.mean ? mean.get() : nullptr, nullptr);
    ASSERT_TRUE(status.ok()) << status.message();
  }

  const std::vector<uint16_t> copy = transposed.Download();
  const std::vector<float> means = mean.Download();
  std::vector<uint16_t> expected(k.size(), kGuard);
  for (int64_t list = 0; list < kBatch * kHeads; ++list) {
    for (int64_t d = 0; d < dim; ++d) {
      double sum = 0;
      for (int64_t token = 0; token < kTokens; ++token) {
        const auto at = static_cast<size_t>(list * head + token * dim + d);
        if (c.keys) expected[static_cast<size_t>(list * head + d * kCapacity + token)] = k[at];
        sum += static_cast<double>(decode(v[at]));
      }
      // A running mean in fp32 rounds once or twice a token, each time by at most 2^-24 of a value below 8.
      const double wanted = c.mean ? sum / kTokens : 0.0;
      EXPECT_NEAR(means[static_cast<size_t>(list * dim + d)], wanted, 1e-5) << "list " << list << ", component " << d;
    }
  }
  EXPECT_EQ(copy, expected);
  for (size_t i = static_cast<size_t>(kBatch * kHeads * dim); i < means.size(); ++i) EXPECT_EQ(means[i], 0.0f);
}

INSTANTIATE_TEST_SUITE_P(Table, CudaAppendToken,
                         ::testing::Values(Case{DType::kBFloat16, 128, true, true},
                                           Case{DType::kFloat16, 64, true, true},
                                           Case{DType::kBFloat16, 64, true, false},
                                           Case{DType::kFloat16, 128, false, true}),
                         [](const auto& at) {
                           const Case& c = at.param;
                           return std::string(c.dtype == DType::kBFloat16 ? "bf16" : "fp16") + "_d" +
                                  std::to_string(c.head_dim) + (c.keys ? "_keys" : "") + (c.mean ? "_mean" : "");
                         });

}  // namespace
}  // namespace headscope::kernels
