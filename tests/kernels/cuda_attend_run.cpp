// SPDX-License-Identifier: Apache-2.0
#include "cuda_attend_run.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <ostream>
#include <utility>

#include "cuda_reference.h"
#include "float_codes.h"

namespace headscope::kernels::testing {
namespace {

constexpr int32_t kGap = 32;  // components behind every row
constexpr int32_t kGuardRows = 3;
constexpr int kPoison = 0xfb;
constexpr int kNaN = 0xff;  // in every dtype

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

// Keys that some row of a KV head's query heads keeps, as (sequence, kv_head, key) flags.
std::vector<uint8_t> KeptKeys(const AttentionProblem& p, const SparseIndexView& index) {
  std::vector<uint8_t> kept;
  std::vector<ColumnRange> ranges;
  for (int32_t b = 0; b < p.batch; ++b) {
    for (int32_t kv_head = 0; kv_head < p.num_kv_heads; ++kv_head) {
      // How many more ranges hold a key than hold the one before it.
      std::vector<int32_t> steps(static_cast<size_t>(p.seq_k) + 1, 0);
      for (int32_t h = kv_head * p.GroupSize(); h < (kv_head + 1) * p.GroupSize(); ++h) {
        for (int32_t row = 0; row < p.seq_q; ++row) {
          ranges.clear();
          AppendKeptRanges(index, b, h, row, &ranges);
          for (const ColumnRange& range : ranges) {
            ++steps[static_cast<size_t>(range.begin)];
            --steps[static_cast<size_t>(range.end)];
          }
        }
      }
      int32_t holders = 0;
      for (int32_t key = 0; key < p.seq_k; ++key) {
        holders += steps[static_cast<size_t>(key)];
        kept.push_back(holders > 0 ? 1 : 0);
      }
    }
  }
  return kept;
}

double AllowedL2(DType dtype) {
  return dtype == DType::kFloat32 ? 1e-5 : dtype == DType::kBFloat16 ? 5e-3 : 1e-3;
}

// Sums of squares, and what they make of an error.
struct Squares {
  double error = 0;
  double norm = 0;

