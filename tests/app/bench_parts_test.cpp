// SPDX-License-Identifier: Apache-2.0
// The parts of `headscope bench` that the real binary's test cannot reach one by one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <new>
#include <thread>

#include "base/device.h"
#include "base/errors.h"
#include "bench/bench_report.h"
#include "bench/figure.h"
#include "bench/placed_problem.h"
#include "bench/workload.h"
#include "data/trace_schema.h"

namespace headscope::app::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(StatisticsTest, MedianAndItsAbsoluteDeviation) {
  const Figure odd = Summarize({9, 1, 3, 2, 100});
  EXPECT_DOUBLE_EQ(odd.median, 3);
  EXPECT_DOUBLE_EQ(odd.mad, 2);  // of 0, 1, 2, 6, 97
  EXPECT_EQ(odd.repeats, 5);
  const Figure even = Summarize({4, 1, 2, 3});
  EXPECT_DOUBLE_EQ(even.median, 2.5);
  EXPECT_DOUBLE_EQ(even.mad, 1);  // of 0.5, 0.5, 1.5, 1.5
  EXPECT_EQ(Summarize({}).repeats, 0);
}

TEST(WorkloadTest, CommasBelongToParametersOrSeparateMethods) {
  EXPECT_THAT(SplitMethods({"dense,a:x=1,y=2,b", "c:z=3", "k=v"}),
              ElementsAre("dense", "a:x=1,y=2", "b", "c:z=3", "k=v"));
  EXPECT_THAT(SplitMethods({"a:x=1,b:y=2"}), ElementsAre("a:x=1", "b:y=2"));
}

TEST(WorkloadTest, NamesFindFixedSetsAndRegisteredMethods) {
  EXPECT_STREQ(ParseWorkload("dense").source(), "fixed");
  EXPECT_STREQ(ParseWorkload("vertical-slash-10x64").source(), "fixed");
  const Workload registered = ParseWorkload("vertical-slash:n_vertical=12");
  EXPECT_STREQ(registered.source(), "registry");
  EXPECT_NE(registered.prefill, nullptr);
  EXPECT_EQ(registered.values.Integer("n_vertical"), 12);
  EXPECT_NE(ParseWorkload("decode/dense").decode, nullptr);
  EXPECT_NE(ParseWorkload("sparq").decode, nullptr);
  EXPECT_THROW(ParseWorkload("vertical-slash:no_such=1"), UsageError);
  EXPECT_THROW(ParseWorkload("decode/none"), UsageError);
  EXPECT_THROW(ParseWorkload(""), UsageError);
}

TEST(WorkloadTest, ARefusedParameterNamesThisCommandsOption) {
  EXPECT_THAT([] { ParseWorkload("vertical-slash:n_foo=3"); },
              testing::ThrowsMessage<UsageError>(testing::StartsWith("--methods vertical-slash:n_foo=3: ")));
}

TEST(WorkloadTest, FileNamesAreTame) {
  Workload workload = ParseWorkload("vertical-slash:n_vertical=12");
  const std::string name = IndexFileName(workload, 8192);
  EXPECT_TRUE(name.ends_with("-8192.h5"));
  EXPECT_EQ(name.find_first_of(":=,/ "), std::string::npos) << name;
}

Group SmallGroup(const std::string& method) {
  Group group;
  group.shape = {.seed = std::numeric_limits<uint64_t>::max(),
                 .batch = 2,
                 .num_qo_heads = 4,
                 .num_kv_heads = 2,
                 .head_dim = 64,
                 .seq_q = 500,
                 .seq_k = 500};
  group.dtype = kernels::DType::kFloat16;
  group.workloads.push_back(ParseWorkload(method));
  return group;
}

// A device with memory for so many allocations.
class FullDevice : public Device {
 public:
  explicit FullDevice(int room) : room_(room) {}
  std::string name() const override { return "full"; }
  headscope::Device device() const override { return kCpu; }
  std::string cache_policy() const override { return ""; }
  std::shared_ptr<void> Allocate(int64_t bytes) override {
    if (room_-- == 0) throw std::bad_alloc();
    return std::shared_ptr<char[]>(new char[static_cast<size_t>(bytes)]);
  }
  void Upload(const void* host, int64_t bytes, void* device) override {
    ++uploads;
    std::memcpy(device, host, static_cast<size_t>(bytes));
  }
  void Download(const void*, int64_t, void*) override {}
  bool is_host() const override { return false; }
  kernels::DType OutputType(kernels::DType dtype) const override { return dtype; }
  double Milliseconds(const std::function<void()>&) override { return 0; }
  PrefillWork Attend(const PlacedProblem&, kernels::SparseIndex) override { return {}; }
  PrefillWork SelectAndAttend(const PlacedProblem&, const kernels::PrefillMethod&,
                              const kernels::ParameterValues&) override {
    return {};
  }
  std::vector<DecodeWork> Decode(const PlacedProblem&, const kernels::DecodeMethod&,
                                 const kernels::ParameterValues&) override {
    return {};
  }

