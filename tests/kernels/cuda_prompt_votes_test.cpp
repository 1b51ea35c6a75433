// SPDX-License-Identifier: Apache-2.0
// The choice of a prompt's tokens by its last queries' votes on the GPU, against votes in float64, and against the
// method's own policy on the CPU. Every registered method that says what a device needs is here.
#include "kernels/cuda_prompt_votes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "device_array.h"
#include "float_codes.h"
#include "kernels/contiguous.h"
#include "kernels/cuda_executor.h"
#include "kernels/decode_driver.h"
#include "kernels/decode_method.h"
#include "problem_shape.h"
#include "run_seed.h"
#include "support/gpu.h"

namespace headscope::kernels {
namespace {

using test::FromBFloat16;
using test::ToBFloat16;
using testing::DeviceArray;
using ::testing::HasSubstr;

struct Case {
  int32_t batch, group, head_dim, tokens;
  const char* parameters;
};

class Prompt {
 public:
  explicit Prompt(const Case& of, int32_t rows) : of_(of), rows_(rows) {
    std::mt19937 random(testing::FreshSeed());
    std::normal_distribution<float> normal(0.0f, 1.5f);
    q_.resize(static_cast<size_t>(of.batch * kKvHeads * of.group * rows * of.head_dim));
    k_.resize(static_cast<size_t>(of.batch * kKvHeads * of.tokens * of.head_dim));
    for (std::vector<uint16_t>* tensor : {&q_, &k_}) {
      for (uint16_t& x : *tensor) x = ToBFloat16(normal(random));
    }
    host = test::ProblemOf({.batch = of.batch,
                            .num_qo_heads = kKvHeads * of.group,
                            .num_kv_heads = kKvHeads,
                            .head_dim = of.head_dim,
                            .seq_q = rows,
                            .seq_k = of.tokens,
                            .first_position = of.tokens - rows,
                            .dtype = DType::kBFloat16});
    SetContiguousTensors(q_.data(), k_.data(), k_.data(), &host);
  }

  // Of a list, by token; infinity for the window's.
  std::vector<double> Scores(int32_t list, const PromptVotes& votes) const {
    const int32_t before = of_.tokens - rows_;
    std::vector<double> sums(static_cast<size_t>(before), 0.0), scores(static_cast<size_t>(of_.tokens));
    for (int32_t head = list * of_.group; head < (list + 1) * of_.group; ++head) {
      for (int32_t row = 0; row < rows_; ++row) {
        const int32_t seen = before + row + 1;
        std::vector<double> p(static_cast<size_t>(seen));
        for (int32_t token = 0; token < seen; ++token) {
          double product = 0;
          for (int32_t d = 0; d < of_.head_dim; ++d) {
            product += static_cast<double>(FromBFloat16(q_[At((head * rows_ + row), d)])) *
                       static_cast<double>(FromBFloat16(k_[At(list * of_.tokens + token, d)]));
          }
          p[static_cast<size_t>(token)] = product / std::sqrt(of_.head_dim);
        }
        const double largest = *std::ranges::max_element(p);
        double total = 0;
        for (double& one : p) total += one = std::exp(one - largest);
        for (int32_t token = 0; token < before; ++token)
          sums[static_cast<size_t>(token)] += p[static_cast<size_t>(token)] / total / (rows_ * of_.group);
      }
    }
    for (int32_t token = 0; token < of_.tokens; ++token) {
      double& score = scores[static_cast<size_t>(token)];
      score = token < before ? 0 : std::numeric_limits<double>::infinity();
      for (int32_t near = token - votes.kernel / 2; near < token - votes.kernel / 2 + votes.kernel; ++near) {
        if (near < 0 || near >= before || token >= before) continue;
        const double vote = sums[static_cast<size_t>(near)];
        score = votes.maximum ? std::max(score, vote) : score + vote / votes.kernel;
      }
    }
    return scores;
  }

