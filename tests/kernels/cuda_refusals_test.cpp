// SPDX-License-Identifier: Apache-2.0
// What the CUDA calls refuse, and in which words. Needs no GPU: everything here is refused before a GPU is asked for,
// and no pointer is followed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "cuda_lists.h"
#include "hopper/tensor_map.h"
#include "kernels/cuda_executor.h"
#include "kernels/cuda_select.h"
#include "kernels/cuda_statistics.h"
#include "kernels/sparse_index.h"
#include "problem_check.h"
#include "statistics/row_lse_mma.h"

namespace headscope::kernels {
namespace {

using ::testing::HasSubstr;
using testing::MakeLists;
using testing::Pattern;

constexpr ElementRule kCausal{MaskKind::kCausal, 0, 0};
constexpr uintptr_t kSomewhere = 0x1000;

template <typename T>
T* At(uintptr_t address) {
  return reinterpret_cast<T*>(address);
}

// A legal problem of two heads of 100 rows, whose pointers lead nowhere.
struct Call {
  AttentionProblem problem;
  SparseIndex lists = MakeLists({1, 2, 100, 100, 0, 128, kCausal}, Pattern::kDense, 1);
  SparseIndexView index = lists.View();
  AttentionOutput output;

  Call() {
    problem.num_qo_heads = 2;
    problem.num_kv_heads = 1;
    problem.head_dim = 128;
    problem.seq_q = problem.seq_k = 100;
    problem.dtype = DType::kBFloat16;
    problem.q = {At<void>(kSomewhere), 2 * 100 * 128, 100 * 128, 128};
    problem.k = problem.v = {At<void>(kSomewhere), 100 * 128, 100 * 128, 128};
    output.o = {At<void>(kSomewhere), 2 * 100 * 128, 100 * 128, 128};
    output.lse = At<float>(kSomewhere);
  }
  Status Attend() const { return AttendCuda(problem, index, output, nullptr); }
  Status AttendSimple() const { return AttendCudaSimple(problem, index, output, nullptr); }
  Status Check() const { return CheckProblem(problem, index, output); }
};

void ExpectInvalid(const Status& status, const std::string& words) {
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << words << ": " << status.message();
  EXPECT_THAT(status.message(), HasSubstr(words));
}

TEST(CudaRefusals, ExecutorsNameTheField) {
  auto expect = [](const char* words, void (*damage)(Call*)) {
    Call call;
    damage(&call);
    ExpectInvalid(call.Attend(), words);
    ExpectInvalid(call.AttendSimple(), words);
  };
  expect("q.data is null", [](Call* c) { c->problem.q.data = nullptr; });
  expect("output.o.data is null", [](Call* c) { c->output.o.data = nullptr; });
  expect("k.row_stride is 127", [](Call* c) { c->problem.k.row_stride = 127; });
  expect("v_head_dim is -1", [](Call* c) { c->problem.v_head_dim = -1; });
  // Rows of V and O are wider than those of Q and K.
  expect("v.row_stride is 128: must be at least v_head_dim (136", [](Call* c) { c->problem.v_head_dim = 136; });
  expect("output.o.row_stride is 128", [](Call* c) {
    c->problem.v_head_dim = 136;
    c->problem.v = {At<void>(kSomewhere), 100 * 136, 100 * 136, 136};
  });
  expect("num_qo_heads is 2", [](Call* c) { c->problem.num_kv_heads = 3; });
  expect("seq_k is 0", [](Call* c) { c->problem.seq_k = 0; });
  expect("index.seq_k is 99", [](Call* c) { c->index.seq_k = 99; });
  expect("index.tile_rows is 32", [](Call* c) { c->index.tile_rows = 32; });
  expect("scale is nan", [](Call* c) { c->problem.scale = std::numeric_limits<float>::quiet_NaN(); });
  expect("scale is -1", [](Call* c) { c->problem.scale = -1; });
  expect("soft_cap is -1", [](Call* c) { c->problem.soft_cap = -1; });
  expect("seq_k is 268435456", [](Call* c) { c->problem.seq_k = c->index.seq_k = 1 << 28; });
  expect("first_position is 2147483300", [](Call* c) { c->problem.first_position = 2147483300; });
  expect("index.rule.kind is 7: must be none (0), causal (1) or causal window (2)", [](Call* c) {
    c->index.rule = {static_cast<MaskKind>(7), 0, 0};
  });
  expect("dtype is 7: must be fp32 (0), bf16 (1) or fp16 (2)",
         [](Call* c) { c->problem.dtype = static_cast<DType>(7); });
  static constexpr float kSinks[] = {1, std::numeric_limits<float>::infinity()};
  expect("sinks[1] is inf: must be finite", [](Call* c) { c->problem.sinks = kSinks; });
  expect("window is -3", [](Call* c) { c->problem.window = -3; });
  expect("index.rule is window 0", [](Call* c) { c->index.rule = {MaskKind::kCausalWindow, 0, 0}; });
}

// A load across its natural boundary ends the process' CUDA context.
TEST(CudaRefusals, ExecutorsWantAlignedPointers) {
  auto expect = [](const char* words, void (*damage)(Call*)) {
    Call call;
    damage(&call);
    ExpectInvalid(call.Check(), words);
  };
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    Call call;
    call.problem.dtype = dtype;
    call.problem.k.data = At<void>(kSomewhere + 1);
    ExpectInvalid(call.Check(), "k.data is 0x1001: must be a multiple of 2 bytes");
    call.problem.k.data = At<void>(kSomewhere + 2);
    EXPECT_TRUE(call.Check().ok());
  }
  expect("q.data is 0x1002: must be a multiple of 4", [](Call* c) {
    c->problem.dtype = DType::kFloat32;
    c->problem.q.data = At<void>(kSomewhere + 2);
  });
  expect("v.data is 0x1003", [](Call* c) { c->problem.v.data = At<void>(kSomewhere + 3); });
  expect("output.o.data is 0x1005", [](Call* c) { c->output.o.data = At<void>(kSomewhere + 5); });
  expect("output.lse is 0x1002", [](Call* c) { c->output.lse = At<float>(kSomewhere + 2); });
  expect("output.row_max is 0x1003", [](Call* c) { c->output.row_max = At<float>(kSomewhere + 3); });
  expect("index.run_begin is 0x1004", [](Call* c) { c->index.run_begin = At<int64_t>(kSomewhere + 4); });
  expect("index.run_count is 0x1002", [](Call* c) { c->index.run_count = At<int32_t>(kSomewhere + 2); });
  expect("index.column_begin is 0x1004", [](Call* c) { c->index.column_begin = At<int64_t>(kSomewhere + 4); });
  expect("index.column_count is 0x1001", [](Call* c) { c->index.column_count = At<int32_t>(kSomewhere + 1); });
  expect("index.runs is 0x1002", [](Call* c) { c->index.runs = At<KeyRun>(kSomewhere + 2); });
  expect("index.columns is 0x1002", [](Call* c) { c->index.columns = At<int32_t>(kSomewhere + 2); });
  expect("index.runs is null", [](Call* c) { c->index.runs = nullptr; });
}

TEST(CudaRefusals, RowsOfTheOutputLieApart) {
  struct Layout {
    int64_t batch_stride, head_stride, row_stride;
    const char* words;  // of the refusal; empty: legal
  };
  // Three sequences of two heads of 100 rows of 128.
  for (const Layout& layout :
       {Layout{2 * 100 * 128, 100 * 128, 128, ""}, Layout{2 * 100 * 128, 128, 2 * 128, ""},
        Layout{128, 3 * 100 * 128, 3 * 128, ""}, Layout{100 * 128, 3 * 100 * 128, 128, ""},
        Layout{2 * 100 * 130 + 7, 100 * 130 + 1, 130, ""},
        Layout{2 * 100 * 128, 128, 128, "head_stride is 128: rows of the output would overlap"},
        Layout{2 * 100 * 128, 100 * 128 - 1, 128, "head_stride is 12799"},
        Layout{2 * 100 * 128, 128, 2 * 128 - 1, "row_stride is 255"},
        Layout{2 * 100 * 128 - 1, 100 * 128, 128, "batch_stride is 25599"},
        Layout{2 * 100 * 128, 100 * 128, 127, "row_stride is 127"},
        Layout{int64_t{1} << 62, int64_t{1} << 62, 128, "batch_stride is 4611686018427387904"}}) {
    Call call;
    call.lists = MakeLists({3, 2, 100, 100, 0, 128, kCausal}, Pattern::kDense, 1);
    call.index = call.lists.View();
    call.problem.batch = 3;
    call.output.o.batch_stride = layout.batch_stride;
    call.output.o.head_stride = layout.head_stride;
    call.output.o.row_stride = layout.row_stride;
    const Status status = call.Check();
    if (*layout.words == '\0') {
      EXPECT_TRUE(status.ok()) << status.message();
    } else {
      ExpectInvalid(status, std::string("output.o.") + layout.words);
    }
  }
  // A stride over a single element is never used.
  Call call;
  call.output.o.batch_stride = -5;
  EXPECT_TRUE(call.Check().ok());
}

TEST(CudaRefusals, SayWhatTheCpuTakes) {
  const auto expect = [](const Status& status, const char* words) {
    EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    EXPECT_THAT(status.message(), HasSubstr(words));
  };
  Call call;
  call.problem.window = 5;
  expect(call.Attend(), "window is 5");
  expect(call.AttendSimple(), "window is 5");
  float lse = 0;
  expect(RowLseCuda(call.problem, 0, &lse, nullptr), "window is 5");
  const std::vector<float> sinks(129);
  call.problem.window = 0;
  call.problem.num_qo_heads = 129;
  call.problem.sinks = sinks.data();
  expect(call.Attend(), "num_qo_heads is 129: with sinks the CUDA executors take at most 128");
}

TEST(CudaRefusals, ValuesMayBeNarrowerThanKeys) {
  Call call;
  call.problem.v_head_dim = 64;
  call.problem.v = {At<void>(kSomewhere), 100 * 64, 100 * 64, 64};
  call.output.o = {At<void>(kSomewhere), 2 * 100 * 64, 100 * 64, 64};
  EXPECT_TRUE(call.Check().ok()) << call.Check().message();
  call.output.o.row_stride = 63;
  ExpectInvalid(call.Check(), "output.o.row_stride is 63");
}

TEST(CudaRefusals, SimpleExecutorTakesMultiplesOf8) {
  for (const int32_t head_dim : {4, 100, 260}) {
    Call call;
    call.problem.head_dim = head_dim;
    call.problem.q = {At<void>(kSomewhere), 52000, 26000, 260};
    call.problem.k = call.problem.v = {At<void>(kSomewhere), 26000, 26000, 260};
    call.output.o = {At<void>(kSomewhere), 52000, 26000, 260};
    const Status status = call.AttendSimple();
    EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    EXPECT_THAT(status.message(), HasSubstr("head_dim is " + std::to_string(head_dim)));
  }
  Call call;
  call.problem.v_head_dim = 100;
  const Status status = call.AttendSimple();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("v_head_dim is 100"));
}

