// SPDX-License-Identifier: Apache-2.0
// Packed sequences, contiguous and paged, against float64 on fresh random data: sequence by sequence, each by a dense
// mask of its own index. NaN in all that no row reads: pages of nobody, what lies behind a sequence's last key, keys of
// no list. Guards around all outputs. Skipped without a GPU of compute capability 9.0.
#include "kernels/cuda_packed.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "cuda_lists.h"
#include "cuda_reference.h"
#include "device_array.h"
#include "float_codes.h"
#include "kernels/cuda_executor.h"
#include "kernels/packed_index.h"
#include "no_lists.h"
#include "run_seed.h"
#include "support/gpu.h"

namespace headscope::kernels {
namespace {

using testing::DeviceArray;
using testing::MakeLists;
using testing::Pattern;
using testing::ReferenceRow;
using testing::SeedFor;

constexpr uint16_t kPoison = 0xfbfb;
constexpr int32_t kGuardRows = 3;

struct Length {
  int32_t q;
  int32_t k;
};

struct PackedCase {
  std::string name = {};
  std::vector<Length> lengths = {};
  Pattern pattern = Pattern::kDense;
  int32_t page_size = 0;
  int32_t num_qo_heads = 2;
  int32_t num_kv_heads = 1;
  int32_t head_dim = 128;
  DType dtype = DType::kBFloat16;
  ElementRule rule = {MaskKind::kCausal, 0, 0};
  int32_t tile_rows = 128;
  bool sinks = false;
  bool unpromised = false;  // the executor is not told where all sequences' heads keep everything
  float soft_cap = 0.0f;
  bool with_row_max = false;
};
void PrintTo(const PackedCase& c, std::ostream* out) {
  *out << c.name;
}

class PackedRun {
 public:
  PackedRun(const PackedCase& c, uint32_t seed) : case_(c), random_(seed) {
    q_begin_ = {0};
    k_begin_ = {0};
    for (const Length& length : c.lengths) {
      q_begin_.push_back(q_begin_.back() + length.q);
      k_begin_.push_back(k_begin_.back() + length.k);
      indices_.push_back(MakeLists({1, c.num_qo_heads, length.q, length.k, length.k - length.q, c.tile_rows, c.rule},
                                   c.pattern, seed + static_cast<uint32_t>(indices_.size())));
      problem_.seq_q = std::max(problem_.seq_q, length.q);
      problem_.seq_k = std::max(problem_.seq_k, length.k);
    }
    problem_.batch = static_cast<int32_t>(c.lengths.size());
    problem_.num_qo_heads = c.num_qo_heads;
    problem_.num_kv_heads = c.num_kv_heads;
    problem_.head_dim = c.head_dim;
    problem_.dtype = c.dtype;
    problem_.soft_cap = c.soft_cap;
    if (c.sinks) {
      for (int32_t head = 0; head < c.num_qo_heads; ++head) sinks_.push_back(head % 2 == 0 ? 3.0f : -1.0f);
      problem_.sinks = sinks_.data();
    }
    MakePages();
    MakeTensors();
  }

