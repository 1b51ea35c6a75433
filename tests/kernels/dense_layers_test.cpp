// SPDX-License-Identifier: Apache-2.0
// Layers that a decode method leaves dense by its source: by one step alone, over a generation, and where a kernel
// would choose itself.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "generation_steps.h"
#include "kept_sets.h"
#include "kernels/cuda_decode_step.h"
#include "kernels/decode_driver.h"
#include "random_problem.h"
#include "run_seed.h"

namespace headscope::kernels {
namespace {

using testing::FreshSeed;
using testing::RandomProblem;
using testing::SquareShape;
using testing::Values;

constexpr int32_t kTokens = 240, kStepsFrom = 232;

struct DenseLayerCase {
  const char* method;
  const char* parameters;  // with which a step leaves tokens out
  const char* some;        // what says which layers are dense; empty: the default does
  const char* none;        // in its place: no layer is
  std::vector<int32_t> dense, sparse;

  std::string Some() const { return std::string(parameters) + some; }
  std::string None() const { return std::string(parameters) + none; }
};

std::vector<DenseLayerCase> DenseLayerCases() {
  const char* const bits = "bits=8,tables=4,n_local=16";
  return {{"quest", "budget=32", "", ",dense_layers=0", {0, 1}, {-1, 2, 9}},
          {"quest", "budget=32", ",dense_layers=5", ",dense_layers=0", {0, 4}, {-1, 5}},
          {"twilight", "p=0.5,candidates=64", "", ",dense_layers=0", {0, 1}, {-1, 2, 9}},
          {"twilight", "p=0.5,candidates=64,selector=sparq", ",dense_layers=1", ",dense_layers=0", {0}, {-1, 1}},
          {"magic-pig", bits, "", ",dense_every=0", {0, 16, 32}, {-1, 1, 15, 17}},
          {"magic-pig", bits, ",dense_every=3", ",dense_every=0", {0, 3, 6}, {-1, 1, 2, 16}}};
}

AttentionProblem StepOf(const RandomProblem& data, int32_t position, int32_t layer) {
  AttentionProblem problem = testing::StepAt(data, position).problem;
  problem.layer = layer;
  return problem;
}

// The selections of the steps from kStepsFrom on.
std::vector<DecodeSelection> GenerationOf(const RandomProblem& data, const DenseLayerCase& c,
                                          const std::string& parameters, int32_t layer) {
  const DecodeMethod& method = *FindDecodeMethod(c.method);
  DecodeDriver driver(method, Values(method.spec(), parameters));
  DecodePrompt prompt;
  prompt.cache = StepOf(data, kStepsFrom - 1, layer);
  prompt.cache.seq_q = 0;
  prompt.layer = std::max(layer, 0);
  EXPECT_TRUE(driver.Begin(prompt, {}).ok());
  std::vector<DecodeSelection> steps;
  for (int32_t position = kStepsFrom; position < kTokens; ++position) {
    DecodeStep step;
    step.problem = StepOf(data, position, layer);
    const Status status = testing::Take(driver, step, &steps.emplace_back());
    EXPECT_TRUE(status.ok()) << c.method << ": " << status.message();
  }
  driver.End();
  return steps;
}

void ExpectEverything(const DecodeSelection& selection, int32_t tokens, const std::string& of) {
  for (int64_t list = 0; list < 2; ++list)
    EXPECT_EQ(static_cast<int32_t>(TokensOfList(selection, list, tokens).size()), tokens) << of;
  EXPECT_TRUE(selection.weights.empty()) << of;
}

TEST(DenseLayers, AttendToEverythingInEveryStep) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(kTokens, 4, 2), &random);
  for (const DenseLayerCase& c : DenseLayerCases()) {
    for (const int32_t layer : c.dense) {
      const std::string of = std::string(c.method) + c.some + ", layer " + std::to_string(layer);
      int32_t position = kStepsFrom;
      for (const DecodeSelection& selection : GenerationOf(data, c, c.Some(), layer))
        ExpectEverything(selection, ++position, of);
    }
  }
}

TEST(DenseLayers, EveryOtherLayerChoosesAsIfNoneWereDense) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(kTokens, 4, 2), &random);
  for (const DenseLayerCase& c : DenseLayerCases()) {
    const auto expected = GenerationOf(data, c, c.None(), 0);
    for (const int32_t layer : c.sparse) {
      const auto found = GenerationOf(data, c, c.Some(), layer);
      for (size_t step = 0; step < expected.size(); ++step) {
        EXPECT_EQ(found[step].pages, expected[step].pages) << c.method << " " << c.some << ", layer " << layer;
        EXPECT_EQ(found[step].weights, expected[step].weights) << c.method;
        EXPECT_EQ(found[step].elements_moved, expected[step].elements_moved) << c.method;
      }
      EXPECT_LT(TokensOfList(found.back(), 0, kTokens).size(), size_t{kTokens}) << c.method;
    }
  }
}

TEST(DenseLayers, OneStepAloneDoesAsTheGeneration) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(kTokens, 4, 2), &random);
  for (const DenseLayerCase& c : DenseLayerCases()) {
    const DecodeMethod& method = *FindDecodeMethod(c.method);
    if (method.spec().needs_history) continue;
    const ParameterValues values = Values(method.spec(), c.Some());
    DecodeSelection selection;
    for (const int32_t layer : c.dense) {
      ASSERT_TRUE(method.Select(StepOf(data, kTokens - 1, layer), values, {}, &selection).ok());
      ExpectEverything(selection, kTokens, c.method);
    }
    for (const int32_t layer : c.sparse) {
      ASSERT_TRUE(method.Select(StepOf(data, kTokens - 1, layer), values, {}, &selection).ok());
      EXPECT_EQ(selection.pages, GenerationOf(data, c, c.Some(), layer).back().pages) << c.method;
    }
  }
}

// A device that chooses in its own kernel would not leave the layer dense.
TEST(DenseLayers, NoKernelChoosesInThem) {
  AttentionProblem step = test::ProblemOf(testing::DecodeShape(kTokens, 4, 2));
  const auto why_not = [&](const DenseLayerCase& c, const std::string& parameters, int32_t layer) {
    step.layer = layer;
    const DecodeMethod& method = *FindDecodeMethod(c.method);
    std::unique_ptr<CudaDecodeStep> made;
    return PlanCudaDecodeStep(method, Values(method.spec(), parameters), step, &made).message();
  };
  constexpr const char* kDense = "it leaves this layer dense";
  for (const DenseLayerCase& c : DenseLayerCases()) {
    for (const int32_t layer : c.dense) {
      EXPECT_EQ(why_not(c, c.Some(), layer), kDense) << c.method << ", layer " << layer;
      EXPECT_NE(why_not(c, c.None(), layer), kDense) << c.method << ", layer " << layer;
    }
    for (const int32_t layer : c.sparse) EXPECT_NE(why_not(c, c.Some(), layer), kDense) << c.method << ", " << layer;
  }
}

}  // namespace
}  // namespace headscope::kernels
