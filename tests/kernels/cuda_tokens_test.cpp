// SPDX-License-Identifier: Apache-2.0
// Attention over chosen tokens against float64 on the host: lists with holes, shorter than their place and empty, any
// number of heads, scores that climb out of the weights' range, sinks, strides; NaN in rows that no list names,
// poisoned outputs with guards, the same bits twice, from a graph as from a call. And what a call refuses.
#include "kernels/cuda_tokens.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "device_array.h"
#include "float_codes.h"
#include "kernels/cuda_executor.h"
#include "run_seed.h"
#include "support/gpu.h"

namespace headscope::kernels {
namespace {

using test::FromBFloat16;
using test::ToBFloat16;
using testing::DeviceArray;
using testing::SeedFor;

// Weights and O are rounded to bf16, 2^-9 each at most.
constexpr double kAllowedL2 = 5e-3;
constexpr double kAllowedLse = 2e-3;
constexpr uint16_t kPoison = 0x7fc1;  // a NaN

enum class Scores {
  kPlain,   // a few nats
  kPeaky,   // standard deviation of 30 nats
  kRising,  // from the first token of a list to the last by 400 nats
  kLeap,    // 500 nats at the newest token alone
};

struct TokensCase {
  std::string name;
  int32_t queries = 1;
  int32_t keys = 64;
  int32_t heads = 64;
  int32_t length = 64;
  bool causal = false;  // counts [queries]: query t has min(t, length) tokens, the first one none
  double holes = 0;     // share of entries that are no token
  bool late = false;    // the first 128 entries are none
  bool sinks = false;
  bool heads_outside = false;  // heads first in memory, with room between rows
  Scores scores = Scores::kPlain;
  int32_t checked_queries = 1 << 30;  // so many, spread over all
};
void PrintTo(const TokensCase& c, std::ostream* out) {
  *out << c.name;
}

class TokensRun {
 public:
  explicit TokensRun(const TokensCase& c) : c_(c), random_(SeedFor("tokens " + c.name)) {
    std::normal_distribution<float> normal;
    q_head_stride_ = c.heads_outside ? int64_t{c.queries} * (kLatentKeyDim + 8) : kLatentKeyDim;
    q_query_stride_ = c.heads_outside ? kLatentKeyDim + 8 : int64_t{c.heads} * kLatentKeyDim;
    o_head_stride_ = c.heads_outside ? int64_t{c.queries} * (kLatentValueDim + 16) : kLatentValueDim;
    o_query_stride_ = c.heads_outside ? kLatentValueDim + 16 : int64_t{c.heads} * kLatentValueDim;
    kv_stride_ = kLatentKeyDim + (c.heads_outside ? 64 : 0);
    const float factor = c.scores == Scores::kPeaky ? 30.0f : 1.5f;
    q_.resize(Extent(q_query_stride_, q_head_stride_, kLatentKeyDim), kPoison);
    kv_.resize(static_cast<size_t>(c.keys) * static_cast<size_t>(kv_stride_), kPoison);
    for (int32_t t = 0; t < c.queries; ++t) {
      for (int32_t h = 0; h < c.heads; ++h) {
        for (int32_t d = 0; d < kLatentKeyDim; ++d) {
          // Component 0 is what a token's score is raised by.
          q_[Q(t, h) + static_cast<size_t>(d)] = ToBFloat16(d == 0 ? 16.0f : factor * normal(random_));
        }
      }
    }
    MakeLists();
    std::vector<bool> named(static_cast<size_t>(c.keys));
    for (const int32_t token : tokens_) {
      if (token >= 0 && token < c.keys) named[static_cast<size_t>(token)] = true;
    }
    for (int32_t token = 0; token < c.keys; ++token) {
      if (!named[static_cast<size_t>(token)]) continue;
      for (int32_t d = 0; d < kLatentKeyDim; ++d) {
        float value = normal(random_);
        if (d == 0) value = Raised(token);
        kv_[static_cast<size_t>(token * kv_stride_ + d)] = ToBFloat16(value);
      }
    }
    for (int32_t h = 0; h < c.heads; ++h) sinks_.push_back(2.0f * normal(random_));
  }