  Status Attend() {
    std::vector<SparseIndexView> views;
    for (const SparseIndex& index : indices_) views.push_back(index.View());
    SparseIndex packed;
    if (Status status = PackIndices(views, &packed); !status.ok()) return status;
    // What AttendCuda takes validates each sequence's index by itself; the packed one is uploaded as it is.
    const DeviceArray<int64_t> run_begin(packed.run_begin), column_begin(packed.column_begin);
    const DeviceArray<int32_t> run_count(packed.run_count), column_count(packed.column_count);
    packed.runs.resize(packed.runs.size() + 1);
    packed.columns.resize(packed.columns.size() + 1);
    const DeviceArray<KeyRun> runs(packed.runs);
    const DeviceArray<int32_t> columns(packed.columns);
    SparseIndexView view = packed.View();
    view.run_begin = run_begin.get();
    view.column_begin = column_begin.get();
    view.run_count = run_count.get();
    view.column_count = column_count.get();
    view.runs = runs.get();
    view.columns = columns.get();
    view.keeps_everything = !case_.unpromised && case_.rule.kind == MaskKind::kCausal &&
                            std::all_of(views.begin(), views.end(), KeepsEverything);
    const testing::NoLists none(view);
    // Soft caps and largest scores come from the kernel that reads lists.
    if (view.keeps_everything && case_.soft_cap == 0 && !case_.with_row_max) view = none.InPlaceOf(view);
    const DeviceArray<int32_t> q_begin(q_begin_), k_begin(k_begin_), table(table_);
    PackedSequences sequences;
    sequences.q_begin = q_begin.get();
    sequences.k_begin = k_begin.get();
    sequences.total_q = q_begin_.back();
    if (case_.page_size > 0) {
      sequences.page_table = table.get();
      sequences.pages_per_sequence = pages_per_sequence_;
      sequences.page_size = case_.page_size;
      sequences.num_pages = num_pages_;
    } else {
      sequences.total_k = k_begin_.back();
    }
    AttentionOutput output;
    output.o = {o_->get() + kGuardRows * case_.head_dim, 0, O_HeadStride(), case_.head_dim};
    output.lse = lse_->get() + kGuardRows;
    if (case_.with_row_max) output.row_max = row_max_->get() + kGuardRows;
    const Status status = AttendPackedCuda(problem_, sequences, view, output, nullptr);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return status;
  }

  void ExpectFloat64() const {
    const std::vector<uint16_t> o = o_->Download();
    const std::vector<float> lse = lse_->Download(), row_max = row_max_->Download();
    double error = 0, norm = 0, worst_lse = 0, worst_row_max = 0;
    for (size_t s = 0; s < indices_.size(); ++s) {
      AttentionProblem alone = problem_;
      alone.batch = 1;
      alone.seq_q = case_.lengths[s].q;
      alone.seq_k = case_.lengths[s].k;
      alone.first_position = alone.seq_k - alone.seq_q;
      const DeviceArray<uint16_t> k(Logical(host_k_, s)), v(Logical(host_v_, s));
      const int64_t row = case_.head_dim;
      alone.q = {q_->get() + q_begin_[s] * case_.num_qo_heads * row, 0, row, case_.num_qo_heads * row};
      alone.k = {k.get(), 0, alone.seq_k * row, row};
      alone.v = {v.get(), 0, alone.seq_k * row, row};
      std::vector<ReferenceRow> rows;
      const int32_t every = std::max(1, alone.seq_q / 100) | 1;
      for (int32_t head = 0; head < case_.num_qo_heads; ++head) {
        for (int32_t r = 0; r < alone.seq_q; r += every) rows.push_back({0, head, r});
        rows.push_back({0, head, alone.seq_q - 1});
      }
      std::vector<uint8_t> mask(rows.size() * static_cast<size_t>(alone.seq_k), 0);
      for (size_t i = 0; i < rows.size(); ++i) {
        std::vector<ColumnRange> ranges;
        AppendKeptRanges(indices_[s].View(), 0, rows[i].head, rows[i].row, &ranges);
        for (const ColumnRange& range : ranges) {
          std::fill(mask.begin() + static_cast<int64_t>(i) * alone.seq_k + range.begin,
                    mask.begin() + static_cast<int64_t>(i) * alone.seq_k + range.end, uint8_t{1});
        }
      }
      std::vector<double> want, want_lse, want_row_max;
      ASSERT_TRUE(testing::ReferenceRowsOnGpu(alone, rows, mask, &want, &want_lse, &want_row_max));
      for (size_t i = 0; i < rows.size(); ++i) {
        const int64_t at = q_begin_[s] + rows[i].row;
        const uint16_t* const got = o.data() + rows[i].head * O_HeadStride() + (kGuardRows + at) * row;
        for (int64_t d = 0; d < row; ++d) {
          const double difference =
              test::FromCode(got[d], case_.dtype) - want[i * static_cast<size_t>(row) + static_cast<size_t>(d)];
          ASSERT_TRUE(std::isfinite(difference)) << "sequence " << s << ", row " << rows[i].row;
          error += difference * difference;
          norm += want[i * static_cast<size_t>(row) + static_cast<size_t>(d)] *
                  want[i * static_cast<size_t>(row) + static_cast<size_t>(d)];
        }
        const auto number = static_cast<size_t>(kGuardRows + rows[i].head * int64_t{q_begin_.back()} + at);
        const double got_lse = lse[number], got_row_max = row_max[number];
        if (std::isinf(want_lse[i])) {
          ASSERT_EQ(got_lse, want_lse[i]);
        } else {
          worst_lse = std::max(worst_lse, std::abs(got_lse - want_lse[i]));
        }
        if (!case_.with_row_max) {
          ASSERT_TRUE(std::isnan(got_row_max)) << "nobody asked for the largest scores";
        } else if (std::isinf(want_row_max[i])) {
          ASSERT_EQ(got_row_max, want_row_max[i]);
        } else {
          ASSERT_TRUE(std::isfinite(got_row_max)) << "sequence " << s << ", row " << rows[i].row;
          worst_row_max = std::max(worst_row_max, std::abs(got_row_max - want_row_max[i]));
        }
      }
    }
    EXPECT_LE(norm == 0 ? error : std::sqrt(error / norm), case_.dtype == DType::kBFloat16 ? 5e-3 : 1e-3);
    EXPECT_LE(worst_lse, 2e-3);
    EXPECT_LE(worst_row_max, 4e-3);
  }

