// SPDX-License-Identifier: Apache-2.0
// Kernels on a GPU that is not the thread's own: work enters it by a CudaDeviceScope, behind the same work on GPU 0, so
// that what a call keeps from its first time (a kernel's shared memory, a pool, a count of multiprocessors) must be
// kept for each GPU. Of two GPUs of one kind the results are the same bits. The cases of GPU 0 run anywhere.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda_attend_run.h"
#include "cuda_select_run.h"
#include "cuda_statistics_reference.h"
#include "cuda_statistics_support.h"
#include "decode_oracle.h"
#include "device_array.h"
#include "kernels/contiguous.h"
#include "kernels/cuda_decode.h"
#include "kernels/cuda_decode_step.h"
#include "kernels/cuda_devices.h"
#include "kernels/cuda_executor.h"
#include "kernels/cuda_kept_state.h"
#include "kernels/cuda_statistics.h"
#include "random_problem.h"
#include "run_seed.h"
#include "support/gpu.h"

namespace headscope::kernels {
namespace {

using testing::AttendCase;
using testing::AttendRun;
using testing::DeviceArray;
using testing::DeviceTensor;
using testing::Executor;
using testing::GpuSelection;
using testing::Pattern;
using testing::RandomProblem;
using testing::SeedFor;
using testing::StatisticsProblem;
using testing::Values;

// Bits, whatever they stand for: NaN equals itself.
template <typename T>
std::vector<unsigned char> BitsOf(const std::vector<T>& values) {
  std::vector<unsigned char> bits(values.size() * sizeof(T));
  if (!bits.empty()) std::memcpy(bits.data(), values.data(), bits.size());
  return bits;
}
using Bits = std::vector<std::vector<unsigned char>>;

class CudaTwoGpus : public ::testing::TestWithParam<int32_t> {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_GPU();
    CudaDeviceInfo first, other;
    ASSERT_TRUE(QueryCudaDevice(0, &first).ok());
    if (!QueryCudaDevice(GetParam(), &other).ok()) GTEST_SKIP() << "this machine has one GPU: it takes two";
    if (other.compute_capability < 80) GTEST_SKIP() << "GPU 1 is too old: it takes compute capability 8.0 or newer";
    alike_ = first.name == other.name && first.num_multiprocessors == other.num_multiprocessors;
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  }
  void TearDown() override {
    int device = -1;
    if (!IsSkipped()) {
      EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
      EXPECT_EQ(device, 0) << "the thread's own GPU has changed";
      EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    }
  }

  // What `work` leaves on GPU 0 and then on the GPU of the case, each of which it checks by itself.
  void ExpectAlike(const std::function<void(Bits*)>& work) const {
    Bits first, other;
    ASSERT_NO_FATAL_FAILURE(work(&first));
    {
      CudaDeviceScope scope;
      const Status status = scope.Enter(GetParam());
      ASSERT_TRUE(status.ok()) << status.message();
      SCOPED_TRACE("on GPU " + std::to_string(GetParam()));
      ASSERT_NO_FATAL_FAILURE(work(&other));
    }
    ASSERT_FALSE(first.empty());
    EXPECT_TRUE(!alike_ || other == first) << "another GPU of the same kind gave other bits";
  }

