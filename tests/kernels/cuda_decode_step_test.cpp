// SPDX-License-Identifier: Apache-2.0
// One call for every step on the GPU: which methods have a step that chooses, why one has none for a problem, what it
// keeps, and that the call attends what was chosen. Skipped without a GPU, but for what is decided before one is asked
// for.
#include "kernels/cuda_decode_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "device_array.h"
#include "float_codes.h"
#include "kernels/contiguous.h"
#include "kernels/cpu_executor.h"
#include "kernels/cuda_decode.h"
#include "kernels/cuda_executor.h"
#include "kernels/cuda_kept_state.h"
#include "problem_shape.h"
#include "run_seed.h"
#include "support/gpu.h"

namespace headscope::kernels {
namespace {

using test::FromBFloat16;
using test::ToBFloat16;
using testing::DeviceArray;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Steps = std::vector<std::unique_ptr<CudaDecodeStep>>;

AttentionProblem Step(int32_t group, int32_t head_dim, int32_t seq_k) {
  return test::ProblemOf({.num_qo_heads = 2 * group,
                          .num_kv_heads = 2,
                          .head_dim = head_dim,
                          .seq_k = seq_k,
                          .first_position = seq_k - 1,
                          .dtype = DType::kBFloat16});
}

Status Plan(const char* name, const std::string& parameters, const AttentionProblem& problem, Steps* steps,
            IfSlower if_slower = IfSlower::kChoose) {
  const DecodeMethod& method = *FindDecodeMethod(name);
  ParameterValues values(method.spec());
  EXPECT_EQ(values.Parse(method.spec(), parameters), "");
  return PlanCudaDecodeSteps(method, values, problem, if_slower, steps);
}

Steps StepsOf(const char* name, const std::string& parameters, const AttentionProblem& problem,
              IfSlower if_slower = IfSlower::kChoose) {
  Steps steps;
  const Status status = Plan(name, parameters, problem, &steps, if_slower);
  EXPECT_TRUE(status.ok()) << status.message();
  return steps;
}

TEST(CudaDecodeStepPlan, TheRegistrySaysWhoChoosesOnAGpu) {
  std::vector<std::string> names;
  for (const DecodeMethod* method : DecodeMethods()) {
    if (FindCudaStepMaker(*method) != nullptr) names.push_back(method->spec().name);
  }
  EXPECT_THAT(names, ElementsAre("sparq", "quest"));
}

TEST(CudaDecodeStepPlan, SaysWhyNoLaunchChooses) {
  const auto expect = [](const char* name, auto change, const char* words, const char* parameters = "") {
    AttentionProblem problem = Step(4, 64, 3000);
    change(&problem);
    Steps steps;
    const Status status = Plan(name, parameters, problem, &steps);
    EXPECT_FALSE(status.ok()) << name;
    EXPECT_THAT(status.message(), HasSubstr(words)) << name;
    EXPECT_TRUE(steps.empty());
  };
  using P = AttentionProblem*;
  static constexpr float kSinks[8] = {};
  expect(
      "snap-kv", [](P) {}, "it has no GPU kernel");
  expect(
      "dense", [](P) {}, "it has no GPU kernel");
  expect(
      "sparq", [](P) {}, "it has no GPU kernel for these values", "temperature=one");
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
  expect(
      "quest", [](P p) { p->layer = 1; }, "it leaves this layer dense");
}

TEST(CudaDecodeStepPlan, QuestTakesSinksAndValuesOfOtherSizes) {
  AttentionProblem problem = Step(4, 64, 3000);
  static constexpr float kSinks[8] = {};
  problem.sinks = kSinks;
  problem.v_head_dim = 48;
  const Steps steps = StepsOf("quest", "budget=320,page_size=16", problem);
  ASSERT_EQ(steps.size(), 1U);
  const CudaDecodeStep::Choice choice = steps[0]->ChoiceOf(problem);
  EXPECT_EQ(choice.pages, 20);
  EXPECT_EQ(choice.page_size, 16);
  EXPECT_TRUE(choice.keeps_newest);
  EXPECT_TRUE(steps[0]->WritesLse());
  EXPECT_FALSE(steps[0]->YieldsToDense(problem));
  EXPECT_EQ(steps[0]->Variant(), "");
}

TEST(CudaDecodeStepKept, QuestKeepsTwoRowsAPage) {
  AttentionProblem problem = Step(4, 64, 3000);
  problem.batch = 3;
  const Steps steps = StepsOf("quest", "budget=320,page_size=16", problem);
  const int64_t lists = 6, row = 64 * 2;
  EXPECT_EQ(steps[0]->KeptBytes(problem, 3000), lists * 188 * 2 * row);
  EXPECT_EQ(steps[0]->KeptBytes(problem, 3008), lists * 188 * 2 * row);
  EXPECT_EQ(steps[0]->KeptBytes(problem, 3009), lists * 189 * 2 * row);
  // 2999 is the 8th token of its page; all of the keys, and their bounds.
  EXPECT_EQ(steps[0]->UpdateBytes(problem, 2999), lists * (8 + 2) * row);
  EXPECT_EQ(steps[0]->UpdateBytes(problem, 0), lists * (3000 + 2 * 188) * row);
  EXPECT_EQ(steps[0]->ElementsMoved(problem), 2 * 188 * 64 + (320 + 1) * 2 * 64);
  // Nothing is launched for memory that cannot hold it.
  alignas(256) char memory[256] = {};
  Status status = steps[0]->Update(problem, 0, {memory, 2999}, nullptr);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("kept.capacity 2999: it must be at least seq_k (3000)"));
  status = steps[0]->Run(problem, {nullptr, 3000}, {}, nullptr, nullptr, 0, nullptr);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("kept.memory is null"));
}

