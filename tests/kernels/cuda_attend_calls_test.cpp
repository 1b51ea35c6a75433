// SPDX-License-Identifier: Apache-2.0
// How the CUDA executors may be called: again, without an LSE, from threads, on streams, in a graph, one in the other's
// place. Skipped without a GPU.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cuda_attend_run.h"
#include "device_array.h"
#include "float_codes.h"
#include "graph_replays.h"
#include "kernels/cuda_executor.h"
#include "kernels/cuda_statistics.h"
#include "no_lists.h"
#include "run_seed.h"
#include "statistics/row_lse_mma.h"
#include "support/gpu.h"

namespace headscope::kernels {
namespace {

using testing::AttendCase;
using testing::AttendRun;
using testing::DeviceArray;
using testing::Executor;
using testing::Pattern;
using testing::SeedFor;

struct DestroyStream {
  void operator()(CUstream_st* stream) const { cudaStreamDestroy(stream); }
};
// One that does not wait for the default stream.
std::unique_ptr<CUstream_st, DestroyStream> NewStream() {
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  return std::unique_ptr<CUstream_st, DestroyStream>(stream);
}

struct Outputs {
  std::vector<char> o;
  std::vector<float> lse, row_max;
  explicit Outputs(const AttendRun& run) : o(run.DownloadO()), lse(run.DownloadLse()), row_max(run.DownloadRowMax()) {}
};
// Bit by bit: guards of the rows' numbers are NaN.
void ExpectSameBits(const Outputs& measured, const Outputs& expected) {
  EXPECT_TRUE(measured.o == expected.o);
  ASSERT_EQ(measured.lse.size(), expected.lse.size());
  EXPECT_EQ(std::memcmp(measured.lse.data(), expected.lse.data(), expected.lse.size() * sizeof(float)), 0);
  ASSERT_EQ(measured.row_max.size(), expected.row_max.size());
  EXPECT_EQ(std::memcmp(measured.row_max.data(), expected.row_max.data(), expected.row_max.size() * sizeof(float)), 0);
}

const AttendCase kMixed{.pattern = Pattern::kRandom, .seq_q = 1500, .seq_k = 0, .num_qo_heads = 8, .num_kv_heads = 2};

// Of heads that keep everything: few items, which are dealt, and more of them.
const AttendCase kDenseCases[] = {
    {.pattern = Pattern::kDense, .seq_q = 1500, .seq_k = 0, .num_qo_heads = 1, .num_kv_heads = 1},
    {.pattern = Pattern::kDense, .seq_q = 1500, .seq_k = 0, .num_qo_heads = 4, .num_kv_heads = 1, .tile_rows = 64},
    {.pattern = Pattern::kDense, .seq_q = 1500, .seq_k = 0, .num_qo_heads = 8, .num_kv_heads = 2},
    {.pattern = Pattern::kDense, .seq_q = 1500, .seq_k = 0, .batch = 4, .num_qo_heads = 32, .num_kv_heads = 8},
    {.pattern = Pattern::kDense, .seq_q = 1500, .seq_k = 0, .num_qo_heads = 8, .num_kv_heads = 2, .head_dim = 64},
    {.pattern = Pattern::kDense,
     .seq_q = 1500,
     .seq_k = 0,
     .batch = 5,
     .num_qo_heads = 32,
     .num_kv_heads = 8,
     .head_dim = 64}};

// `launch` captured and replayed gives the outputs that are there.
void ExpectReplays(AttendRun* run, const std::function<Status(cudaStream_t)>& launch) {
  const Outputs direct(*run);
  testing::ExpectReplays(
      launch, [&] { run->Poison(); }, [&] { ExpectSameBits(Outputs(*run), direct); });
}

class CudaAttendCalls : public ::testing::TestWithParam<Executor> {};

TEST_P(CudaAttendCalls, RepeatBitByBit) {
  SKIP_WITHOUT_GPU();
  AttendRun run;
  ASSERT_NO_FATAL_FAILURE(run.Make(kMixed, SeedFor("repeat")));
  ASSERT_TRUE(run.Attend(GetParam()).ok());
  const Outputs first(run);
  ASSERT_TRUE(run.Attend(GetParam()).ok());
  ExpectSameBits(Outputs(run), first);
}

TEST_P(CudaAttendCalls, DoWithoutAnLse) {
  SKIP_WITHOUT_GPU();
  AttendRun run;
  ASSERT_NO_FATAL_FAILURE(run.Make(kMixed, SeedFor("no lse")));
  ASSERT_TRUE(run.Attend(GetParam()).ok());
  const std::vector<char> with_lse = run.DownloadO();
  ASSERT_TRUE(run.Attend(GetParam(), nullptr, /*with_lse=*/false).ok());
  EXPECT_TRUE(run.DownloadO() == with_lse);
  for (const float value : run.DownloadLse()) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    ASSERT_EQ(bits, 0xfbfbfbfbu) << "an LSE was written";
  }
}

TEST_P(CudaAttendCalls, ReplayFromAGraph) {
  SKIP_WITHOUT_GPU();
  AttendRun run;
  ASSERT_NO_FATAL_FAILURE(run.Make(kMixed, SeedFor("graph")));
  ASSERT_TRUE(run.Attend(GetParam()).ok());
  ExpectReplays(&run, [&](cudaStream_t stream) { return run.Launch(GetParam(), stream); });
}

// A call's kernels start beside each other, but never beside the stream's other work, which may write what they read:
// keys that are there for the call alone.
TEST_P(CudaAttendCalls, KeepTheirPlaceInAStream) {
  SKIP_WITHOUT_GPU();
  AttendRun run;
  ASSERT_NO_FATAL_FAILURE(run.Make(kMixed, SeedFor("place in a stream")));
  ASSERT_TRUE(run.Attend(GetParam()).ok());
  const Outputs expected(run);
  AttentionProblem problem = run.problem();
  const int64_t bytes = problem.batch * problem.k.batch_stride * SizeOf(problem.dtype);
  const DeviceArray<char> keys(bytes);
  problem.k.data = keys.get();
  const auto stream = NewStream();
  for (int repeat = 0; repeat < 10; ++repeat) {
    run.Poison();
    ASSERT_EQ(cudaMemsetAsync(keys.get(), 0xff, static_cast<size_t>(bytes), stream.get()), cudaSuccess);
    ASSERT_EQ(cudaMemcpyAsync(keys.get(), run.problem().k.data, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice,
                              stream.get()),
              cudaSuccess);
    const Status status = GetParam() == Executor::kSimple
                              ? AttendCudaSimple(problem, run.index(), run.output(), stream.get())
                              : AttendCuda(problem, run.index(), run.output(), stream.get());
    ASSERT_EQ(cudaMemsetAsync(keys.get(), 0xff, static_cast<size_t>(bytes), stream.get()), cudaSuccess);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
    ExpectSameBits(Outputs(run), expected);
  }
}

// Two problems, each in work on a stream of its own by a thread of its own, over and over: what each gives alone.
TEST_P(CudaAttendCalls, RunBesideEachOther) {
  SKIP_WITHOUT_GPU();
  constexpr int kThreads = 2;
  constexpr int kRepeats = 40;
  AttendRun runs[kThreads];
  std::vector<Outputs> alone;
  for (int i = 0; i < kThreads; ++i) {
    AttendCase c = kMixed;
    c.seq_q = 1000 + 600 * i;
    ASSERT_NO_FATAL_FAILURE(runs[i].Make(c, SeedFor("beside " + std::to_string(i))));
    ASSERT_TRUE(runs[i].Attend(GetParam()).ok());
    alone.emplace_back(runs[i]);
    runs[i].Poison();
  }
  Status statuses[kThreads];
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const auto stream = NewStream();
      for (int repeat = 0; repeat < kRepeats && statuses[i].ok(); ++repeat) {
        statuses[i] = runs[i].Launch(GetParam(), stream.get());
      }
      EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < kThreads; ++i) {
    EXPECT_TRUE(statuses[i].ok()) << statuses[i].message();
    ExpectSameBits(Outputs(runs[i]), alone[static_cast<size_t>(i)]);
  }
}

