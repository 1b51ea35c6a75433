// SPDX-License-Identifier: Apache-2.0
// Calls of the GPU selectors rather than what they keep: in a CUDA graph and one behind the other (skipped without a
// GPU), and refusals, which need none.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cuda_select_run.h"
#include "kernels/cuda_select.h"
#include "kernels/method.h"
#include "random_problem.h"
#include "support/gpu.h"

namespace headscope::kernels {
namespace {

using testing::DeviceTensor;
using testing::GpuSelection;
using ::testing::HasSubstr;
using testing::OnDevice;
using testing::RandomProblem;
using testing::SelectorOf;
using testing::TakenByCuda;
using testing::Values;
using testing::WithCudaSelector;

using Setting = std::pair<std::string, std::string>;  // a method and its parameters

// Of so many keys XAttention's products are made by pairs of blocks, and FlexPrefill's cuts found by clusters.
constexpr test::ProblemShape kManyKeys{1, 2, 1, 64, 1536, 67072, 65536, DType::kBFloat16};
const std::vector<Setting>& SettingsOfManyKeys() {
  static const std::vector<Setting> settings = {{"x-attention", "tau=0.3,stride=8"},
                                                {"flex-prefill", "gamma=0.3,tau=0,min_budget=0,form=code"},
                                                {"flex-prefill", "gamma=0.3,tau=1,min_budget=0,form=code"}};
  return settings;
}

void ExpectGraphReplays(const test::ProblemShape& shape, const std::vector<Setting>& settings) {
  std::mt19937 random(7);
  const RandomProblem problem(shape, &random);
  const DeviceTensor q(problem.q.View(), 1);
  const DeviceTensor k(problem.k.View(), 1);
  const AttentionProblem device = OnDevice(problem.View(), q, k);
  for (const auto& [method, parameters] : settings) {
    SCOPED_TRACE(method + ":" + parameters);
    const ParameterValues values = Values(method, parameters);
    GpuSelection selection(method, device, values);
    const SparseIndex expected = selection.host();
    cudaStream_t stream = nullptr;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    selection.Run(method, device, values, stream);
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    selection.Forget();
    ASSERT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    selection.Download();
    EXPECT_EQ(selection.host().runs, expected.runs);
    EXPECT_EQ(selection.host().columns, expected.columns);
    EXPECT_EQ(selection.host().run_count, expected.run_count);
    EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  }
}

TEST(CudaSelectGraph, ReplaysInACudaGraph) {
  SKIP_WITHOUT_GPU();
  std::vector<Setting> settings;
  for (const std::string& method : WithCudaSelector()) settings.emplace_back(method, TakenByCuda(method));
  ExpectGraphReplays({1, 4, 2, 128, 2000, 2000, 0, DType::kBFloat16}, settings);
}
TEST(CudaSelectGraph, ReplaysWithSoManyKeysThatClustersTakeThem) {
  SKIP_WITHOUT_GPU();
  ExpectGraphReplays(kManyKeys, SettingsOfManyKeys());
}

// A selection's launches overlap at their ends. Those of the next one, in the same memory, must not reach into it.
void ExpectNoMixing(const test::ProblemShape& shape, const std::vector<Setting>& settings) {
  std::mt19937 random(11);
  const RandomProblem problems[2] = {{shape, &random}, {shape, &random}};
  const DeviceTensor q[2] = {{problems[0].q.View(), 1}, {problems[1].q.View(), 1}};
  const DeviceTensor k[2] = {{problems[0].k.View(), 1}, {problems[1].k.View(), 1}};
  const AttentionProblem device[2] = {OnDevice(problems[0].View(), q[0], k[0]),
                                      OnDevice(problems[1].View(), q[1], k[1])};
  for (const auto& [method, parameters] : settings) {
    SCOPED_TRACE(method + ":" + parameters);
    const ParameterValues values = Values(method, parameters);
    GpuSelection selection(method, device[0], values);
    const SparseIndex expected[2] = {selection.host(), GpuSelection(method, device[1], values).host()};
    ASSERT_NE(expected[0].runs, expected[1].runs);
    for (const int last : {0, 1}) {
      for (int round = 0; round < 20; ++round) {
        selection.Run(method, device[1 - last], values, nullptr);
        selection.Run(method, device[last], values, nullptr);
      }
      selection.Download();
      EXPECT_EQ(selection.host().runs, expected[last].runs);
      EXPECT_EQ(selection.host().columns, expected[last].columns);
    }
  }
}

TEST(CudaSelectCalls, FollowEachOtherInTheSameMemory) {
  SKIP_WITHOUT_GPU();
  ExpectNoMixing({1, 4, 2, 128, 3000, 3000, 0, DType::kBFloat16},
                 {{"vertical-slash", "n_vertical=50,n_slash=20"},
                  {"block-sparse", "n_blocks=5"},
                  {"sample-attention", "alpha_c=0.3,alpha_s=0.3"},
                  {"x-attention", "tau=0.3"},
                  {"sparge-attn", "tau=0.4,theta=0.005"},
                  {"flex-prefill", "gamma=0.3,tau=1,min_budget=0,form=code"}});
}
TEST(CudaSelectCalls, FollowEachOtherWithSoManyKeysThatClustersTakeThem) {
  SKIP_WITHOUT_GPU();
  ExpectNoMixing(kManyKeys, SettingsOfManyKeys());
}

// A method that goes by the layer does so on the GPU as well.
TEST(CudaSelectCalls, KeepInEveryLayerWhatTheCpuKeeps) {
  SKIP_WITHOUT_GPU();
  std::mt19937 random(13);
  const RandomProblem problem({1, 4, 2, 128, 700, 700, 0, DType::kBFloat16}, &random);
  const DeviceTensor q(problem.q.View(), 1);
  const DeviceTensor k(problem.k.View(), 1);
  for (const std::string& method : WithCudaSelector()) {
    if (!FindPrefillMethod(method)->spec().IsStatic()) continue;
    for (const int32_t layer : {-1, 0, 1, 2}) {
      SCOPED_TRACE(method + ", layer " + std::to_string(layer));
      AttentionProblem host = problem.View();
      host.layer = layer;
      const SparseIndex expected = testing::Select(method, "", host);
      const SparseIndex kept = GpuSelection(method, OnDevice(host, q, k), Values(method, "")).host();
      for (int32_t head = 0; head < 4; ++head)
        EXPECT_EQ(testing::MaskOf(kept, 0, head), testing::MaskOf(expected, 0, head)) << "head " << head;
    }
  }
}

// Nothing below reaches a GPU.
class CudaSelectRefuses : public ::testing::Test {
 protected:
  CudaSelectRefuses() {
    problem_.num_qo_heads = 4;
    problem_.num_kv_heads = 2;
    problem_.head_dim = 128;
    problem_.seq_q = problem_.seq_k = 256;
    problem_.dtype = DType::kBFloat16;
    problem_.q = {memory_, 4 * 256 * 128, 256 * 128, 128};
    problem_.k = {memory_, 2 * 256 * 128, 256 * 128, 128};
  }

