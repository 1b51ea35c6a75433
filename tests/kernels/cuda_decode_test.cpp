// SPDX-License-Identifier: Apache-2.0
// Decode on the GPU against the CPU's SparQ selector and the float64 executor: fresh random data, ragged lengths, group
// sizes, both element types, with and without the component-major copy of K; keys that defeat the first cut of the
// selection, and keys that are all equal. Rows of the cache past the end hold NaN, as do at last the rows of V that are
// not attended; what lies around the output stays as it was. Skipped without a GPU.
#include "kernels/cuda_decode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "device_array.h"
#include "float_codes.h"
#include "kernels/contiguous.h"
#include "kernels/cpu_executor.h"
#include "kernels/decode_method.h"
#include "problem_shape.h"
#include "run_seed.h"
#include "support/gpu.h"

namespace headscope::kernels {
namespace {

using test::FromBFloat16;
using test::FromFloat16;
using test::ToBFloat16;
using test::ToFloat16;
using testing::DeviceArray;

enum class Keys {
  kRandom,
  // A third of the tokens, in runs, lies along the query: far more high scores in few threads than a first cut expects.
  kSideBySide,
  // Every eighth token of every 28th block of 64 lies along the query: few to a thread of the first selection, but side
  // by side in the lists that are merged, where they are more than the first cut may leave and have few threads to
  // vote.
  kInBlocks,
  kEqual,  // every score ties: the earliest tokens win
};

struct Case {
  int32_t seq_k;
  int32_t num_qo_heads;
  int32_t num_kv_heads;
  int32_t head_dim;
  DType dtype;
  int32_t rank = 32;
  int32_t num_tokens = 128;
  Keys keys = Keys::kRandom;
  float scale = 0;
  float soft_cap = 0;
  bool mean_value = true;
};

std::string NameOf(const ::testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return std::to_string(c.seq_k) + "_h" + std::to_string(c.num_qo_heads) + "_" + std::to_string(c.num_kv_heads) + "_d" +
         std::to_string(c.head_dim) + (c.dtype == DType::kBFloat16 ? "_bf16" : "_fp16") + "_r" +
         std::to_string(c.rank) + "_k" + std::to_string(c.num_tokens) +
         (c.keys == Keys::kRandom       ? ""
          : c.keys == Keys::kSideBySide ? "_side_by_side"
          : c.keys == Keys::kInBlocks   ? "_in_blocks"
                                        : "_equal") +
         (c.scale != 0 ? "_scaled" : "") + (c.soft_cap != 0 ? "_capped" : "") + (c.mean_value ? "" : "_without_mean");
}

class CudaDecode : public ::testing::TestWithParam<Case> {
 protected:
  static constexpr int32_t kBatch = 2;

  void SetUp() override {
    SKIP_WITHOUT_GPU();
    std::mt19937 random(testing::FreshSeed());
    std::normal_distribution<float> normal;
    const Case& c = GetParam();
    capacity_ = (c.seq_k + 63) / 64 * 64;
    const auto encode = c.dtype == DType::kBFloat16 ? ToBFloat16 : ToFloat16;
    const auto decode = c.dtype == DType::kBFloat16 ? FromBFloat16 : FromFloat16;
    q_.resize(static_cast<size_t>(kBatch * c.num_qo_heads * c.head_dim));
    // Some components weigh far more than others, as those of real queries do; else SparQ has nothing to choose.
    for (uint16_t& x : q_) x = encode(normal(random) * std::exp(normal(random)));
    const auto cache = static_cast<size_t>(kBatch) * static_cast<size_t>(c.num_kv_heads * capacity_ * c.head_dim);
    k_.resize(cache);
    v_.resize(cache);
    kt_.resize(cache);
    for (int32_t list = 0; list < kBatch * c.num_kv_heads; ++list) {
      for (int32_t token = 0; token < capacity_; ++token) {
        const bool live = token < c.seq_k;
        for (int32_t d = 0; d < c.head_dim; ++d) {
          const auto at = static_cast<size_t>((int64_t{list} * capacity_ + token) * c.head_dim + d);
          float key = normal(random);
          if ((c.keys == Keys::kSideBySide && token % 1024 < 360) ||
              (c.keys == Keys::kInBlocks && token / 64 % 28 == 3 && token % 8 == 0)) {
            const int32_t head = list % c.num_kv_heads * (c.num_qo_heads / c.num_kv_heads);
            const int32_t row = list / c.num_kv_heads * c.num_qo_heads + head;
            key += 0.25f * decode(q_[static_cast<size_t>(row * c.head_dim + d)]);
          } else if (c.keys == Keys::kEqual) {
            key = static_cast<float>(d % 7) * 0.25f;
          }
          k_[at] = encode(live ? key : std::numeric_limits<float>::quiet_NaN());
          v_[at] = encode(live ? normal(random) : std::numeric_limits<float>::quiet_NaN());
          kt_[static_cast<size_t>((int64_t{list} * c.head_dim + d) * capacity_ + token)] = k_[at];
        }
      }
    }
  }