TEST(CudaDecodeStepKept, ASelectionKeepsNothingAndChoosesNothing) {
  const AttentionProblem problem = Step(1, 64, 10);
  const CudaSelectionStep step{CudaSelection()};
  EXPECT_EQ(step.KeptBytes(problem, 1000), 0);
  EXPECT_EQ(step.ChoiceOf(problem).pages, 0);
  EXPECT_TRUE(step.Update(problem, 0, {}, nullptr).ok());
  EXPECT_TRUE(step.WritesLse());
  EXPECT_EQ(step.Run(problem, {}, {}, nullptr, nullptr, 0, nullptr).code(), StatusCode::kInvalidArgument);
}

TEST(CudaDecodeStepKept, SparqKeepsTheCopyOfItsKeysAndTheMean) {
  SKIP_WITHOUT_GPU();
  const AttentionProblem problem = Step(4, 64, 3000);
  const Steps steps = StepsOf("sparq", "reallocate=1", problem);
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0]->Variant(), "two copies of K");
  EXPECT_EQ(steps[1]->Variant(), "one copy of K");
  // Two lists: keys of whole lines of tokens, a row of means, and the sums of 47 parts of the values.
  const int64_t means = 2 * 64 * 4, sums = 2 * 47 * 64 * 4;
  EXPECT_EQ(steps[0]->KeptBytes(problem, 3000), 2 * 64 * 3008 * 2 + means + sums);
  EXPECT_EQ(steps[1]->KeptBytes(problem, 3000), means + sums);
  EXPECT_EQ(steps[0]->ChoiceOf(problem).pages, 128);
  EXPECT_EQ(steps[0]->ChoiceOf(problem).page_size, 1);
  EXPECT_FALSE(steps[0]->WritesLse());
  // A key read and written, a value read, the mean read and written.
  EXPECT_EQ(steps[0]->UpdateBytes(problem, 2999), 2 * (2 * 128 + 128 + 2 * 256));
  EXPECT_EQ(steps[0]->UpdateBytes(problem, 0), 2 * (3000 * (2 * 128 + 128) + 256));
  EXPECT_EQ(steps[1]->UpdateBytes(problem, 2999), 2 * (128 + 2 * 256));
  // Where no mean is mixed in, none is kept, and of V nothing is read.
  const Steps without = StepsOf("sparq", "reallocate=0", problem);
  EXPECT_EQ(without[0]->KeptBytes(problem, 3000), 2 * 64 * 3008 * 2);
  EXPECT_EQ(without[0]->UpdateBytes(problem, 2999), 2 * 2 * 128);
  EXPECT_EQ(without[1]->KeptBytes(problem, 3000), 0);
  EXPECT_EQ(without[1]->UpdateBytes(problem, 0), 0);
  EXPECT_TRUE(without[1]->Update(problem, 0, {}, nullptr).ok());
  // One copy, where that is asked for, is the step to run and the only one.
  const Steps one = StepsOf("sparq", "reallocate=1,copies=one", problem);
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one[0]->Variant(), "one copy of K");
  EXPECT_EQ(one[0]->KeptBytes(problem, 3000), means + sums);
  EXPECT_EQ(one[0]->ElementsMoved(problem), 3000 * 64 + (128 + 1) * 2 * 64 + 2 * 64);
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
    const size_t which = whole_rows ? 1 : 0;
    EXPECT_FALSE(StepsOf("sparq", parameters, problem).at(which)->YieldsToDense(problem));
    return StepsOf("sparq", parameters, problem, IfSlower::kYield).at(which)->YieldsToDense(problem);
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