  // Every row was written, and nothing in front of the first and behind the last of a head.
  void ExpectGuards() const {
    const std::vector<uint16_t> o = o_->Download();
    const std::vector<float> lse = lse_->Download(), row_max = row_max_->Download();
    const int64_t row = case_.head_dim, total = q_begin_.back();
    for (int32_t head = 0; head < case_.num_qo_heads; ++head) {
      for (int64_t r = -kGuardRows; r < total + kGuardRows; ++r) {
        const uint16_t* const first = o.data() + head * O_HeadStride() + (kGuardRows + r) * row;
        const bool poisoned = std::all_of(first, first + row, [](uint16_t code) { return code == kPoison; });
        ASSERT_EQ(poisoned, r < 0 || r >= total) << "row " << r << " of head " << head;
      }
    }
    for (int32_t i = 0; i < kGuardRows; ++i) {
      for (const std::vector<float>* const numbers : {&lse, &row_max}) {
        EXPECT_TRUE(std::isnan((*numbers)[static_cast<size_t>(i)]));
        EXPECT_TRUE(std::isnan((*numbers)[numbers->size() - 1 - static_cast<size_t>(i)]));
      }
    }
  }

  std::vector<uint16_t> DownloadO() const { return o_->Download(); }

 private:
  int64_t O_HeadStride() const { return (q_begin_.back() + 2 * kGuardRows) * int64_t{case_.head_dim}; }

  // Pages in random order, some of nobody between them.
  void MakePages() {
    if (case_.page_size == 0) {
      table_ = {0};
      return;
    }
    const auto filled = [&](int32_t keys) { return (keys + case_.page_size - 1) / case_.page_size; };
    int32_t used = 0;
    for (const Length& length : case_.lengths) used += filled(length.k);
    num_pages_ = used + 5;
    pages_per_sequence_ = filled(problem_.seq_k);
    std::vector<int32_t> pages(static_cast<size_t>(num_pages_));
    std::iota(pages.begin(), pages.end(), 0);
    std::shuffle(pages.begin(), pages.end(), random_);
    // Entries behind a sequence's last page name no page.
    table_.assign(case_.lengths.size() * static_cast<size_t>(pages_per_sequence_), -1'000'000);
    size_t next = 0;
    for (size_t s = 0; s < case_.lengths.size(); ++s) {
      for (int32_t page = 0; page < filled(case_.lengths[s].k); ++page) {
        table_[s * static_cast<size_t>(pages_per_sequence_) + static_cast<size_t>(page)] = pages[next++];
      }
    }
  }

