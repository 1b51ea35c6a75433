// SPDX-License-Identifier: Apache-2.0
// A loader warp of the Hopper kernels may stand still for as long as it likes: results are the same, and nobody waits
// for good. The kernels are those of stalled_kernels.cu. Skipped without a GPU.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "cuda_attend_run.h"
#include "device_array.h"
#include "kernels/cuda_fp8.h"
#include "run_seed.h"
#include "support/gpu.h"

namespace headscope::kernels {
namespace testing {
// How often loader warps were held up since the last call (stalled_kernels.cu). Waits for the kernels.
unsigned int TakeStopsOfLoaders();
}  // namespace testing
namespace {

using testing::AttendCase;
using testing::AttendRun;
using testing::DeviceArray;
using testing::Executor;
using testing::Pattern;
using testing::SeedFor;
using testing::TakeStopsOfLoaders;

// Ends the program where a kernel does not end: no other test could run beside it.
void ExpectAnEnd() {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (cudaStreamQuery(nullptr) == cudaErrorNotReady) {
    if (std::chrono::steady_clock::now() > limit) {
      std::puts("[  FAILED  ] a kernel hangs whose loader warps were held up");
      std::fflush(stdout);
      std::_Exit(1);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

class CudaLoaderStall : public ::testing::TestWithParam<AttendCase> {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_GPU();
    CudaDeviceInfo info;
    if (!QueryCudaDevice(0, &info).ok() || info.compute_capability != 90)
      GTEST_SKIP() << "needs compute capability 9.0";
    ASSERT_NO_FATAL_FAILURE(run_.Make(GetParam(), SeedFor(NameOf(GetParam()))));
    run_.Poison();
    TakeStopsOfLoaders();
  }
  AttendRun run_;
};

// Where a kernel's template has changed, stalled_kernels.cu holds nothing up: then there is nothing to test.
void ExpectStops() {
  EXPECT_GT(TakeStopsOfLoaders(), 0u) << "no loader warp was held up: stalled_kernels.cu names no kernel that ran";
}

TEST_P(CudaLoaderStall, DelaysAndChangesNothing) {
  const Status status = run_.Launch(Executor::kAuto, nullptr);
  ASSERT_TRUE(status.ok()) << status.message();
  ExpectAnEnd();
  ExpectStops();
  ASSERT_NO_FATAL_FAILURE(run_.ExpectFloat64());
  ASSERT_NO_FATAL_FAILURE(run_.ExpectGuards());
}

class CudaFp8LoaderStall : public CudaLoaderStall {};

TEST_P(CudaFp8LoaderStall, DelaysAndChangesNothing) {
  const Status status = run_.Launch(Executor::kAuto, nullptr);
  ASSERT_TRUE(status.ok()) << status.message();
  ExpectAnEnd();
  const std::vector<char> expected = run_.DownloadO();
  Fp8Layout layout;
  ASSERT_TRUE(LayOutFp8(run_.problem(), &layout).ok());
  const DeviceArray<uint8_t> tensors(static_cast<int64_t>(layout.bytes));
  ASSERT_TRUE(QuantiseFp8Cuda(run_.problem(), tensors.get(), layout.bytes, nullptr).ok());
  run_.Poison();
  TakeStopsOfLoaders();
  const Status attended =
      AttendFp8Cuda(run_.problem(), tensors.get(), layout.bytes, run_.index(), run_.output(), nullptr);
  ASSERT_TRUE(attended.ok()) << attended.message();
  ExpectAnEnd();
  ExpectStops();
  // What quantising costs; cuda_fp8_test.cpp looks closer.
  EXPECT_LE(run_.RelativeL2(run_.DownloadO(), expected), 0.08);
  ASSERT_NO_FATAL_FAILURE(run_.ExpectGuards());
}

// Of plain steps, gathered ones, and steps with values that come unread; of heads that keep everything with an executor
// that knows it and one that does not.
const AttendCase kCases[] = {
    {.pattern = Pattern::kDense, .seq_q = 4097, .seq_k = 0},
    {.pattern = Pattern::kDense, .seq_q = 4097, .seq_k = 0, .unpromised = true},
    {.pattern = Pattern::kRandom, .seq_q = 4097, .seq_k = 0},
    {.pattern = Pattern::kHoles, .seq_q = 4097, .seq_k = 0},
    {.pattern = Pattern::kDense, .seq_q = 9000, .seq_k = 0, .num_qo_heads = 8, .num_kv_heads = 2},
    {.pattern = Pattern::kDense, .seq_q = 9000, .seq_k = 0, .num_qo_heads = 8, .num_kv_heads = 2, .unpromised = true}};
INSTANTIATE_TEST_SUITE_P(Lists, CudaLoaderStall, ::testing::ValuesIn(kCases),
                         [](const auto& parameter) { return NameOf(parameter.param); });
INSTANTIATE_TEST_SUITE_P(
    SmallHeads, CudaLoaderStall,
    ::testing::Values(AttendCase{.pattern = Pattern::kDense, .seq_q = 4097, .seq_k = 0, .head_dim = 64},
                      AttendCase{.pattern = Pattern::kDense,
                                 .seq_q = 9000,
                                 .seq_k = 0,
                                 .num_qo_heads = 32,
                                 .num_kv_heads = 8,
                                 .head_dim = 64}),
    [](const auto& parameter) { return NameOf(parameter.param); });
INSTANTIATE_TEST_SUITE_P(Lists, CudaFp8LoaderStall, ::testing::ValuesIn(kCases),
                         [](const auto& parameter) { return NameOf(parameter.param); });

}  // namespace
}  // namespace headscope::kernels