  int uploads = 0;

 private:
  int room_;
};

// Filling the tensors of a long prompt takes a minute; asking for memory takes none.
TEST(PlaceTest, MemoryForAllIsAskedForBeforeAnythingIsFilled) {
  const Group group = SmallGroup("dense");
  constexpr int kTensors = 5;  // Q, K, V, O and the LSE
  for (int room = 0; room < kTensors; ++room) {
    FullDevice device(room);
    EXPECT_THROW(Place(device, group.shape, group.dtype, {}), std::bad_alloc) << room;
    EXPECT_EQ(device.uploads, 0) << room;
  }
  FullDevice device(kTensors);
  const auto placed = Place(device, group.shape, group.dtype, {});
  EXPECT_EQ(device.uploads, 3);
  // Each tensor is where its view points to.
  const auto expect_tensor = [&](const void* memory, kernels::SeededTensor tensor) {
    std::vector<uint16_t> expected(static_cast<size_t>(kernels::ElementCount(group.shape, tensor)));
    ASSERT_TRUE(kernels::FillSeeded(group.shape, tensor, group.dtype, {}, expected.data()).ok());
    EXPECT_EQ(std::memcmp(memory, expected.data(), expected.size() * sizeof(uint16_t)), 0);
  };
  expect_tensor(placed->problem.q.data, kernels::SeededTensor::kQuery);
  expect_tensor(placed->problem.k.data, kernels::SeededTensor::kKey);
  expect_tensor(placed->problem.v.data, kernels::SeededTensor::kValue);
}