INSTANTIATE_TEST_SUITE_P(Executors, CudaAttendCalls, ::testing::Values(Executor::kAuto, Executor::kSimple),
                         [](const auto& parameter) {
                           return std::string(parameter.param == Executor::kAuto ? "auto" : "simple");
                         });

class CudaDenseCalls : public ::testing::TestWithParam<AttendCase> {};

TEST_P(CudaDenseCalls, ReplayFromAGraph) {
  SKIP_WITHOUT_GPU();
  AttendRun run;
  ASSERT_NO_FATAL_FAILURE(run.Make(GetParam(), SeedFor(NameOf(GetParam()))));
  ASSERT_TRUE(run.Attend(Executor::kAuto).ok());
  ExpectReplays(&run, [&](cudaStream_t stream) { return run.Launch(Executor::kAuto, stream); });
}

// Whoever made the index has said what its lists hold: these here would lead anywhere.
TEST_P(CudaDenseCalls, ReadNoListWhereEveryHeadKeepsEverything) {
  SKIP_WITHOUT_GPU();
  AttendRun run;
  ASSERT_NO_FATAL_FAILURE(run.Make(GetParam(), SeedFor(NameOf(GetParam()))));
  for (const bool with_row_max : {false, true}) {
    if (with_row_max) run.AskForRowMax();
    ASSERT_TRUE(run.Attend(Executor::kAuto).ok());
    const Outputs expected(run);
    CudaKernelChoice choice;
    ASSERT_TRUE(ChooseCudaKernel(run.problem(), run.index(), run.output(), &choice).ok());
    if (choice.kernel != CudaKernel::kHopper) GTEST_SKIP() << "the simple executor reads lists: " << choice.reason;
    ASSERT_TRUE(run.index().keeps_everything);
    const testing::NoLists none(run.index());
    run.Poison();
    const Status status = AttendCuda(run.problem(), none.InPlaceOf(run.index()), run.output(), nullptr);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    ExpectSameBits(Outputs(run), expected);
  }
}