  // Of a key's first component in head 0.
  size_t KeyAt(size_t sequence, int32_t key) const {
    const auto row = static_cast<size_t>(case_.head_dim);
    const auto heads = static_cast<size_t>(case_.num_kv_heads);
    if (case_.page_size == 0) return static_cast<size_t>(k_begin_[sequence] + key) * heads * row;
    const auto page = static_cast<size_t>(
        table_[sequence * static_cast<size_t>(pages_per_sequence_) + static_cast<size_t>(key / case_.page_size)]);
    return (page * heads * static_cast<size_t>(case_.page_size) + static_cast<size_t>(key % case_.page_size)) * row;
  }
  // [key, head] without pages; [page, head, key] with them.
  size_t HeadStride() const {
    return static_cast<size_t>(case_.page_size == 0 ? case_.head_dim : case_.page_size * case_.head_dim);
  }

  void MakeTensors() {
    const auto row = static_cast<size_t>(case_.head_dim);
    const size_t keys = case_.page_size == 0 ? static_cast<size_t>(k_begin_.back())
                                             : static_cast<size_t>(num_pages_) * static_cast<size_t>(case_.page_size);
    const uint16_t nan = 0xffff;
    host_k_.assign(keys * static_cast<size_t>(case_.num_kv_heads) * row, nan);
    host_v_ = host_k_;
    std::normal_distribution<float> normal;
    for (size_t s = 0; s < indices_.size(); ++s) {
      for (int32_t kv_head = 0; kv_head < case_.num_kv_heads; ++kv_head) {
        std::vector<uint8_t> read(static_cast<size_t>(case_.lengths[s].k), 0);
        std::vector<ColumnRange> ranges;
        const int32_t group = case_.num_qo_heads / case_.num_kv_heads;
        for (int32_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
          for (int32_t r = 0; r < case_.lengths[s].q; ++r) {
            ranges.clear();
            AppendKeptRanges(indices_[s].View(), 0, head, r, &ranges);
            for (const ColumnRange& range : ranges)
              std::fill(read.begin() + range.begin, read.begin() + range.end, uint8_t{1});
          }
        }
        for (int32_t key = 0; key < case_.lengths[s].k; ++key) {
          if (read[static_cast<size_t>(key)] == 0) continue;
          const size_t at = KeyAt(s, key) + static_cast<size_t>(kv_head) * HeadStride();
          for (size_t d = 0; d < row; ++d) {
            host_k_[at + d] = test::ToCode(normal(random_), case_.dtype);
            host_v_[at + d] = test::ToCode(normal(random_), case_.dtype);
          }
        }
      }
    }
    k_ = std::make_unique<DeviceArray<uint16_t>>(host_k_);
    v_ = std::make_unique<DeviceArray<uint16_t>>(host_v_);
    std::vector<uint16_t> q(static_cast<size_t>(q_begin_.back()) * static_cast<size_t>(case_.num_qo_heads) * row);
    for (uint16_t& code : q) code = test::ToCode(1.5f * normal(random_), case_.dtype);
    q_ = std::make_unique<DeviceArray<uint16_t>>(q);
    o_ = std::make_unique<DeviceArray<uint16_t>>(
        std::vector<uint16_t>(static_cast<size_t>(O_HeadStride() * case_.num_qo_heads), kPoison));
    const std::vector<float> no_numbers(
        static_cast<size_t>(q_begin_.back()) * static_cast<size_t>(case_.num_qo_heads) + 2 * kGuardRows,
        std::numeric_limits<float>::quiet_NaN());
    lse_ = std::make_unique<DeviceArray<float>>(no_numbers);
    row_max_ = std::make_unique<DeviceArray<float>>(no_numbers);
    const auto r = static_cast<int64_t>(row);
    problem_.q = {q_->get(), 0, r, case_.num_qo_heads * r};
    const auto kv = [&](const DeviceArray<uint16_t>& tensor) -> StridedTensor<const void> {
      if (case_.page_size == 0) return {tensor.get(), 0, r, case_.num_kv_heads * r};
      return {tensor.get(), case_.num_kv_heads * case_.page_size * r, case_.page_size * r, r};
    };
    problem_.k = kv(*k_);
    problem_.v = kv(*v_);
  }