  double Relative() const { return norm == 0 ? std::sqrt(error) : std::sqrt(error / norm); }
};

}  // namespace

std::string NameOf(const AttendCase& c) {
  const char* const dtypes[] = {"fp32", "bf16", "fp16"};
  const char* const rules[] = {"none", "causal", "window"};
  auto number = [](float x) { return std::to_string(static_cast<int>(std::lround(1000 * x))); };
  std::string name = std::string(NameOf(c.pattern)) + "_" + std::to_string(c.seq_q) + "x" +
                     std::to_string(c.seq_k == 0 ? c.seq_q : c.seq_k) + "_b" + std::to_string(c.batch) + "_h" +
                     std::to_string(c.num_qo_heads) + "_" + std::to_string(c.num_kv_heads) + "_d" +
                     std::to_string(c.head_dim) + (c.v_head_dim > 0 ? "v" + std::to_string(c.v_head_dim) : "") + "_" +
                     dtypes[static_cast<int>(c.dtype)] + "_" + rules[static_cast<int>(c.rule.kind)] + "_t" +
                     std::to_string(c.tile_rows);
  if (c.scale > 0) name += "_scale" + number(c.scale) + "m";
  if (c.soft_cap > 0) name += "_cap" + std::to_string(static_cast<int>(c.soft_cap));
  if (c.highest_sink > 0) name += "_sinks" + std::to_string(static_cast<int>(c.highest_sink));
  if (c.executor == Executor::kSimple) name += "_simple";
  if (c.unpromised) name += "_unpromised";
  return name;
}
void AppendUnpromised(std::vector<AttendCase>* cases) {
  const size_t count = cases->size();
  for (size_t i = 0; i < count; ++i) {
    AttendCase c = (*cases)[i];
    const bool has_dense = c.head_dim == 64 || c.head_dim == 96 || c.head_dim == 128;
    if (!has_dense || c.v_head_dim > 0 || c.dtype == DType::kFloat32 || c.soft_cap > 0) continue;
    if (c.pattern != Pattern::kDense || c.rule.kind != MaskKind::kCausal || c.executor == Executor::kSimple) continue;
    c.unpromised = true;
    cases->push_back(c);
  }
}

void PrintTo(const AttendCase& c, std::ostream* out) {
  *out << NameOf(c);
}

int64_t AttendRun::PitchBytes(int32_t dim) const {
  return RowBytes(dim + kGap);
}
int64_t AttendRun::OutputRows() const {
  return problem_.seq_q + kGuardRows;
}

void AttendRun::MakeTensor(int64_t rows, int32_t dim, float deviation, uint64_t seed, DeviceMemory* memory) {
  void* pointer = nullptr;
  const auto pitch = static_cast<size_t>(PitchBytes(dim));
  ASSERT_EQ(cudaMalloc(&pointer, static_cast<size_t>(rows) * pitch), cudaSuccess);
  memory->reset(pointer);
  ASSERT_TRUE(FillNormal(problem_.dtype, pointer, rows * (dim + kGap), deviation, seed));
  ASSERT_EQ(cudaMemset2D(static_cast<char*>(pointer) + RowBytes(dim), pitch, kNaN, static_cast<size_t>(RowBytes(kGap)),
                         static_cast<size_t>(rows)),
            cudaSuccess);
}

void AttendRun::HideUnread() {
  const std::vector<uint8_t> kept = KeptKeys(problem_, host_index_.View());
  for (size_t begin = 0; begin < kept.size(); ++begin) {
    size_t end = begin;
    while (end < kept.size() && kept[end] == 0) ++end;
    if (end == begin) continue;
    for (const auto& [tensor, dim] : {std::pair{&k_, problem_.head_dim}, {&v_, problem_.ValueDim()}}) {
      const auto pitch = static_cast<size_t>(PitchBytes(dim));
      ASSERT_EQ(cudaMemset(static_cast<char*>(tensor->get()) + begin * pitch, kNaN, (end - begin) * pitch),
                cudaSuccess);
    }
    begin = end;
  }
}

void AttendRun::Make(const AttendCase& c, uint32_t seed) {
  AttentionProblem& p = problem_;
  p.batch = c.batch;
  p.num_qo_heads = c.num_qo_heads;
  p.num_kv_heads = c.num_kv_heads;
  p.head_dim = c.head_dim;
  p.v_head_dim = c.v_head_dim;
  p.seq_q = c.seq_q;
  p.seq_k = c.seq_k == 0 ? c.seq_q : c.seq_k;
  p.first_position = c.rule.kind == MaskKind::kNone ? 0 : p.seq_k - p.seq_q;
  p.dtype = c.dtype;
  p.scale = c.scale;
  p.soft_cap = c.soft_cap;
  sinks_.clear();
  for (int32_t head = 0; c.highest_sink > 0 && head < c.num_qo_heads; ++head) {
    constexpr float kShares[] = {0.1f, 1.0f, -0.3f, 0.5f, -1.0f};
    sinks_.push_back(kShares[head % 5] * c.highest_sink);
  }
  p.sinks = sinks_.empty() ? nullptr : sinks_.data();

  host_index_ =
      MakeLists({p.batch, p.num_qo_heads, p.seq_q, p.seq_k, p.first_position, c.tile_rows, c.rule}, c.pattern, seed);
  const Status uploaded = UploadIndex(host_index_.View(), &device_index_);
  ASSERT_TRUE(uploaded.ok()) << uploaded.message();
  if (c.unpromised) device_index_.view.keeps_everything = false;

  const int64_t kv_rows = int64_t{p.batch} * p.num_kv_heads * p.seq_k;
  ASSERT_NO_FATAL_FAILURE(MakeTensor(NumHeads() * p.seq_q, p.head_dim, 1.5f, seed + 1u, &q_));
  ASSERT_NO_FATAL_FAILURE(MakeTensor(kv_rows, p.head_dim, 1.0f, seed + 2u, &k_));
  ASSERT_NO_FATAL_FAILURE(MakeTensor(kv_rows, p.ValueDim(), 1.0f, seed + 3u, &v_));
  ASSERT_NO_FATAL_FAILURE(MakeTensor(NumHeads() * OutputRows(), p.ValueDim(), 1.0f, seed, &o_));
  for (DeviceMemory* const memory : {&lse_, &row_max_}) ASSERT_NO_FATAL_FAILURE(MakeRowNumbers(memory));
  const int64_t row = p.head_dim + kGap, value_row = p.ValueDim() + kGap;
  p.q = {q_.get(), int64_t{p.seq_q} * p.num_qo_heads * row, row, p.num_qo_heads * row};
  p.k = {k_.get(), row * p.num_kv_heads * p.seq_k, row * p.seq_k, row};
  p.v = {v_.get(), value_row * p.num_kv_heads * p.seq_k, value_row * p.seq_k, value_row};
  HideUnread();
}

void AttendRun::MakeRowNumbers(DeviceMemory* memory) const {
  void* pointer = nullptr;
  ASSERT_EQ(cudaMalloc(&pointer, RowNumbers() * sizeof(float)), cudaSuccess);
  memory->reset(pointer);
}

AttentionOutput AttendRun::output(bool with_lse) const {
  const int64_t row = problem_.ValueDim() + kGap;
  AttentionOutput output;
  output.o = {o_.get(), problem_.num_qo_heads * OutputRows() * row, OutputRows() * row, row};
  output.lse = with_lse ? static_cast<float*>(lse_.get()) + kGuardLse : nullptr;
  output.row_max = with_row_max_ ? static_cast<float*>(row_max_.get()) + kGuardLse : nullptr;
  return output;
}

void AttendRun::Poison() {
  EXPECT_EQ(cudaMemset(o_.get(), kPoison, static_cast<size_t>(NumHeads() * OutputRows() * OutputPitch())), cudaSuccess);
  for (const DeviceMemory* const memory : {&lse_, &row_max_}) {
    EXPECT_EQ(cudaMemset(memory->get(), kPoison, RowNumbers() * sizeof(float)), cudaSuccess);
  }
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);  // other streams do not wait for it
}