  Status Select(const std::string& method, const ParameterValues& values) {
    SparseIndexView index;
    const Status status = SelectCuda(SelectorOf(method), problem_, values, buffers_, &index, nullptr);
    EXPECT_EQ(index.run_begin, nullptr);
    return status;
  }
  Status Select(const std::string& method) { return Select(method, Values(method, "")); }

  alignas(16) char memory_[16] = {};
  AttentionProblem problem_;
  CudaSelectBuffers buffers_;
};

// A method of another name, and so of no line in the registry.
class Unregistered final : public PrefillMethod {
 public:
  const MethodSpec& spec() const override { return spec_; }
  Status Select(const AttentionProblem&, const ParameterValues&, const RunOptions&, SparseIndex*) const override {
    return {};
  }

 private:
  const MethodSpec spec_{.name = "dense"};
};

TEST(CudaSelectors, AreThoseOfTheRegistry) {
  EXPECT_THAT(WithCudaSelector(),
              ::testing::IsSupersetOf({"dense", "a-shape", "vertical-slash", "block-sparse", "s2-attention",
                                       "sample-attention", "x-attention", "sparge-attn", "flex-prefill"}));
  for (const std::string& method : WithCudaSelector()) {
    EXPECT_EQ(SelectorOf(method).spec, &FindPrefillMethod(method)->spec());
    EXPECT_NE(SelectorOf(method).select, nullptr);
  }
  EXPECT_EQ(FindCudaSelector(Unregistered()), nullptr);
}

TEST_F(CudaSelectRefuses, AParameterWithoutValue) {
  const Status status = Select("vertical-slash", ParameterValues());
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("n_vertical"));
}

// What then selects on the CPU; layers that are dense in any case go by one stride as by two.
TEST_F(CudaSelectRefuses, ASecondStrideOfS2Attention) {
  const ParameterValues values = Values("s2-attention", "vertical_stride=4,far_factor=2");
  const Status status = Select("s2-attention", values);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("far_factor is 2"));
  CudaSelectSizes sizes;
  EXPECT_EQ(SelectCudaBufferSizes(SelectorOf("s2-attention"), problem_, values, &sizes).code(),
            StatusCode::kUnsupported);
  EXPECT_THAT(Select("s2-attention", Values("s2-attention", "vertical_stride=4,local_stride=2")).message(),
              HasSubstr("local_stride is 2"));
  problem_.layer = 1;
  EXPECT_TRUE(SelectCudaBufferSizes(SelectorOf("s2-attention"), problem_, values, &sizes).ok());
}