TEST(CudaRefusals, UploadRefusesABrokenIndex) {
  SparseIndex index = MakeLists({1, 1, 300, 300, 0, 128, kCausal}, Pattern::kColumns, 3);
  ASSERT_GE(index.columns.size(), 2u);
  index.columns[1] = index.columns[0];
  CudaIndexBuffers buffers;
  ExpectInvalid(UploadIndex(index.View(), &buffers), "is not larger than the preceding column");
  EXPECT_EQ(buffers.allocation, nullptr);
}

TEST(CudaRefusals, StatisticsNameTheField) {
  const Call call;
  const auto* const lse = At<const float>(kSomewhere);
  auto* const output = At<float>(kSomewhere);
  ExpectInvalid(RowLseCuda(call.problem, 0, At<float>(kSomewhere + 2), nullptr), "lse is 0x1002");
  ExpectInvalid(statistics::RowLseMma(call.problem, -1, output, nullptr), "window is -1");
  ExpectInvalid(KeptMassCuda(call.problem, 0, lse, call.index, At<float>(kSomewhere + 1), nullptr), "mass is 0x1001");
  ExpectInvalid(LineMassCuda(call.problem, 0, lse, {}, At<double>(kSomewhere + 4), At<double>(kSomewhere), nullptr),
                "columns is 0x1004");
  ExpectInvalid(TopMassCuda(call.problem, 0, lse, output, nullptr, 0, nullptr), "workspace is null");
  AttentionProblem odd = call.problem;
  odd.q.data = At<void>(kSomewhere + 1);
  ExpectInvalid(RowLseCuda(odd, 0, output, nullptr), "q.data is 0x1001");
  AttentionProblem unknown = call.problem;
  unknown.dtype = static_cast<DType>(7);
  ExpectInvalid(RowLseCuda(unknown, 0, output, nullptr), "dtype is 7");
  auto* const lines = At<double>(kSomewhere);
  ExpectInvalid(LineMassCuda(call.problem, 0, lse, {.region = static_cast<LineRegion>(3)}, lines, lines, nullptr),
                "region is 3");
  ExpectInvalid(LineMassCuda(call.problem, 0, lse, {.sink_tokens = -1}, lines, lines, nullptr), "sink_tokens is -1");
  AttentionProblem negative = call.problem;
  negative.scale = -0.5f;
  ExpectInvalid(RowLseCuda(negative, 0, output, nullptr), "scale is -0.5");
  SparseIndexView index = call.index;
  index.run_begin = At<int64_t>(kSomewhere + 4);
  ExpectInvalid(KeptMassCuda(call.problem, 0, lse, index, output, nullptr), "index.run_begin is 0x1004");
}