  TokenAttention Attention() {
    d_q_ = std::make_unique<DeviceArray<uint16_t>>(q_);
    d_kv_ = std::make_unique<DeviceArray<uint16_t>>(kv_);
    d_tokens_ = std::make_unique<DeviceArray<int32_t>>(tokens_);
    if (!counts_.empty()) d_counts_ = std::make_unique<DeviceArray<int32_t>>(counts_);
    d_sinks_ = std::make_unique<DeviceArray<float>>(sinks_);
    d_o_ = std::make_unique<DeviceArray<uint16_t>>(
        std::vector<uint16_t>(Extent(o_query_stride_, o_head_stride_, kLatentValueDim) + 2 * kGuard, kPoison));
    const std::vector<float> rows(static_cast<size_t>(c_.queries) * static_cast<size_t>(c_.heads) + 2 * kGuard,
                                  kUnwritten);
    d_lse_ = std::make_unique<DeviceArray<float>>(rows);
    d_row_max_ = std::make_unique<DeviceArray<float>>(rows);
    TokenAttention a;
    a.num_queries = c_.queries;
    a.num_keys = c_.keys;
    a.num_qo_heads = c_.heads;
    a.list_length = c_.length;
    a.q = d_q_->get();
    a.q_query_stride = q_query_stride_;
    a.q_head_stride = q_head_stride_;
    a.kv = d_kv_->get();
    a.kv_stride = kv_stride_;
    a.tokens = d_tokens_->get();
    a.tokens_stride = tokens_stride_;
    a.counts = counts_.empty() ? nullptr : d_counts_->get();
    a.sinks = c_.sinks ? d_sinks_->get() : nullptr;
    a.scale = kScale;
    a.o = d_o_->get() + kGuard;
    a.o_query_stride = o_query_stride_;
    a.o_head_stride = o_head_stride_;
    a.lse = d_lse_->get() + kGuard;
    a.row_max = d_row_max_->get() + kGuard;
    return a;
  }

  std::vector<uint16_t> Outputs() const { return d_o_->Download(); }

  void Expect() const {
    const std::vector<uint16_t> o = d_o_->Download();
    const std::vector<float> lse = d_lse_->Download(), row_max = d_row_max_->Download();
    ExpectNothingElseWritten(o);
    const int32_t checked = std::min(c_.checked_queries, c_.queries);
    double worst_l2 = 0, worst_lse = 0;
    for (int32_t i = 0; i < checked; ++i) {
      const int32_t t = checked == 1 ? 0 : static_cast<int32_t>(int64_t{i} * (c_.queries - 1) / (checked - 1));
      double error = 0, size = 0;
      for (int32_t h = 0; h < c_.heads; ++h) {
        const Row expected = Reference(t, h);
        const size_t row = static_cast<size_t>(kGuard) + static_cast<size_t>(t) * static_cast<size_t>(c_.heads) +
                           static_cast<size_t>(h);
        const auto near = [](double value, double wanted, double allowed) {
          return std::isinf(wanted) ? value == wanted : std::abs(value - wanted) <= allowed;
        };
        const double allowed = kAllowedLse + 2e-6 * std::abs(expected.row_max);
        ASSERT_TRUE(near(lse[row], expected.lse, allowed))
            << "query " << t << ", head " << h << ": " << lse[row] << ", float64: " << expected.lse;
        ASSERT_TRUE(near(row_max[row], expected.row_max, allowed))
            << "query " << t << ", head " << h << ": " << row_max[row] << ", float64: " << expected.row_max;
        if (!std::isinf(expected.lse)) worst_lse = std::max(worst_lse, std::abs(lse[row] - expected.lse));
        for (size_t d = 0; d < kLatentValueDim; ++d) {
          const double value = FromBFloat16(o[O(t, h) + d]);
          ASSERT_FALSE(std::isnan(value)) << "query " << t << ", head " << h << ", component " << d;
          error += (value - expected.o[d]) * (value - expected.o[d]);
          size += expected.o[d] * expected.o[d];
        }
      }
      const double l2 = size == 0 ? std::sqrt(error) : std::sqrt(error / size);
      worst_l2 = std::max(worst_l2, l2);
      ASSERT_LE(l2, kAllowedL2) << "query " << t;
    }
    ::testing::Test::RecordProperty("worst_relative_l2", std::to_string(worst_l2));
    ::testing::Test::RecordProperty("worst_lse", std::to_string(worst_lse));
  }

