// SPDX-License-Identifier: Apache-2.0
// Decode over any selection on the GPU against the float64 executor: tokens and pages, weights, mean values, groups,
// every element type, values of other sizes than keys, sinks, windows. Rows of K and V that no list names, that a
// window hides, and those past the end of the cache hold NaN; what lies around the output stays as it was. Skipped
// without a GPU, but for what is refused before one is asked for.
#include "kernels/cuda_decode_selection.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "device_array.h"
#include "float_codes.h"
#include "kernels/cpu_executor.h"
#include "random_selection.h"
#include "run_seed.h"
#include "support/gpu.h"

namespace headscope::kernels {
namespace {

using test::SelectionForm;
using test::Weights;
using testing::DeviceArray;

// Logits of sinks: as scores are, far above all of them (a head then gives next to nothing), far below.
enum class Sinks { kNone, kUsual, kHigh, kLow };

struct Case {
  int32_t seq_k;
  int32_t group;
  int32_t head_dim;
  DType dtype;
  SelectionForm form;
  float soft_cap = 0;
  int32_t num_kv_heads = 2;
  int32_t v_head_dim = 0;  // 0: head_dim
  Sinks sinks = Sinks::kNone;
  int32_t window = 0;
  int32_t batch = 2;
};

std::string NameOf(const ::testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  const char* const weights[] = {"", "_weights", "_weights_per_head"};
  const char* const sinks[] = {"", "_sinks", "_high_sinks", "_low_sinks"};
  return std::to_string(c.seq_k) + "_g" + std::to_string(c.group) + "_d" + std::to_string(c.head_dim) +
         (c.v_head_dim > 0 ? "v" + std::to_string(c.v_head_dim) : "") +
         (c.dtype == DType::kFloat32    ? "_fp32"
          : c.dtype == DType::kBFloat16 ? "_bf16"
                                        : "_fp16") +
         "_p" + std::to_string(c.form.page_size) + "_share" + std::to_string(static_cast<int>(100 * c.form.share)) +
         weights[static_cast<size_t>(c.form.weights)] + (c.form.mean_value ? "_mean" : "") +
         (c.form.empty_list ? "_empty" : "") + (c.soft_cap > 0 ? "_capped" : "") + sinks[static_cast<size_t>(c.sinks)] +
         (c.window > 0 ? "_window" + std::to_string(c.window) : "") + "_n" + std::to_string(info.index);
}

// A tensor in any element type, its bytes and its values.
class Elements {
 public:
  Elements(DType dtype, size_t count) : dtype_(dtype), bytes_(count * static_cast<size_t>(SizeOf(dtype)), 0xff) {}
  size_t count() const { return bytes_.size() / static_cast<size_t>(SizeOf(dtype_)); }
  void Set(size_t at, float value) {
    if (dtype_ == DType::kFloat32) {
      std::memcpy(bytes_.data() + 4 * at, &value, 4);
    } else {
      const uint16_t code = test::ToCode(value, dtype_);
      std::memcpy(bytes_.data() + 2 * at, &code, 2);
    }
  }
  static float Get(const std::vector<unsigned char>& bytes, DType dtype, size_t at) {
    float value = 0;
    uint16_t code = 0;
    if (dtype == DType::kFloat32) {
      std::memcpy(&value, bytes.data() + 4 * at, 4);
      return value;
    }
    std::memcpy(&code, bytes.data() + 2 * at, 2);
    return test::FromCode(code, dtype);
  }
  const std::vector<unsigned char>& bytes() const { return bytes_; }

 private:
  DType dtype_;
  std::vector<unsigned char> bytes_;  // 0xff: NaN, in every type
};

class CudaDecodeSelection : public ::testing::TestWithParam<Case> {
 protected:
  static constexpr size_t kGuard = 64;

