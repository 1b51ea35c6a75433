// The CUDA executors against a float64 reference on fresh random data. In every case: NaN in the keys and values that
// no list names, poisoned outputs, guard values around them. Skipped without a GPU.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "cuda_lists.h"
#include "cuda_reference.h"
#include "float_codes.h"
#include "kernels/cuda_executor.h"
#include "kernels/sparse_index.h"
#include "support/gpu.h"

namespace headscope::kernels {
namespace {

using ::testing::HasSubstr;
using testing::ListShape;
using testing::MakeLists;
using testing::NameOf;
using testing::Pattern;
using testing::ReferenceRow;

constexpr ElementRule kCausal{MaskKind::kCausal, 0, 0};
constexpr ElementRule kNoMask{MaskKind::kNone, 0, 0};
constexpr ElementRule kWindow{MaskKind::kCausalWindow, 200, 10};

enum class Executor { kAuto, kSimple };

struct Case {
  Pattern pattern;
  int32_t seq_q;
  int32_t seq_k;  // 0: seq_q
  int32_t batch = 1;
  int32_t num_qo_heads = 2;
  int32_t num_kv_heads = 1;
  int32_t head_dim = 128;
  DType dtype = DType::kBFloat16;
  ElementRule rule = kCausal;
  int32_t tile_rows = 128;
  float soft_cap = 0.0f;
  Executor executor = Executor::kAuto;
};

std::string NameOfCase(const Case& c) {
  const char* const dtypes[] = {"fp32", "bf16", "fp16"};
  const char* const rules[] = {"none", "causal", "window"};
  std::string name = std::string(NameOf(c.pattern)) + "_" + std::to_string(c.seq_q) + "x" +
                     std::to_string(c.seq_k == 0 ? c.seq_q : c.seq_k) + "_b" + std::to_string(c.batch) + "_h" +
                     std::to_string(c.num_qo_heads) + "_" + std::to_string(c.num_kv_heads) + "_d" +
                     std::to_string(c.head_dim) + "_" + dtypes[static_cast<int>(c.dtype)] + "_" +
                     rules[static_cast<int>(c.rule.kind)] + "_t" + std::to_string(c.tile_rows);
  if (c.soft_cap > 0) name += "_cap";
  if (c.executor == Executor::kSimple) name += "_simple";
  return name;
}
void PrintTo(const Case& c, std::ostream* out) {
  *out << NameOfCase(c);
}

class Device {
 public:
  explicit Device(int64_t bytes) : bytes_(bytes) {
    if (cudaMalloc(&data_, static_cast<size_t>(bytes)) != cudaSuccess) data_ = nullptr;
  }
  ~Device() { cudaFree(data_); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  void* data() const { return data_; }
  char* at(int64_t offset) const { return static_cast<char*>(data_) + offset; }
  int64_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  int64_t bytes_;
};

float ToFloat(const char* bytes, DType dtype) {
  if (dtype == DType::kFloat32) {
    float x;
    std::memcpy(&x, bytes, 4);
    return x;
  }
  uint16_t code;
  std::memcpy(&code, bytes, 2);
  return test::FromCode(code, dtype);
}

// Keys that no list of a KV head's query heads names, as (sequence, kv_head, key) flags.
std::vector<uint8_t> NamedKeys(const AttentionProblem& p, const SparseIndexView& index) {
  std::vector<uint8_t> named(static_cast<size_t>(p.batch) * p.num_kv_heads * p.seq_k, 0);
  for (int32_t b = 0; b < p.batch; ++b) {
    for (int32_t h = 0; h < p.num_qo_heads; ++h) {
      uint8_t* const row = named.data() + (int64_t{b} * p.num_kv_heads + h / p.GroupSize()) * p.seq_k;
      for (int32_t t = 0; t < index.NumRowTiles(); ++t) {
        const int64_t list = index.ListId(b, h, t);
        const int32_t last = index.first_position + std::min((t + 1) * index.tile_rows, index.seq_q) - 1;
        const int32_t end = index.rule.kind == MaskKind::kNone ? p.seq_k : std::min(p.seq_k, last + 1);
        for (int32_t i = 0; i < index.run_count[list]; ++i) {
          const KeyRun run = index.runs[index.run_begin[list] + i];
          const int32_t run_end = run.Partial() ? std::min(run.End(), end) : run.End();
          for (int32_t c = run.start; c < run_end; ++c) row[c] = 1;
        }
        for (int32_t i = 0; i < index.column_count[list]; ++i) row[index.columns[index.column_begin[list] + i]] = 1;
      }
    }
  }
  return named;
}

class CudaAttend : public ::testing::TestWithParam<Case> {};

TEST_P(CudaAttend, MatchesFloat64) {
  SKIP_WITHOUT_GPU();
  const Case& c = GetParam();
  AttentionProblem p;
  p.batch = c.batch;
  p.num_qo_heads = c.num_qo_heads;
  p.num_kv_heads = c.num_kv_heads;
  p.head_dim = c.head_dim;
  p.seq_q = c.seq_q;
  p.seq_k = c.seq_k == 0 ? c.seq_q : c.seq_k;
  p.first_position = c.rule.kind == MaskKind::kNone ? 0 : p.seq_k - p.seq_q;
  p.dtype = c.dtype;
  p.soft_cap = c.soft_cap;

  const ListShape shape{p.batch, p.num_qo_heads, p.seq_q, p.seq_k, p.first_position, c.tile_rows, c.rule};
  const uint32_t seed = static_cast<uint32_t>(std::hash<std::string>()(NameOfCase(c)));
  const SparseIndex host_index = MakeLists(shape, c.pattern, seed);
  CudaIndexBuffers index;
  const std::unique_ptr<CudaIndexBuffers, void (*)(CudaIndexBuffers*)> free_index(&index, FreeIndex);
  const Status uploaded = UploadIndex(host_index.View(), &index);
  ASSERT_TRUE(uploaded.ok()) << uploaded.message();

  const int64_t size = SizeOf(p.dtype);
  // Q interleaves its heads ([batch, row, head, dim]); K and V are dense; O has guard rows between its heads.
  const int64_t q_count = int64_t{p.batch} * p.num_qo_heads * p.seq_q * p.head_dim;
  const int64_t kv_count = int64_t{p.batch} * p.num_kv_heads * p.seq_k * p.head_dim;
  constexpr int32_t kGuardRows = 3;
  const int64_t o_rows = p.seq_q + kGuardRows;
  const int64_t o_bytes = int64_t{p.batch} * p.num_qo_heads * o_rows * p.head_dim * size;
  constexpr int64_t kGuardLse = 64;
  const int64_t lse_count = int64_t{p.batch} * p.num_qo_heads * p.seq_q;
  Device q(q_count * size), k(kv_count * size), v(kv_count * size), o(o_bytes), lse((lse_count + 2 * kGuardLse) * 4);
  ASSERT_TRUE(q.data() && k.data() && v.data() && o.data() && lse.data());
  p.q = {q.data(), int64_t{p.seq_q} * p.num_qo_heads * p.head_dim, p.head_dim, int64_t{p.num_qo_heads} * p.head_dim};
  p.k = {k.data(), int64_t{p.num_kv_heads} * p.seq_k * p.head_dim, int64_t{p.seq_k} * p.head_dim, p.head_dim};
  p.v = p.k;
  p.v.data = v.data();
  ASSERT_TRUE(testing::FillNormal(p.dtype, q.data(), q_count, 1.5f, seed + 1u));
  ASSERT_TRUE(testing::FillNormal(p.dtype, k.data(), kv_count, 1.0f, seed + 2u));
  ASSERT_TRUE(testing::FillNormal(p.dtype, v.data(), kv_count, 1.0f, seed + 3u));
  const std::vector<uint8_t> named = NamedKeys(p, host_index.View());
  for (size_t i = 0; i < named.size(); ++i) {
    size_t run = i;
    while (run < named.size() && named[run] == 0) ++run;
    if (run == i) continue;
    const int64_t offset = static_cast<int64_t>(i) * p.head_dim * size;
    const size_t bytes = (run - i) * static_cast<size_t>(p.head_dim * size);
    ASSERT_EQ(cudaMemset(k.at(offset), 0xff, bytes), cudaSuccess);
    ASSERT_EQ(cudaMemset(v.at(offset), 0xff, bytes), cudaSuccess);
    i = run;
  }
  constexpr int kPoison = 0xfb;
  ASSERT_EQ(cudaMemset(o.data(), kPoison, static_cast<size_t>(o.bytes())), cudaSuccess);
  ASSERT_EQ(cudaMemset(lse.data(), kPoison, static_cast<size_t>(lse.bytes())), cudaSuccess);
  AttentionOutput output;
  output.o = {o.data(), p.num_qo_heads * o_rows * p.head_dim, o_rows * p.head_dim, p.head_dim};
  output.lse = reinterpret_cast<float*>(lse.data()) + kGuardLse;

  const Status status = c.executor == Executor::kSimple ? AttendCudaSimple(p, index.view, output, nullptr)
                                                        : AttendCuda(p, index.view, output, nullptr);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  std::vector<char> o_host(static_cast<size_t>(o.bytes()));
  std::vector<float> lse_host(static_cast<size_t>(lse_count + 2 * kGuardLse));
  ASSERT_EQ(cudaMemcpy(o_host.data(), o.data(), o_host.size(), cudaMemcpyDeviceToHost), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(lse_host.data(), lse.data(), lse_host.size() * 4, cudaMemcpyDeviceToHost), cudaSuccess);

  // Rows to compare: all of a small problem, else some of every kind of tile.
  std::vector<ReferenceRow> rows;
  const int64_t budget = std::max<int64_t>(48, (int64_t{1} << 25) / p.seq_k);
  const int64_t stride = std::max<int64_t>(1, lse_count / budget) | 1;
  for (int64_t i = 0; i < lse_count; i += stride) {
    rows.push_back({static_cast<int32_t>(i / p.seq_q / p.num_qo_heads),
                    static_cast<int32_t>(i / p.seq_q % p.num_qo_heads), static_cast<int32_t>(i % p.seq_q)});
  }
  rows.push_back({p.batch - 1, p.num_qo_heads - 1, p.seq_q - 1});
  std::vector<uint8_t> mask(rows.size() * static_cast<size_t>(p.seq_k), 0);
  for (size_t i = 0; i < rows.size(); ++i) {
    std::vector<ColumnRange> ranges;
    AppendKeptRanges(host_index.View(), rows[i].sequence, rows[i].head, rows[i].row, &ranges);
    for (const ColumnRange& range : ranges) {
      std::fill(mask.begin() + static_cast<int64_t>(i) * p.seq_k + range.begin,
                mask.begin() + static_cast<int64_t>(i) * p.seq_k + range.end, uint8_t{1});
    }
  }
  std::vector<double> expected_o;
  std::vector<double> expected_lse;
  ASSERT_TRUE(testing::ReferenceRowsOnGpu(p, rows, mask, &expected_o, &expected_lse));

  double error = 0;
  double norm = 0;
  double worst_lse = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const int64_t head = int64_t{rows[i].sequence} * p.num_qo_heads + rows[i].head;
    const char* const row = o_host.data() + (head * o_rows + rows[i].row) * p.head_dim * size;
    const double got_lse = lse_host[static_cast<size_t>(kGuardLse + head * p.seq_q + rows[i].row)];
    double row_error = 0;
    for (int32_t d = 0; d < p.head_dim; ++d) {
      const double want = expected_o[i * static_cast<size_t>(p.head_dim) + static_cast<size_t>(d)];
      const double difference = ToFloat(row + d * size, p.dtype) - want;
      row_error += difference * difference;
      norm += want * want;
    }
    ASSERT_TRUE(std::isfinite(row_error)) << "row " << rows[i].row << " of head " << rows[i].head;
    error += row_error;
    if (std::isinf(expected_lse[i])) {
      ASSERT_EQ(got_lse, -std::numeric_limits<double>::infinity()) << "row " << rows[i].row << " keeps nothing";
      ASSERT_EQ(row_error, 0.0) << "row " << rows[i].row << " keeps nothing";
    } else {
      ASSERT_TRUE(std::isfinite(got_lse)) << "row " << rows[i].row << " of head " << rows[i].head;
      worst_lse = std::max(worst_lse, std::abs(got_lse - expected_lse[i]));
    }
  }
  const double relative = norm == 0 ? std::sqrt(error) : std::sqrt(error / norm);
  RecordProperty("relative_l2", std::to_string(relative));
  RecordProperty("worst_lse", std::to_string(worst_lse));
  const double allowed = p.dtype == DType::kFloat32 ? 1e-5 : p.dtype == DType::kBFloat16 ? 5e-3 : 1e-3;
  EXPECT_LE(relative, allowed);
  EXPECT_LE(worst_lse, 2e-3);