// A query that is not a number spoils its own row. Its warp raises the shifts of all of its sixteen rows on the way, so
// that these are rounded otherwise; all others have the same bits.
TEST_P(CudaDenseCalls, KeepRowsApart) {
  SKIP_WITHOUT_GPU();
  AttendRun run;
  ASSERT_NO_FATAL_FAILURE(run.Make(GetParam(), SeedFor(NameOf(GetParam()))));
  ASSERT_TRUE(run.Attend(Executor::kAuto).ok());
  const Outputs expected(run);
  const AttentionProblem& p = run.problem();
  constexpr int32_t kRow = 777;
  auto* const query = static_cast<uint16_t*>(const_cast<void*>(p.q.data)) + kRow * p.q.row_stride;
  ASSERT_EQ(cudaMemset(query, 0xff, static_cast<size_t>(p.head_dim) * 2), cudaSuccess);
  ASSERT_TRUE(run.Attend(Executor::kAuto).ok());
  Outputs measured(run);
  const AttentionOutput output = run.output();
  const auto row_bytes = static_cast<size_t>(p.head_dim) * 2;
  const size_t at = static_cast<size_t>(kRow * output.o.row_stride) * 2;
  for (size_t i = 0; i < row_bytes; i += 2) {
    uint16_t code;
    std::memcpy(&code, measured.o.data() + at + i, 2);
    ASSERT_TRUE(std::isnan(test::FromCode(code, p.dtype))) << "component " << i / 2;
  }
  ASSERT_TRUE(std::isnan(measured.lse[AttendRun::kGuardLse + kRow]));
  measured.lse[AttendRun::kGuardLse + kRow] = expected.lse[AttendRun::kGuardLse + kRow];
  std::memcpy(measured.o.data() + at, expected.o.data() + at, row_bytes);
  // The other rows of the warp's sixteen, each by itself.
  constexpr int32_t kWarpRow = kRow / 16 * 16;
  for (int32_t row = kWarpRow; row < kWarpRow + 16; ++row) {
    const size_t begin = static_cast<size_t>(row * output.o.row_stride) * 2;
    double error = 0, norm = 0;
    for (size_t i = 0; i < row_bytes; i += 2) {
      uint16_t codes[2];
      std::memcpy(&codes[0], measured.o.data() + begin + i, 2);
      std::memcpy(&codes[1], expected.o.data() + begin + i, 2);
      const double want = test::FromCode(codes[1], p.dtype), difference = test::FromCode(codes[0], p.dtype) - want;
      error += difference * difference;
      norm += want * want;
    }
    ASSERT_LE(std::sqrt(error / norm), 5e-3) << "row " << row;
    std::memcpy(measured.o.data() + begin, expected.o.data() + begin, row_bytes);
    const size_t lse = AttendRun::kGuardLse + static_cast<size_t>(row);
    ASSERT_NEAR(measured.lse[lse], expected.lse[lse], 1e-4) << "row " << row;
    measured.lse[lse] = expected.lse[lse];
  }
  ExpectSameBits(measured, expected);
}