  void SetUp() override {
    SKIP_WITHOUT_GPU();
    std::mt19937 random(testing::FreshSeed());
    std::normal_distribution<float> normal;
    const Case& c = GetParam();
    rows_ = c.seq_k + 5;
    const auto heads = static_cast<size_t>(c.num_kv_heads * c.group);
    for (size_t head = 0; c.sinks != Sinks::kNone && head < heads; ++head) {
      const float middle = c.sinks == Sinks::kUsual ? 1.0f : c.sinks == Sinks::kHigh ? 30.0f : -1e4f;
      sinks_.push_back(middle + normal(random));
    }
    q_ = Elements(c.dtype, static_cast<size_t>(c.batch) * heads * static_cast<size_t>(c.head_dim));
    for (size_t i = 0; i < q_.count(); ++i) q_.Set(i, normal(random));
    const int64_t rows = int64_t{c.batch} * c.num_kv_heads * rows_;
    k_ = Elements(c.dtype, static_cast<size_t>(rows * c.head_dim));
    v_ = Elements(c.dtype, static_cast<size_t>(rows * ValueDim()));
    selection_ = RandomSelection(Problem(nullptr, nullptr, nullptr), c.form, &random);
    for (int64_t list = 0; list < int64_t{c.batch} * c.num_kv_heads; ++list) {
      for (const int32_t token : TokensOfList(selection_, list, c.seq_k)) {
        if (c.window > 0 && token < c.seq_k - c.window) continue;
        const int64_t row = list * rows_ + token;
        for (int32_t d = 0; d < c.head_dim; ++d) k_.Set(static_cast<size_t>(row * c.head_dim + d), normal(random));
        for (int32_t d = 0; d < ValueDim(); ++d) v_.Set(static_cast<size_t>(row * ValueDim() + d), normal(random));
      }
    }
  }
  static int32_t ValueDim() { return GetParam().v_head_dim > 0 ? GetParam().v_head_dim : GetParam().head_dim; }

  AttentionProblem Problem(const void* q, const void* k, const void* v) const {
    const Case& c = GetParam();
    AttentionProblem problem;
    problem.batch = c.batch;
    problem.num_kv_heads = c.num_kv_heads;
    problem.num_qo_heads = c.num_kv_heads * c.group;
    problem.head_dim = c.head_dim;
    problem.v_head_dim = c.v_head_dim;
    problem.seq_q = 1;
    problem.seq_k = c.seq_k;
    problem.first_position = c.seq_k - 1;
    problem.dtype = c.dtype;
    problem.soft_cap = c.soft_cap;
    problem.window = c.window;
    if (!sinks_.empty()) problem.sinks = sinks_.data();
    problem.q = {q, int64_t{problem.num_qo_heads} * c.head_dim, c.head_dim, c.head_dim};
    problem.k = {k, int64_t{c.num_kv_heads} * rows_ * c.head_dim, int64_t{rows_} * c.head_dim, c.head_dim};
    problem.v = {v, int64_t{c.num_kv_heads} * rows_ * ValueDim(), int64_t{rows_} * ValueDim(), ValueDim()};
    return problem;
  }
  AttentionOutput Output(void* o, float* lse) const {
    const int64_t head_dim = ValueDim();
    return {{o, GetParam().num_kv_heads * GetParam().group * head_dim, head_dim, head_dim}, lse};
  }

  // The first token of a list that the query sees; -1: there is none.
  int32_t FirstSeen(int64_t list) const {
    const Case& c = GetParam();
    for (const int32_t token : TokensOfList(selection_, list, c.seq_k)) {
      if (c.window == 0 || token >= c.seq_k - c.window) return token;
    }
    return -1;
  }
  // `measured` has a number more at either end.
  static constexpr float kNoNumber = -12345.0f;
  static void ExpectRowMax(const std::vector<float>& measured, const std::vector<float>& expected) {
    ASSERT_EQ(measured.size(), expected.size() + 2);
    ASSERT_EQ(measured.front(), kNoNumber);
    ASSERT_EQ(measured.back(), kNoNumber);
    for (size_t i = 0; i < expected.size(); ++i) {
      const float got = measured[i + 1], want = expected[i];
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(got)) << "row " << i << ": " << got;
      } else if (std::isinf(want)) {
        ASSERT_EQ(got, want) << "row " << i;
      } else {
        ASSERT_NEAR(got, want, 1e-4 + 5e-7 * std::abs(static_cast<double>(want))) << "row " << i;
      }
    }
  }

  int32_t rows_ = 0;
  Elements q_{DType::kFloat32, 0}, k_{DType::kFloat32, 0}, v_{DType::kFloat32, 0};
  DecodeSelection selection_;
  std::vector<float> sinks_;
};