  bool alike_ = false;
};

std::vector<AttendCase> AttendCases() {
  return {
      {.pattern = Pattern::kRandom, .seq_q = 777, .seq_k = 0, .num_qo_heads = 4, .num_kv_heads = 2},
      {.pattern = Pattern::kColumns, .seq_q = 300, .seq_k = 0, .head_dim = 64, .dtype = DType::kFloat16},
      {.pattern = Pattern::kDense, .seq_q = 200, .seq_k = 0, .head_dim = 256, .soft_cap = 30.0f},
      {.pattern = Pattern::kDense, .seq_q = 130, .seq_k = 0, .head_dim = 80, .dtype = DType::kFloat32},
  };
}

TEST_P(CudaTwoGpus, Attend) {
  ExpectAlike([](Bits* bits) {
    for (const AttendCase& c : AttendCases()) {
      for (const Executor executor : {Executor::kAuto, Executor::kSimple}) {
        SCOPED_TRACE(NameOf(c));
        AttendRun run;
        ASSERT_NO_FATAL_FAILURE(run.Make(c, SeedFor("two GPUs " + NameOf(c))));
        const Status status = run.Attend(executor);
        ASSERT_TRUE(status.ok()) << status.message();
        run.ExpectFloat64();
        run.ExpectGuards();
        bits->push_back(BitsOf(run.DownloadO()));
        bits->push_back(BitsOf(run.DownloadLse()));
      }
    }
  });
}

TEST_P(CudaTwoGpus, Select) {
  std::mt19937 random(SeedFor("two GPUs select"));
  const RandomProblem problem({1, 4, 2, 128, 1000, 1000, 0, DType::kBFloat16}, &random);
  ExpectAlike([&](Bits* bits) {
    const DeviceTensor q(problem.q.View(), 1), k(problem.k.View(), 1);
    const AttentionProblem device = testing::OnDevice(problem.View(), q, k);
    for (const std::string& method : testing::WithCudaSelector()) {
      SCOPED_TRACE(method);
      const GpuSelection selection(method, device, Values(method, testing::TakenByCuda(method)));
      ASSERT_TRUE(Validate(selection.host().View()).ok());
      ASSERT_FALSE(selection.host().runs.empty());
      bits->push_back(BitsOf(selection.host().runs));
      bits->push_back(BitsOf(selection.host().columns));
      bits->push_back(BitsOf(selection.host().run_count));
    }
  });
}

// Of one token, against the formula: dense, by estimated scores and by the bounds of pages.
TEST_P(CudaTwoGpus, DecodeStep) {
  constexpr int32_t kTokens = 3000, kDim = 128, kHeads = 8, kKvHeads = 2;
  std::mt19937 random(SeedFor("two GPUs decode"));
  std::normal_distribution<float> normal;
  std::vector<uint16_t> row(kHeads * kDim), keys(size_t{kKvHeads} * kTokens * kDim), values(keys.size());
  for (std::vector<uint16_t>* tensor : {&row, &keys, &values}) {
    for (uint16_t& x : *tensor) x = test::ToBFloat16(normal(random));
  }
  AttentionProblem host = test::ProblemOf({.num_qo_heads = kHeads,
                                           .num_kv_heads = kKvHeads,
                                           .head_dim = kDim,
                                           .seq_k = kTokens,
                                           .first_position = kTokens - 1,
                                           .dtype = DType::kBFloat16});
  SetContiguousTensors(row.data(), keys.data(), values.data(), &host);
  ExpectAlike([&](Bits* bits) {
    const DeviceArray<uint16_t> q(row), k(keys), v(values);
    AttentionProblem problem = host;
    SetContiguousTensors(q.get(), k.get(), v.get(), &problem);
    CudaSelectionBuffers uploaded;
    ASSERT_TRUE(UploadSelection(problem, WholeCache(problem), &uploaded).ok());
    for (const auto& [name, parameters] :
         {std::pair{"dense", ""}, std::pair{"sparq", "r=32,k=100,reallocate=0"}, std::pair{"quest", "budget=320"}}) {
      SCOPED_TRACE(name);
      const DecodeMethod& method = *FindDecodeMethod(name);
      std::unique_ptr<CudaDecodeStep> step;
      if (method.spec().baseline) {
        step = std::make_unique<CudaSelectionStep>(uploaded.view);
      } else {
        const Status plan = PlanCudaDecodeStep(method, testing::Values(method.spec(), parameters), problem, &step);
        ASSERT_TRUE(plan.ok()) << plan.message();
      }
      CudaKeptState kept;
      ASSERT_TRUE(kept.BringUpTo(*step, problem, kTokens, "a test", nullptr).ok());
      const CudaDecodeStep::Choice choice = step->ChoiceOf(problem);
      const size_t bytes = step->WorkspaceBytes(problem);
      const DeviceArray<unsigned char> workspace{std::vector<unsigned char>(bytes + 1)};
      const DeviceArray<int32_t> chosen(std::vector<int32_t>(static_cast<size_t>(kKvHeads * choice.pages + 1)));
      const DeviceArray<uint16_t> o(std::vector<uint16_t>(row.size(), 0x7fff));
      const Status status = step->Run(problem, kept.kept(), {{o.get(), kHeads * kDim, kDim, kDim}, nullptr},
                                      choice.pages > 0 ? chosen.get() : nullptr, workspace.get(), bytes, nullptr);
      ASSERT_TRUE(status.ok()) << status.message();
      DecodeSelection selection = WholeCache(problem);
      if (choice.pages > 0) {
        selection.page_size = choice.page_size;
        selection.pages = chosen.Download();
        selection.pages.pop_back();
        selection.page_begin = {0, choice.pages, 2 * choice.pages};
      }
      const test::DecodeOracle expected = test::DecodeByFormula(host, selection);
      const std::vector<uint16_t> got = o.Download();
      double difference = 0, norm = 0;
      for (size_t i = 0; i < got.size(); ++i) {
        difference += std::pow(static_cast<double>(test::FromBFloat16(got[i])) - expected.o[i], 2);
        norm += expected.o[i] * expected.o[i];
      }
      EXPECT_LE(std::sqrt(difference), 6e-3 * std::sqrt(norm));
      bits->push_back(BitsOf(got));
      bits->push_back(BitsOf(selection.pages));
    }
  });
}

// A head lies on the GPU on which it was put, and is asked from a thread that stays on its own.
TEST_P(CudaTwoGpus, StatisticsFromAThreadOnGpu0) {
  const testing::StatisticsCase shape{DType::kBFloat16, 128, 1, 2, 1, 300, 1300, 1000, 0, 0.0f};
  const StatisticsProblem data(shape, SeedFor("two GPUs statistics"));
  const auto on = [&](int32_t device, Bits* bits) {
    std::unique_ptr<CudaScores> scores;
    {
      CudaDeviceScope scope;
      ASSERT_TRUE(scope.Enter(device).ok());
      const Status status = CudaScores::Create(data.problem(), 0, data.rounded_lse().data(), &scores);
      ASSERT_TRUE(status.ok()) << status.message();
    }
    const auto rows = static_cast<size_t>(data.NumRows());
    const auto expect_own = [](const Status& status) {
      EXPECT_TRUE(status.ok()) << status.message();
      int current = -1;
      EXPECT_EQ(cudaGetDevice(&current), cudaSuccess);
      EXPECT_EQ(current, 0);
    };
    std::vector<float> lse(rows), top(rows * kTopMassCounts), texels(size_t{2} * 256 * 256), kept(rows);
    std::vector<double> columns(size_t{2} * 1300), distances(size_t{2} * 1300);
    const SparseIndex dense = testing::MakeLists({1, 2, 300, 1300, 1000, 128, {}}, Pattern::kDense, 1);
    expect_own(scores->RowLse(lse.data()));
    expect_own(scores->TopMass(top.data()));
    expect_own(scores->LineMass({}, columns.data(), distances.data()));
    expect_own(scores->Texels({.level = 3}, texels.data()));
    expect_own(scores->KeptMass(dense.View(), kept.data()));
    for (size_t row = 0; row < rows; ++row) {
      ASSERT_NEAR(lse[row], data.lse()[row], 5e-6 + 2e-6 * data.largest_score()) << row;
      ASSERT_NEAR(kept[row], 1, 1e-5) << row;  // of everything
    }
    *bits = {BitsOf(lse), BitsOf(top), BitsOf(columns), BitsOf(distances), BitsOf(texels), BitsOf(kept)};
  };
  Bits first, other;
  ASSERT_NO_FATAL_FAILURE(on(0, &first));
  ASSERT_NO_FATAL_FAILURE(on(GetParam(), &other));
  EXPECT_TRUE(!alike_ || other == first) << "another GPU of the same kind gave other bits";
}

// A thread for each GPU, both at work: what each gives alone.
TEST_P(CudaTwoGpus, TwoThreadsAtOnce) {
  constexpr int kRepeats = 20;
  const int32_t devices[2] = {0, GetParam()};
  Bits alone[2];
  int equal[2] = {0, 0};
  std::vector<std::thread> threads;
  const auto attend = [](Bits* bits) {
    AttendRun run;
    ASSERT_NO_FATAL_FAILURE(run.Make(AttendCases().front(), SeedFor("two GPUs at once")));
    const Status status = run.Attend(Executor::kAuto);
    ASSERT_TRUE(status.ok()) << status.message();
    *bits = {BitsOf(run.DownloadO()), BitsOf(run.DownloadLse())};
  };
  for (int i = 0; i < 2; ++i) {
    CudaDeviceScope scope;
    ASSERT_TRUE(scope.Enter(devices[i]).ok());
    ASSERT_NO_FATAL_FAILURE(attend(&alone[i]));
  }
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      CudaDeviceScope scope;
      if (!scope.Enter(devices[i]).ok()) return;
      for (int repeat = 0; repeat < kRepeats; ++repeat) {
        Bits bits;
        attend(&bits);
        equal[i] += bits == alone[i] ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(equal[0], kRepeats);
  EXPECT_EQ(equal[1], kRepeats);
}

INSTANTIATE_TEST_SUITE_P(OnGpu, CudaTwoGpus, ::testing::Values(0, 1));

}  // namespace
}  // namespace headscope::kernels