Status AttendRun::Launch(Executor executor, cudaStream_t stream, bool with_lse) const {
  return executor == Executor::kSimple ? AttendCudaSimple(problem_, index(), output(with_lse), stream)
                                       : AttendCuda(problem_, index(), output(with_lse), stream);
}

Status AttendRun::Attend(Executor executor, cudaStream_t stream, bool with_lse) {
  Poison();
  const Status status = Launch(executor, stream, with_lse);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  return status;
}

std::vector<char> AttendRun::DownloadO() const {
  std::vector<char> o(static_cast<size_t>(NumHeads() * OutputRows() * OutputPitch()));
  EXPECT_EQ(cudaMemcpy(o.data(), o_.get(), o.size(), cudaMemcpyDeviceToHost), cudaSuccess);
  return o;
}

std::vector<float> AttendRun::DownloadRowNumbers(const DeviceMemory& memory) const {
  std::vector<float> numbers(RowNumbers());
  EXPECT_EQ(cudaMemcpy(numbers.data(), memory.get(), numbers.size() * sizeof(float), cudaMemcpyDeviceToHost),
            cudaSuccess);
  return numbers;
}
std::vector<float> AttendRun::DownloadLse() const {
  return DownloadRowNumbers(lse_);
}
std::vector<float> AttendRun::DownloadRowMax() const {
  return DownloadRowNumbers(row_max_);
}

