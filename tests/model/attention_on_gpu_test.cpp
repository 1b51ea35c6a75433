// SPDX-License-Identifier: Apache-2.0
// The default attention of a model on a GPU beside its definition in float64, and what a recorder is handed from there.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <ostream>
#include <thread>
#include <vector>

#include "base/device.h"
#include "base/errors.h"
#include "network/attention.h"
#include "network/pinned_copy.h"
#include "network/torch_runtime.h"

namespace headscope::model {
namespace {

std::optional<c10::Device> Gpu() {
  try {
    return OpenDevice(CudaDevice(0));
  } catch (const Error&) {
    return std::nullopt;
  }
}

struct GpuCase {
  int64_t rows, past, window;  // 0: none
  int64_t head_dim, v_head_dim;
  int64_t heads, kv_heads;
  at::ScalarType type = at::kBFloat16;
};

std::ostream& operator<<(std::ostream& out, const GpuCase& c) {
  return out << c.rows << " rows behind " << c.past << ", window " << c.window << ", " << c.head_dim << " and "
             << c.v_head_dim << ", " << c.heads << ":" << c.kv_heads << " " << c10::toString(c.type);
}

class GpuAttentionTest : public ::testing::TestWithParam<GpuCase> {};

TEST_P(GpuAttentionTest, IsItsDefinition) {
  const std::optional<c10::Device> gpu = Gpu();
  if (!gpu) GTEST_SKIP() << "no GPU";
  const GpuCase& c = GetParam();
  const int64_t tokens = c.past + c.rows, group = c.heads / c.kv_heads;
  const auto random = [&](int64_t heads, int64_t rows, int64_t dim) {
    return at::randn({heads, rows, dim}, at::TensorOptions(at::kFloat)).to(c.type);
  };
  const at::Tensor q = random(c.heads, c.rows, c.head_dim), k = random(c.kv_heads, tokens, c.head_dim),
                   v = random(c.kv_heads, tokens, c.v_head_dim);
  const double scale = 2 / std::sqrt(static_cast<double>(c.head_dim));
  const AttentionResult found = AttendCausal(q.to(*gpu), k.to(*gpu), v.to(*gpu), scale, c.window);

  const auto shared = [&](const at::Tensor& heads) { return heads.to(at::kDouble).repeat_interleave(group, 0); };
  const at::Tensor distance = at::arange(c.past, tokens, at::kLong).unsqueeze(1).sub(at::arange(0, tokens, at::kLong));
  at::Tensor hidden = distance.lt(0);
  if (c.window > 0) hidden = hidden.logical_or_(distance.ge(c.window));
  const at::Tensor scores = at::matmul(q.to(at::kDouble), shared(k).transpose(1, 2))
                                .mul_(scale)
                                .masked_fill_(hidden, -std::numeric_limits<double>::infinity());
  const at::Tensor output = at::matmul(scores.softmax(-1), shared(v)), lse = scores.logsumexp({-1});

  // Shares and outputs are rounded to the type, 2^-9 of each in bf16; sums are in fp32.
  const double of_output = c.type == at::kBFloat16 ? 2e-2 : 1e-4;
  ASSERT_EQ(found.output.sizes(), output.sizes());
  ASSERT_EQ(found.lse.sizes(), lse.sizes());
  EXPECT_LT(found.output.cpu().to(at::kDouble).sub(output).abs().max().item<double>(), of_output);
  EXPECT_LT(found.lse.cpu().to(at::kDouble).sub(lse).abs().max().item<double>(), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Shapes, GpuAttentionTest,
                         ::testing::Values(GpuCase{130, 0, 0, 128, 128, 8, 2},     // a first chunk
                                           GpuCase{257, 333, 0, 64, 64, 8, 8},     // a chunk behind others
                                           GpuCase{100, 1000, 0, 80, 80, 6, 2},    //
                                           GpuCase{1, 1500, 0, 128, 128, 8, 1},    // steps
                                           GpuCase{1, 1500, 100, 64, 64, 14, 2},   //
                                           GpuCase{1, 20, 100, 64, 64, 4, 4},      // a window that hides nothing
                                           GpuCase{257, 300, 64, 128, 128, 4, 2},  //
                                           GpuCase{64, 500, 1, 64, 64, 4, 2},      // a row and its own key
                                           GpuCase{90, 700, 128, 192, 128, 4, 2},  // sizes that differ
                                           GpuCase{50, 70, 0, 256, 256, 2, 1},     //
                                           GpuCase{50, 70, 0, 36, 36, 4, 2},       // sizes that other kernels take
                                           GpuCase{130, 200, 50, 512, 512, 2, 1},  //
                                           GpuCase{130, 200, 0, 64, 64, 4, 2, at::kFloat},
                                           GpuCase{130, 200, 50, 64, 64, 4, 2, at::kFloat}));

// The work before is not over when the copy is asked for, and what is copied is written over right after.
TEST(PinnedCopyTest, HoldsWhatWasThereWhenItWasBegun) {
  const std::optional<c10::Device> gpu = Gpu();
  if (!gpu) GTEST_SKIP() << "no GPU";
  for (int round = 0; round < 5; ++round) {
    at::Tensor slow = at::randn({4096, 4096}, at::TensorOptions(at::kFloat).device(*gpu));
    for (int i = 0; i < 20; ++i) slow = at::matmul(slow, slow).mul_(1e-2);
    at::Tensor numbers = slow.narrow(0, 0, 512).add(at::randn({512, 4096}, slow.options())),
               turned = numbers.transpose(0, 1), codes = numbers.to(at::kBFloat16);
    const at::Tensor expected = numbers.clone(), expected_codes = codes.clone();
    const auto copy = std::make_shared<PinnedCopy>(StreamOfCopies(*gpu));
    const at::Tensor first = copy->Of(numbers), second = copy->Of(turned), third = copy->Of(codes);
    EXPECT_EQ(copy->bytes(), static_cast<int64_t>(2 * numbers.nbytes() + codes.nbytes()));
    copy->Begin();
    codes = at::Tensor();
    const at::Tensor other = at::randn({512, 4096}, at::TensorOptions(at::kBFloat16).device(*gpu));  // in its place?
    copy->Wait();
    EXPECT_TRUE(first.equal(expected.cpu()));
    EXPECT_TRUE(second.is_contiguous() && second.equal(expected.cpu().transpose(0, 1)));
    EXPECT_TRUE(third.equal(expected_codes.cpu()));
    EXPECT_TRUE(other.defined());
  }
}

// As above, of many small tensors; who waits does so before the pass has ended.
TEST(PassCopiesTest, HoldWhatWasThereWhenThePassEnded) {
  const std::optional<c10::Device> gpu = Gpu();
  if (!gpu) GTEST_SKIP() << "no GPU";
  const at::TensorOptions on_gpu = at::TensorOptions(at::kFloat).device(*gpu);
  for (int round = 0; round < 3; ++round) {
    at::Tensor slow = at::randn({4096, 4096}, on_gpu);
    for (int i = 0; i < 20; ++i) slow = at::matmul(slow, slow).mul_(1e-2);
    const auto copies = std::make_shared<PassCopies>(StreamOfCopies(*gpu), int64_t{256} << 10);
    std::vector<at::Tensor> expected;
    std::vector<const void*> places;
    int64_t bytes = 0;
    const auto add = [&](const at::Tensor& values) {
      places.push_back(copies->Of(values));
      expected.push_back(values.contiguous().clone());
      bytes += static_cast<int64_t>(values.nbytes());
    };
    for (int64_t layer = 0; layer < 40; ++layer) {
      add(slow.narrow(0, layer, 1).narrow(1, 0, 3 + layer).add(1).to(at::kBFloat16));  // an odd number of halves
      add(slow.narrow(0, layer, 2).narrow(1, 0, 64));                                  // rows that lie apart
      add(at::arange(5, on_gpu.dtype(at::kInt)));
    }
    add(slow.narrow(0, 0, 100));  // more than a block
    EXPECT_GE(copies->bytes(), bytes);
    EXPECT_LT(copies->bytes(), bytes + 16 * static_cast<int64_t>(places.size()));
    std::thread waiting([&] {
      copies->Wait();
      for (size_t i = 0; i < places.size(); ++i) {
        const at::Tensor there = expected[i].cpu();
        EXPECT_EQ(std::memcmp(places[i], there.const_data_ptr(), there.nbytes()), 0) << i;
        EXPECT_EQ(reinterpret_cast<uintptr_t>(places[i]) % 16, 0u);
      }
    });
    copies->Begin();
    waiting.join();
  }
}

}  // namespace
}  // namespace headscope::model