TEST_P(CudaDecodeSelection, MatchesFloat64) {
  const Case& c = GetParam();
  const auto size = static_cast<size_t>(SizeOf(c.dtype));
  const size_t num_rows = q_.count() / static_cast<size_t>(c.head_dim);
  std::vector<float> expected(num_rows * static_cast<size_t>(ValueDim())), expected_lse(num_rows),
      expected_row_max(num_rows);
  const AttentionProblem host = Problem(q_.bytes().data(), k_.bytes().data(), v_.bytes().data());
  AttentionOutput reference = Output(expected.data(), expected_lse.data());
  reference.row_max = expected_row_max.data();
  ASSERT_TRUE(DecodeReference(host, selection_, reference).ok());

  const DeviceArray<unsigned char> q(q_.bytes()), k(k_.bytes()), v(v_.bytes());
  const std::vector<unsigned char> poison((expected.size() + 2 * kGuard) * size, 0xa5);
  const AttentionProblem problem = Problem(q.get(), k.get(), v.get());
  CudaSelectionBuffers buffers;
  Status status = UploadSelection(problem, selection_, &buffers);
  ASSERT_TRUE(status.ok()) << status.message();
  const size_t bytes = SelectionWorkspaceBytes(problem, buffers.view);
  // Dense calls want zeros; for others any bytes will do.
  const DeviceArray<unsigned char> workspace(
      std::vector<unsigned char>(bytes + 1, buffers.view.dense ? static_cast<unsigned char>(0) : 0xff));
  std::vector<unsigned char> first;
  for (int run = 0; run < 2; ++run) {
    const DeviceArray<unsigned char> o(poison);
    const DeviceArray<float> lse(std::vector<float>(num_rows, std::nanf("")));
    AttentionOutput output = Output(o.get() + kGuard * size, lse.get());
    // The second run is asked for the largest scores as well, where there are no weights.
    const DeviceArray<float> row_max(std::vector<float>(num_rows + 2, kNoNumber));
    if (run == 1) output.row_max = row_max.get() + 1;
    const auto attend = [&] {
      return AttendSelectionCuda(problem, buffers.view, output, workspace.get(), bytes, nullptr);
    };
    status = attend();
    if (run == 1 && !selection_.weights.empty()) {
      EXPECT_EQ(status.code(), StatusCode::kUnsupported);
      EXPECT_NE(status.message().find("output.row_max is set and selection.weights too"), std::string::npos)
          << status.message();
      output.row_max = nullptr;
      status = attend();
    }
    ASSERT_TRUE(status.ok()) << status.message();
    const std::vector<unsigned char> all = o.Download();
    if (run == 1) {
      EXPECT_EQ(all, first) << "another result of the same call";
      if (output.row_max == nullptr) break;
      ASSERT_NO_FATAL_FAILURE(ExpectRowMax(row_max.Download(), expected_row_max));
      // A key of the first list that is no number.
      const int32_t token = FirstSeen(0);
      if (token < 0) break;
      ASSERT_EQ(cudaMemset(k.get() + int64_t{token} * c.head_dim * static_cast<int64_t>(size), 0xff,
                           static_cast<size_t>(c.head_dim) * size),
                cudaSuccess);
      ASSERT_TRUE(attend().ok());
      for (int32_t head = 0; head < c.group; ++head) {
        expected_row_max[static_cast<size_t>(head)] = std::numeric_limits<float>::quiet_NaN();
      }
      ASSERT_NO_FATAL_FAILURE(ExpectRowMax(row_max.Download(), expected_row_max));
      break;
    }
    first = all;
    const auto is_poison = [](unsigned char x) { return x == 0xa5; };
    const auto guard = static_cast<std::ptrdiff_t>(kGuard * size);
    EXPECT_TRUE(std::all_of(all.begin(), all.begin() + guard, is_poison)) << "written before the output";
    EXPECT_TRUE(std::all_of(all.end() - guard, all.end(), is_poison)) << "written behind the output";
    double difference = 0, norm = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      const auto value = static_cast<double>(Elements::Get(all, c.dtype, i + kGuard));
      difference += std::pow(value - static_cast<double>(expected[i]), 2);
      norm += std::pow(static_cast<double>(expected[i]), 2);
    }
    // What rounding the output takes, and for fp32 the hardware's exponentials.
    const double tolerance = c.dtype == DType::kFloat32 ? 1e-5 : c.dtype == DType::kBFloat16 ? 3e-3 : 5e-4;
    // The tensor cores take probabilities rounded to 16 bits as well.
    const bool rounds =
        c.dtype != DType::kFloat32 && ValueDim() == c.head_dim && c.head_dim % 64 == 0 && c.head_dim <= 128;
    // Below it fp16 has nothing.
    const double least = c.dtype == DType::kFloat16 ? 6e-8 * std::sqrt(static_cast<double>(expected.size())) : 1e-30;
    EXPECT_LE(std::sqrt(difference), (rounds ? 2 : 1) * tolerance * std::sqrt(norm) + least);
    const std::vector<float> lses = lse.Download();
    for (size_t i = 0; i < num_rows; ++i) {
      if (std::isinf(expected_lse[i])) {
        EXPECT_EQ(lses[i], expected_lse[i]) << "row " << i;
      } else {
        EXPECT_NEAR(lses[i], expected_lse[i], 1e-4 + 5e-7 * std::abs(static_cast<double>(expected_lse[i])))
            << "row " << i;
      }
    }
  }
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  const DType dtypes[] = {DType::kBFloat16, DType::kFloat16, DType::kFloat32};
  const Weights weights[] = {Weights::kNone, Weights::kShared, Weights::kPerHead};
  const int32_t pages[] = {1, 16, 7, 64};
  const double shares[] = {0.6, 1.0, 0.08};
  int turn = 0;
  for (const int32_t head_dim : {64, 128, 256}) {
    for (const DType dtype : dtypes) {
      for (const int32_t group : {1, 2, 4, 7, 16}) {
        for (const int32_t length : {1, 45, 500, 4097}) {
          cases.push_back({length, group, head_dim, dtype,
                           SelectionForm{.page_size = pages[turn % 4],
                                         .share = shares[turn / 2 % 3],
                                         .weights = weights[turn / 3 % 3],
                                         .mean_value = turn % 5 == 1,
                                         .empty_list = turn % 7 == 3},
                           turn % 6 == 4 ? 5.0f : 0.0f});
          ++turn;
        }
      }
    }
  }
  // Many stretches, and lists of very unequal length.
  for (const DType dtype : dtypes) {
    cases.push_back({131072, 4, 128, dtype, {.page_size = 16, .share = 0.3, .empty_list = true}, 0, 1});
    cases.push_back({50000, 1, 64, dtype, {.share = 0.5, .weights = Weights::kShared, .mean_value = true}, 0, 3});
  }
  // Many passes a block, whole and shared, of lists alike and not.
  cases.push_back(
      {131072, 2, 128, DType::kBFloat16, {.page_size = 16, .share = 1.0, .weights = Weights::kShared}, 0, 2});
  cases.push_back({5000, 9, 64, DType::kFloat16, {.page_size = 16, .share = 0.9, .empty_list = true}, 0, 100});
  cases.push_back({2000, 4, 128, DType::kBFloat16, {.page_size = 7, .share = 0.9, .mean_value = true}, 0, 66});
  // Values of other sizes than keys, and sizes that are no power of two.
  struct Sizes {
    int32_t head_dim, v_head_dim;
  };
  const Sinks sinks[] = {Sinks::kUsual, Sinks::kNone, Sinks::kLow, Sinks::kHigh};
  const int32_t windows[] = {0, 0, 33, 400, 1, 5000};
  for (const auto& [head_dim, v_head_dim] : {Sizes{192, 128},
                                             {128, 192},
                                             {576, 512},
                                             {96, 96},
                                             {64, 48},
                                             {80, 136},
                                             {8, 8},
                                             {256, 64},
                                             {64, 256},
                                             {72, 264},
                                             {320, 8},
                                             {64, 128}}) {
    for (const DType dtype : dtypes) {
      for (const int32_t group : {1, 4, 7, 8}) {
        for (const int32_t length : {1, 45, 700}) {
          Case c{length,
                 group,
                 head_dim,
                 dtype,
                 SelectionForm{.page_size = pages[turn % 4],
                               .share = shares[turn / 2 % 3],
                               .weights = weights[turn / 3 % 3],
                               .mean_value = turn % 5 == 1,
                               .empty_list = turn % 7 == 3},
                 turn % 6 == 4 ? 5.0f : 0.0f};
          c.v_head_dim = v_head_dim;
          c.sinks = sinks[turn / 2 % 4];
          c.window = windows[turn / 3 % 6];
          c.batch = turn % 4 == 2 ? 3 : 2;
          cases.push_back(c);
          ++turn;
        }
      }
    }
  }
  // Sinks and windows where sizes are equal: on the tensor cores and off them, lists and whole caches.
  for (const int32_t head_dim : {64, 128, 256}) {
    for (const DType dtype : dtypes) {
      for (const int32_t group : {1, 4, 7, 8, 16}) {
        for (const int32_t length : {1, 129, 3000, 9001}) {
          Case c{length,
                 group,
                 head_dim,
                 dtype,
                 SelectionForm{.page_size = pages[turn % 4],
                               .share = turn % 3 == 0 ? 1.0 : 0.4,
                               .weights = turn % 3 == 1 ? weights[turn / 3 % 3] : Weights::kNone,
                               .mean_value = turn % 3 == 2 && turn % 5 == 1,
                               .empty_list = turn % 3 != 0 && turn % 7 == 3},
                 turn % 6 == 4 ? 5.0f : 0.0f};
          c.sinks = sinks[turn % 4];
          c.window = windows[turn / 4 % 6];
          c.batch = turn % 4 == 2 ? 3 : 2;
          cases.push_back(c);
          ++turn;
        }
      }
    }
  }
  for (const DType dtype : dtypes) {
    Case c{50000, 8, 192, dtype, {.page_size = 16, .share = 0.3}, 0, 1};
    c.v_head_dim = 128;
    c.sinks = Sinks::kUsual;
    cases.push_back(c);
    c.window = 20000;
    c.form.share = 1.0;
    cases.push_back(c);
  }
  // Dense, which a kernel of its own takes where it can.
  cases.push_back({3000, 4, 128, DType::kBFloat16, {.page_size = 16, .share = 1.0}});
  cases.push_back({3000, 2, 64, DType::kFloat16, {.share = 1.0}});
  cases.push_back({3000, 2, 256, DType::kFloat16, {.share = 1.0}});
  cases.push_back({3000, 1, 128, DType::kFloat32, {.page_size = 1000, .share = 1.0}});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, CudaDecodeSelection, ::testing::ValuesIn(Cases()), NameOf);

