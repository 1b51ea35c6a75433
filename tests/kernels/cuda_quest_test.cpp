// SPDX-License-Identifier: Apache-2.0
// Quest's decode step on the GPU: bounds of pages bit by bit, the chosen pages against scores in float64, the output
// against the float64 executor over what was chosen. Rows behind the cache's end hold NaN. Skipped without a GPU.
#include "kernels/cuda_quest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "device_array.h"
#include "float_codes.h"
#include "graph_replays.h"
#include "kernels/cpu_executor.h"
#include "kernels/cuda_devices.h"
#include "run_seed.h"
#include "support/gpu.h"

namespace headscope::kernels {
namespace {

using testing::DeviceArray;

struct Case {
  int32_t seq_k;
  int32_t group;
  int32_t head_dim;
  DType dtype;
  QuestCudaOptions options;
  bool equal_keys = false;  // every key is the same: all pages tie
  int32_t v_head_dim = 0;   // 0: head_dim
  bool sinks = false;
  int32_t batch = 2, kv_heads = 2;
};

std::string NameOf(const ::testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return std::to_string(c.seq_k) + "_g" + std::to_string(c.group) + "_d" + std::to_string(c.head_dim) +
         (c.dtype == DType::kBFloat16 ? "_bf16" : "_fp16") + "_p" + std::to_string(c.options.page_size) + "_b" +
         std::to_string(c.options.budget) + (c.options.mean_query ? "_mean" : "") +
         (c.options.keep_newest ? "" : "_any") + (c.equal_keys ? "_ties" : "") +
         (c.v_head_dim > 0 ? "_v" + std::to_string(c.v_head_dim) : "") + (c.sinks ? "_sinks" : "") +
         (c.batch * c.kv_heads == 4 ? "" : "_l" + std::to_string(c.batch * c.kv_heads));
}

class CudaQuest : public ::testing::TestWithParam<Case> {
 protected:
  static int32_t KvHeads() { return GetParam().kv_heads; }
  static int32_t Lists() { return GetParam().batch * GetParam().kv_heads; }

  void SetUp() override {
    SKIP_WITHOUT_GPU();
    std::mt19937 random(testing::FreshSeed());
    std::normal_distribution<float> normal;
    const Case& c = GetParam();
    rows_ = c.seq_k + 3;
    const auto width = static_cast<size_t>(c.head_dim), value_width = static_cast<size_t>(ValueDim());
    for (int32_t head = 0; c.sinks && head < KvHeads() * c.group; ++head) sinks_.push_back(2 * normal(random));
    for (size_t i = 0; i < static_cast<size_t>(Lists() * c.group) * width; ++i)
      q_.push_back(test::ToCode(normal(random), c.dtype));
    for (int32_t list = 0; list < Lists(); ++list) {
      for (int32_t row = 0; row < rows_; ++row) {
        for (size_t d = 0; d < width; ++d) {
          const float key = c.equal_keys ? 0.5f : normal(random);
          k_.push_back(row < c.seq_k ? test::ToCode(key, c.dtype) : uint16_t{0xffff});
        }
        for (size_t d = 0; d < value_width; ++d)
          v_.push_back(row < c.seq_k ? test::ToCode(normal(random), c.dtype) : uint16_t{0xffff});
      }
    }
    num_pages_ = (c.seq_k - 1) / c.options.page_size + 1;
  }

