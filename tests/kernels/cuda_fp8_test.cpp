// SPDX-License-Identifier: Apache-2.0
// FP8 attention against float64 on the quantised tensors, which are read here by the layout that the header documents;
// the quantisation itself against the 16-bit tensors. NaN in what no row reads, poisoned outputs, guards around them.
#include "kernels/cuda_fp8.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "cuda_attend_run.h"
#include "device_array.h"
#include "float_codes.h"
#include "graph_replays.h"
#include "kernels/cuda_executor.h"
#include "no_lists.h"
#include "run_seed.h"
#include "support/gpu.h"

namespace headscope::kernels {
namespace {

using testing::AttendCase;
using testing::AttendRun;
using testing::DeviceArray;
using testing::Pattern;
using testing::SeedFor;

constexpr int32_t kDim = 128;
// A weight with three bits of mantissa errs by 6 % at most and 2.6 % on average (root mean square), which is a row's
// error where few keys have all of its mass; tiles may err by twice this.
constexpr double kAllowedL2 = 4e-2;
// The tensor cores keep some 14 bits of a sum of e4m3 products: of scores up to 10, as here, 2e-3 at most were seen.
constexpr double kAllowedLse = 4e-3;

float FromE4m3(uint8_t code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  float value = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                              : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  if (exponent == 15 && mantissa == 7) value = std::numeric_limits<float>::quiet_NaN();
  return (code & 0x80) != 0 ? -value : value;
}

// A quantised problem, and its values as fp32 [batch, head, row, component] on the GPU.
class Quantised {
 public:
  explicit Quantised(const AttentionProblem& problem) : problem_(problem) {
    const Status status = LayOutFp8(problem, &layout_);
    EXPECT_TRUE(status.ok()) << status.message();
    tensors_ = std::make_unique<DeviceArray<uint8_t>>(static_cast<int64_t>(layout_.bytes));
    EXPECT_EQ(cudaMemset(tensors_->get(), 0xff, layout_.bytes), cudaSuccess);
    const Status quantised = QuantiseFp8Cuda(problem, tensors_->get(), layout_.bytes, nullptr);
    EXPECT_TRUE(quantised.ok()) << quantised.message();
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    bytes_ = tensors_->Download();
    const AttentionProblem& p = problem;
    q = Values(layout_.q, layout_.q_scale, p.batch * p.num_qo_heads, layout_.q_pieces, p.seq_q);
    k = Values(layout_.k, layout_.k_scale, p.batch * p.num_kv_heads, layout_.k_pieces, p.seq_k);
    v = Values(layout_.v_rows, layout_.v_scale, p.batch * p.num_kv_heads, layout_.k_pieces, p.seq_k);
  }

  Status Attend(const AttendRun& run, const SparseIndexView& index, cudaStream_t stream = nullptr) const {
    return AttendFp8Cuda(problem_, tensors_->get(), layout_.bytes, index, run.output(), stream);
  }

  // The problem of the quantised values, in fp32.
  AttentionProblem Problem() {
    on_gpu_.clear();
    AttentionProblem p = problem_;
    p.dtype = DType::kFloat32;
    for (auto [tensor, values, heads, rows] : {std::tuple{&p.q, &q, p.num_qo_heads, p.seq_q},
                                               {&p.k, &k, p.num_kv_heads, p.seq_k},
                                               {&p.v, &v, p.num_kv_heads, p.seq_k}}) {
      on_gpu_.emplace_back(*values);
      const int64_t head = int64_t{rows} * kDim;
      *tensor = {on_gpu_.back().get(), head * heads, head, kDim};
    }
    return p;
  }

  // The second copy of V holds what the first one holds, and behind the last token there are zeros.
  void ExpectColumns() const {
    for (int64_t head = 0; head < int64_t{problem_.batch} * problem_.num_kv_heads; ++head) {
      for (int64_t token = 0; token < int64_t{layout_.k_pieces} * 32; ++token) {
        for (int64_t d = 0; d < kDim; ++d) {
          const size_t piece = static_cast<size_t>(head * layout_.k_pieces + token / 32) * 4096;
          int64_t place = 0;
          for (int64_t b = 0; b < 32; ++b) {
            if (b / 16 * 16 + b / 2 % 2 * 8 + b % 16 / 4 * 2 + b % 2 == token % 32) place = b;
          }
          const size_t in_columns = static_cast<size_t>(d * 32 + (place / 16 ^ d / 4 % 2) * 16 + place % 16);
          const uint8_t column = bytes_[layout_.v_columns + piece + in_columns];
          ASSERT_EQ(column, bytes_[layout_.v_rows + piece + RowByte(token % 32, d)]) << "token " << token;
          ASSERT_TRUE(token < problem_.seq_k || column == 0) << "token " << token;
        }
      }
    }
  }