// A step can be captured, and the graph keeps the sinks that the call saw, whatever becomes of the host's memory.
TEST(CudaDecodeSelectionGraph, KeepsTheSinksOfItsCapture) {
  SKIP_WITHOUT_GPU();
  constexpr int32_t kTokens = 5000, kHeads = 4, kDim = 128;
  std::mt19937 random(testing::FreshSeed());
  std::normal_distribution<float> normal;
  Elements row(DType::kBFloat16, kHeads * kDim), cache(DType::kBFloat16, size_t{kTokens} * kDim);
  for (size_t i = 0; i < row.count(); ++i) row.Set(i, normal(random));
  for (size_t i = 0; i < cache.count(); ++i) cache.Set(i, normal(random));
  const DeviceArray<unsigned char> q(row.bytes()), k(cache.bytes());
  for (const int32_t value_dim : {kDim, 64}) {
    for (const bool dense : {true, false}) {
      SCOPED_TRACE(std::to_string(value_dim) + (dense ? ", dense" : ", some pages"));
      AttentionProblem problem;
      problem.num_qo_heads = kHeads;
      problem.num_kv_heads = 1;
      problem.head_dim = kDim;
      problem.v_head_dim = value_dim;
      problem.seq_q = 1;
      problem.seq_k = kTokens;
      problem.first_position = kTokens - 1;
      problem.dtype = DType::kBFloat16;
      problem.q = {q.get(), kHeads * kDim, kDim, kDim};
      problem.k = problem.v = {k.get(), int64_t{kTokens} * kDim, int64_t{kTokens} * kDim, kDim};
      std::vector<float> sinks = {0.5f, 7.0f, -3.0f, 2.0f};
      problem.sinks = sinks.data();
      DecodeSelection selection = WholeCache(problem);
      if (!dense) {
        selection.page_size = 16;
        selection.pages.clear();
        for (int32_t page = 0; page < kTokens / 16; page += 3) selection.pages.push_back(page);
        selection.page_begin = {0, static_cast<int64_t>(selection.pages.size())};
      }
      CudaSelectionBuffers buffers;
      ASSERT_TRUE(UploadSelection(problem, selection, &buffers).ok());
      EXPECT_EQ(buffers.view.dense, dense);
      const size_t bytes = SelectionWorkspaceBytes(problem, buffers.view);
      const DeviceArray<unsigned char> workspace{std::vector<unsigned char>(bytes + 1)};
      const DeviceArray<uint16_t> o(std::vector<uint16_t>(kHeads * kDim, 0x7fff));
      const DeviceArray<float> lse(int64_t{kHeads});
      const AttentionOutput output{{o.get(), kHeads * value_dim, value_dim, value_dim}, lse.get()};
      const auto step = [&](cudaStream_t stream) {
        return AttendSelectionCuda(problem, buffers.view, output, workspace.get(), bytes, stream);
      };
      ASSERT_TRUE(step(nullptr).ok());
      const std::vector<uint16_t> expected = o.Download();
      const std::vector<float> expected_lse = lse.Download();
      cudaStream_t stream = nullptr;
      cudaGraph_t graph = nullptr;
      cudaGraphExec_t instance = nullptr;
      ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
      ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
      const Status captured = step(stream);
      ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
      ASSERT_TRUE(captured.ok()) << captured.message();
      ASSERT_EQ(cudaGraphInstantiate(&instance, graph, 0), cudaSuccess);
      std::fill(sinks.begin(), sinks.end(), 100.0f);
      for (int replay = 0; replay < 2; ++replay) {
        ASSERT_EQ(cudaMemset(o.get(), 0x7f, expected.size() * 2), cudaSuccess);
        ASSERT_EQ(cudaMemset(lse.get(), 0x7f, expected_lse.size() * 4), cudaSuccess);
        ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
        ASSERT_EQ(cudaGraphLaunch(instance, stream), cudaSuccess);
        ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
        const std::vector<uint16_t> again = o.Download();
        EXPECT_TRUE(std::equal(again.begin(), again.begin() + kHeads * value_dim, expected.begin()));
        EXPECT_EQ(lse.Download(), expected_lse);
      }
      cudaGraphExecDestroy(instance);
      cudaGraphDestroy(graph);
      cudaStreamDestroy(stream);
    }
  }
}