  AttentionProblem Problem(const void* q, const void* k, const void* v) const {
    const Case& c = GetParam();
    AttentionProblem problem;
    problem.batch = kBatch;
    problem.num_qo_heads = c.num_qo_heads;
    problem.num_kv_heads = c.num_kv_heads;
    problem.head_dim = c.head_dim;
    problem.seq_q = 1;
    problem.seq_k = c.seq_k;
    problem.first_position = c.seq_k - 1;
    problem.dtype = c.dtype;
    problem.scale = c.scale;
    problem.soft_cap = c.soft_cap;
    problem.q = {q, int64_t{c.num_qo_heads} * c.head_dim, c.head_dim, c.head_dim};
    problem.k = {k, int64_t{c.num_kv_heads} * capacity_ * c.head_dim, int64_t{capacity_} * c.head_dim, c.head_dim};
    problem.v = {v, problem.k.batch_stride, problem.k.head_stride, problem.k.row_stride};
    return problem;
  }

  AttentionOutput Output(void* o, float* lse) const {
    const Case& c = GetParam();
    AttentionOutput output;
    output.o = {o, int64_t{c.num_qo_heads} * c.head_dim, c.head_dim, c.head_dim};
    output.lse = lse;
    return output;
  }

  // An output with kGuard elements before it and behind it, and its download, which finds them as they were.
  static constexpr uint16_t kPoison = 0x7fff;
  std::vector<uint16_t> GuardedOutput() const { return std::vector<uint16_t>(q_.size() + 2 * kGuard, kPoison); }
  static std::vector<uint16_t> Unguarded(const DeviceArray<uint16_t>& o) {
    const std::vector<uint16_t> all = o.Download();
    const auto is_poison = [](uint16_t x) { return x == kPoison; };
    EXPECT_TRUE(std::all_of(all.begin(), all.begin() + kGuard, is_poison)) << "written before the output";
    EXPECT_TRUE(std::all_of(all.end() - kGuard, all.end(), is_poison)) << "written behind the output";
    return {all.begin() + kGuard, all.end() - kGuard};
  }
  static constexpr int32_t kGuard = 64;
  static constexpr float kNoNumber = -12345.0f;  // what nobody writes

  // |a - b| / |b| over all heads.
  double RelativeError(const std::vector<uint16_t>& a, const std::vector<float>& b) const {
    const auto decode = GetParam().dtype == DType::kBFloat16 ? FromBFloat16 : FromFloat16;
    double difference = 0, norm = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      difference += std::pow(static_cast<double>(decode(a[i])) - static_cast<double>(b[i]), 2);
      norm += std::pow(static_cast<double>(b[i]), 2);
    }
    return std::sqrt(difference / norm);
  }
  // bf16 rounds the output to 2^-9 and the probabilities likewise; fp16 to 2^-11.
  double Tolerance() const { return GetParam().dtype == DType::kBFloat16 ? 5e-3 : 1e-3; }