  std::vector<float> q, k, v;

 private:
  static size_t RowByte(int64_t token, int64_t d) {
    return static_cast<size_t>(token * kDim + (d / 16 ^ token % 8) * 16 + d % 16);
  }
  std::vector<float> Values(size_t image, size_t scales, int64_t heads, int64_t pieces, int64_t rows) const {
    std::vector<float> values;
    for (int64_t head = 0; head < heads; ++head) {
      float scale = 0;
      std::memcpy(&scale, bytes_.data() + scales + static_cast<size_t>(head) * sizeof(float), sizeof scale);
      for (int64_t row = 0; row < rows; ++row) {
        const size_t piece = image + static_cast<size_t>(head * pieces + row / 32) * 4096;
        for (int64_t d = 0; d < kDim; ++d) values.push_back(scale * FromE4m3(bytes_[piece + RowByte(row % 32, d)]));
      }
    }
    return values;
  }

  AttentionProblem problem_;
  Fp8Layout layout_;
  std::unique_ptr<DeviceArray<uint8_t>> tensors_;
  std::vector<uint8_t> bytes_;
  std::vector<DeviceArray<float>> on_gpu_;
};

// FP8 attention is Hopper's alone.
bool OnHopper() {
  CudaDeviceInfo info;
  return QueryCudaDevice(0, &info).ok() && info.compute_capability == 90;
}

// What a scale of 1 makes the standard deviation of scores: queries have 1.5, keys 1.
const double kNatsOfScale = 1.5 * std::sqrt(double{kDim});
// A score's error is some 2^-14 of what the sums of its product come to on their way, a few standard deviations.
double AllowedLse(const AttendCase& c) {
  return c.scale > 0 ? 4e-3 * double{c.scale} * kNatsOfScale : kAllowedLse;
}

class CudaFp8 : public ::testing::TestWithParam<AttendCase> {};

TEST_P(CudaFp8, MatchesFloat64OfTheQuantised) {
  SKIP_WITHOUT_GPU();
  if (!OnHopper()) GTEST_SKIP() << "needs compute capability 9.0";
  AttendRun run;
  ASSERT_NO_FATAL_FAILURE(run.Make(GetParam(), SeedFor(NameOf(GetParam()))));
  Quantised quantised(run.problem());
  run.Poison();
  SparseIndexView index = run.index();
  const testing::NoLists none(index);
  if (index.keeps_everything && index.rule.kind == MaskKind::kCausal) index = none.InPlaceOf(index);
  const Status status = quantised.Attend(run, index);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  ASSERT_NO_FATAL_FAILURE(run.ExpectFloat64Of(quantised.Problem(), kAllowedL2, AllowedLse(GetParam())));
  ASSERT_NO_FATAL_FAILURE(run.ExpectGuards());
}

// The same with the rows' largest scores, which another kernel writes.
class CudaFp8RowMax : public ::testing::TestWithParam<AttendCase> {};

TEST_P(CudaFp8RowMax, MatchesFloat64OfTheQuantised) {
  SKIP_WITHOUT_GPU();
  if (!OnHopper()) GTEST_SKIP() << "needs compute capability 9.0";
  AttendRun run;
  ASSERT_NO_FATAL_FAILURE(run.Make(GetParam(), SeedFor("row max " + NameOf(GetParam()))));
  run.AskForRowMax();
  Quantised quantised(run.problem());
  run.Poison();
  const Status status = quantised.Attend(run, run.index());
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  ASSERT_NO_FATAL_FAILURE(run.ExpectFloat64Of(quantised.Problem(), kAllowedL2, AllowedLse(GetParam())));
  ASSERT_NO_FATAL_FAILURE(run.ExpectGuards());
}

// Items of 192 rows where all heads keep everything, queued.
void AppendWide(std::vector<AttendCase>* cases) {
  AttendCase wide{
      .pattern = Pattern::kDense, .seq_q = 0, .seq_k = 0, .batch = 10, .num_qo_heads = 128, .num_kv_heads = 32};
  for (const auto& [seq_q, seq_k] : {std::pair{1, 0},
                                     {63, 0},
                                     {65, 0},
                                     {128, 0},
                                     {192, 0},
                                     {193, 0},
                                     {320, 0},
                                     {513, 0},
                                     {130, 777},
                                     {1, 500},
                                     {300, 301},
                                     {200, 384}}) {
    wide.seq_q = seq_q;
    wide.seq_k = seq_k;
    cases->push_back(wide);
  }
  wide.seq_q = 300;
  wide.seq_k = 0;
  for (const float nats : {6.0f, 30.0f}) {
    wide.scale = nats / static_cast<float>(kNatsOfScale);
    cases->push_back(wide);
  }
  wide.scale = 0;
  wide.dtype = DType::kFloat16;
  cases->push_back(wide);
  // What the dense kernel leaves to the other.
  wide.dtype = DType::kBFloat16;
  for (const Pattern pattern : {Pattern::kRandom, Pattern::kSomeEmpty, Pattern::kColumns}) {
    wide.pattern = pattern;
    cases->push_back(wide);
  }
  wide.pattern = Pattern::kDense;
  wide.tile_rows = 64;
  cases->push_back(wide);
  wide.tile_rows = 128;
  wide.rule = {MaskKind::kNone, 0, 0};
  cases->push_back(wide);
  cases->push_back({.pattern = Pattern::kDense, .seq_q = 9000, .seq_k = 0, .num_qo_heads = 16, .num_kv_heads = 4});
}

std::vector<AttendCase> Cases() {
  std::vector<AttendCase> cases;
  AppendWide(&cases);
  const auto add = [&](Pattern pattern, int32_t seq_q, int32_t seq_k, auto... changes) {
    AttendCase c{.pattern = pattern, .seq_q = seq_q, .seq_k = seq_k};
    (changes(&c), ...);
    cases.push_back(c);
  };
  const auto in_fp16 = [](AttendCase* c) { c->dtype = DType::kFloat16; };
  // Standard deviation of the scores, in nats.
  const auto peaky = [](float nats) {
    return [nats](AttendCase* c) { c->scale = nats / static_cast<float>(kNatsOfScale); };
  };
  const auto of_64_rows = [](AttendCase* c) { c->tile_rows = 64; };
  const auto under = [](MaskKind kind) { return [kind](AttendCase* c) { c->rule = {kind, 200, 10}; }; };
  const auto with_heads = [](int32_t heads, int32_t kv_heads) {
    return [=](AttendCase* c) {
      c->batch = 2;
      c->num_qo_heads = heads;
      c->num_kv_heads = kv_heads;
    };
  };
  for (const int32_t length : {1, 31, 63, 64, 65, 127, 128, 129, 777, 4097}) {
    add(Pattern::kDense, length, 0);
    add(Pattern::kRandom, length, 0);
  }
  for (const Pattern pattern :
       {Pattern::kDense, Pattern::kRandom, Pattern::kShortRuns, Pattern::kColumns, Pattern::kHalves, Pattern::kHoles,
        Pattern::kOneKey, Pattern::kOverhang, Pattern::kSomeEmpty, Pattern::kEmpty}) {
    add(pattern, 990, 0);
    add(pattern, 990, 0, of_64_rows);
    add(pattern, 300, 0);
    add(pattern, 130, 770, in_fp16);
  }
  for (const MaskKind kind : {MaskKind::kNone, MaskKind::kCausalWindow}) {
    add(Pattern::kDense, 600, 0, under(kind));
    add(Pattern::kHoles, 600, 0, under(kind));
  }
  add(Pattern::kDense, 777, 0, with_heads(4, 4));
  add(Pattern::kRandom, 777, 0, with_heads(8, 2));
  add(Pattern::kDense, 513, 0, with_heads(8, 1));
  add(Pattern::kDense, 46341, 0);
  for (const float nats : {6.0f, 30.0f}) {
    add(Pattern::kDense, 2000, 0, peaky(nats));
    add(Pattern::kRandom, 2000, 0, peaky(nats));
    add(Pattern::kDense, 16384, 0, peaky(nats));
  }
  add(Pattern::kDense, 131072, 0);
  add(Pattern::kRandom, 300, 131072);
  testing::AppendUnpromised(&cases);
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Cases, CudaFp8, ::testing::ValuesIn(Cases()),
                         [](const auto& parameter) { return NameOf(parameter.param); });

std::vector<AttendCase> RowMaxCases() {
  std::vector<AttendCase> cases = Cases();
  std::erase_if(cases, [](const AttendCase& c) { return c.unpromised || c.seq_q > 5000 || c.seq_k > 5000; });
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Cases, CudaFp8RowMax, ::testing::ValuesIn(RowMaxCases()),
                         [](const auto& parameter) { return NameOf(parameter.param); });

// A query and a key that are no numbers: quantised they are none either.
TEST(CudaFp8Calls, RowMaxIsNanWhereAScoreIs) {
  SKIP_WITHOUT_GPU();
  if (!OnHopper()) GTEST_SKIP() << "needs compute capability 9.0";
  AttendRun run;
  const AttendCase c{.pattern = Pattern::kDense, .seq_q = 500, .seq_k = 0, .num_qo_heads = 2, .num_kv_heads = 2};
  ASSERT_NO_FATAL_FAILURE(run.Make(c, SeedFor("row max of NaN")));
  run.AskForRowMax();
  constexpr int32_t kKey = 333, kQuery = 44;
  const AttentionProblem& p = run.problem();
  const auto spoil = [](const StridedTensor<const void>& tensor, int32_t head, int32_t row) {
    auto* const first =
        static_cast<uint16_t*>(const_cast<void*>(tensor.data)) + head * tensor.head_stride + row * tensor.row_stride;
    ASSERT_EQ(cudaMemset(first, 0xff, kDim * sizeof(uint16_t)), cudaSuccess);
  };
  ASSERT_NO_FATAL_FAILURE(spoil(p.k, 0, kKey));
  ASSERT_NO_FATAL_FAILURE(spoil(p.q, 1, kQuery));
  const Quantised quantised(p);
  run.Poison();
  ASSERT_TRUE(quantised.Attend(run, run.index()).ok());
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const std::vector<float> row_max = run.DownloadRowMax();
  for (int32_t head = 0; head < 2; ++head) {
    for (int32_t row = 0; row < p.seq_q; ++row) {
      const bool is_nan = head == 0 ? row >= kKey : row == kQuery;
      const float got = row_max[AttendRun::kGuardLse + static_cast<size_t>(head * p.seq_q + row)];
      ASSERT_EQ(std::isnan(got), is_nan) << "row " << row << " of head " << head << ": " << got;
      ASSERT_FALSE(std::isinf(got)) << "row " << row << " of head " << head;
    }
  }
}

TEST(CudaFp8Quantise, TakesTheNearestOfEveryHeadsScale) {
  SKIP_WITHOUT_GPU();
  if (!OnHopper()) GTEST_SKIP() << "needs compute capability 9.0";
  AttendRun run;
  AttendCase c{.pattern = Pattern::kHoles, .seq_q = 333, .seq_k = 0, .batch = 2, .num_qo_heads = 4};
  ASSERT_NO_FATAL_FAILURE(run.Make(c, SeedFor(NameOf(c))));
  Quantised quantised(run.problem());
  if (::testing::Test::HasFailure()) return;
  ASSERT_NO_FATAL_FAILURE(quantised.ExpectColumns());
  const AttentionProblem& p = run.problem();
  for (const auto& [tensor, values, heads, rows] : {std::tuple{&p.q, &quantised.q, p.num_qo_heads, p.seq_q},
                                                    {&p.k, &quantised.k, p.num_kv_heads, p.seq_k},
                                                    {&p.v, &quantised.v, p.num_kv_heads, p.seq_k}}) {
    for (int32_t b = 0; b < p.batch; ++b) {
      for (int32_t h = 0; h < heads; ++h) {
        std::vector<float> original;
        std::vector<uint16_t> row_codes(kDim);
        float largest = 0;
        for (int32_t r = 0; r < rows; ++r) {
          const auto* const row = static_cast<const uint16_t*>(tensor->data) + b * tensor->batch_stride +
                                  h * tensor->head_stride + r * tensor->row_stride;
          ASSERT_EQ(cudaMemcpy(row_codes.data(), row, kDim * 2, cudaMemcpyDeviceToHost), cudaSuccess);
          for (const uint16_t code : row_codes) {
            original.push_back(test::FromCode(code, p.dtype));
            if (std::isfinite(original.back())) largest = std::max(largest, std::abs(original.back()));
          }
        }
        const double scale = largest / 448.0;
        for (size_t i = 0; i < original.size(); ++i) {
          const float value = (*values)[static_cast<size_t>(b * heads + h) * original.size() + i];
          if (!std::isfinite(original[i])) {
            ASSERT_TRUE(std::isnan(value)) << i;
            continue;
          }
          const double x = std::abs(double{original[i]}) / scale;
          // Half the distance between the neighbours of x, and what the scale's rounding moves.
          const double half_ulp = std::ldexp(1.0, std::max(x > 0 ? std::ilogb(x) : -6, -6) - 4);
          ASSERT_LE(std::abs(double{value} - original[i]) / scale, half_ulp * 1.0001 + 1e-4 * half_ulp) << i;
        }
      }
    }
  }
}

// Few items, which are dealt, and more of them; heads that keep everything and others.
TEST(CudaFp8Calls, ReplayFromAGraph) {
  SKIP_WITHOUT_GPU();
  if (!OnHopper()) GTEST_SKIP() << "needs compute capability 9.0";
  for (const Pattern pattern : {Pattern::kDense, Pattern::kRandom}) {
    for (const int32_t batch : {1, 5}) {
      AttendRun run;
      const AttendCase c{
          .pattern = pattern, .seq_q = 1500, .seq_k = 0, .batch = batch, .num_qo_heads = 32, .num_kv_heads = 8};
      ASSERT_NO_FATAL_FAILURE(run.Make(c, SeedFor(NameOf(c))));
      const Quantised quantised(run.problem());
      run.Poison();
      ASSERT_TRUE(quantised.Attend(run, run.index()).ok());
      ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      const std::vector<char> direct = run.DownloadO();
      testing::ExpectReplays([&](cudaStream_t stream) { return quantised.Attend(run, run.index(), stream); },
                             [&] { run.Poison(); }, [&] { EXPECT_TRUE(run.DownloadO() == direct) << NameOf(c); });
    }
  }
}

TEST(CudaFp8Calls, RefusesWhatItDoesNotTake) {
  AttentionProblem problem;
  problem.num_qo_heads = problem.num_kv_heads = 1;
  problem.head_dim = 64;
  problem.seq_q = problem.seq_k = 64;
  problem.dtype = DType::kBFloat16;
  Fp8Layout layout;
  Status status = LayOutFp8(problem, &layout);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_EQ(status.message(), "head_dim is 64: FP8 attention takes 128; use AttendCuda.");
  problem.head_dim = 128;
  problem.dtype = DType::kFloat32;
  EXPECT_EQ(LayOutFp8(problem, &layout).code(), StatusCode::kUnsupported);
  problem.dtype = DType::kBFloat16;
  problem.soft_cap = 30.0f;
  EXPECT_EQ(LayOutFp8(problem, &layout).code(), StatusCode::kUnsupported);
  problem.soft_cap = 0.0f;
  const float sink = 1.0f;
  problem.sinks = &sink;
  EXPECT_EQ(LayOutFp8(problem, &layout).code(), StatusCode::kUnsupported);
  problem.sinks = nullptr;
  problem.window = 16;
  EXPECT_EQ(LayOutFp8(problem, &layout).code(), StatusCode::kUnsupported);
  problem.window = 0;
  ASSERT_TRUE(LayOutFp8(problem, &layout).ok());
  EXPECT_EQ(layout.q_pieces, 4);  // a whole tile of 128 rows
  EXPECT_EQ(layout.k_pieces, 2 + 4);
  status = QuantiseFp8Cuda(problem, nullptr, layout.bytes, nullptr);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  alignas(256) static char memory[256];
  status = QuantiseFp8Cuda(problem, memory, layout.bytes - 1, nullptr);
  EXPECT_EQ(status.message(), "bytes is " + std::to_string(layout.bytes - 1) + ": the quantised tensors take " +
                                  std::to_string(layout.bytes) + " (LayOutFp8).");
}

}  // namespace
}  // namespace headscope::kernels