  static int32_t ValueDim() { return GetParam().v_head_dim > 0 ? GetParam().v_head_dim : GetParam().head_dim; }
  AttentionProblem Problem(const void* q, const void* k, const void* v, int32_t seq_k) const {
    const Case& c = GetParam();
    AttentionProblem problem;
    problem.batch = GetParam().batch;
    problem.num_kv_heads = KvHeads();
    problem.num_qo_heads = KvHeads() * c.group;
    problem.head_dim = c.head_dim;
    problem.v_head_dim = c.v_head_dim;
    if (!sinks_.empty()) problem.sinks = sinks_.data();
    problem.seq_q = 1;
    problem.seq_k = seq_k;
    problem.first_position = seq_k - 1;
    problem.dtype = c.dtype;
    problem.q = {q, int64_t{problem.num_qo_heads} * c.head_dim, c.head_dim, c.head_dim};
    problem.k = {k, int64_t{KvHeads()} * rows_ * c.head_dim, int64_t{rows_} * c.head_dim, c.head_dim};
    problem.v = {v, int64_t{KvHeads()} * rows_ * ValueDim(), int64_t{rows_} * ValueDim(), ValueDim()};
    return problem;
  }
  AttentionOutput Output(void* o, float* lse) const {
    const int64_t head_dim = ValueDim();
    return {{o, KvHeads() * GetParam().group * head_dim, head_dim, head_dim}, lse};
  }
  double Key(int32_t list, int32_t token, int32_t d) const {
    const auto at = static_cast<size_t>((int64_t{list} * rows_ + token) * GetParam().head_dim + d);
    return static_cast<double>(test::FromCode(k_[at], GetParam().dtype));
  }
  // Least and largest of a page's component.
  std::pair<double, double> Bounds(int32_t list, int32_t page, int32_t d) const {
    const int32_t size = GetParam().options.page_size;
    double least = std::numeric_limits<double>::infinity(), largest = -least;
    for (int32_t token = page * size; token < std::min((page + 1) * size, GetParam().seq_k); ++token) {
      least = std::min(least, Key(list, token, d));
      largest = std::max(largest, Key(list, token, d));
    }
    return {least, largest};
  }
  std::vector<double> Scores(int32_t list) const {
    const Case& c = GetParam();
    std::vector<double> scores(static_cast<size_t>(num_pages_), 0.0);
    for (int32_t page = 0; page < num_pages_; ++page) {
      for (int32_t d = 0; d < c.head_dim; ++d) {
        const auto [least, largest] = Bounds(list, page, d);
        double mean = 0;
        for (int32_t h = 0; h < c.group; ++h) {
          const auto at = static_cast<size_t>((list * c.group + h) * c.head_dim + d);
          const auto x = static_cast<double>(test::FromCode(q_[at], c.dtype));
          mean += x;
          if (!c.options.mean_query) scores[static_cast<size_t>(page)] += std::max(x * least, x * largest);
        }
        if (c.options.mean_query) scores[static_cast<size_t>(page)] += std::max(mean * least, mean * largest);
      }
    }
    return scores;
  }
  // No page that was left out scores more than one that was taken, but by rounding; ties go to the lower page.
  void CheckChoice(int32_t list, std::vector<int32_t> chosen) const {
    const QuestCudaOptions& options = GetParam().options;
    for (size_t i = 1; i < chosen.size(); ++i) ASSERT_LT(chosen[i - 1], chosen[i]);
    ASSERT_GE(chosen.front(), 0);
    ASSERT_LT(chosen.back(), num_pages_);
    std::vector<double> scores = Scores(list);
    if (options.keep_newest) {
      ASSERT_EQ(chosen.back(), num_pages_ - 1);
      chosen.pop_back();
      scores.pop_back();
    }
    double worst_in = std::numeric_limits<double>::infinity(), best_out = -worst_in;
    for (size_t page = 0; page < scores.size(); ++page) {
      if (std::binary_search(chosen.begin(), chosen.end(), static_cast<int32_t>(page))) {
        worst_in = std::min(worst_in, scores[page]);
      } else {
        best_out = std::max(best_out, scores[page]);
      }
    }
    const double rounding = 1e-6 * GetParam().head_dim * GetParam().group;
    EXPECT_GE(worst_in, best_out - rounding);
    if (GetParam().equal_keys) {
      for (size_t i = 0; i < chosen.size(); ++i) EXPECT_EQ(chosen[i], static_cast<int32_t>(i));
    }
  }