  // A sequence's keys [head, key, component] as one tensor.
  std::vector<uint16_t> Logical(const std::vector<uint16_t>& tensor, size_t s) const {
    std::vector<uint16_t> out;
    for (int32_t head = 0; head < case_.num_kv_heads; ++head) {
      for (int32_t key = 0; key < case_.lengths[s].k; ++key) {
        const auto from =
            tensor.begin() + static_cast<int64_t>(KeyAt(s, key) + static_cast<size_t>(head) * HeadStride());
        out.insert(out.end(), from, from + case_.head_dim);
      }
    }
    return out;
  }

  const PackedCase case_;
  std::mt19937 random_;
  AttentionProblem problem_;
  std::vector<float> sinks_;
  std::vector<SparseIndex> indices_;
  std::vector<int32_t> q_begin_, k_begin_, table_;
  int32_t pages_per_sequence_ = 0, num_pages_ = 0;
  std::vector<uint16_t> host_k_, host_v_;
  std::unique_ptr<DeviceArray<uint16_t>> q_, k_, v_, o_;
  std::unique_ptr<DeviceArray<float>> lse_, row_max_;
};

class CudaPacked : public ::testing::TestWithParam<PackedCase> {};

TEST_P(CudaPacked, MatchesFloat64SequenceBySequence) {
  SKIP_WITHOUT_GPU();
  CudaDeviceInfo info;
  ASSERT_TRUE(QueryCudaDevice(0, &info).ok());
  if (info.compute_capability != 90) GTEST_SKIP() << "packed sequences take compute capability 9.0";
  PackedRun run(GetParam(), SeedFor(GetParam().name));
  const Status status = run.Attend();
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_NO_FATAL_FAILURE(run.ExpectGuards());
  ASSERT_NO_FATAL_FAILURE(run.ExpectFloat64());
  const std::vector<uint16_t> once = run.DownloadO();
  ASSERT_TRUE(run.Attend().ok());
  EXPECT_EQ(run.DownloadO(), once) << "two runs differ";
}

std::vector<PackedCase> Cases() {
  std::vector<PackedCase> cases;
  const std::vector<Length> mixed = {{1, 1}, {300, 300}, {127, 127}, {129, 700}, {64, 64}, {15, 1000}, {513, 513}};
  const auto add = [&](PackedCase c) {
    c.name = std::string(testing::NameOf(c.pattern)) + "_" + std::to_string(c.lengths.size()) + "s_" +
             std::to_string(c.lengths.back().q) + "_p" + std::to_string(c.page_size) + "_h" +
             std::to_string(c.num_qo_heads) + "_" + std::to_string(c.num_kv_heads) + "_d" + std::to_string(c.head_dim) +
             (c.dtype == DType::kBFloat16 ? "_bf16" : "_fp16") + "_r" + std::to_string(static_cast<int>(c.rule.kind)) +
             "_t" + std::to_string(c.tile_rows) + (c.sinks ? "_sinks" : "") +
             (c.soft_cap > 0 ? "_cap" + std::to_string(static_cast<int>(c.soft_cap)) : "") +
             (c.with_row_max ? "_row_max" : "");
    cases.push_back(c);
  };
  for (const Pattern pattern :
       {Pattern::kDense, Pattern::kRandom, Pattern::kShortRuns, Pattern::kColumns, Pattern::kHalves, Pattern::kHoles,
        Pattern::kOneKey, Pattern::kSomeEmpty, Pattern::kEmpty}) {
    for (const int32_t page_size : {0, 16, 32, 48, 64, 128, 256}) {
      add({.lengths = mixed, .pattern = pattern, .page_size = page_size});
    }
    add({.lengths = mixed, .pattern = pattern, .page_size = 64, .head_dim = 64, .dtype = DType::kFloat16});
    add({.lengths = mixed, .pattern = pattern, .page_size = 0, .head_dim = 64});
    add({.lengths = mixed, .pattern = pattern, .page_size = 16, .dtype = DType::kFloat16, .tile_rows = 64});
    add({.lengths = mixed,
         .pattern = pattern,
         .page_size = 0,
         .rule = {MaskKind::kCausalWindow, 100, 10},
         .sinks = true});
    add({.lengths = mixed, .pattern = pattern, .page_size = 32, .rule = {MaskKind::kCausalWindow, 100, 10}});
    // What the kernels beside the others know: soft caps, and rows' largest scores.
    for (const int32_t head_dim : {64, 128}) {
      for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
        PackedCase c{.lengths = mixed, .pattern = pattern, .page_size = 32, .head_dim = head_dim, .dtype = dtype};
        c.sinks = dtype == DType::kFloat16;
        c.soft_cap = 5.0f;
        add(c);
        c.with_row_max = true;
        add(c);
        c.soft_cap = 0.0f;
        c.page_size = 0;
        add(c);
      }
    }
  }
  add({.lengths = {{700, 700}}, .page_size = 16});
  add({.lengths = {{700, 700}}, .page_size = 0});
  // More items than a GPU has multiprocessors, so that blocks take a second one. Dense heads have items of 128 rows at
  // head_dim 128 and of 192 at 64; lengths about the ends of those are few enough for compute-sanitizer.
  std::vector<Length> many, at_ends;
  for (int32_t i = 0; i < 40; ++i) many.push_back({1 + 37 * i % 700, 1 + 37 * i % 700});
  for (const int32_t length : {191, 192, 193, 384, 385}) at_ends.push_back({length, length});
  for (const int32_t head_dim : {128, 64}) {
    for (const int32_t page_size : {0, 16, 64}) {
      add({.lengths = many,
           .pattern = Pattern::kRandom,
           .page_size = page_size,
           .num_qo_heads = 14,
           .num_kv_heads = 2,
           .head_dim = head_dim});
      add({.lengths = many,
           .page_size = page_size,
           .num_qo_heads = 14,
           .num_kv_heads = 2,
           .head_dim = head_dim,
           .with_row_max = true});
      add({.lengths = many, .page_size = page_size, .num_qo_heads = 14, .num_kv_heads = 2, .head_dim = head_dim});
      add({.lengths = at_ends, .page_size = page_size, .num_qo_heads = 32, .num_kv_heads = 4, .head_dim = head_dim});
      add({.lengths = {{46341, 46341}, {3, 46341}, {200, 131072}}, .page_size = page_size, .head_dim = head_dim});
    }
  }
  const size_t count = cases.size();
  for (size_t i = 0; i < count; ++i) {
    if (cases[i].pattern != Pattern::kDense || cases[i].rule.kind != MaskKind::kCausal) continue;
    PackedCase c = cases[i];
    c.unpromised = true;
    c.name += "_unpromised";
    cases.push_back(c);
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Cases, CudaPacked, ::testing::ValuesIn(Cases()),
                         [](const auto& instance) { return instance.param.name; });

TEST(CudaPackedCalls, RefusesWhatItDoesNotTake) {
  SKIP_WITHOUT_GPU();
  AttentionProblem problem;
  problem.batch = 2;
  problem.num_qo_heads = 2;
  problem.num_kv_heads = 1;
  problem.head_dim = 128;
  problem.seq_q = problem.seq_k = 10;
  problem.dtype = DType::kBFloat16;
  const DeviceArray<int32_t> begins(std::vector<int32_t>{0, 10, 15});
  PackedSequences sequences{.q_begin = begins.get(), .k_begin = begins.get(), .total_q = 9, .total_k = 15};
  const auto message = [&] { return AttendPackedCuda(problem, sequences, {}, {}, nullptr).message(); };
  EXPECT_NE(message().find("sequences.total_q is 9"), std::string::npos) << message();
  sequences.total_q = 15;
  sequences.page_table = begins.get();
  sequences.page_size = 24;
  EXPECT_NE(message().find("sequences.page_size is 24"), std::string::npos) << message();
  sequences.page_size = 16;
  sequences.num_pages = 3;
  EXPECT_NE(message().find("sequences.pages_per_sequence is 0"), std::string::npos) << message();
  sequences.pages_per_sequence = 1;
  problem.head_dim = 96;
  EXPECT_NE(message().find("head_dim is 96"), std::string::npos) << message();
  problem.head_dim = 128;
  sequences.k_begin = nullptr;
  EXPECT_NE(message().find("sequences.k_begin is null"), std::string::npos) << message();
}

TEST(PackIndices, KeepsEachSequencesListsAndRefusesWhatDiffers) {
  const ElementRule causal{MaskKind::kCausal, 0, 0};
  const SparseIndex a = MakeLists({1, 2, 300, 300, 0, 128, causal}, Pattern::kRandom, 1);
  const SparseIndex b = MakeLists({1, 2, 100, 450, 350, 128, causal}, Pattern::kRandom, 2);
  SparseIndex packed;
  ASSERT_TRUE(PackIndices(std::vector{a.View(), b.View()}, &packed).ok());
  EXPECT_EQ(packed.batch, 2);
  EXPECT_EQ(packed.seq_q, 300);
  EXPECT_EQ(packed.seq_k, 450);
  for (int32_t head = 0; head < 2; ++head) {
    for (int32_t tile = 0; tile < 3; ++tile) {
      const auto first = static_cast<size_t>(packed.View().ListId(0, head, tile));
      EXPECT_EQ(packed.run_count[first], a.run_count[static_cast<size_t>(a.View().ListId(0, head, tile))]);
      const auto second = static_cast<size_t>(packed.View().ListId(1, head, tile));
      EXPECT_EQ(packed.run_count[second],
                tile == 0 ? b.run_count[static_cast<size_t>(b.View().ListId(0, head, 0))] : 0);
      if (tile > 0 || packed.run_count[second] == 0) continue;
      EXPECT_EQ(packed.runs[static_cast<size_t>(packed.run_begin[second])],
                b.runs[static_cast<size_t>(b.run_begin[static_cast<size_t>(b.View().ListId(0, head, 0))])]);
    }
  }
  const SparseIndex of_64 = MakeLists({1, 2, 100, 100, 0, 64, causal}, Pattern::kRandom, 3);
  EXPECT_NE(PackIndices(std::vector{a.View(), of_64.View()}, &packed).message().find("sequence 1: tile_rows is 64"),
            std::string::npos);
  const SparseIndex early = MakeLists({1, 2, 100, 450, 0, 128, causal}, Pattern::kRandom, 4);
  EXPECT_NE(PackIndices(std::vector{a.View(), early.View()}, &packed).message().find("first_position"),
            std::string::npos);
  EXPECT_FALSE(PackIndices({}, &packed).ok());
}

}  // namespace
}  // namespace headscope::kernels
