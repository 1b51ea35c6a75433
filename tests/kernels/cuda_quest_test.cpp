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

enum class NotANumber { kNone, kKey, kQuery };

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
  float soft_cap = 0;
  bool two_keys = false;               // the keys of a page are one of two: many pages tie, not all
  bool gaps = false;                   // between the rows of q, k and v
  NotANumber nan = NotANumber::kNone;  // in the first list: its newest key, or its first head's query
  bool several = false;                // launches, on compute capability 9.0 as well
};

std::string NameOf(const ::testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return std::to_string(c.seq_k) + "_g" + std::to_string(c.group) + "_d" + std::to_string(c.head_dim) +
         (c.dtype == DType::kBFloat16 ? "_bf16" : "_fp16") + "_p" + std::to_string(c.options.page_size) + "_b" +
         std::to_string(c.options.budget) + (c.options.mean_query ? "_mean" : "") +
         (c.options.keep_newest ? "" : "_any") + (c.equal_keys ? "_ties" : "") +
         (c.v_head_dim > 0 ? "_v" + std::to_string(c.v_head_dim) : "") + (c.sinks ? "_sinks" : "") +
         (c.batch * c.kv_heads == 4 ? "" : "_l" + std::to_string(c.batch * c.kv_heads)) +
         (c.soft_cap > 0 ? "_capped" : "") + (c.two_keys ? "_two" : "") + (c.gaps ? "_gaps" : "") +
         (c.nan == NotANumber::kKey     ? "_nan_key"
          : c.nan == NotANumber::kQuery ? "_nan_query"
                                        : "");
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
    const auto add_gap = [](std::vector<uint16_t>& to) { to.insert(to.end(), static_cast<size_t>(Gap()), 0xffff); };
    for (int32_t head = 0; head < Lists() * c.group; ++head) {
      for (size_t d = 0; d < width; ++d) q_.push_back(test::ToCode(normal(random), c.dtype));
      add_gap(q_);
    }
    for (int32_t list = 0; list < Lists(); ++list) {
      float of_page = 0;
      for (int32_t row = 0; row < rows_; ++row) {
        if (row % c.options.page_size == 0) of_page = PageHasFirstKey(list, row / c.options.page_size) ? 0.5f : -0.25f;
        for (size_t d = 0; d < width; ++d) {
          const float key = c.equal_keys ? 0.5f : c.two_keys ? of_page : normal(random);
          k_.push_back(row < c.seq_k ? test::ToCode(key, c.dtype) : uint16_t{0xffff});
        }
        for (size_t d = 0; d < value_width; ++d)
          v_.push_back(row < c.seq_k ? test::ToCode(normal(random), c.dtype) : uint16_t{0xffff});
        add_gap(k_);
        add_gap(v_);
      }
    }
    num_pages_ = (c.seq_k - 1) / c.options.page_size + 1;
    if (c.nan == NotANumber::kKey) k_[static_cast<size_t>(c.seq_k - 1) * (width + static_cast<size_t>(Gap()))] = 0xffff;
    if (c.nan == NotANumber::kQuery) q_[0] = 0xffff;
  }

  static int32_t Gap() { return GetParam().gaps ? 8 : 0; }
  // Where `two_keys`: any pattern that no other has to do with.
  static bool PageHasFirstKey(int32_t list, int32_t page) { return (page * 7 + list) % 5 < 2; }

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
    problem.soft_cap = c.soft_cap;
    const int64_t width = c.head_dim + Gap(), value_width = ValueDim() + Gap();
    problem.q = {q, problem.num_qo_heads * width, width, width};
    problem.k = {k, KvHeads() * (rows_ * width), rows_ * width, width};
    problem.v = {v, KvHeads() * (rows_ * value_width), rows_ * value_width, value_width};
    return problem;
  }
  AttentionOutput Output(void* o, float* lse) const {
    const int64_t head_dim = ValueDim();
    return {{o, KvHeads() * GetParam().group * head_dim, head_dim, head_dim}, lse};
  }
  double Key(int32_t list, int32_t token, int32_t d) const {
    const auto at = static_cast<size_t>((int64_t{list} * rows_ + token) * (GetParam().head_dim + Gap()) + d);
    return static_cast<double>(test::FromCode(k_[at], GetParam().dtype));
  }
  // Least and largest of a page's component; a NaN is neither.
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
          const auto at = static_cast<size_t>((list * c.group + h) * (c.head_dim + Gap()) + d);
          const auto x = static_cast<double>(test::FromCode(q_[at], c.dtype));
          if (std::isnan(x)) continue;
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
    if (GetParam().two_keys) {
      // Of the pages of either key the first ones.
      std::vector<bool> ended(2, false);
      for (size_t page = 0; page < scores.size(); ++page) {
        const bool taken = std::binary_search(chosen.begin(), chosen.end(), static_cast<int32_t>(page));
        const size_t key = PageHasFirstKey(list, static_cast<int32_t>(page)) ? 0 : 1;
        EXPECT_FALSE(taken && ended[key]) << "page " << page << " of list " << list;
        if (!taken) ended[key] = true;
      }
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
  // A NaN is one in both.
  size_t nans = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const float got = test::FromCode(first[i], c.dtype);
    ASSERT_EQ(std::isnan(got), std::isnan(expected[i])) << "element " << i;
    nans += std::isnan(got) ? 1 : 0;
    if (std::isnan(got)) continue;
    difference += std::pow(got - expected[i], 2);
    norm += std::pow(expected[i], 2);
  }
  EXPECT_LE(std::sqrt(difference), (c.dtype == DType::kBFloat16 ? 5e-3 : 1e-3) * std::sqrt(norm));
  EXPECT_EQ(nans, static_cast<size_t>(ValueDim()) * (c.nan == NotANumber::kNone    ? 0
                                                     : c.nan == NotANumber::kQuery ? 1
                                                                                   : static_cast<size_t>(c.group)));
  const auto expect_near = [](float got, float want) {
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got)) << got;
    } else {
      EXPECT_NEAR(got, want, 1e-4);
    }
  };
  for (size_t i = 0; i < lses.size(); ++i) expect_near(lses[i], expected_lse[i]);
  for (size_t i = 0; i < largest.size(); ++i) expect_near(largest[i], expected_row_max[i]);
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
  // As many pages and picks as one launch takes at head_dim 128, and more picks.
  for (const int32_t budget : {256, 900}) {
    cases.push_back({8192,
                     1,
                     128,
                     DType::kBFloat16,
                     {.budget = budget, .page_size = 1, .mean_query = false, .keep_newest = false}});
  }
  // Lists that fill a GPU of 132 multiprocessors in one launch, with work for 16 blocks each: as many as it has room
  // for, on an H200 clusters of 16, 9, 8, 6, 5, 4 and 3 blocks. Some of the blocks have no pages to score.
  for (const auto& [batch, kv_heads] : {std::pair{1, 7}, {1, 8}, {1, 15}, {2, 8}, {2, 11}, {3, 8}, {3, 13}}) {
    for (const int32_t page_size : {16, 7}) {
      cases.push_back({.seq_k = 2400,
                       .group = 4,
                       .head_dim = 64,
                       .dtype = DType::kBFloat16,
                       .options = {.budget = 2000, .page_size = page_size, .keep_newest = page_size == 16},
                       .sinks = page_size == 7,
                       .batch = batch,
                       .kv_heads = kv_heads});
    }
  }
  for (const int32_t batch : {1, 2, 3}) {
    cases.push_back({.seq_k = 16384,
                     .group = 4,
                     .head_dim = batch == 1 ? 128 : 64,
                     .dtype = DType::kBFloat16,
                     .options = {.budget = 4096},
                     .batch = batch,
                     .kv_heads = 8});
  }
  // Work for 3 blocks each: 3, 2 and 1 of them, two waves of single blocks; and lists that fill no wave.
  for (const auto& [batch, kv_heads] : {std::pair{1, 8}, {5, 8}, {8, 8}, {16, 8}, {33, 8}, {17, 8}}) {
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
  // What few calls ask for, by clusters and by single blocks.
  for (const auto& [batch, kv_heads] : {std::pair{2, 2}, {5, 14}}) {
    const Case plain{.seq_k = 1301,
                     .group = 4,
                     .head_dim = 64,
                     .dtype = DType::kBFloat16,
                     .options = {.budget = 640},
                     .batch = batch,
                     .kv_heads = kv_heads};
    for (const int which : {0, 1, 2, 3, 4, 5}) {
      Case c = plain;
      if (which == 0) c.soft_cap = 3;
      if (which == 1) c.two_keys = true;
      if (which == 2) c.gaps = true;
      if (which == 3) c.nan = NotANumber::kKey;
      if (which == 4) c.nan = NotANumber::kQuery;
      if (which == 5) {
        c.head_dim = 128;
        c.soft_cap = 3;
        c.sinks = c.gaps = c.two_keys = true;
      }
      cases.push_back(c);
    }
  }
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

class CudaQuestLaunches : public CudaQuest {
 protected:
  // As many blocks a list as have work and fit. Which clusters a GPU has room for is the chip's: of fewer than 8 blocks
  // they must keep half of it busy, or there is no work for more.
  void ExpectClusters(int blocks, int multiprocessors) const {
    const QuestCudaOptions& options = GetParam().options;
    RecordProperty("cluster_blocks", blocks);
    const int attended = std::min(options.budget / options.page_size + 1, num_pages_) * options.page_size;
    const int work = std::min(16, (std::max(num_pages_, attended) + 127) / 128);
    EXPECT_LE(blocks, work);
    if (Lists() > multiprocessors) {
      EXPECT_EQ(blocks, 1);
      return;
    }
    EXPECT_LE(blocks * Lists(), multiprocessors);
    EXPECT_TRUE(blocks >= std::min(work - 1, 8) || 2 * blocks * Lists() >= multiprocessors)
        << blocks << " blocks for each of " << Lists() << " lists";
  }
};

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
  int major = 0, multiprocessors = 0;
  ASSERT_EQ(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), cudaSuccess);
  ASSERT_EQ(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0), cudaSuccess);
  if (major == 9 && !c.several) {
    ASSERT_EQ(launches, 1u);
    cudaGraphNode_t node = nullptr;
    ASSERT_EQ(cudaGraphGetNodes(graph, &node, &launches), cudaSuccess);
    cudaLaunchAttributeValue cluster{};
    ASSERT_EQ(cudaGraphKernelNodeGetAttribute(node, cudaLaunchAttributeClusterDimension, &cluster), cudaSuccess);
    ExpectClusters(std::max(1, static_cast<int>(cluster.clusterDim.x)), multiprocessors);
  } else {
    EXPECT_GE(launches, 3u);
  }
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  testing::ExpectReplays(
      step,
      [&] { ASSERT_EQ(cudaMemcpy(o.get(), poison.data(), 2 * poison.size(), cudaMemcpyHostToDevice), cudaSuccess); },
      [&] { EXPECT_EQ(o.Download(), expected); });
}