void AttendRun::ExpectFloat64() const {
  ExpectFloat64Of(problem_, AllowedL2(problem_.dtype), 2e-3);
}

void AttendRun::ExpectFloat64Of(const AttentionProblem& expected, double allowed_l2, double allowed_lse) const {
  const AttentionProblem& p = problem_;
  const std::vector<char> o = DownloadO();
  const std::vector<float> lse = DownloadLse(), row_max = DownloadRowMax();
  const int64_t num_rows = NumHeads() * p.seq_q;
  std::vector<ReferenceRow> rows;
  const int64_t budget = std::clamp<int64_t>((int64_t{1} << 25) / p.seq_k, 48, 1 << 15);
  const int64_t stride = std::max<int64_t>(1, num_rows / budget) | 1;
  for (int64_t i = 0; i < num_rows; i += stride) {
    rows.push_back({static_cast<int32_t>(i / p.seq_q / p.num_qo_heads),
                    static_cast<int32_t>(i / p.seq_q % p.num_qo_heads), static_cast<int32_t>(i % p.seq_q)});
  }
  rows.push_back({p.batch - 1, p.num_qo_heads - 1, p.seq_q - 1});
  std::vector<uint8_t> mask(rows.size() * static_cast<size_t>(p.seq_k), 0);
  for (size_t i = 0; i < rows.size(); ++i) {
    std::vector<ColumnRange> ranges;
    AppendKeptRanges(host_index_.View(), rows[i].sequence, rows[i].head, rows[i].row, &ranges);
    for (const ColumnRange& range : ranges) {
      std::fill(mask.begin() + static_cast<int64_t>(i) * p.seq_k + range.begin,
                mask.begin() + static_cast<int64_t>(i) * p.seq_k + range.end, uint8_t{1});
    }
  }
  std::vector<double> expected_o;
  std::vector<double> expected_lse, expected_row_max;
  ASSERT_TRUE(ReferenceRowsOnGpu(expected, rows, mask, &expected_o, &expected_lse, &expected_row_max));

  Squares all;
  std::map<std::pair<int64_t, int32_t>, Squares> tiles;  // by head and 64 rows
  double worst_lse = 0, worst_row_max = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const int64_t head = int64_t{rows[i].sequence} * p.num_qo_heads + rows[i].head;
    const char* const row = RowOf(o, head, rows[i].row);
    const double got_lse = lse[static_cast<size_t>(kGuardLse + head * p.seq_q + rows[i].row)];
    Squares own;
    for (int32_t d = 0; d < p.ValueDim(); ++d) {
      const double want = expected_o[i * static_cast<size_t>(p.ValueDim()) + static_cast<size_t>(d)];
      const double difference = ToFloat(row + d * SizeOf(p.dtype), p.dtype) - want;
      own.error += difference * difference;
      own.norm += want * want;
    }
    ASSERT_TRUE(std::isfinite(own.error)) << "row " << rows[i].row << " of head " << rows[i].head;
    for (Squares* sum : {&all, &tiles[{head, rows[i].row / 64}]}) {
      sum->error += own.error;
      sum->norm += own.norm;
    }
    if (std::isinf(expected_lse[i])) {
      ASSERT_EQ(got_lse, -std::numeric_limits<double>::infinity()) << "row " << rows[i].row << " keeps nothing";
      ASSERT_EQ(own.error, 0.0) << "row " << rows[i].row << " keeps nothing";
    } else {
      ASSERT_TRUE(std::isfinite(got_lse)) << "row " << rows[i].row << " of head " << rows[i].head;
      worst_lse = std::max(worst_lse, std::abs(got_lse - expected_lse[i]));
    }
    if (!with_row_max_) continue;
    const double got = row_max[static_cast<size_t>(kGuardLse + head * p.seq_q + rows[i].row)];
    if (std::isinf(expected_row_max[i])) {
      ASSERT_EQ(got, expected_row_max[i]) << "row " << rows[i].row << " keeps nothing";
    } else {
      ASSERT_TRUE(std::isfinite(got)) << "row " << rows[i].row << " of head " << rows[i].head;
      worst_row_max = std::max(worst_row_max, std::abs(got - expected_row_max[i]));
    }
  }
  const auto worst = std::max_element(tiles.begin(), tiles.end(), [](const auto& a, const auto& b) {
    return a.second.Relative() < b.second.Relative();
  });
  ::testing::Test::RecordProperty("relative_l2", std::to_string(all.Relative()));
  ::testing::Test::RecordProperty("worst_tile_l2", std::to_string(worst->second.Relative()));
  ::testing::Test::RecordProperty("worst_lse", std::to_string(worst_lse));
  EXPECT_LE(all.Relative(), allowed_l2);
  EXPECT_LE(worst->second.Relative(), 2 * allowed_l2)
      << "rows from " << 64 * worst->first.second << " of head " << worst->first.first;
  EXPECT_LE(worst_lse, allowed_lse);
  if (with_row_max_) ::testing::Test::RecordProperty("worst_row_max", std::to_string(worst_row_max));
  EXPECT_LE(worst_row_max, 2 * allowed_lse);
}