 private:
  static constexpr int64_t kGuard = 64;
  static constexpr float kUnwritten = -123.5f;
  static constexpr float kScale = 0.041667f;  // 576^-0.5

  struct Row {
    std::vector<double> o = std::vector<double>(kLatentValueDim, 0.0);
    double lse = -std::numeric_limits<double>::infinity();
    double row_max = -std::numeric_limits<double>::infinity();
  };

  size_t Extent(int64_t query_stride, int64_t head_stride, int64_t dim) const {
    return static_cast<size_t>((c_.queries - 1) * query_stride + (c_.heads - 1) * head_stride + dim);
  }
  size_t Q(int32_t t, int32_t h) const { return static_cast<size_t>(t * q_query_stride_ + h * q_head_stride_); }
  size_t O(int32_t t, int32_t h) const {
    return static_cast<size_t>(kGuard + t * o_query_stride_ + h * o_head_stride_);
  }

  // Component 0 of a key, 16 times which times kScale is added to its scores.
  float Raised(int32_t token) const {
    const float nats = 1.0f / (16.0f * kScale);
    if (c_.scores == Scores::kRising) return 400.0f * nats * static_cast<float>(token) / static_cast<float>(c_.keys);
    if (c_.scores == Scores::kLeap) return token == c_.keys - 1 ? 500.0f * nats : 0.0f;
    return 0.0f;
  }

  void MakeLists() {
    tokens_stride_ = c_.length + 3;
    std::vector<int32_t> all(static_cast<size_t>(c_.keys));
    for (int32_t i = 0; i < c_.keys; ++i) all[static_cast<size_t>(i)] = i;
    std::uniform_real_distribution<double> uniform;
    for (int32_t t = 0; t < c_.queries; ++t) {
      std::shuffle(all.begin(), all.end(), random_);
      std::vector<int32_t> list(all.begin(), all.begin() + std::min(c_.length, c_.keys));
      // What climbs must do so along the list.
      if (c_.scores == Scores::kRising) std::sort(list.begin(), list.end());
      if (c_.scores == Scores::kLeap) {
        std::erase(list, c_.keys - 1);
        list.push_back(c_.keys - 1);
      }
      list.resize(static_cast<size_t>(c_.length), -1);
      for (int32_t i = 0; i < c_.length; ++i) {
        int32_t& token = list[static_cast<size_t>(i)];
        if (c_.late && i < 128) token = -1;
        // Either kind of what is no token.
        if (uniform(random_) < c_.holes) token = uniform(random_) < 0.5 ? -1 - t : c_.keys + t;
      }
      if (c_.causal) {
        counts_.push_back(std::min(t, c_.length));
        // What stands behind the count is not looked at as a list.
        for (int32_t i = counts_.back(); i < c_.length; ++i) list[static_cast<size_t>(i)] = 0x7ffffff0;
      }
      list.resize(static_cast<size_t>(tokens_stride_), 0);
      tokens_.insert(tokens_.end(), list.begin(), list.end());
    }
  }

  Row Reference(int32_t t, int32_t h) const {
    Row row;
    std::vector<std::pair<double, int32_t>> scores;
    const int32_t count = counts_.empty() ? c_.length : counts_[static_cast<size_t>(t)];
    for (int32_t i = 0; i < count; ++i) {
      const int32_t token = tokens_[static_cast<size_t>(t * tokens_stride_ + i)];
      if (token < 0 || token >= c_.keys) continue;
      double score = 0;
      for (size_t d = 0; d < kLatentKeyDim; ++d) {
        score += static_cast<double>(FromBFloat16(q_[Q(t, h) + d])) *
                 static_cast<double>(FromBFloat16(kv_[static_cast<size_t>(token * kv_stride_) + d]));
      }
      scores.emplace_back(score * static_cast<double>(kScale), token);
      row.row_max = std::max(row.row_max, scores.back().first);
    }
    double top = row.row_max;
    const double sink = c_.sinks ? static_cast<double>(sinks_[static_cast<size_t>(h)]) : -INFINITY;
    top = std::max(top, sink);
    if (std::isinf(top)) return row;
    double sum = std::exp(sink - top);
    for (const auto& [score, token] : scores) {
      const double weight = std::exp(score - top);
      sum += weight;
      for (size_t d = 0; d < kLatentValueDim; ++d) {
        row.o[d] += weight * static_cast<double>(FromBFloat16(kv_[static_cast<size_t>(token * kv_stride_) + d]));
      }
    }
    for (double& value : row.o) value /= sum;
    row.lse = top + std::log(sum);
    return row;
  }