Case WithLists(int32_t batch, int32_t kv_heads, bool several = false) {
  return {.seq_k = 2400,
          .group = 2,
          .head_dim = 64,
          .dtype = DType::kBFloat16,
          .options = {.budget = 2000},
          .batch = batch,
          .kv_heads = kv_heads,
          .several = several};
}
// Pages of a token, as many as one launch can choose from and one more; at head_dim 128 the tiles leave less room for
// what is chosen.
Case WithPages(int32_t pages, int32_t head_dim, int32_t picks, bool several = false) {
  return {.seq_k = pages,
          .group = 1,
          .head_dim = head_dim,
          .dtype = DType::kBFloat16,
          .options = {.budget = picks, .page_size = 1, .keep_newest = false},
          .several = several};
}

INSTANTIATE_TEST_SUITE_P(
    All, CudaQuestLaunches,
    ::testing::Values(
        Case{.seq_k = 3001, .group = 4, .head_dim = 128, .dtype = DType::kBFloat16, .options = {.budget = 600}},
        Case{.seq_k = 1501,
             .group = 16,
             .head_dim = 64,
             .dtype = DType::kFloat16,
             .options = {.budget = 600},
             .several = true},
        WithLists(1, 7), WithLists(1, 8), WithLists(1, 15), WithLists(2, 8), WithLists(2, 11), WithLists(3, 8),
        WithLists(8, 8), WithLists(33, 8), WithLists(17, 8, /*several=*/true), WithPages(8192, 128, 256),
        WithPages(8192, 128, 900, /*several=*/true), WithPages(8192, 64, 900),
        WithPages(8193, 64, 900, /*several=*/true)),
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
