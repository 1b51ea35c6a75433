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
      "snap-kv", [](P) {}, "it has no GPU kernel");
  expect(
      "dense", [](P) {}, "it has no GPU kernel");
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
  AttentionProblem problem = Step(4, 64, 3000);
  static constexpr float kSinks[8] = {};
  problem.sinks = kSinks;
  problem.v_head_dim = 48;
  const CudaDecodeStep step = StepOf("quest", "budget=320,page_size=16", problem);
  EXPECT_EQ(step.way(), Way::kPages) << step.reason();
  EXPECT_EQ(step.reason(), "");
  EXPECT_EQ(step.NumChosen(problem), 20);
}

// Where estimating costs more than it saves; on the shapes whose times the floor is from.
TEST(CudaDecodeStepFloor, YieldsWhereTheStepIsShort) {
  SKIP_WITHOUT_GPU();
  const auto yields = [](int32_t heads, int32_t kv_heads, int32_t tokens, int32_t batch, bool whole_rows,
                         const char* parameters = "r=32,k=128") {
    AttentionProblem problem = Step(1, 128, tokens);
    problem.num_qo_heads = heads;
    problem.num_kv_heads = kv_heads;
    problem.batch = batch;
    const DecodeMethod& method = *FindDecodeMethod("sparq");
    ParameterValues values(method.spec());
    EXPECT_EQ(values.Parse(method.spec(), parameters), "");
    const CudaDecodeStep always(method, values, problem);
    EXPECT_EQ(always.way(), Way::kTopTokens) << always.reason();
    EXPECT_FALSE(always.YieldsToDense(problem, whole_rows));
    return CudaDecodeStep(method, values, problem, CudaDecodeStep::IfSlower::kYield).YieldsToDense(problem, whole_rows);
  };
  EXPECT_TRUE(yields(32, 8, 4096, 1, false));
  EXPECT_TRUE(yields(32, 8, 16384, 1, false));
  EXPECT_FALSE(yields(32, 8, 32768, 1, false));
  EXPECT_TRUE(yields(32, 8, 32768, 1, true));
  EXPECT_FALSE(yields(32, 8, 131072, 1, true));
  EXPECT_FALSE(yields(32, 8, 8192, 4, false));  // the batch counts, not the length alone
  EXPECT_TRUE(yields(32, 32, 1024, 1, false));
  EXPECT_FALSE(yields(32, 32, 8192, 1, false));
  EXPECT_TRUE(yields(64, 8, 65536, 2, false, "r=32,k=512"));  // merging many kept tokens of eight heads
  EXPECT_FALSE(yields(64, 8, 65536, 2, false));
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

// A step that yields is the dense step, bit for bit, in the workspace of its own way; with more tokens the same call
// chooses, and finds that workspace as it wants it.
TEST(CudaDecodeStepRun, YieldsToTheDenseStep) {
  SKIP_WITHOUT_GPU();
  constexpr int32_t kGroup = 4, kMost = 3000, kDim = 64, kHeads = 2 * kGroup;
  std::mt19937 random(std::random_device{}());
  std::normal_distribution<float> normal;
  std::vector<uint16_t> row(kHeads * kDim), keys(size_t{2} * kMost * kDim);
  for (std::vector<uint16_t>* tensor : {&row, &keys}) {
    for (uint16_t& x : *tensor) x = ToBFloat16(normal(random));
  }
  const DeviceArray<uint16_t> q(row), k(keys), v(keys);
  AttentionProblem problem = Step(kGroup, kDim, kMost);
  SetContiguousTensors(q.get(), k.get(), v.get(), &problem);
  const DecodeMethod& method = *FindDecodeMethod("sparq");
  ParameterValues values(method.spec());
  ASSERT_EQ(values.Parse(method.spec(), "r=32,k=100,reallocate=0"), "");
  const CudaDecodeStep step(method, values, problem, CudaDecodeStep::IfSlower::kYield);
  const CudaDecodeStep chooses(method, values, problem);
  ASSERT_TRUE(step.YieldsToDense(problem, /*whole_rows=*/false));
  const int64_t stride = ComponentStride(kMost);
  const DeviceArray<uint16_t> transposed(ComponentMajorKeys(keys.data(), 2, kMost, kDim, 1));
  const CudaDecodeInputs inputs{.transposed = {transposed.get(), 2 * kDim * stride, kDim * stride, stride}};
  const size_t bytes = step.WorkspaceBytes(problem);
  const DeviceArray<unsigned char> workspace{std::vector<unsigned char>(bytes)};
  const auto run = [&](const auto& of) {
    const DeviceArray<uint16_t> o(std::vector<uint16_t>(row.size(), 0x7fff));
    const Status status = of({{o.get(), kHeads * kDim, kDim, kDim}, nullptr});
    EXPECT_TRUE(status.ok()) << status.message();
    return o.Download();
  };
  const auto by = [&](const CudaDecodeStep& of) {
    return run([&](const AttentionOutput& output) {
      return of.Run(problem, inputs, output, nullptr, workspace.get(), bytes, nullptr);
    });
  };
  const size_t dense_bytes = DecodeWorkspaceBytes(problem, {});
  const DeviceArray<unsigned char> zeros{std::vector<unsigned char>(dense_bytes)};
  const std::vector<uint16_t> dense = run([&](const AttentionOutput& output) {
    return DecodeDenseCuda(problem, output, zeros.get(), dense_bytes, nullptr);
  });
  const std::vector<uint16_t> chosen = by(chooses);
  EXPECT_EQ(by(step), dense);
  EXPECT_EQ(by(chooses), chosen);
  EXPECT_EQ(by(step), dense);
  EXPECT_NE(chosen, dense);
  const DeviceArray<int32_t> tokens(200);
  const DeviceArray<uint16_t> o(row.size());
  const Status status = step.Run(problem, inputs, {{o.get(), kHeads * kDim, kDim, kDim}, nullptr}, tokens.get(),
                                 workspace.get(), bytes, nullptr);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("chosen: this step yields"));
}

TEST(CudaDecodeStepRun, WantsTheListsThatItDoesNotChoose) {
  const Status status = CudaDecodeStep().Run(Step(1, 64, 10), {}, {}, nullptr, nullptr, 0, nullptr);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("inputs.selection is null"));
}

}  // namespace
}  // namespace headscope::kernels