// Queries, keys and values of two KV heads in bf16, on the host and on the GPU.
struct Heads {
  Heads(int32_t group, int32_t head_dim, int32_t tokens) : host(Step(group, head_dim, tokens)) {
    std::mt19937 random(testing::FreshSeed());
    std::normal_distribution<float> normal;
    row.resize(static_cast<size_t>(host.num_qo_heads * head_dim));
    keys.resize(size_t{2} * static_cast<size_t>(tokens * head_dim));
    values.resize(keys.size());
    for (std::vector<uint16_t>* tensor : {&row, &keys, &values}) {
      for (uint16_t& x : *tensor) x = ToBFloat16(normal(random));
    }
    SetContiguousTensors(row.data(), keys.data(), values.data(), &host);
    q = std::make_unique<DeviceArray<uint16_t>>(row);
    k = std::make_unique<DeviceArray<uint16_t>>(keys);
    v = std::make_unique<DeviceArray<uint16_t>>(values);
    problem = host;
    SetContiguousTensors(q->get(), k->get(), v->get(), &problem);
  }

  // The first tokens of a problem.
  static AttentionProblem First(AttentionProblem of, int32_t tokens) {
    of.seq_k = tokens;
    of.first_position = tokens - 1;
    return of;
  }

  AttentionProblem host, problem;
  std::vector<uint16_t> row, keys, values;
  std::unique_ptr<DeviceArray<uint16_t>> q, k, v;
};

struct Attended {
  std::vector<uint16_t> o;
  std::vector<int32_t> chosen;
};

// A step in memory of its own, over what was kept.
Attended RunStep(const CudaDecodeStep& step, const AttentionProblem& problem, const CudaKept& kept,
                 bool choice = true) {
  const auto num_chosen = static_cast<size_t>(problem.num_kv_heads * step.ChoiceOf(problem).pages);
  const DeviceArray<int32_t> chosen(std::vector<int32_t>(num_chosen + 1, -1));
  const size_t bytes = step.WorkspaceBytes(problem);
  const DeviceArray<unsigned char> workspace{std::vector<unsigned char>(bytes + 1)};
  const int64_t dim = problem.ValueDim(), heads = problem.num_qo_heads;
  const DeviceArray<uint16_t> o(std::vector<uint16_t>(static_cast<size_t>(heads * dim), 0x7fff));
  const Status status = step.Run(problem, kept, {{o.get(), heads * dim, dim, dim}, nullptr},
                                 choice ? chosen.get() : nullptr, workspace.get(), bytes, nullptr);
  EXPECT_TRUE(status.ok()) << status.message();
  Attended made{o.Download(), chosen.Download()};
  EXPECT_EQ(made.chosen.back(), -1) << "behind what was chosen";
  made.chosen.pop_back();
  return made;
}

// The output is attention over what was chosen, or over everything.
void ExpectAttends(const CudaDecodeStep& step, const AttentionProblem& host, const Attended& made) {
  DecodeSelection selection = WholeCache(host);
  if (const CudaDecodeStep::Choice choice = step.ChoiceOf(host); choice.pages > 0) {
    selection.page_size = choice.page_size;
    selection.pages = made.chosen;
    selection.page_begin = {0, choice.pages, int64_t{2} * choice.pages};
  }
  std::vector<float> expected(made.o.size()), lse(static_cast<size_t>(host.num_qo_heads));
  const int64_t dim = host.ValueDim(), heads = host.num_qo_heads;
  ASSERT_TRUE(DecodeReference(host, selection, {{expected.data(), heads * dim, dim, dim}, lse.data()}).ok());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto want = static_cast<double>(expected[i]);
    difference += std::pow(static_cast<double>(FromBFloat16(made.o[i])) - want, 2);
    norm += want * want;
  }
  EXPECT_LE(std::sqrt(difference), 6e-3 * std::sqrt(norm));
}

struct Method {
  const char* name;
  const char* parameters;
};
constexpr Method kChoosing[] = {{"sparq", "r=32,k=100,reallocate=0"},
                                {"sparq", "r=32,k=100,reallocate=0,copies=one"},
                                {"quest", "budget=320,page_size=16"},
                                {"quest", "budget=300,page_size=7,keep_newest=0"}};

