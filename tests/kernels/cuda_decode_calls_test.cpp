// SPDX-License-Identifier: Apache-2.0
// Decode on the GPU, the ways to call it: a step captured in a graph, and what is no number in the cache or the query.
// Skipped without a GPU.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "device_array.h"
#include "float_codes.h"
#include "kernels/contiguous.h"
#include "kernels/cuda_decode.h"
#include "problem_shape.h"
#include "support/gpu.h"

namespace headscope::kernels {
namespace {

using test::FromBFloat16;
using test::ToBFloat16;
using testing::DeviceArray;

// One step of one sequence in bf16, its tensors contiguous.
AttentionProblem Step(int32_t num_qo_heads, int32_t num_kv_heads, int32_t seq_k, int32_t head_dim, const void* q,
                      const void* k, const void* v) {
  AttentionProblem problem = test::ProblemOf({.num_qo_heads = num_qo_heads,
                                              .num_kv_heads = num_kv_heads,
                                              .head_dim = head_dim,
                                              .seq_k = seq_k,
                                              .first_position = seq_k - 1,
                                              .dtype = DType::kBFloat16});
  SetContiguousTensors(q, k, v, &problem);
  return problem;
}

// [lists, tokens, components] to [lists, components, tokens].
std::vector<uint16_t> ComponentMajor(const std::vector<uint16_t>& cache, size_t lists, size_t tokens,
                                     size_t components) {
  std::vector<uint16_t> transposed(cache.size());
  for (size_t list = 0; list < lists; ++list) {
    for (size_t token = 0; token < tokens; ++token) {
      for (size_t d = 0; d < components; ++d)
        transposed[(list * components + d) * tokens + token] = cache[(list * tokens + token) * components + d];
    }
  }
  return transposed;
}

// A step must be capturable: no allocation, no synchronisation, nothing on another stream. The graph's second replay
// finds the workspace as the first left it; dense and SparQ share it.
TEST(CudaDecodeGraph, RepeatsACapturedStep) {
  SKIP_WITHOUT_GPU();
  constexpr int32_t kHeads = 4, kKvHeads = 2, kTokens = 9000, kDim = 128;
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<uint16_t> row(kHeads * kDim), cache(static_cast<size_t>(kKvHeads * kTokens * kDim));
  for (uint16_t& x : row) x = ToBFloat16(normal(random));
  for (uint16_t& x : cache) x = ToBFloat16(normal(random));
  const DeviceArray<uint16_t> q(row), k(cache), kt(ComponentMajor(cache, kKvHeads, kTokens, kDim));
  const DeviceArray<uint16_t> dense(std::vector<uint16_t>(row.size(), 0x7fff)),
      sparq(std::vector<uint16_t>(row.size(), 0x7fff));
  const DeviceArray<float> mean(std::vector<float>(kKvHeads * kDim, 0.5f));
  const AttentionProblem problem = Step(kHeads, kKvHeads, kTokens, kDim, q.get(), k.get(), k.get());
  const TransposedKeys keys{kt.get(), int64_t{kKvHeads} * kTokens * kDim, int64_t{kTokens} * kDim, kTokens};
  const size_t bytes = DecodeWorkspaceBytes(problem, {});
  const DeviceArray<char> workspace{std::vector<char>(bytes)};
  const auto step = [&](cudaStream_t stream) {
    AttentionOutput output;
    output.o = {dense.get(), kHeads * kDim, kDim, kDim};
    const Status first = DecodeDenseCuda(problem, output, workspace.get(), bytes, stream);
    EXPECT_TRUE(first.ok()) << first.message();
    output.o.data = sparq.get();
    const Status second =
        DecodeSparqCuda(problem, {}, keys, mean.get(), output, nullptr, workspace.get(), bytes, stream);
    EXPECT_TRUE(second.ok()) << second.message();
  };
  step(nullptr);
  const std::vector<uint16_t> expected_dense = dense.Download(), expected_sparq = sparq.Download();

  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t instance = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  step(stream);
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&instance, graph, 0), cudaSuccess);
  for (int replay = 0; replay < 2; ++replay) {
    ASSERT_EQ(cudaMemset(dense.get(), 0x7f, row.size() * 2), cudaSuccess);
    ASSERT_EQ(cudaMemset(sparq.get(), 0x7f, row.size() * 2), cudaSuccess);
    ASSERT_EQ(cudaGraphLaunch(instance, stream), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(dense.Download(), expected_dense);
    EXPECT_EQ(sparq.Download(), expected_sparq);
  }
  cudaGraphExecDestroy(instance);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

// One workspace, zeroed once, for steps of any length, dense and SparQ in turn: what a call leaves there must not show
// in another's outputs, which are those of a workspace of its own.
class CudaDecodeWorkspace : public ::testing::TestWithParam<int32_t> {};

TEST_P(CudaDecodeWorkspace, ServesStepsOfAnyLengthInTurn) {
  SKIP_WITHOUT_GPU();
  // So many KV heads that the blocks of a GPU have several spans of the longest each, and of the others one at most.
  const int32_t group = GetParam();
  constexpr int32_t kKvHeads = 30, kTokens = 20000, kDim = 64;
  const int32_t heads = kKvHeads * group;
  std::mt19937 random(11);
  const auto fill = [&](std::vector<uint16_t>* values) {
    for (uint16_t& x : *values) x = ToBFloat16(static_cast<float>(static_cast<int32_t>(random() % 1024) - 512) / 256);
  };
  std::vector<uint16_t> row(static_cast<size_t>(heads * kDim)), cache(static_cast<size_t>(kKvHeads * kTokens * kDim));
  fill(&row);
  fill(&cache);
  const DeviceArray<uint16_t> q(row), k(cache), kt(ComponentMajor(cache, kKvHeads, kTokens, kDim));
  const DeviceArray<float> mean(std::vector<float>(kKvHeads * kDim, 0.5f));
  const TransposedKeys keys{kt.get(), int64_t{kKvHeads} * kTokens * kDim, int64_t{kTokens} * kDim, kTokens};
  AttentionProblem problem = Step(heads, kKvHeads, kTokens, kDim, q.get(), k.get(), k.get());
  const size_t bytes = DecodeWorkspaceBytes(problem, {});
  const auto outputs = [&](int32_t seq_k, const DeviceArray<char>& workspace) {
    problem.seq_k = seq_k;
    problem.first_position = seq_k - 1;
    std::vector<std::vector<uint16_t>> both;
    for (const bool sparq : {false, true}) {
      const DeviceArray<uint16_t> out(std::vector<uint16_t>(row.size(), 0x7fff));
      AttentionOutput output;
      output.o = {out.get(), int64_t{heads} * kDim, kDim, kDim};
      const Status status =
          sparq ? DecodeSparqCuda(problem, {}, keys, mean.get(), output, nullptr, workspace.get(), bytes, nullptr)
                : DecodeDenseCuda(problem, output, workspace.get(), bytes, nullptr);
      EXPECT_TRUE(status.ok()) << status.message();
      both.push_back(out.Download());
    }
    return both;
  };
  const DeviceArray<char> shared{std::vector<char>(bytes)};
  for (const int32_t seq_k : {kTokens, 1, 9000, 130, kTokens, 5000}) {
    const DeviceArray<char> own{std::vector<char>(bytes)};
    EXPECT_EQ(outputs(seq_k, shared), outputs(seq_k, own)) << seq_k << " tokens";
  }
}

INSTANTIATE_TEST_SUITE_P(GroupsOf, CudaDecodeWorkspace, ::testing::Values(1, 4));

// Two KV heads, of which the first has a NaN: in all components of one key, or in all queries of its heads. One head's
// NaN key is its largest; where a group ranks tokens by sums over its heads, or a query is no number, all tie. What is
// chosen must still be tokens, also of a cache so short that each candidate is ranked by itself.
struct NanCase {
  int32_t seq_k;
  int32_t num_tokens;
  int32_t num_local;
  int32_t group;  // query heads per KV head
  bool in_query;
};

class CudaDecodeNan : public ::testing::TestWithParam<NanCase> {};

TEST_P(CudaDecodeNan, ShowsInTheOutputsOfItsHeadsAndChoosesTokens) {
  SKIP_WITHOUT_GPU();
  const NanCase& c = GetParam();
  constexpr int32_t kKvHeads = 2, kDim = 128;
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  std::vector<uint16_t> cache(static_cast<size_t>(kKvHeads) * c.seq_k * kDim),
      row(static_cast<size_t>(kKvHeads) * c.group * kDim);
  for (uint16_t& x : cache) x = ToBFloat16(normal(random));
  for (uint16_t& x : row) x = ToBFloat16(normal(random));
  if (c.in_query) {
    std::fill_n(row.begin(), c.group * kDim, ToBFloat16(NAN));
  } else {
    std::fill_n(cache.begin() + 100 * kDim, kDim, ToBFloat16(NAN));
  }
  const DeviceArray<uint16_t> k(cache), kt(ComponentMajor(cache, kKvHeads, static_cast<size_t>(c.seq_k), kDim));
  const DeviceArray<uint16_t> v(std::vector<uint16_t>(cache.size(), ToBFloat16(1)));
  const DeviceArray<uint16_t> q(row), o(std::vector<uint16_t>(row.size(), 0));
  const AttentionProblem problem = Step(kKvHeads * c.group, kKvHeads, c.seq_k, kDim, q.get(), k.get(), v.get());
  AttentionOutput output;
  output.o = {o.get(), int64_t{kKvHeads} * c.group * kDim, kDim, kDim};
  SparqCudaOptions options;
  options.num_tokens = c.num_tokens;
  options.num_local = c.num_local;
  options.mean_value = false;
  const size_t bytes = DecodeWorkspaceBytes(problem, options);
  const DeviceArray<char> workspace{std::vector<char>(bytes)};
  for (void* const copy : {static_cast<void*>(kt.get()), static_cast<void*>(nullptr)}) {
    SCOPED_TRACE(copy != nullptr ? "two copies of K" : "one copy of K");
    TransposedKeys keys;
    if (copy != nullptr) keys = {copy, int64_t{kKvHeads} * c.seq_k * kDim, int64_t{c.seq_k} * kDim, c.seq_k};
    const DeviceArray<int32_t> chosen(std::vector<int32_t>(static_cast<size_t>(kKvHeads) * c.num_tokens, -1));
    const Status status =
        DecodeSparqCuda(problem, options, keys, nullptr, output, chosen.get(), workspace.get(), bytes, nullptr);
    ASSERT_TRUE(status.ok()) << status.message();
    const std::vector<uint16_t> got = o.Download();
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_EQ(std::isnan(FromBFloat16(got[i])), i < got.size() / 2) << "element " << i;
    const std::vector<int32_t> tokens = chosen.Download();
    for (size_t i = 0; i < tokens.size(); ++i) {
      const bool first = i % static_cast<size_t>(c.num_tokens) == 0;
      EXPECT_GT(tokens[i], first ? -1 : tokens[i - 1]) << "place " << i;
      EXPECT_LT(tokens[i], c.seq_k) << "place " << i;
    }
  }
}

std::string NameOf(const ::testing::TestParamInfo<NanCase>& info) {
  const NanCase& c = info.param;
  return std::to_string(c.seq_k) + "_k" + std::to_string(c.num_tokens) + "_group" + std::to_string(c.group) +
         (c.in_query ? "_query" : "_key");
}

constexpr NanCase kNanCases[] = {
    {5000, 128, 32, 1, false}, {5000, 128, 32, 4, false}, {5000, 128, 32, 1, true}, {200, 64, 16, 1, false},
    {200, 64, 16, 4, false},   {200, 64, 16, 1, true},    {200, 64, 16, 4, true},
};
INSTANTIATE_TEST_SUITE_P(Table, CudaDecodeNan, ::testing::ValuesIn(kNanCases), NameOf);

}  // namespace
}  // namespace headscope::kernels