  // Every row was written (the poison is no value that an executor makes) and nothing else was.
  for (int64_t head = 0; head < int64_t{p.batch} * p.num_qo_heads; ++head) {
    const char* const first = o_host.data() + head * o_rows * p.head_dim * size;
    const int64_t row_bytes = p.head_dim * size;
    auto poisoned = [](char byte) { return static_cast<unsigned char>(byte) == kPoison; };
    for (int64_t r = 0; r < p.seq_q; ++r) {
      ASSERT_FALSE(std::all_of(first + r * row_bytes, first + (r + 1) * row_bytes, poisoned))
          << "row " << r << " unwritten";
    }
    ASSERT_TRUE(std::all_of(first + p.seq_q * row_bytes, first + o_rows * row_bytes, poisoned))
        << "guard rows after head " << head;
  }
  const char* const lse_bytes = reinterpret_cast<const char*>(lse_host.data());
  for (int64_t i = 0; i < kGuardLse * 4; ++i) {
    ASSERT_EQ(static_cast<unsigned char>(lse_bytes[i]), kPoison) << "before the LSE";
    ASSERT_EQ(static_cast<unsigned char>(lse_bytes[(kGuardLse + lse_count) * 4 + i]), kPoison) << "after the LSE";
  }
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const int32_t length : {1, 63, 64, 65, 127, 1000, 4096}) {
    for (const Pattern pattern : {Pattern::kDense, Pattern::kRandom, Pattern::kColumns})
      cases.push_back({pattern, length, 0});
  }
  for (const Pattern pattern :
       {Pattern::kShortRuns, Pattern::kHalves, Pattern::kOneKey, Pattern::kSomeEmpty, Pattern::kEmpty}) {
    cases.push_back({pattern, 1000, 0});
  }
  for (const auto& [heads, kv_heads] : {std::pair{2, 2}, {4, 1}, {14, 2}, {16, 2}, {16, 1}}) {
    cases.push_back({.pattern = Pattern::kRandom,
                     .seq_q = 600,
                     .seq_k = 0,
                     .batch = 2,
                     .num_qo_heads = heads,
                     .num_kv_heads = kv_heads});
  }
  for (const ElementRule& rule : {kNoMask, kWindow}) {
    for (const Pattern pattern : {Pattern::kDense, Pattern::kRandom, Pattern::kShortRuns, Pattern::kHalves}) {
      cases.push_back({.pattern = pattern, .seq_q = 900, .seq_k = 0, .rule = rule});
    }
  }
  for (const Pattern pattern :
       {Pattern::kDense, Pattern::kRandom, Pattern::kHalves, Pattern::kColumns, Pattern::kSomeEmpty}) {
    cases.push_back({.pattern = pattern, .seq_q = 1000, .seq_k = 0, .tile_rows = 64});
    cases.push_back({.pattern = pattern, .seq_q = 130, .seq_k = 777});
  }
  cases.push_back({.pattern = Pattern::kRandom, .seq_q = 700, .seq_k = 0, .rule = kWindow, .tile_rows = 64});
  for (const int32_t head_dim : {64, 96, 128, 256}) {
    for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
      for (const Pattern pattern : {Pattern::kDense, Pattern::kRandom, Pattern::kColumns}) {
        cases.push_back({.pattern = pattern, .seq_q = 777, .seq_k = 0, .head_dim = head_dim, .dtype = dtype});
      }
    }
    cases.push_back({.pattern = Pattern::kHalves, .seq_q = 500, .seq_k = 0, .head_dim = head_dim, .rule = kWindow});
    cases.push_back({.pattern = Pattern::kRandom, .seq_q = 500, .seq_k = 0, .head_dim = head_dim, .soft_cap = 5.0f});
  }
  for (const int32_t head_dim : {8, 80, 128, 256}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      cases.push_back({.pattern = Pattern::kRandom,
                       .seq_q = 400,
                       .seq_k = 0,
                       .head_dim = head_dim,
                       .dtype = dtype,
                       .executor = Executor::kSimple});
    }
  }
  for (const Pattern pattern : {Pattern::kHalves, Pattern::kColumns, Pattern::kSomeEmpty, Pattern::kEmpty}) {
    cases.push_back({.pattern = pattern,
                     .seq_q = 300,
                     .seq_k = 500,
                     .rule = kWindow,
                     .tile_rows = 64,
                     .executor = Executor::kSimple});
  }
  // Windows of 128 keys with bits for what each half keeps; the keys that nobody names hold NaN.
  for (const int32_t length : {1, 64, 65, 127, 129, 500, 1023, 4096}) cases.push_back({Pattern::kHoles, length, 0});
  cases.push_back({.pattern = Pattern::kHoles, .seq_q = 130, .seq_k = 777});
  cases.push_back({.pattern = Pattern::kHoles, .seq_q = 1000, .seq_k = 20011});
  cases.push_back({.pattern = Pattern::kHoles, .seq_q = 700, .seq_k = 0, .soft_cap = 5.0f});
  for (const auto& [heads, kv_heads] : {std::pair{4, 1}, {14, 2}}) {
    cases.push_back({.pattern = Pattern::kHoles,
                     .seq_q = 600,
                     .seq_k = 0,
                     .batch = 2,
                     .num_qo_heads = heads,
                     .num_kv_heads = kv_heads});
  }
  for (const ElementRule& rule : {kCausal, kNoMask, kWindow}) {
    for (const int32_t tile_rows : {64, 128}) {
      cases.push_back({.pattern = Pattern::kHoles, .seq_q = 900, .seq_k = 0, .rule = rule, .tile_rows = tile_rows});
    }
  }
  for (const int32_t head_dim : {64, 96, 256}) {
    for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
      cases.push_back({.pattern = Pattern::kHoles, .seq_q = 777, .seq_k = 0, .head_dim = head_dim, .dtype = dtype});
    }
  }
  cases.push_back({.pattern = Pattern::kHoles, .seq_q = 400, .seq_k = 0, .executor = Executor::kSimple});
  // 46,341 is the first length whose square does not fit 32 bits.
  for (const int32_t length : {46341, 131072}) {
    cases.push_back({Pattern::kDense, length, 0});
    cases.push_back({Pattern::kRandom, length, 0});
    cases.push_back({.pattern = Pattern::kColumns, .seq_q = 1000, .seq_k = length});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Table, CudaAttend, ::testing::ValuesIn(Cases()), [](const auto& parameter) {
  return std::to_string(parameter.index) + "_" + NameOfCase(parameter.param);
});