TEST(DecodeBytesTest, CountsWhatAStepHasToRead) {
  kernels::AttentionProblem problem;
  problem.batch = 3;
  problem.num_kv_heads = 2;
  problem.seq_k = 70'000;
  problem.head_dim = 128;
  problem.dtype = kernels::DType::kBFloat16;
  EXPECT_EQ(DecodeBytes(problem, 70'000, 0), int64_t{2} * 3 * 2 * 70'000 * 128 * 2);             // K and V
  EXPECT_EQ(DecodeBytes(problem, 128, 32), int64_t{3} * 2 * (70'000 * 32 + 2 * 128 * 128) * 2);  // 32 of 128 components
}

TEST(DecodeBytesTest, CountsEveryListOfASelection) {
  kernels::AttentionProblem problem;
  problem.num_kv_heads = 2;
  problem.seq_k = 1000;
  problem.head_dim = 64;
  problem.dtype = kernels::DType::kBFloat16;
  kernels::DecodeSelection selection;
  selection.num_kv_heads = 2;
  selection.page_begin = {0, 1, 5};
  selection.pages = {7, 0, 1, 2, 3};
  EXPECT_EQ(DecodeBytes(problem, selection, 16), (2 * 1000 * 16 + 2 * 5 * 64) * 2);
}

// Of every step that is not timed by a formula of its own.
TEST(DecodeBytesTest, OfAnyOtherStepIsWhatItsSelectionMoved) {
  kernels::AttentionProblem problem;
  problem.batch = 3;
  problem.num_kv_heads = 2;
  problem.dtype = kernels::DType::kBFloat16;
  kernels::DecodeSelection selection;
  selection.elements_moved = 1000;
  EXPECT_EQ(MovedBytes(problem, selection), 3 * 2 * 1000 * 2);
}

Section DecodeSection() {
  Section section;
  section.decode = true;
  section.rows.resize(3);
  Row& reference = section.rows[0];
  reference.kind = RowKind::kReference;
  reference.attend_ms = reference.total_ms = {3, 0, 1, 3};
  reference.bytes_moved = 6'000'000;
  Row& own = section.rows[1];
  own.own_dense = true;
  own.attend_ms = own.total_ms = {2, 0, 1, 2};
  own.bytes_moved = 6'000'000;
  Row& sparq = section.rows[2];
  sparq.select_ms = {0.8, 0, 1, 0.8};
  sparq.attend_ms = {0.2, 0, 1, 0.2};
  sparq.total_ms = {1, 0, 1, 1};
  sparq.read_ms = {0.9, 0.1, 5, 0.5};
  sparq.bytes_moved = 2'000'000;
  return section;
}

// The bytes of a step's estimate were divided by the time of its attention alone: 10 GB/s here, five times what it is.
TEST(RatiosTest, BytesAndTimeOfADecodeStepAreThoseOfSelectAndAttend) {
  const Section section = DecodeSection();
  Report report;
  report.device_kind = "cpu";
  const Ratios on_cpu = RatiosOf(report, section, section.rows[2]);
  EXPECT_DOUBLE_EQ(on_cpu.rate, 2e9);
  EXPECT_DOUBLE_EQ(on_cpu.of_ceiling, 0.5);  // of reading as many bytes, at its fastest
  report.device_kind = "cuda";
  report.copy.work = 4e6;
  report.copy.ms = {1, 0, 1, 1};
  EXPECT_DOUBLE_EQ(RatiosOf(report, section, section.rows[2]).of_ceiling, 0.5);  // of 4 GB/s
}

TEST(RatiosTest, ARowIsComparedWithEitherDense) {
  const Section section = DecodeSection();
  Report report;
  report.device_kind = "cpu";
  const Ratios ratios = RatiosOf(report, section, section.rows[2]);
  EXPECT_DOUBLE_EQ(ratios.faster, 3);
  EXPECT_DOUBLE_EQ(ratios.faster_than_own, 2);
  EXPECT_DOUBLE_EQ(RatiosOf(report, section, section.rows[1]).faster_than_own, 1);
}

TEST(IndexFileTest, TheSameSetIsTheSameBytes) {
  const Group group = SmallGroup("blocks-50");
  const kernels::SparseIndex index = kernels::MakeFixedIndex(group.workloads[0].fixed, 2, 4, 500, 1);
  std::string contents[2];
  for (std::string& bytes : contents) {
    const std::string path = (std::filesystem::path(testing::TempDir()) / "index_twice.h5").string();
    std::filesystem::remove(path);
    data::WriteIndexFile(path, ToFile(group, group.workloads[0], index));
    std::ifstream file(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
    std::filesystem::remove(path);
    // HDF5's time stamps count whole seconds.
    if (&bytes == contents) std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  }
  EXPECT_FALSE(contents[0].empty());
  EXPECT_EQ(contents[0], contents[1]);
}

TEST(IndexFileTest, ReadsBackWhatWasWritten) {
  for (const char* method : {"dense", "blocks-50", "vertical-slash-30x64", "a-shape-10+100", "s2-l1v3"}) {
    const Group group = SmallGroup(method);
    const kernels::SparseIndex index = kernels::MakeFixedIndex(group.workloads[0].fixed, 2, 4, 500, group.shape.seed);
    const std::string path =
        (std::filesystem::path(testing::TempDir()) / ("index_" + std::string(method) + ".h5")).string();
    std::filesystem::remove(path);
    data::WriteIndexFile(path, ToFile(group, group.workloads[0], index));
    const Group read = ReadGroup(path);
    ASSERT_EQ(read.workloads.size(), 1u);
    const kernels::SparseIndex& again = *read.workloads[0].saved;
    EXPECT_EQ(read.workloads[0].name, method);
    EXPECT_EQ(read.shape.seed, group.shape.seed);
    EXPECT_EQ(read.shape.num_kv_heads, 2);
    EXPECT_EQ(read.dtype, kernels::DType::kFloat16);
    EXPECT_EQ(again.rule, index.rule);
    EXPECT_EQ(again.run_begin, index.run_begin);
    EXPECT_EQ(again.run_count, index.run_count);
    EXPECT_EQ(again.column_begin, index.column_begin);
    EXPECT_EQ(again.column_count, index.column_count);
    EXPECT_EQ(again.runs, index.runs);
    EXPECT_EQ(again.columns, index.columns);
    EXPECT_THROW(data::WriteIndexFile(path, ToFile(group, group.workloads[0], index)), FailedError)
        << "an existing file is kept";
    std::filesystem::remove(path);
  }
}

TEST(IndexFileTest, IndicesThatBreakARuleAreRefused) {
  const Group group = SmallGroup("dense");
  const kernels::SparseIndex good = kernels::MakeFixedIndex(group.workloads[0].fixed, 2, 4, 500, 1);
  const std::string path = (std::filesystem::path(testing::TempDir()) / "index_broken.h5").string();
  const auto refusal = [&](const data::IndexFile& file) -> std::string {
    std::filesystem::remove(path);
    data::WriteIndexFile(path, file);
    try {
      ReadGroup(path);
    } catch (const BadInputError& error) {
      return error.what();
    }
    return "";
  };
  const auto changed = [&](const std::function<void(data::IndexFile*)>& change) {
    data::IndexFile file = ToFile(group, group.workloads[0], good);
    change(&file);
    return refusal(file);
  };
  EXPECT_EQ(changed([](data::IndexFile*) {}), "");
  EXPECT_THAT(changed([](data::IndexFile* f) { f->runs[0] = 499; }), HasSubstr("run 0"));
  EXPECT_THAT(changed([](data::IndexFile* f) { f->batch = 3; }), HasSubstr("run_begin has"));
  EXPECT_THAT(changed([](data::IndexFile* f) { f->batch = f->num_qo_heads = 1 << 30; }), HasSubstr("16384 times"));
  EXPECT_THAT(changed([](data::IndexFile* f) { f->num_kv_heads = 3; }), HasSubstr("num_kv_heads 3"));
  EXPECT_THAT(changed([](data::IndexFile* f) { f->batch = f->num_qo_heads = std::numeric_limits<int32_t>::max() - 1; }),
              HasSubstr("16384 times"));
  EXPECT_THAT(changed([](data::IndexFile* f) { f->recipe = "other"; }), HasSubstr("recipe"));
  EXPECT_THAT(changed([](data::IndexFile* f) { f->dtype = "fp8"; }), HasSubstr("fp8"));
  EXPECT_THAT(changed([](data::IndexFile* f) { f->first_position = 7; }), HasSubstr("first_position"));
  EXPECT_THAT(changed([](data::IndexFile* f) { f->mask_kind = 0; }), HasSubstr("mask_kind"));
  std::filesystem::remove(path);
}

TEST(ReportTest, RatiosCompareLikeWithLike) {
  Report report;
  report.product = {.name = "matrix product", .size = 10, .work = 4e9, .ms = Summarize({2})};  // 2e12 a second
  report.copy = {.name = "copy", .size = 1, .work = 3e6, .ms = Summarize({1})};                // 3e9 a second
  Section section;
  section.shape = {.num_qo_heads = 1, .num_kv_heads = 1, .head_dim = 100, .seq_q = 8, .seq_k = 8};
  Row reference;
  reference.kind = RowKind::kReference;
  reference.kept_pairs = reference.dense_pairs = 1'000'000;
  reference.attend_ms = reference.total_ms = Summarize({4});
  Row sparse;
  sparse.kept_pairs = 250'000;
  sparse.dense_pairs = 1'000'000;
  sparse.select_ms = Summarize({0.5});
  sparse.attend_ms = Summarize({1.5});
  sparse.total_ms = Summarize({1.6});
  section.rows = {reference, sparse};
  const Ratios ratios = RatiosOf(report, section, sparse);
  EXPECT_DOUBLE_EQ(ratios.rate, 400.0 * 250'000 / 1.5e-3);
  EXPECT_DOUBLE_EQ(ratios.of_ceiling, ratios.rate / 2e12);
  EXPECT_DOUBLE_EQ(ratios.rate_to_dense, 4.0 / (4 * 1.5));
  EXPECT_DOUBLE_EQ(ratios.faster, 4 / 1.6);
  EXPECT_DOUBLE_EQ(ratios.select_share, 0.25);

  Row upkeep;
  upkeep.kind = RowKind::kUpkeep;
  upkeep.bytes_moved = 6'000;
  upkeep.attend_ms = upkeep.total_ms = Summarize({0.004});
  section.decode = true;
  const Ratios aside = RatiosOf(report, section, upkeep);
  EXPECT_DOUBLE_EQ(aside.of_ceiling, 0.5);
  EXPECT_DOUBLE_EQ(aside.faster, 0) << "upkeep is no attention to compare";
}

TEST(PlacedProblemTest, DistanceIsRelativeAndSeesNan) {
  EXPECT_DOUBLE_EQ(RelativeDistance({3, 4.5f}, {3, 4}), 0.1);
  EXPECT_TRUE(std::isnan(RelativeDistance({NAN}, {1})));
}

}  // namespace
}  // namespace headscope::app::bench