  void ExpectNothingElseWritten(const std::vector<uint16_t>& o) const {
    std::vector<bool> ours(o.size());
    for (int32_t t = 0; t < c_.queries; ++t) {
      for (int32_t h = 0; h < c_.heads; ++h)
        std::fill_n(ours.begin() + static_cast<int64_t>(O(t, h)), kLatentValueDim, true);
    }
    for (size_t i = 0; i < o.size(); ++i) {
      if (!ours[i]) {
        ASSERT_EQ(o[i], kPoison) << "element " << i << " is no row's";
      }
    }
    for (const auto* array : {d_lse_.get(), d_row_max_.get()}) {
      const std::vector<float> values = array->Download();
      for (size_t i = 0; i < static_cast<size_t>(kGuard); ++i) {
        ASSERT_EQ(values[i], kUnwritten);
        ASSERT_EQ(values[values.size() - 1 - i], kUnwritten);
      }
    }
  }

  TokensCase c_;
  std::mt19937 random_;
  int64_t q_query_stride_, q_head_stride_, o_query_stride_, o_head_stride_, kv_stride_, tokens_stride_ = 0;
  std::vector<uint16_t> q_, kv_;
  std::vector<int32_t> tokens_, counts_;
  std::vector<float> sinks_;
  std::unique_ptr<DeviceArray<uint16_t>> d_q_, d_kv_, d_o_;
  std::unique_ptr<DeviceArray<int32_t>> d_tokens_, d_counts_;
  std::unique_ptr<DeviceArray<float>> d_sinks_, d_lse_, d_row_max_;
};

// This kernel is Hopper's alone.
bool OnHopper() {
  CudaDeviceInfo info;
  return QueryCudaDevice(0, &info).ok() && info.compute_capability == 90;
}

class CudaTokens : public ::testing::TestWithParam<TokensCase> {};

TEST_P(CudaTokens, AreFloat64sTwiceWithTheSameBits) {
  SKIP_WITHOUT_GPU();
  if (!OnHopper()) GTEST_SKIP() << "attention over chosen tokens needs compute capability 9.0";
  TokensRun run(GetParam());
  const TokenAttention attention = run.Attention();
  for (int repeat = 0; repeat < 2; ++repeat) {
    const Status status = AttendTokensCuda(attention, nullptr);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    if (repeat == 0) run.Expect();
    if (HasFatalFailure()) return;
  }
  const std::vector<uint16_t> first = run.Outputs();
  // From a graph, without the row maxima that a caller need not want.
  TokenAttention again = attention;
  again.row_max = nullptr;
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  const Status captured = AttendTokensCuda(again, stream);
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_TRUE(captured.ok()) << captured.message();
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaMemset(attention.o, 0xff, 2 * kLatentValueDim), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_TRUE(run.Outputs() == first);
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

std::vector<TokensCase> Cases() {
  std::vector<TokensCase> cases;
  cases.push_back({.name = "one_token", .keys = 1, .heads = 1, .length = 1});
  cases.push_back({.name = "one_tile", .queries = 3, .keys = 100, .heads = 16, .length = 63});
  cases.push_back({.name = "two_tiles", .queries = 2, .keys = 200, .length = 128});
  cases.push_back(
      {.name = "ragged", .queries = 3, .keys = 500, .heads = 65, .length = 259, .holes = 0.3, .sinks = true});
  cases.push_back({.name = "all_holes", .queries = 2, .keys = 50, .length = 200, .holes = 1.0});
  cases.push_back({.name = "all_holes_sinks", .queries = 2, .keys = 50, .length = 200, .holes = 1.0, .sinks = true});
  cases.push_back({.name = "late", .queries = 5, .keys = 400, .length = 300, .late = true});
  cases.push_back(
      {.name = "causal", .queries = 400, .keys = 333, .length = 320, .causal = true, .checked_queries = 40});
  cases.push_back(
      {.name = "causal_short", .queries = 130, .keys = 130, .heads = 7, .length = 130, .causal = true, .sinks = true});
  cases.push_back(
      {.name = "heads_outside", .queries = 9, .keys = 300, .heads = 128, .length = 200, .heads_outside = true});
  cases.push_back({.name = "peaky", .queries = 5, .keys = 2000, .length = 1000, .scores = Scores::kPeaky});
  cases.push_back(
      {.name = "rising", .queries = 5, .keys = 2000, .length = 1000, .sinks = true, .scores = Scores::kRising});
  cases.push_back(
      {.name = "leap", .queries = 300, .keys = 900, .length = 700, .scores = Scores::kLeap, .checked_queries = 20});
  cases.push_back({.name = "leap_outside",
                   .queries = 3,
                   .keys = 900,
                   .heads = 100,
                   .length = 500,
                   .heads_outside = true,
                   .scores = Scores::kLeap});
  cases.push_back(
      {.name = "many_items", .queries = 1000, .keys = 5000, .heads = 128, .length = 192, .checked_queries = 15});
  cases.push_back({.name = "dsa", .queries = 300, .keys = 46341, .length = 2048, .checked_queries = 3});
  cases.push_back({.name = "dsa_far",
                   .queries = 140,
                   .keys = 131072,
                   .heads = 128,
                   .length = 2048,
                   .holes = 0.01,
                   .checked_queries = 2});
  return cases;
}
INSTANTIATE_TEST_SUITE_P(, CudaTokens, ::testing::ValuesIn(Cases()),
                         [](const ::testing::TestParamInfo<TokensCase>& tested) { return tested.param.name; });

TEST(CudaTokensCall, RefusesWhatItDoesNotTakeByName) {
  SKIP_WITHOUT_GPU();
  TokensRun run({.name = "refusals", .queries = 2, .keys = 64, .heads = 2, .length = 64});
  const TokenAttention good = run.Attention();
  const auto expect = [&](const char* field, const auto& change) {
    TokenAttention bad = good;
    change(&bad);
    const Status status = AttendTokensCuda(bad, nullptr);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << field;
    EXPECT_NE(status.message().find(field), std::string::npos) << status.message();
  };
  std::vector<int32_t> host(256);
  expect("num_queries", [](TokenAttention* a) { a->num_queries = 0; });
  expect("num_keys", [](TokenAttention* a) { a->num_keys = -1; });
  expect("num_qo_heads", [](TokenAttention* a) { a->num_qo_heads = 0; });
  expect("list_length", [](TokenAttention* a) { a->list_length = 0; });
  expect("blocks of 64 heads", [](TokenAttention* a) { a->num_queries = a->num_qo_heads = 1 << 28; });
  expect("scale", [](TokenAttention* a) { a->scale = 0; });
  expect("scale", [](TokenAttention* a) { a->scale = std::numeric_limits<float>::quiet_NaN(); });
  expect("q", [](TokenAttention* a) { a->q = nullptr; });
  expect("kv", [](TokenAttention* a) { a->kv = static_cast<const char*>(a->kv) + 2; });
  expect("kv_stride", [](TokenAttention* a) { a->kv_stride = kLatentKeyDim - 8; });
  expect("q_head_stride", [](TokenAttention* a) { a->q_head_stride += 1; });
  expect("tokens_stride", [](TokenAttention* a) { a->tokens_stride = 63; });
  expect("overlap", [](TokenAttention* a) { a->o_query_stride = a->o_head_stride; });
  expect("tokens", [&](TokenAttention* a) { a->tokens = host.data(); });
  expect("lse", [](TokenAttention* a) { a->lse = reinterpret_cast<float*>(reinterpret_cast<char*>(a->lse) + 1); });
  EXPECT_TRUE(!OnHopper() || AttendTokensCuda(good, nullptr).ok());
}

}  // namespace
}  // namespace headscope::kernels