INSTANTIATE_TEST_SUITE_P(Heads, CudaDenseCalls, ::testing::ValuesIn(kDenseCases),
                         [](const auto& parameter) { return NameOf(parameter.param); });

// One kernel, two amounts of shared memory above what a kernel has without asking: neither thread's may be taken away
// by the other's.
void LaunchFromTwoThreads(const std::function<Status(int thread, cudaStream_t stream)>& launch) {
  constexpr int kRepeats = 3000;
  Status statuses[2];
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      const auto stream = NewStream();
      for (int repeat = 0; repeat < kRepeats && statuses[i].ok(); ++repeat) statuses[i] = launch(i, stream.get());
      EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.message();
}

TEST(CudaSharedMemory, SimpleExecutorInTwoSizesAtOnce) {
  SKIP_WITHOUT_GPU();
  AttendRun runs[2];
  for (int i = 0; i < 2; ++i) {
    const AttendCase c{.pattern = Pattern::kDense, .seq_q = 32, .seq_k = 0, .head_dim = i == 0 ? 200 : 256};
    ASSERT_NO_FATAL_FAILURE(runs[i].Make(c, SeedFor("sizes " + std::to_string(i))));
    runs[i].Poison();
  }
  LaunchFromTwoThreads([&](int i, cudaStream_t stream) { return runs[i].Launch(Executor::kSimple, stream); });
  for (const AttendRun& run : runs) ASSERT_NO_FATAL_FAILURE(run.ExpectFloat64());
}

TEST(CudaSharedMemory, StatisticsInTwoSizesAtOnce) {
  SKIP_WITHOUT_GPU();
  AttendRun runs[2];
  for (int i = 0; i < 2; ++i) {
    const AttendCase c{.pattern = Pattern::kDense, .seq_q = 64, .seq_k = 0, .head_dim = i == 0 ? 64 : 256};
    ASSERT_NO_FATAL_FAILURE(runs[i].Make(c, SeedFor("statistics " + std::to_string(i))));
    runs[i].Poison();
  }
  LaunchFromTwoThreads([&](int i, cudaStream_t stream) {
    return statistics::RowLseMma(runs[i].problem(), 0, runs[i].output().lse, stream);
  });
}

// The twin: other arithmetic, another walk over the same lists.
void ExpectTwins(const AttendCase& c) {
  AttendRun run;
  ASSERT_NO_FATAL_FAILURE(run.Make(c, SeedFor("twins " + NameOf(c))));
  CudaKernelChoice choice;
  ASSERT_TRUE(ChooseCudaKernel(run.problem(), run.index(), run.output(), &choice).ok());
  if (choice.kernel != CudaKernel::kHopper) GTEST_SKIP() << "the simple executor alone: " << choice.reason;
  ASSERT_TRUE(run.Attend(Executor::kSimple).ok());
  const Outputs simple(run);
  ASSERT_TRUE(run.Attend(Executor::kAuto).ok());
  const Outputs hopper(run);
  EXPECT_LE(run.RelativeL2(hopper.o, simple.o), c.dtype == DType::kBFloat16 ? 5e-3 : 1e-3);
  for (size_t i = AttendRun::kGuardLse; i < simple.lse.size() - AttendRun::kGuardLse; ++i) {
    if (std::isinf(simple.lse[i])) {
      ASSERT_EQ(hopper.lse[i], simple.lse[i]) << "row " << i;
    } else {
      ASSERT_NEAR(hopper.lse[i], simple.lse[i], 2e-3) << "row " << i;
    }
  }
}