TEST(CudaRefusals, TexelsStayWhereNumbersAre) {
  const Call call;
  auto expect = [&](const char* words, const TexelRequest& request) {
    ExpectInvalid(TexelsCuda(call.problem, 0, At<const float>(kSomewhere), request, At<float>(kSomewhere), nullptr),
                  words);
  };
  expect("request.value is 2", {.value = static_cast<TexelValue>(2)});
  expect("request.level is 21", {.level = 21});
  expect("request.row_begin is 1:", {.level = 1, .row_begin = 1});
  expect("request.column_begin is -2", {.level = 1, .column_begin = -2});
  expect("request.num_rows is 0", {.num_rows = 0});
  // A launch has at most 65,535 blocks along y.
  expect("request.num_rows is 65536", {.level = 7, .num_rows = 65536});
  expect("request.num_columns is 65536", {.level = 10, .num_columns = 65536});
  // Its last texel's end is no 64-bit number.
  constexpr int64_t kStep = int64_t{1} << 20;
  expect("request.row_begin is 9223372036853727232",
         {.level = 20, .row_begin = std::numeric_limits<int64_t>::max() / kStep * kStep});
  expect("request.column_begin is", {.level = 20, .column_begin = (int64_t{1} << 62)});
}

TEST(CudaRefusals, DownloadReturnsAStatusWhateverTheShape) {
  SparseIndexView view;
  view.batch = 1 << 20;
  view.num_qo_heads = 1 << 20;
  view.seq_q = view.seq_k = 64;
  view.tile_rows = 64;
  view.run_begin = view.column_begin = At<int64_t>(kSomewhere);
  view.run_count = view.column_count = At<int32_t>(kSomewhere);
  SparseIndex index;
  // 2^40 lists of counts would be 4 TiB.
  Status status;
  ASSERT_NO_THROW(status = DownloadIndex(view, &index, nullptr));
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("heads is 1099511627776"));
  view.tile_rows = 0;
  ExpectInvalid(DownloadIndex(view, &index, nullptr), "tile_rows is 0");
  view.tile_rows = 64;
  view.seq_q = std::numeric_limits<int32_t>::max();
  ExpectInvalid(DownloadIndex(view, &index, nullptr), "seq_q is 2147483647");
}