TEST(CudaDecodeSelectionRefusals, NameTheFieldBeforeAGpuIsAskedFor) {
  alignas(16) static char memory[64];
  AttentionProblem problem;
  problem.num_qo_heads = problem.num_kv_heads = 1;
  problem.head_dim = 64;
  problem.seq_q = 1;
  problem.seq_k = 100;
  problem.first_position = 99;
  problem.dtype = DType::kFloat32;
  problem.q = problem.k = problem.v = {memory, 6400, 6400, 64};
  AttentionOutput output{{memory, 64, 64, 64}, nullptr};
  CudaSelection selection;
  selection.page_begin = reinterpret_cast<const int64_t*>(memory);
  const auto refused = [&](auto breaks, const std::string& words, StatusCode code = StatusCode::kInvalidArgument) {
    AttentionProblem p = problem;
    CudaSelection s = selection;
    breaks(p, s);
    const Status status = AttendSelectionCuda(p, s, output, nullptr, 0, nullptr);
    EXPECT_EQ(status.code(), code) << words;
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
  };
  using P = AttentionProblem;
  using S = CudaSelection;
  refused([](P& p, S&) { p.head_dim = 60; }, "head_dim 60", StatusCode::kUnsupported);
  refused([](P& p, S&) { p.head_dim = 584; }, "head_dim 584", StatusCode::kUnsupported);
  refused([](P& p, S&) { p.v_head_dim = 520; }, "v_head_dim 520", StatusCode::kUnsupported);
  refused([](P& p, S&) { p.v_head_dim = 72; }, "v.row_stride 64: it must be at least 72");
  refused([](P& p, S&) { p.window = -1; }, "window is -1");
  static const float kInfinite = std::numeric_limits<float>::infinity();
  refused([](P& p, S&) { p.sinks = &kInfinite; }, "sinks[0] is inf");
  static const std::vector<float> many(129);
  refused(
      [](P& p, S&) {
        p.num_qo_heads = 129;
        p.sinks = many.data();
      },
      "num_qo_heads is 129", StatusCode::kUnsupported);
  refused(
      [](P& p, S&) {
        p.seq_q = 2;
        p.first_position = 98;
      },
      "seq_q 2");
  refused([](P& p, S&) { p.k.row_stride = 65; }, "k.row_stride 65");
  refused([](P& p, S&) { p.v.data = nullptr; }, "v.data");
  refused([](P&, S& s) { s.page_size = 0; }, "page_size 0");
  refused([](P&, S& s) { s.weight_rows = 2; }, "weight_rows 2");
  refused([](P&, S& s) { s.longest_list = 101; }, "longest_list 101");
  refused([](P&, S& s) { s.alpha = reinterpret_cast<const float*>(memory); }, "selection.alpha");
  refused([](P&, S& s) { s.page_begin = nullptr; }, "page_begin");
  output.row_max = reinterpret_cast<float*>(memory + 4);
  refused([](P&, S& s) { s.weights = reinterpret_cast<const float*>(memory); },
          "output.row_max is set and selection.weights too", StatusCode::kUnsupported);
  output.row_max = reinterpret_cast<float*>(memory + 2);
  refused([](P&, S&) {}, "output.row_max is 0x");
}

}  // namespace
}  // namespace headscope::kernels
