// SPDX-License-Identifier: Apache-2.0
// One call for every method's step on the GPU: which way a method's steps go, why not by a launch that chooses, and
// that the call is the way's own. Skipped without a GPU, but for what is decided before one is asked for.
#include "kernels/cuda_decode_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "device_array.h"
#include "float_codes.h"
#include "kernels/contiguous.h"
#include "kernels/cpu_executor.h"
#include "kernels/cuda_executor.h"
#include "kernels/sparq_setup.h"
#include "problem_shape.h"
#include "support/gpu.h"

namespace headscope::kernels {
namespace {

using test::FromBFloat16;
using test::ToBFloat16;
using testing::DeviceArray;
using ::testing::HasSubstr;
using Way = CudaDecodeStep::Way;

AttentionProblem Step(int32_t group, int32_t head_dim, int32_t seq_k) {
  return test::ProblemOf({.num_qo_heads = 2 * group,
                          .num_kv_heads = 2,
                          .head_dim = head_dim,
                          .seq_k = seq_k,
                          .first_position = seq_k - 1,
                          .dtype = DType::kBFloat16});
}

CudaDecodeStep StepOf(const char* name, const std::string& parameters, const AttentionProblem& problem) {
  const DecodeMethod& method = *FindDecodeMethod(name);
  ParameterValues values(method.spec());
  EXPECT_EQ(values.Parse(method.spec(), parameters), "");
  return {method, values, problem};
}

TEST(CudaDecodeStepWay, SaysWhyNoLaunchChooses) {
  if (!BuiltWithCuda()) GTEST_SKIP() << "this build has no CUDA";
  const auto expect = [](const char* name, auto change, const char* words) {
    AttentionProblem problem = Step(4, 64, 3000);
    change(&problem);
    const CudaDecodeStep step = StepOf(name, "", problem);
    EXPECT_EQ(step.way(), Way::kSelection) << name;
    EXPECT_THAT(step.reason(), HasSubstr(words)) << name;
    EXPECT_EQ(step.NumChosen(problem), 0);
  };
  using P = AttentionProblem*;
  static constexpr float kSinks[8] = {};
  expect(
      "snap-kv", [](P) {}, "no kernel for GPUs chooses for it");
  expect(
      "dense", [](P) {}, "no kernel for GPUs chooses for it");
  expect(
      "sparq", [](P p) { p->sinks = kSinks; }, "sinks");
  expect(
      "sparq", [](P p) { p->soft_cap = 20; }, "soft_cap");
  expect(
      "sparq", [](P p) { p->v_head_dim = 48; }, "v_head_dim 48");
  expect(
      "sparq", [](P p) { p->head_dim = 192; }, "head_dim 192");
  expect(
      "sparq", [](P p) { p->dtype = DType::kFloat32; }, "dtype fp32");
  expect(
      "sparq", [](P p) { p->window = 100; }, "window is 100");
  expect(
      "quest", [](P p) { p->head_dim = 192; }, "head_dim 192");
  expect(
      "quest", [](P p) { p->window = 100; }, "window is 100");
}

TEST(CudaDecodeStepWay, QuestTakesSinksAndValuesOfOtherSizes) {
  if (!BuiltWithCuda()) GTEST_SKIP() << "this build has no CUDA";
  AttentionProblem problem = Step(4, 64, 3000);
  static constexpr float kSinks[8] = {};
  problem.sinks = kSinks;
  problem.v_head_dim = 48;
  const CudaDecodeStep step = StepOf("quest", "budget=320,page_size=16", problem);
  EXPECT_EQ(step.way(), Way::kPages) << step.reason();
  EXPECT_EQ(step.reason(), "");
  EXPECT_EQ(step.NumChosen(problem), 20);
}

// What each way leaves is attention over what it chose.
TEST(CudaDecodeStepRun, AttendsWhatItsWayChooses) {
  SKIP_WITHOUT_GPU();
  constexpr int32_t kGroup = 4, kTokens = 3000, kDim = 64, kHeads = 2 * kGroup;
  std::mt19937 random(std::random_device{}());
  std::normal_distribution<float> normal;
  std::vector<uint16_t> row(kHeads * kDim), keys(size_t{2} * kTokens * kDim), values(keys.size());
  for (std::vector<uint16_t>* tensor : {&row, &keys, &values}) {
    for (uint16_t& x : *tensor) x = ToBFloat16(normal(random));
  }
  AttentionProblem host = Step(kGroup, kDim, kTokens);
  SetContiguousTensors(row.data(), keys.data(), values.data(), &host);
  const DeviceArray<uint16_t> q(row), k(keys), v(values);
  AttentionProblem problem = host;
  SetContiguousTensors(q.get(), k.get(), v.get(), &problem);
  struct Method {
    const char* name;
    const char* parameters;
    Way way;
  };
  for (const Method& method :
       {Method{"sparq", "r=32,k=100,reallocate=0", Way::kTopTokens},
        Method{"quest", "budget=320,page_size=16", Way::kPages}, Method{"tova", "", Way::kSelection}}) {
    SCOPED_TRACE(method.name);
    const CudaDecodeStep step = StepOf(method.name, method.parameters, problem);
    ASSERT_EQ(step.way(), method.way) << step.reason();
    DecodeSelection selection = WholeCache(problem);
    CudaSelectionBuffers uploaded;
    CudaDecodeInputs inputs;
    const DeviceArray<uint16_t> transposed(ComponentMajorKeys(keys.data(), 2, kTokens, kDim, 1));
    const int64_t stride = ComponentStride(kTokens), of_list = int64_t{(kTokens + 15) / 16} * 2 * kDim;
    const DeviceArray<uint16_t> bounds(2 * of_list);
    if (method.way == Way::kSelection) {
      ASSERT_TRUE(UploadSelection(problem, selection, &uploaded).ok());
      inputs.selection = &uploaded.view;
      EXPECT_TRUE(uploaded.view.dense);
    } else if (method.way == Way::kTopTokens) {
      inputs.transposed = {transposed.get(), 2 * kDim * stride, kDim * stride, stride};
    } else {
      inputs.bounds = {bounds.get(), of_list};
      ASSERT_TRUE(UpdatePageBoundsCuda(problem, 16, 0, inputs.bounds, nullptr).ok());
    }
    const auto num_chosen = static_cast<size_t>(step.NumChosen(problem));
    const DeviceArray<int32_t> chosen(std::vector<int32_t>(2 * num_chosen + 1, -1));
    const size_t bytes = step.WorkspaceBytes(problem, uploaded.view);
    const DeviceArray<unsigned char> workspace{std::vector<unsigned char>(bytes + 1)};
    const DeviceArray<uint16_t> o(std::vector<uint16_t>(row.size(), 0x7fff));
    const Status status = step.Run(problem, inputs, {{o.get(), kHeads * kDim, kDim, kDim}, nullptr}, chosen.get(),
                                   workspace.get(), bytes, nullptr);
    ASSERT_TRUE(status.ok()) << status.message();
    if (num_chosen > 0) {
      const std::vector<int32_t> numbers = chosen.Download();
      selection.page_size = method.way == Way::kPages ? 16 : 1;
      selection.pages.assign(numbers.begin(), numbers.end() - 1);
      selection.page_begin = {0, static_cast<int64_t>(num_chosen), static_cast<int64_t>(2 * num_chosen)};
    }
    std::vector<float> expected(row.size()), lse(kHeads);
    ASSERT_TRUE(DecodeReference(host, selection, {{expected.data(), kHeads * kDim, kDim, kDim}, lse.data()}).ok());
    double difference = 0, norm = 0;
    const std::vector<uint16_t> got = o.Download();
    for (size_t i = 0; i < got.size(); ++i) {
      const auto want = static_cast<double>(expected[i]);
      difference += std::pow(static_cast<double>(FromBFloat16(got[i])) - want, 2);
      norm += want * want;
    }
    EXPECT_LE(std::sqrt(difference), 6e-3 * std::sqrt(norm));
  }
}

TEST(CudaDecodeStepRun, WantsTheListsThatItDoesNotChoose) {
  if (!BuiltWithCuda()) GTEST_SKIP() << "this build has no CUDA";
  const Status status = CudaDecodeStep().Run(Step(1, 64, 10), {}, {}, nullptr, nullptr, 0, nullptr);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("inputs.selection is null"));
}

}  // namespace
}  // namespace headscope::kernels