void AttendRun::ExpectGuards() const {
  const std::vector<char> o = DownloadO();
  auto poisoned = [](const void* begin, int64_t bytes) {
    const auto* const first = static_cast<const unsigned char*>(begin);
    return std::all_of(first, first + bytes, [](unsigned char byte) { return byte == kPoison; });
  };
  const int64_t row_bytes = RowBytes(problem_.ValueDim()), pitch = OutputPitch();
  for (int64_t head = 0; head < NumHeads(); ++head) {
    for (int64_t row = 0; row < problem_.seq_q; ++row) {
      const char* const first = RowOf(o, head, row);
      // The poison is no value that an executor makes.
      ASSERT_FALSE(poisoned(first, row_bytes)) << "row " << row << " of head " << head << " is unwritten";
      ASSERT_TRUE(poisoned(first + row_bytes, pitch - row_bytes)) << "gap behind row " << row;
    }
    ASSERT_TRUE(poisoned(RowOf(o, head, problem_.seq_q), kGuardRows * pitch)) << "guard rows of head " << head;
  }
  constexpr int64_t kGuardBytes = kGuardLse * int64_t{sizeof(float)};
  const std::vector<float> lse = DownloadLse(), row_max = DownloadRowMax();
  for (const std::vector<float>* const numbers : {&lse, &row_max}) {
    const char* const name = numbers == &lse ? "the LSE" : "the largest scores";
    ASSERT_TRUE(poisoned(numbers->data(), kGuardBytes)) << "before " << name;
    ASSERT_TRUE(poisoned(numbers->data() + numbers->size() - kGuardLse, kGuardBytes)) << "after " << name;
  }
  for (size_t row = 0; row < RowNumbers() - 2 * kGuardLse; ++row) {
    ASSERT_EQ(poisoned(&row_max[kGuardLse + row], sizeof(float)), !with_row_max_) << "largest score of row " << row;
  }
}

double AttendRun::RelativeL2(const std::vector<char>& measured, const std::vector<char>& expected) const {
  Squares all;
  for (int64_t head = 0; head < NumHeads(); ++head) {
    for (int64_t row = 0; row < problem_.seq_q; ++row) {
      for (int32_t d = 0; d < problem_.ValueDim(); ++d) {
        const int64_t at = d * SizeOf(problem_.dtype);
        const double want = ToFloat(RowOf(expected, head, row) + at, problem_.dtype);
        const double difference = ToFloat(RowOf(measured, head, row) + at, problem_.dtype) - want;
        all.error += difference * difference;
        all.norm += want * want;
      }
    }
  }
  return all.Relative();
}

}  // namespace headscope::kernels::testing