TEST(CudaRefusals, DownloadReportsThatMemoryIsOut) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's own memory leaves no room under a limit";
#endif
  SparseIndexView view;
  view.batch = 1 << 15;
  view.num_qo_heads = (1 << 16) - 1;
  view.seq_q = view.seq_k = view.tile_rows = 64;
  view.run_begin = view.column_begin = At<int64_t>(kSomewhere);
  view.run_count = view.column_count = At<int32_t>(kSomewhere);
  SparseIndex index;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  rlimit tight = before;
  tight.rlim_cur = rlim_t{4} << 30;  // the counts alone take 8 GiB
  ASSERT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
  Status status;
  EXPECT_NO_THROW(status = DownloadIndex(view, &index, nullptr));
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory) << status.message();
}

TEST(CudaRefusals, WithoutAGpuACleanStatus) {
  CudaDeviceInfo info;
  const Status status = QueryCudaDevice(0, &info);
  if (status.ok()) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_EQ(Call().Attend().code(), StatusCode::kDeviceMissing);
  EXPECT_EQ(status.code(), StatusCode::kDeviceMissing);
  EXPECT_FALSE(status.message().empty());
}

// TMA wants multiples of 16 bytes, of those strides that lead anywhere.
TEST(CudaTensorMap, AlignmentOfUsedStridesCounts) {
  const StridedTensor<const void> tensor{At<void>(kSomewhere), 4000, 2000, 136};
  EXPECT_TRUE(hopper::IsTmaAligned(tensor, 2, 2, 2));
  auto with = [&](int64_t batch_stride, int64_t head_stride, int64_t row_stride) {
    return StridedTensor<const void>{tensor.data, batch_stride, head_stride, row_stride};
  };
  EXPECT_FALSE(hopper::IsTmaAligned(with(4001, 2000, 136), 2, 2, 2));
  EXPECT_FALSE(hopper::IsTmaAligned(with(4000, 2001, 136), 2, 2, 2));
  EXPECT_FALSE(hopper::IsTmaAligned(with(4000, 2000, 137), 2, 2, 2));
  EXPECT_TRUE(hopper::IsTmaAligned(with(4001, 2000, 136), 1, 2, 2));
  EXPECT_TRUE(hopper::IsTmaAligned(with(4000, 2001, 136), 2, 1, 2));
  EXPECT_TRUE(hopper::IsTmaAligned(with(4000, 2000, 137), 2, 2, 1));
  StridedTensor<const void> odd = tensor;
  odd.data = At<void>(kSomewhere + 8);
  EXPECT_FALSE(hopper::IsTmaAligned(odd, 1, 1, 1));
}

}  // namespace
}  // namespace headscope::kernels