  // V with NaN in all rows but those of `chosen` [lists, num_tokens].
  std::vector<uint16_t> AttendedValues(const std::vector<int32_t>& chosen) const {
    const Case& c = GetParam();
    std::vector<uint16_t> values(v_.size(), c.dtype == DType::kBFloat16 ? ToBFloat16(NAN) : ToFloat16(NAN));
    const auto kept = static_cast<size_t>(std::min(c.num_tokens, c.seq_k));
    for (size_t i = 0; i < chosen.size(); ++i) {
      const size_t list = i / static_cast<size_t>(c.num_tokens);
      if (i % static_cast<size_t>(c.num_tokens) >= kept) continue;
      const auto row =
          (list * static_cast<size_t>(capacity_) + static_cast<size_t>(chosen[i])) * static_cast<size_t>(c.head_dim);
      std::copy_n(v_.begin() + static_cast<std::ptrdiff_t>(row), c.head_dim,
                  values.begin() + static_cast<std::ptrdiff_t>(row));
    }
    return values;
  }

  int32_t capacity_ = 0;
  std::vector<uint16_t> q_, k_, v_, kt_;
};

TEST_P(CudaDecode, DenseMatchesFloat64) {
  const size_t rows = static_cast<size_t>(kBatch * GetParam().num_qo_heads);
  DecodeSelection all;
  ASSERT_TRUE(FindDecodeMethod("dense")
                  ->Select(Problem(q_.data(), k_.data(), v_.data()), ParameterValues(FindDecodeMethod("dense")->spec()),
                           {}, &all)
                  .ok());
  std::vector<float> expected(q_.size()), expected_lse(rows), expected_row_max(rows);
  AttentionOutput reference = Output(expected.data(), expected_lse.data());
  reference.row_max = expected_row_max.data();
  ASSERT_TRUE(DecodeReference(Problem(q_.data(), k_.data(), v_.data()), all, reference).ok());

  const DeviceArray<uint16_t> q(q_), k(k_), v(v_), o(GuardedOutput());
  const DeviceArray<float> lse(std::vector<float>(rows, std::nanf("")));
  const AttentionProblem problem = Problem(q.get(), k.get(), v.get());
  const DeviceArray<char> workspace(std::vector<char>(DecodeWorkspaceBytes(problem, {})));
  const Status status = DecodeDenseCuda(problem, Output(o.get() + kGuard, lse.get()), workspace.get(),
                                        DecodeWorkspaceBytes(problem, {}), nullptr);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_LE(RelativeError(Unguarded(o), expected), Tolerance());
  const std::vector<float> got = lse.Download();
  for (size_t i = 0; i < rows; ++i) EXPECT_NEAR(got[i], expected_lse[i], 2e-3) << "head " << i;

  // Once more with the largest scores, which change nothing else.
  const DeviceArray<uint16_t> again(GuardedOutput());
  const DeviceArray<float> row_max(std::vector<float>(rows + 2, kNoNumber));
  AttentionOutput output = Output(again.get() + kGuard, lse.get());
  output.row_max = row_max.get() + 1;
  ASSERT_TRUE(DecodeDenseCuda(problem, output, workspace.get(), DecodeWorkspaceBytes(problem, {}), nullptr).ok());
  EXPECT_EQ(Unguarded(again), Unguarded(o));
  EXPECT_EQ(lse.Download(), got);
  const std::vector<float> largest = row_max.Download();
  EXPECT_EQ(largest.front(), kNoNumber);
  EXPECT_EQ(largest.back(), kNoNumber);
  for (size_t i = 0; i < rows; ++i) {
    EXPECT_NEAR(largest[i + 1], expected_row_max[i], 1e-3) << "head " << i;
  }

  // A key of the first list that is no number.
  const std::vector<uint16_t> nan(static_cast<size_t>(GetParam().head_dim), 0xffff);
  ASSERT_EQ(cudaMemcpy(k.get() + int64_t{GetParam().seq_k / 2} * GetParam().head_dim, nan.data(), nan.size() * 2,
                       cudaMemcpyHostToDevice),
            cudaSuccess);
  ASSERT_TRUE(DecodeDenseCuda(problem, output, workspace.get(), DecodeWorkspaceBytes(problem, {}), nullptr).ok());
  const std::vector<float> spoilt = row_max.Download();
  const auto group = static_cast<size_t>(GetParam().num_qo_heads / GetParam().num_kv_heads);
  for (size_t i = 0; i < rows; ++i) {
    if (i < group) {
      EXPECT_TRUE(std::isnan(spoilt[i + 1])) << "head " << i;
    } else {
      EXPECT_EQ(spoilt[i + 1], largest[i + 1]) << "head " << i;
    }
  }
}

TEST_P(CudaDecode, SparqChoosesAndAttendsAsTheCpuDoes) {
  SKIP_WITHOUT_GPU();
  const Case& c = GetParam();
  if (c.soft_cap != 0) GTEST_SKIP() << "SparQ's estimate is not defined for capped scores";
  const DecodeMethod* method = FindDecodeMethod("sparq");
  ParameterValues values(method->spec());
  ASSERT_EQ(values.Parse(method->spec(), "r=" + std::to_string(c.rank) + ",k=" + std::to_string(c.num_tokens) +
                                             ",reallocate=" + (c.mean_value ? "1" : "0")),
            "");
  const AttentionProblem host = Problem(q_.data(), k_.data(), v_.data());
  DecodeSelection selection;
  ASSERT_TRUE(method->Select(host, values, {}, &selection).ok());
  std::vector<float> expected(q_.size());
  ASSERT_TRUE(DecodeReference(host, selection, Output(expected.data(), nullptr)).ok());

  SparqCudaOptions options;
  options.rank = c.rank;
  options.num_tokens = c.num_tokens;
  options.num_local = c.num_tokens / 4;
  options.mean_value = c.mean_value;
  const size_t lists = static_cast<size_t>(kBatch * c.num_kv_heads);
  const DeviceArray<uint16_t> q(q_), k(k_), v(v_), kt(kt_);
  const DeviceArray<float> mean(selection.mean_value);
  const AttentionProblem problem = Problem(q.get(), k.get(), v.get());
  const size_t bytes = DecodeWorkspaceBytes(problem, options);
  const DeviceArray<char> workspace{std::vector<char>(bytes)};
  for (const bool transposed : {true, false}) {
    SCOPED_TRACE(transposed ? "two copies of K" : "one copy of K");
    TransposedKeys layout;
    if (transposed) {
      layout = {kt.get(), int64_t{c.num_kv_heads} * c.head_dim * capacity_, int64_t{c.head_dim} * capacity_, capacity_};
    }
    const DeviceArray<int32_t> chosen(std::vector<int32_t>(lists * static_cast<size_t>(c.num_tokens), -1));
    const auto run = [&](const void* values_of_tokens) {
      const DeviceArray<uint16_t> o(GuardedOutput());
      const Status status =
          DecodeSparqCuda(Problem(q.get(), k.get(), values_of_tokens), options, layout, mean.get(),
                          Output(o.get() + kGuard, nullptr), chosen.get(), workspace.get(), bytes, nullptr);
      EXPECT_TRUE(status.ok()) << status.message();
      return Unguarded(o);
    };
    const std::vector<uint16_t> first = run(v.get());
    EXPECT_EQ(run(v.get()), first) << "the second run finds the workspace as the first left it";
    const DeviceArray<uint16_t> attended(AttendedValues(chosen.Download()));
    EXPECT_EQ(run(attended.get()), first) << "rows of V that are not attended leak";
    EXPECT_LE(RelativeError(first, expected), Tolerance());
    // Scores are summed in another order than on the CPU, so a token at the very threshold may change places.
    const std::vector<int32_t> tokens = chosen.Download();
    for (size_t list = 0; list < lists; ++list) {
      const auto* begin = selection.pages.data() + selection.page_begin[list];
      const auto* end = selection.pages.data() + selection.page_begin[list + 1];
      const auto* mine = tokens.data() + list * static_cast<size_t>(c.num_tokens);
      std::vector<int32_t> common;
      std::set_intersection(begin, end, mine, mine + (end - begin), std::back_inserter(common));
      EXPECT_GE(static_cast<int64_t>(common.size()), (end - begin) - 1) << "list " << list;
      EXPECT_TRUE(std::is_sorted(mine, mine + (end - begin))) << "list " << list;
    }
  }
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const int32_t seq_k : {1, 63, 64, 65, 127, 1000, 4096, 4097, 9001})
    cases.push_back({seq_k, 2, 2, 128, DType::kBFloat16});
  for (const int32_t group : {2, 3, 4, 7, 8, 9, 16}) {
    for (const int32_t seq_k : {127, 4096, 20000}) cases.push_back({seq_k, 2 * group, 2, 128, DType::kBFloat16});
  }
  cases.push_back({4097, 8, 2, 128, DType::kBFloat16});  // grouped, two spans that wait for each other
  cases.push_back({70000, 4, 1, 128, DType::kBFloat16});
  cases.push_back({70000, 4, 1, 128, DType::kBFloat16, 32, 512});   // lists merged in two rounds
  cases.push_back({70000, 1, 1, 128, DType::kBFloat16, 32, 1024});  // and in four
  cases.push_back({131072, 2, 1, 64, DType::kBFloat16});
  cases.push_back({131072, 8, 1, 64, DType::kFloat16, 20, 64});
  cases.push_back({46341, 1, 1, 128, DType::kBFloat16});
  cases.push_back({131072, 1, 1, 128, DType::kBFloat16});
  cases.push_back({9001, 4, 2, 64, DType::kBFloat16});
  cases.push_back({9001, 4, 2, 64, DType::kFloat16});
  cases.push_back({9001, 4, 1, 128, DType::kFloat16});
  cases.push_back({9001, 2, 2, 128, DType::kBFloat16, 17, 100});
  cases.push_back({9001, 2, 2, 128, DType::kBFloat16, 128, 512});
  cases.push_back({20000, 1, 1, 128, DType::kBFloat16, 48, 1024});
  // More spans than a GPU runs blocks at once, so that blocks take several, the ring runs on from one into the next,
  // and teams of blocks meet again. Among so many heads some have scores so far apart that the CPU's fp32 probabilities
  // below e^-86 are 0 and tie, where the GPU ranks one head's scores: the threshold has to lie well above them.
  cases.push_back({130, 300, 300, 64, DType::kBFloat16, 32, 32});
  cases.push_back({130, 300, 300, 64, DType::kFloat16, 5, 16});
  // A block's places for items come round a third time; scores nearer to each other, so that no head has such a tie.
  cases.push_back({130, 800, 800, 64, DType::kBFloat16, 32, 32, Keys::kRandom, 0.03f});
  cases.push_back({130, 600, 300, 64, DType::kBFloat16, 32, 32});
  cases.push_back({4100, 70, 70, 64, DType::kBFloat16});
  cases.push_back({2100, 350, 70, 64, DType::kFloat16});
  cases.push_back({65536, 1, 1, 128, DType::kBFloat16, 32, 128, Keys::kInBlocks});
  cases.push_back({65536, 4, 1, 64, DType::kBFloat16, 32, 128, Keys::kInBlocks});
  for (const int32_t heads : {2, 8}) {
    Case c{9001, heads, 2, 128, DType::kBFloat16};
    c.scale = 0.25f;
    cases.push_back(c);
    c.scale = 0;
    c.mean_value = false;
    cases.push_back(c);
    c.soft_cap = 3;  // dense alone
    cases.push_back(c);
  }
  for (const Keys keys : {Keys::kSideBySide, Keys::kEqual}) {
    cases.push_back({4096, 1, 1, 128, DType::kBFloat16, 32, 128, keys});
    cases.push_back({20000, 1, 1, 128, DType::kBFloat16, 32, 128, keys});
    cases.push_back({20000, 4, 1, 64, DType::kFloat16, 32, 320, keys});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Table, CudaDecode, ::testing::ValuesIn(Cases()), NameOf);

}  // namespace
}  // namespace headscope::kernels