TEST_F(CudaSelectRefuses, TypesAndShapesThatItsKernelsDoNotTake) {
  for (const std::string& method : WithCudaSelector()) {
    if (SelectorOf(method).spec->IsStatic()) continue;
    SCOPED_TRACE(method);
    problem_.dtype = DType::kFloat32;
    EXPECT_EQ(Select(method).code(), StatusCode::kUnsupported);
    EXPECT_THAT(Select(method).message(), HasSubstr("dtype is fp32"));
    problem_.dtype = DType::kFloat16;
    problem_.head_dim = 80;
    EXPECT_EQ(Select(method).code(), StatusCode::kUnsupported);
    EXPECT_THAT(Select(method).message(), HasSubstr("head_dim is 80"));
    problem_.head_dim = 128;
    problem_.k.row_stride = 132;
    EXPECT_EQ(Select(method).code(), StatusCode::kUnsupported);
    EXPECT_THAT(Select(method).message(), HasSubstr("k is not aligned"));
    problem_.k.row_stride = 128;
  }
}

TEST_F(CudaSelectRefuses, NullTensorsAndPositionsWithoutKeys) {
  problem_.first_position = 1;
  EXPECT_THAT(Select("dense").message(), HasSubstr("first_position"));
  problem_.first_position = 0;
  problem_.k.data = nullptr;
  EXPECT_EQ(Select("vertical-slash").code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Select("vertical-slash").message(), HasSubstr("k.data"));
}

TEST_F(CudaSelectRefuses, BuffersThatAreMissingShortOrUnaligned) {
  const ParameterValues values = Values("vertical-slash", "");
  CudaSelectSizes sizes;
  ASSERT_TRUE(SelectCudaBufferSizes(SelectorOf("vertical-slash"), problem_, values, &sizes).ok());
  EXPECT_THAT(Select("vertical-slash").message(), HasSubstr("buffers.index is null"));
  buffers_ = {memory_, sizes.index_bytes - 1, memory_, sizes.workspace_bytes};
  EXPECT_THAT(Select("vertical-slash").message(), HasSubstr("buffers.index_bytes is"));
  buffers_ = {memory_, sizes.index_bytes, memory_ + 8, sizes.workspace_bytes};
  EXPECT_THAT(Select("vertical-slash").message(), HasSubstr("buffers.workspace is not aligned"));
  buffers_ = {memory_, sizes.index_bytes, memory_, sizes.workspace_bytes - 1};
  EXPECT_THAT(Select("vertical-slash").message(), HasSubstr("buffers.workspace_bytes is"));
}

TEST_F(CudaSelectRefuses, SizesNeedNoTensors) {
  problem_.q.data = problem_.k.data = nullptr;
  CudaSelectSizes sizes;
  const Status status =
      SelectCudaBufferSizes(SelectorOf("sample-attention"), problem_, Values("sample-attention", ""), &sizes);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_GT(sizes.index_bytes, 0u);
  EXPECT_GT(sizes.workspace_bytes, 0u);
}

}  // namespace
}  // namespace headscope::kernels