  int32_t rows_ = 0, num_pages_ = 0;
  std::vector<uint16_t> q_, k_, v_;
  std::vector<float> sinks_;
};

TEST_P(CudaQuest, TakesTheBestPagesAndAttendsToThem) {
  const Case& c = GetParam();
  const DeviceArray<uint16_t> q(q_), k(k_), v(v_);
  const AttentionProblem problem = Problem(q.get(), k.get(), v.get(), c.seq_k);
  // Room for a page more than there are, which stays as it was.
  const int64_t of_page = 2 * int64_t{c.head_dim}, list_stride = (num_pages_ + 1) * of_page;
  const DeviceArray<uint16_t> bounds(std::vector<uint16_t>(static_cast<size_t>(Lists() * list_stride), 0xa5a5));
  const CudaPageBounds page_bounds{bounds.get(), list_stride};
  Status status;
  if (c.seq_k > 1) {
    // All tokens but one, then that one.
    status = UpdatePageBoundsCuda(Problem(q.get(), k.get(), v.get(), c.seq_k - 1), c.options.page_size, 0, page_bounds,
                                  nullptr);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  status = UpdatePageBoundsCuda(problem, c.options.page_size, c.seq_k - 1, page_bounds, nullptr);
  ASSERT_TRUE(status.ok()) << status.message();
  const std::vector<uint16_t> made = bounds.Download();
  for (int32_t list = 0; list < Lists(); ++list) {
    for (int32_t page = 0; page < num_pages_; ++page) {
      for (int32_t d = 0; d < c.head_dim; ++d) {
        const auto at = static_cast<size_t>(list * list_stride + page * of_page + d);
        const auto [least, largest] = Bounds(list, page, d);
        ASSERT_EQ(static_cast<double>(test::FromCode(made[at], c.dtype)), least) << "page " << page;
        ASSERT_EQ(static_cast<double>(test::FromCode(made[at + static_cast<size_t>(c.head_dim)], c.dtype)), largest);
      }
    }
    EXPECT_EQ(made[static_cast<size_t>(list * list_stride + num_pages_ * of_page)], 0xa5a5) << "behind the last page";
  }

  const auto picks = static_cast<size_t>(NumQuestPicks(problem, c.options));
  const size_t bytes = QuestWorkspaceBytes(problem, c.options);
  const DeviceArray<unsigned char> workspace(std::vector<unsigned char>(bytes, 0xff));
  const DeviceArray<int32_t> chosen(std::vector<int32_t>(static_cast<size_t>(Lists()) * picks + 1, -7));
  const auto output_size = static_cast<size_t>(Lists() * c.group * ValueDim());
  std::vector<uint16_t> first;
  std::vector<int32_t> pages;
  std::vector<float> lses, largest;
  for (int run = 0; run < 2; ++run) {
    const DeviceArray<uint16_t> o(std::vector<uint16_t>(output_size + 1, 0xa5a5));
    const DeviceArray<float> lse(std::vector<float>(static_cast<size_t>(Lists() * c.group), std::nanf("")));
    const DeviceArray<float> row_max(std::vector<float>(static_cast<size_t>(Lists() * c.group), std::nanf("")));
    AttentionOutput output = Output(o.get(), lse.get());
    if (run == 1) output.row_max = row_max.get();
    // The second run's choice stays in the workspace.
    status = DecodeQuestCuda(problem, c.options, page_bounds, output, run == 0 ? chosen.get() : nullptr,
                             workspace.get(), bytes, nullptr);
    ASSERT_TRUE(status.ok()) << status.message();
    const std::vector<uint16_t> all = o.Download();
    if (run == 1) {
      EXPECT_EQ(all, first) << "another result of the same call";
      largest = row_max.Download();
      break;
    }
    first = all;
    pages = chosen.Download();
    lses = lse.Download();
  }
  EXPECT_EQ(first.back(), 0xa5a5) << "written behind the output";
  EXPECT_EQ(pages.back(), -7) << "written behind the chosen pages";

  DecodeSelection selection;
  selection.batch = c.batch;
  selection.num_kv_heads = KvHeads();
  selection.num_qo_heads = KvHeads() * c.group;
  selection.page_size = c.options.page_size;
  selection.page_begin.push_back(0);
  for (int32_t list = 0; list < Lists(); ++list) {
    const auto begin = pages.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(list) * picks);
    const std::vector<int32_t> of_list(begin, begin + static_cast<std::ptrdiff_t>(picks));
    CheckChoice(list, of_list);
    selection.pages.insert(selection.pages.end(), of_list.begin(), of_list.end());
    selection.page_begin.push_back(static_cast<int64_t>(selection.pages.size()));
  }
  std::vector<float> expected(output_size), expected_lse(lses.size()), expected_row_max(lses.size());
  AttentionOutput reference = Output(expected.data(), expected_lse.data());
  reference.row_max = expected_row_max.data();
  status = DecodeReference(Problem(q_.data(), k_.data(), v_.data(), c.seq_k), selection, reference);
  ASSERT_TRUE(status.ok()) << status.message();
  double difference = 0, norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(test::FromCode(first[i], c.dtype) - expected[i], 2);
    norm += std::pow(expected[i], 2);
  }
  EXPECT_LE(std::sqrt(difference), (c.dtype == DType::kBFloat16 ? 5e-3 : 1e-3) * std::sqrt(norm));
  for (size_t i = 0; i < lses.size(); ++i) EXPECT_NEAR(lses[i], expected_lse[i], 1e-4);
  for (size_t i = 0; i < largest.size(); ++i) EXPECT_NEAR(largest[i], expected_row_max[i], 1e-4);
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  const int32_t budgets[] = {1, 64, 500, 1 << 20};
  int turn = 0;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    for (const int32_t head_dim : {64, 128}) {
      for (const int32_t group : {1, 3, 4, 8, 16}) {
        for (const int32_t length : {1, 47, 500, 5001}) {
          for (const int32_t page_size : {16, turn % 2 == 0 ? 1 : 23}) {
            cases.push_back({length,
                             group,
                             head_dim,
                             dtype,
                             {.budget = budgets[turn / 2 % 4],
                              .page_size = page_size,
                              .mean_query = turn % 5 == 2,
                              .keep_newest = turn % 3 != 1}});
          }
          ++turn;
        }
      }
    }
  }
  // As many scores as a block's registers hold, and more.
  cases.push_back({8192, 1, 64, DType::kBFloat16, {.budget = 300, .page_size = 1}});
  cases.push_back({8193, 1, 64, DType::kBFloat16, {.budget = 300, .page_size = 1, .keep_newest = false}});
  cases.push_back({46341, 2, 128, DType::kBFloat16, {.budget = 4096}});
  cases.push_back({131072, 4, 128, DType::kBFloat16, {.budget = 4096}});
  for (const int32_t page_size : {1, 16}) {
    cases.push_back({9000, 2, 64, DType::kFloat16, {.budget = 700, .page_size = page_size}, /*equal_keys=*/true});
    cases.push_back({2000, 2, 64, DType::kFloat16, {.budget = 700, .page_size = page_size}, /*equal_keys=*/true});
  }
  // Lists that fill a GPU of 132 multiprocessors in one launch: clusters of 16, 5, 3, 2 and 1 blocks, two waves of
  // single blocks; and lists that do not.
  for (const auto& [batch, kv_heads] : {std::pair{1, 8}, {3, 8}, {5, 8}, {8, 8}, {16, 8}, {33, 8}, {17, 8}}) {
    for (const int32_t page_size : {16, 7}) {
      cases.push_back({.seq_k = 1201,
                       .group = 4,
                       .head_dim = batch > 16 ? 64 : 128,
                       .dtype = DType::kBFloat16,
                       .options = {.budget = 300, .page_size = page_size, .keep_newest = page_size == 16},
                       .sinks = page_size == 7,
                       .batch = batch,
                       .kv_heads = kv_heads});
    }
  }
  cases.push_back({.seq_k = 2048,
                   .group = 1,
                   .head_dim = 64,
                   .dtype = DType::kFloat16,
                   .options = {.budget = 1024, .page_size = 1},
                   .equal_keys = true,
                   .batch = 16,
                   .kv_heads = 8});
  // Sinks, and values of another head_dim, which other kernels attend.
  for (const int32_t head_dim : {64, 128}) {
    for (const int32_t v_head_dim : {0, 48, 128, 192}) {
      for (const int32_t group : {1, 4, 7, 8}) {
        cases.push_back({1300, group, head_dim, DType::kBFloat16, {.budget = 400}, false, v_head_dim, true});
        cases.push_back({777, group, head_dim, DType::kFloat16, {.budget = 64, .page_size = 1}, false, v_head_dim});
      }
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, CudaQuest, ::testing::ValuesIn(Cases()), NameOf);

class CudaQuestLaunches : public CudaQuest {};

// On compute capability 9.0 the step is one launch where clusters take it, and any number of replays give its bits.
TEST_P(CudaQuestLaunches, AreOneWhereClustersTakeTheStep) {
  const Case& c = GetParam();
  const DeviceArray<uint16_t> q(q_), k(k_), v(v_);
  const AttentionProblem problem = Problem(q.get(), k.get(), v.get(), c.seq_k);
  const int64_t list_stride = int64_t{num_pages_} * 2 * c.head_dim;
  const DeviceArray<uint16_t> bounds(std::vector<uint16_t>(static_cast<size_t>(Lists() * list_stride), 0xa5a5));
  const CudaPageBounds page_bounds{bounds.get(), list_stride};
  ASSERT_TRUE(UpdatePageBoundsCuda(problem, c.options.page_size, 0, page_bounds, nullptr).ok());
  const size_t bytes = QuestWorkspaceBytes(problem, c.options);
  const DeviceArray<unsigned char> workspace(std::vector<unsigned char>(bytes, 0xff));
  const std::vector<uint16_t> poison(static_cast<size_t>(Lists() * c.group * ValueDim()), 0xa5a5);
  const DeviceArray<uint16_t> o(poison);
  const auto step = [&](cudaStream_t stream) {
    return DecodeQuestCuda(problem, c.options, page_bounds, Output(o.get(), nullptr), nullptr, workspace.get(), bytes,
                           stream);
  };
  ASSERT_TRUE(step(nullptr).ok());
  const std::vector<uint16_t> expected = o.Download();
  ASSERT_NE(expected, poison);

  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_TRUE(step(stream).ok());
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  size_t launches = 0;
  ASSERT_EQ(cudaGraphGetNodes(graph, nullptr, &launches), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  int major = 0;
  ASSERT_EQ(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), cudaSuccess);
  if (major == 9 && c.group <= 8) {
    EXPECT_EQ(launches, 1u);
  } else {
    EXPECT_GE(launches, 3u);
  }
  testing::ExpectReplays(
      step,
      [&] { ASSERT_EQ(cudaMemcpy(o.get(), poison.data(), 2 * poison.size(), cudaMemcpyHostToDevice), cudaSuccess); },
      [&] { EXPECT_EQ(o.Download(), expected); });
}

INSTANTIATE_TEST_SUITE_P(
    All, CudaQuestLaunches,
    ::testing::Values(
        Case{.seq_k = 3001, .group = 4, .head_dim = 128, .dtype = DType::kBFloat16, .options = {.budget = 600}},
        Case{.seq_k = 1501, .group = 16, .head_dim = 64, .dtype = DType::kFloat16, .options = {.budget = 600}}),
    NameOf);

TEST(CudaQuestRefusals, NameTheFieldBeforeAGpuIsAskedFor) {
  alignas(16) static char memory[64];
  AttentionProblem problem;
  problem.num_qo_heads = problem.num_kv_heads = 1;
  problem.head_dim = 64;
  problem.seq_q = 1;
  problem.seq_k = 100;
  problem.first_position = 99;
  problem.dtype = DType::kBFloat16;
  problem.q = problem.k = problem.v = {memory, 6400, 6400, 64};
  const auto refused = [&](auto breaks, const std::string& words, StatusCode code = StatusCode::kInvalidArgument) {
    AttentionProblem p = problem;
    QuestCudaOptions options;
    CudaPageBounds bounds{memory, 7 * 128};
    breaks(p, options, bounds);
    const Status status =
        DecodeQuestCuda(p, options, bounds, {{memory, 64, 64, 64}, nullptr}, nullptr, nullptr, 0, nullptr);
    EXPECT_EQ(status.code(), code) << words;
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
  };
  using P = AttentionProblem;
  using O = QuestCudaOptions;
  using B = CudaPageBounds;
  refused([](P& p, O&, B&) { p.head_dim = 256; }, "head_dim 256", StatusCode::kUnsupported);
  refused([](P& p, O&, B&) { p.window = 50; }, "window is 50", StatusCode::kUnsupported);
  refused([](P& p, O&, B&) { p.dtype = DType::kFloat32; }, "dtype fp32", StatusCode::kUnsupported);
  refused([](P&, O& o, B&) { o.page_size = 0; }, "page_size 0");
  refused([](P&, O& o, B&) { o.page_size = 1025; }, "page_size 1025");
  refused([](P&, O& o, B&) { o.budget = 0; }, "budget 0");
  refused([](P&, O&, B& b) { b.list_stride = 6 * 128; }, "bounds.list_stride 768");
  refused([](P&, O&, B& b) { b.list_stride = 7 * 128 + 4; }, "bounds.list_stride 900");
  refused([](P&, O&, B& b) { b.data = nullptr; }, "bounds.data");
}

}  // namespace
}  // namespace headscope::kernels