// A small legal problem whose pointers are never followed: every refusal comes before anything is launched.
struct Refusal {
  AttentionProblem problem;
  SparseIndex index;
  AttentionOutput output;

  Refusal() {
    index = MakeLists({1, 2, 100, 100, 0, 128, kCausal}, Pattern::kDense, 1);
    problem.num_qo_heads = 2;
    problem.num_kv_heads = 1;
    problem.head_dim = 128;
    problem.seq_q = problem.seq_k = 100;
    problem.dtype = DType::kBFloat16;
    void* const somewhere = reinterpret_cast<void*>(0x1000);
    problem.q = {somewhere, 2 * 100 * 128, 100 * 128, 128};
    problem.k = problem.v = {somewhere, 100 * 128, 100 * 128, 128};
    output.o = {somewhere, 2 * 100 * 128, 100 * 128, 128};
  }
  Status Attend() const { return AttendCuda(problem, index.View(), output, nullptr); }
  Status AttendSimple() const { return AttendCudaSimple(problem, index.View(), output, nullptr); }
};

TEST(CudaRefusals, NameTheFieldBeforeAskingForAGpu) {
  auto expect = [](const char* field, void (*damage)(Refusal*)) {
    Refusal refusal;
    damage(&refusal);
    for (const Status& status : {refusal.Attend(), refusal.AttendSimple()}) {
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << field << ": " << status.message();
      EXPECT_THAT(status.message(), HasSubstr(field));
    }
  };
  expect("q.data", [](Refusal* r) { r->problem.q.data = nullptr; });
  expect("output.o.data", [](Refusal* r) { r->output.o.data = nullptr; });
  expect("k.row_stride", [](Refusal* r) { r->problem.k.row_stride = 127; });
  expect("num_qo_heads", [](Refusal* r) { r->problem.num_kv_heads = 3; });
  expect("seq_k", [](Refusal* r) { r->problem.seq_k = 0; });
  expect("index.seq_k", [](Refusal* r) { r->index.seq_k = 99; });
  expect("index.tile_rows", [](Refusal* r) { r->index.tile_rows = 32; });
  expect("scale", [](Refusal* r) { r->problem.scale = std::numeric_limits<float>::quiet_NaN(); });
  expect("soft_cap", [](Refusal* r) { r->problem.soft_cap = -1; });
}