  // What the policy on the CPU keeps of the prompt.
  std::vector<int32_t> KeptOnCpu(const DecodeMethod& method, const ParameterValues& values, int32_t list) const {
    DecodeDriver driver(method, values);
    DecodePrompt prompt;
    prompt.cache = host;
    const Status begun = driver.Begin(prompt, {});
    EXPECT_TRUE(begun.ok()) << begun.message();
    DecodeStep step;  // of a token that is not there yet: the prompt's last one again
    step.problem = host;
    step.problem.seq_q = 1;
    step.problem.first_position = of_.tokens - 1;
    DecodeSelection selection;
    const Status chosen = driver.Step(step, {}, &selection);
    EXPECT_TRUE(chosen.ok()) << chosen.message();
    return TokensOfList(selection, list, of_.tokens);
  }

  static constexpr int32_t kKvHeads = 2;
  AttentionProblem host;
  const std::vector<uint16_t>& q() const { return q_; }
  const std::vector<uint16_t>& k() const { return k_; }

 private:
  size_t At(int32_t row, int32_t d) const { return static_cast<size_t>(row * of_.head_dim + d); }

  const Case of_;
  const int32_t rows_;
  std::vector<uint16_t> q_, k_;
};

// The tokens are the best by their scores: whom a rounding could swap with a dropped one may be either.
void ExpectBest(const std::vector<int32_t>& kept, const std::vector<double>& scores) {
  constexpr double kRounding = 2e-5;
  ASSERT_TRUE(std::ranges::is_sorted(kept));
  ASSERT_EQ(std::ranges::adjacent_find(kept), kept.end());
  std::vector<bool> is_kept(scores.size());
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const int32_t token : kept) {
    ASSERT_GE(token, 0);
    ASSERT_LT(token, static_cast<int32_t>(scores.size()));
    is_kept[static_cast<size_t>(token)] = true;
    least = std::min(least, scores[static_cast<size_t>(token)]);
  }
  for (size_t token = 0; token < scores.size(); ++token) {
    if (!is_kept[token]) most = std::max(most, scores[token]);
  }
  EXPECT_GE(least, most * (1 - kRounding));
}

TEST(CudaPromptVotes, KeepWhatThePolicyKeeps) {
  SKIP_WITHOUT_GPU();
  int methods = 0;
  for (const DecodeMethod* method : DecodeMethods()) {
    if (!PromptVotesOf(*method, ParameterValues(method->spec()), 1000)) continue;
    ++methods;
    for (const Case& of :
         {Case{1, 4, 128, 3000, ""}, Case{2, 1, 64, 700, "budget=200"},
          Case{1, 8, 128, 1025, "budget=128,window=16,kernel=7,pooling=max"},
          Case{1, 2, 64, 257, "window=1,kernel=1,compression_ratio=0.9"}, Case{1, 2, 64, 400, "kernel=301,window=33"},
          Case{1, 3, 128, 50, ""}, Case{1, 1, 64, 65, "budget=64"}, Case{1, 2, 128, 9000, "budget=4096,kernel=4"}}) {
      SCOPED_TRACE(method->spec().name + " " + of.parameters + " " + std::to_string(of.tokens));
      ParameterValues values(method->spec());
      ASSERT_EQ(values.Parse(method->spec(), of.parameters), "");
      const std::optional<PromptVotes> votes = PromptVotesOf(*method, values, of.tokens);
      ASSERT_TRUE(votes);
      const Prompt prompt(of, std::min(votes->window, of.tokens));
      const DeviceArray<uint16_t> q(prompt.q()), k(prompt.k());
      AttentionProblem problem = prompt.host;
      SetContiguousTensors(q.get(), k.get(), nullptr, &problem);
      const int32_t lists = of.batch * Prompt::kKvHeads;
      const size_t bytes = PromptVotesWorkspaceBytes(problem, *votes);
      const DeviceArray<unsigned char> workspace(std::vector<unsigned char>(bytes, 0xee));
      std::vector<int32_t> before;
      for (int run = 0; run < 2; ++run) {
        const DeviceArray<int32_t> tokens(std::vector<int32_t>(static_cast<size_t>(lists * votes->kept) + 1, -7));
        const Status status =
            KeepByPromptVotesCuda(problem, *votes, nullptr, tokens.get(), workspace.get(), bytes, nullptr);
        ASSERT_TRUE(status.ok()) << status.message();
        const std::vector<int32_t> all = tokens.Download();
        EXPECT_EQ(all.back(), -7);
        if (run > 0) {
          EXPECT_EQ(all, before);
        }
        before = all;
      }
      for (int32_t list = 0; list < lists; ++list) {
        const std::vector<int32_t> kept(before.begin() + list * votes->kept, before.begin() + (list + 1) * votes->kept);
        const std::vector<double> scores = prompt.Scores(list, *votes);
        const std::vector<int32_t> on_cpu = prompt.KeptOnCpu(*method, values, list);
        EXPECT_EQ(kept.size(), on_cpu.size());
        ExpectBest(kept, scores);
        ExpectBest(on_cpu, scores);
      }
    }
  }
  EXPECT_GE(methods, 1);
}

TEST(CudaPromptVotes, AreOfACommonBudgetByScoresAlone) {
  const DecodeMethod& method = *FindDecodeMethod("snap-kv");
  const auto votes = [&](const char* parameters, int32_t tokens) {
    ParameterValues values(method.spec());
    EXPECT_EQ(values.Parse(method.spec(), parameters), "");
    return PromptVotesOf(method, values, tokens);
  };
  const std::optional<PromptVotes> plain = votes("budget=300,window=32,kernel=9,pooling=max", 1000);
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->window, 32);
  EXPECT_EQ(plain->kernel, 9);
  EXPECT_TRUE(plain->maximum);
  EXPECT_EQ(plain->kept, 300);
  EXPECT_EQ(votes("", 1000)->kept, 500);
  EXPECT_EQ(votes("budget=300", 40)->kept, 40);
  EXPECT_FALSE(votes("allocation=ada", 1000));
  EXPECT_FALSE(votes("allocation=kvpress", 1000));
  EXPECT_FALSE(votes("critical=1", 1000));
  EXPECT_FALSE(votes("chunk=2", 1000));
  EXPECT_FALSE(votes("budget=30,window=64", 1000));  // the policy refuses it, and says why
  EXPECT_FALSE(PromptVotesOf(*FindDecodeMethod("tova"), ParameterValues(FindDecodeMethod("tova")->spec()), 1000));
}

TEST(CudaPromptVotes, RefuseByName) {
  const Case of{1, 2, 64, 300, ""};
  const Prompt prompt(of, 64);
  const auto refusal = [&](auto change) {
    AttentionProblem problem = prompt.host;
    PromptVotes votes{.kept = 100};
    change(&problem, &votes);
    const Status status = KeepByPromptVotesCuda(problem, votes, nullptr, nullptr, nullptr, 0, nullptr);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  using P = AttentionProblem*;
  using V = PromptVotes*;
  EXPECT_THAT(refusal([](P, V v) { v->kernel = 1026; }), HasSubstr("kernel 1026"));
  EXPECT_THAT(refusal([](P, V v) { v->window = 0; }), HasSubstr("window 0"));
  EXPECT_THAT(refusal([](P, V v) { v->kept = 63; }), HasSubstr("kept 63"));
  EXPECT_THAT(refusal([](P, V v) { v->kept = 301; }), HasSubstr("kept 301"));
  EXPECT_THAT(refusal([](P p, V) { p->seq_q = 32; }), HasSubstr("seq_q 32"));
  EXPECT_THAT(refusal([](P, V) {}), HasSubstr("workspace"));
}

}  // namespace
}  // namespace headscope::kernels