TEST(CudaDecodeStepRun, AttendsWhatItChooses) {
  SKIP_WITHOUT_GPU();
  const Heads heads(4, 64, 3000);
  for (const Method& method : kChoosing) {
    for (const auto& step : StepsOf(method.name, method.parameters, heads.problem)) {
      SCOPED_TRACE(std::string(method.name) + " " + step->Variant());
      CudaKeptState kept;
      ASSERT_TRUE(kept.BringUpTo(*step, heads.problem, 3000, "a test", nullptr).ok());
      const Attended made = RunStep(*step, heads.problem, kept.kept());
      ExpectAttends(*step, heads.host, made);
      EXPECT_EQ(RunStep(*step, heads.problem, kept.kept(), /*choice=*/false).o, made.o)
          << "it need not say what it chose";
    }
  }
}

TEST(CudaDecodeStepRun, AttendsASelection) {
  SKIP_WITHOUT_GPU();
  const Heads heads(4, 64, 3000);
  CudaSelectionBuffers uploaded;
  ASSERT_TRUE(UploadSelection(heads.problem, WholeCache(heads.problem), &uploaded).ok());
  EXPECT_TRUE(uploaded.view.dense);
  const CudaSelectionStep step(uploaded.view);
  ExpectAttends(step, heads.host, RunStep(step, heads.problem, {}));
}

// SparQ's mean value, which stands for what is left out: with few of many tokens that is most of the output.
TEST(CudaDecodeStepRun, MixesInTheMeanThatItKeeps) {
  SKIP_WITHOUT_GPU();
  const Heads heads(4, 64, 3000);
  const Method method{"sparq", "r=32,k=10,reallocate=1"};
  DecodeSelection selection;
  const DecodeMethod& sparq = *FindDecodeMethod(method.name);
  ParameterValues values(sparq.spec());
  ASSERT_EQ(values.Parse(sparq.spec(), method.parameters), "");
  ASSERT_TRUE(sparq.Select(heads.host, values, {}, &selection).ok());
  const int64_t dim = 64, num_heads = heads.host.num_qo_heads;
  std::vector<float> expected(static_cast<size_t>(num_heads * dim)), lse(static_cast<size_t>(num_heads));
  for (const auto& step : StepsOf(method.name, method.parameters, heads.problem)) {
    SCOPED_TRACE(step->Variant());
    CudaKeptState kept;
    // A prompt, and 3 tokens.
    for (const int32_t tokens : {2997, 2998, 2999, 3000})
      ASSERT_TRUE(kept.BringUpTo(*step, Heads::First(heads.problem, tokens), 3000, "a test", nullptr).ok());
    const Attended made = RunStep(*step, heads.problem, kept.kept());
    // A token at the threshold may change places, which moves no probability by more than rounding does.
    selection.pages = made.chosen;
    ASSERT_TRUE(
        DecodeReference(heads.host, selection, {{expected.data(), num_heads * dim, dim, dim}, lse.data()}).ok());
    double difference = 0, norm = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      difference += std::pow(static_cast<double>(FromBFloat16(made.o[i]) - expected[i]), 2);
      norm += std::pow(static_cast<double>(expected[i]), 2);
    }
    EXPECT_LE(std::sqrt(difference), 6e-3 * std::sqrt(norm));
  }
}

// What was kept from step to step, whole anew, and after the tokens went back, gives the same choice and output.
TEST(CudaKeptState, FollowsTheCache) {
  SKIP_WITHOUT_GPU();
  const Heads heads(4, 128, 1000), others(4, 128, 1000);
  for (const Method& method : kChoosing) {
    const Steps steps = StepsOf(method.name, method.parameters, heads.problem);
    const CudaDecodeStep& step = *steps.front();
    SCOPED_TRACE(method.name);
    const auto after = [&](CudaKeptState* kept, const Heads& of, int32_t tokens) {
      const AttentionProblem problem = Heads::First(of.problem, tokens);
      const Status status = kept->BringUpTo(step, problem, 1000, "a test", nullptr);
      EXPECT_TRUE(status.ok()) << status.message();
      return RunStep(step, problem, kept->kept());
    };
    const auto expect = [&](CudaKeptState* kept, const Heads& of, int32_t tokens) {
      CudaKeptState anew;
      const Attended found = after(kept, of, tokens), expected = after(&anew, of, tokens);
      EXPECT_EQ(found.chosen, expected.chosen) << tokens;
      EXPECT_EQ(found.o, expected.o) << tokens;
    };
    CudaKeptState kept;
    for (const int32_t tokens : {700, 701, 702, 900, 901, 901}) expect(&kept, heads, tokens);
    expect(&kept, heads, 500);    // back
    expect(&kept, heads, 1000);   // and forward
    expect(&kept, others, 1000);  // another cache
    // The same place with other tokens, of which it has to be told.
    ASSERT_EQ(cudaMemcpy(others.k->get(), heads.keys.data(), heads.keys.size() * 2, cudaMemcpyHostToDevice),
              cudaSuccess);
    kept.Forget();
    expect(&kept, others, 1000);
  }
}