TEST(CudaRefusals, UnsupportedHeadDim) {
  Refusal refusal;
  refusal.problem.head_dim = 260;
  refusal.problem.q.row_stride = refusal.problem.k.row_stride = refusal.problem.v.row_stride = 260;
  refusal.problem.q.head_stride = 26000;
  refusal.output.o = refusal.problem.q.data == nullptr ? refusal.output.o
                                                       : StridedTensor<void>{refusal.output.o.data, 52000, 26000, 260};
  const Status status = refusal.AttendSimple();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("head_dim is 260"));
}

TEST(CudaRefusals, UploadRefusesABrokenIndex) {
  SparseIndex index = MakeLists({1, 1, 300, 300, 0, 128, kCausal}, Pattern::kColumns, 3);
  ASSERT_GE(index.columns.size(), 2u);
  index.columns[1] = index.columns[0];
  CudaIndexBuffers buffers;
  const Status status = UploadIndex(index.View(), &buffers);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.message();
  EXPECT_EQ(buffers.allocation, nullptr);
}

TEST(CudaRefusals, WithoutAGpuACleanStatus) {
  CudaDeviceInfo info;
  const Status status = QueryCudaDevice(0, &info);
  if (status.ok()) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_EQ(Refusal().Attend().code(), StatusCode::kDeviceMissing);
  EXPECT_EQ(status.code(), StatusCode::kDeviceMissing);
  EXPECT_FALSE(status.message().empty());
}

TEST(CudaChoice, SaysWhyTheFastKernelIsNotTaken) {
  SKIP_WITHOUT_GPU();
  Refusal refusal;
  refusal.problem.dtype = DType::kFloat32;
  CudaKernelChoice choice;
  ASSERT_TRUE(ChooseCudaKernel(refusal.problem, refusal.index.View(), refusal.output, &choice).ok());
  EXPECT_EQ(choice.kernel, CudaKernel::kSimple);
  EXPECT_FALSE(choice.reason.empty());
}

}  // namespace
}  // namespace headscope::kernels