TEST(CudaTwins, SimpleAgreesWithHopper) {
  SKIP_WITHOUT_GPU();
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    for (const Pattern pattern : {Pattern::kHalves, Pattern::kRandom}) {
      AttendCase c{.pattern = pattern, .seq_q = 900, .seq_k = 1300, .dtype = dtype, .soft_cap = 20.0f};
      ExpectTwins(c);
      c.head_dim = 192;
      c.v_head_dim = 128;
      ExpectTwins(c);
    }
  }
}

TEST(CudaChoice, SaysWhyTheFastKernelIsNotTaken) {
  SKIP_WITHOUT_GPU();
  AttendRun run;
  ASSERT_NO_FATAL_FAILURE(
      run.Make({.pattern = Pattern::kDense, .seq_q = 64, .seq_k = 0, .dtype = DType::kFloat32}, SeedFor("choice")));
  CudaKernelChoice choice;
  ASSERT_TRUE(ChooseCudaKernel(run.problem(), run.index(), run.output(), &choice).ok());
  EXPECT_EQ(choice.kernel, CudaKernel::kSimple);
  EXPECT_FALSE(choice.reason.empty());
}

TEST(CudaChoice, TakesTheFastKernelForLatentHeads) {
  SKIP_WITHOUT_GPU();
  AttendRun run;
  ASSERT_NO_FATAL_FAILURE(run.Make(
      {.pattern = Pattern::kDense, .seq_q = 64, .seq_k = 0, .head_dim = 192, .v_head_dim = 128}, SeedFor("latent")));
  CudaDeviceInfo info;
  ASSERT_TRUE(QueryCudaDevice(0, &info).ok());
  CudaKernelChoice choice;
  ASSERT_TRUE(ChooseCudaKernel(run.problem(), run.index(), run.output(), &choice).ok());
  EXPECT_EQ(choice.kernel == CudaKernel::kHopper, info.compute_capability == 90) << choice.reason;
}

// A thread that works on one GPU and reads statistics from another goes on where it was.
TEST(CudaScoresDevice, CallersDeviceStays) {
  SKIP_WITHOUT_GPU();
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  if (count < 2) GTEST_SKIP() << "it takes two GPUs to tell";
  constexpr int32_t kRows = 64, kHeadDim = 64;
  const std::vector<uint16_t> values(size_t{kRows} * kHeadDim, 0x3c00);
  AttentionProblem problem;
  problem.num_qo_heads = problem.num_kv_heads = 1;
  problem.head_dim = kHeadDim;
  problem.seq_q = problem.seq_k = kRows;
  problem.dtype = DType::kFloat16;
  problem.q = problem.k = {values.data(), kRows * kHeadDim, kRows * kHeadDim, kHeadDim};
  std::unique_ptr<CudaScores> scores;
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  ASSERT_TRUE(CudaScores::Create(problem, 0, nullptr, &scores).ok());
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  std::vector<float> lse(kRows), top(size_t{kRows} * kTopMassCounts), texels(size_t{256} * 256);
  std::vector<double> columns(kRows), distances(kRows);
  auto expect_first = [](const Status& status) {
    EXPECT_TRUE(status.ok()) << status.message();
    int device = -1;
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    EXPECT_EQ(device, 0);
  };
  expect_first(scores->RowLse(lse.data()));
  expect_first(scores->TopMass(top.data()));
  expect_first(scores->LineMass({}, columns.data(), distances.data()));
  expect_first(scores->Texels({}, texels.data()));
  const SparseIndex dense = testing::MakeLists({1, 1, kRows, kRows, 0, 128, {}}, Pattern::kDense, 1);
  expect_first(scores->KeptMass(dense.View(), lse.data()));
}

}  // namespace
}  // namespace headscope::kernels