// Room that is not there is refused, and what fits is made all the same. Apart from the test before it, since memcheck
// reports every call that asks for more than there is.
TEST(CudaKeptState, RefusesRoomThatIsNotThere) {
  SKIP_WITHOUT_GPU();
  const Heads heads(4, 128, 1000);
  size_t free_bytes = 0, all_bytes = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_bytes, &all_bytes), cudaSuccess);
  int refused = 0;
  for (const Method& method : kChoosing) {
    const Steps steps = StepsOf(method.name, method.parameters, heads.problem);
    const CudaDecodeStep& step = *steps.front();
    SCOPED_TRACE(method.name);
    CudaKeptState kept;
    constexpr int32_t kMany = 2'000'000'000;
    if (step.KeptBytes(heads.problem, kMany) <= static_cast<int64_t>(all_bytes)) continue;  // pages of 16, on an H200
    const Status status = kept.BringUpTo(step, heads.problem, kMany, "a test", nullptr);
    EXPECT_EQ(status.code(), StatusCode::kOutOfMemory) << status.message();
    EXPECT_TRUE(kept.BringUpTo(step, heads.problem, 1000, "a test", nullptr).ok());
    ++refused;
  }
  EXPECT_GT(refused, 0);
}

// A step that yields is the dense step, bit for bit, in the workspace of its own way; a step that chooses finds that
// workspace as it wants it.
TEST(CudaDecodeStepRun, YieldsToTheDenseStep) {
  SKIP_WITHOUT_GPU();
  const Heads heads(4, 64, 3000);
  const char* const parameters = "r=32,k=100,reallocate=0";
  const Steps yielding = StepsOf("sparq", parameters, heads.problem, IfSlower::kYield),
              choosing = StepsOf("sparq", parameters, heads.problem);
  const CudaDecodeStep &step = *yielding.front(), &chooses = *choosing.front();
  ASSERT_TRUE(step.YieldsToDense(heads.problem));
  CudaKeptState kept;
  ASSERT_TRUE(kept.BringUpTo(step, heads.problem, 3000, "a test", nullptr).ok());
  const size_t bytes = step.WorkspaceBytes(heads.problem);
  const DeviceArray<unsigned char> workspace{std::vector<unsigned char>(bytes)};
  const int64_t size = static_cast<int64_t>(heads.row.size());
  const auto run = [&](const auto& of) {
    const DeviceArray<uint16_t> o(std::vector<uint16_t>(heads.row.size(), 0x7fff));
    const Status status = of({{o.get(), size, 64, 64}, nullptr});
    EXPECT_TRUE(status.ok()) << status.message();
    return o.Download();
  };
  const auto by = [&](const CudaDecodeStep& of) {
    return run([&](const AttentionOutput& output) {
      return of.Run(heads.problem, kept.kept(), output, nullptr, workspace.get(), bytes, nullptr);
    });
  };
  const size_t dense_bytes = DecodeWorkspaceBytes(heads.problem, {});
  const DeviceArray<unsigned char> zeros{std::vector<unsigned char>(dense_bytes)};
  const std::vector<uint16_t> dense = run([&](const AttentionOutput& output) {
    return DecodeDenseCuda(heads.problem, output, zeros.get(), dense_bytes, nullptr);
  });
  const std::vector<uint16_t> chosen = by(chooses);
  EXPECT_EQ(by(step), dense);
  EXPECT_EQ(by(chooses), chosen);
  EXPECT_EQ(by(step), dense);
  EXPECT_NE(chosen, dense);
  const DeviceArray<int32_t> tokens(200);
  const DeviceArray<uint16_t> o(size);
  const Status status = step.Run(heads.problem, kept.kept(), {{o.get(), size, 64, 64}, nullptr}, tokens.get(),
                                 workspace.get(), bytes, nullptr);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("chosen: this step yields"));
}

}  // namespace
}  // namespace headscope::kernels
