// SPDX-License-Identifier: Apache-2.0
// Calls whose arrays the GPU cannot follow: refused by name before anything is launched, so the process goes on. Every
// test ends with a sound call that works and with no error left in the runtime.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cuda_lists.h"
#include "device_array.h"
#include "device_pointers.h"
#include "kernels/contiguous.h"
#include "kernels/cuda_decode.h"
#include "kernels/cuda_devices.h"
#include "kernels/cuda_executor.h"
#include "kernels/cuda_select.h"
#include "kernels/cuda_statistics.h"
#include "kernels/method.h"
#include "statistics/row_lse_mma.h"
#include "support/gpu.h"

namespace headscope::kernels {
namespace {

using testing::DeviceArray;
using ::testing::HasSubstr;

constexpr int32_t kRows = 100, kDim = 128, kQoHeads = 2;
constexpr int64_t kElements = int64_t{kQoHeads} * kRows * kDim;
constexpr int32_t kTokenStride = 104;  // of the component-major copy: kRows rounded up to 8

// Sound arguments of every call over zeros on the current GPU, two query heads to one KV head.
struct Arguments {
  Arguments() {
    EXPECT_TRUE(UploadIndex(lists.View(), &uploaded).ok());
    index = uploaded.view;
    // An array without entries need not lie anywhere.
    EXPECT_GT(index.runs_size, 0);
    EXPECT_GT(index.columns_size, 0);
    prefill.num_qo_heads = decode.num_qo_heads = kQoHeads;
    prefill.num_kv_heads = decode.num_kv_heads = 1;
    prefill.head_dim = decode.head_dim = kDim;
    prefill.seq_q = prefill.seq_k = decode.seq_k = kRows;
    decode.seq_q = 1;
    decode.first_position = kRows - 1;
    prefill.dtype = decode.dtype = DType::kBFloat16;
    SetContiguousTensors(q.get(), k.get(), v.get(), &prefill);
    SetContiguousTensors(q.get(), k.get(), v.get(), &decode);
    output.o = {o.get(), kElements, kRows * kDim, kDim};
    output.lse = lse.get();
    step.o = {o.get(), kQoHeads * kDim, kDim, kDim};
    transposed = {copy.get(), kDim * kTokenStride, kDim * kTokenStride, kTokenStride};
    workspace = decode_memory.get();
    chosen = tokens.get();
    mean = means.get();
    mass = masses.get();
    buffers = {index_memory.get(), kBufferBytes, select_memory.get(), kBufferBytes};
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  static constexpr size_t kBufferBytes = size_t{16} << 20;
  template <typename T>
  static DeviceArray<T> Zeros(int64_t count) {
    return DeviceArray<T>(std::vector<T>(static_cast<size_t>(count)));
  }
  DeviceArray<uint16_t> q = Zeros<uint16_t>(kElements), k = Zeros<uint16_t>(kElements), v = Zeros<uint16_t>(kElements),
                        o = Zeros<uint16_t>(kElements), copy = Zeros<uint16_t>(kDim * kTokenStride);
  DeviceArray<float> lse = Zeros<float>(kQoHeads * kRows), masses = Zeros<float>(kQoHeads * kRows),
                     means = Zeros<float>(kDim);
  DeviceArray<int32_t> tokens = Zeros<int32_t>(128);
  // Decode's workspace keeps counters from call to call, so nobody else may write there.
  DeviceArray<char> decode_memory = Zeros<char>(kBufferBytes), select_memory = Zeros<char>(kBufferBytes),
                    index_memory = Zeros<char>(kBufferBytes);
  SparseIndex lists =
      testing::MakeLists({1, kQoHeads, kRows, kRows, 0, 128, {MaskKind::kCausal, 0, 0}}, testing::Pattern::kRandom, 4);
  CudaIndexBuffers uploaded;

  AttentionProblem prefill, decode;
  SparseIndexView index;
  AttentionOutput output, step;
  TransposedKeys transposed;
  CudaSelectBuffers buffers;
  void* workspace = nullptr;
  int32_t* chosen = nullptr;
  float* mean = nullptr;
  float* mass = nullptr;
};

struct NamedCall {
  const char* name;
  Status (*run)(const Arguments& a);
};

Status Attend(const Arguments& a) {
  return AttendCuda(a.prefill, a.index, a.output, nullptr);
}
Status AttendSimple(const Arguments& a) {
  return AttendCudaSimple(a.prefill, a.index, a.output, nullptr);
}
Status KeptMass(const Arguments& a) {
  return KeptMassCuda(a.prefill, 0, a.lse.get(), a.index, a.mass, nullptr);
}
Status RowLse(const Arguments& a) {
  return RowLseCuda(a.prefill, 0, a.mass, nullptr);
}
Status Select(const Arguments& a) {
  SparseIndexView selected;
  const CudaSelector& selector = *FindCudaSelector(*FindPrefillMethod("vertical-slash"));
  return SelectCuda(selector, a.prefill, ParameterValues(*selector.spec), a.buffers, &selected, nullptr);
}
Status DecodeDense(const Arguments& a) {
  return DecodeDenseCuda(a.decode, a.step, a.workspace, Arguments::kBufferBytes, nullptr);
}
Status DecodeSparq(const Arguments& a) {
  return DecodeSparqCuda(a.decode, {}, a.transposed, a.mean, a.step, a.chosen, a.workspace, Arguments::kBufferBytes,
                         nullptr);
}
Status Append(const Arguments& a) {
  return AppendTokenCuda(a.decode, a.transposed, a.mean, nullptr);
}

Status Update(const Arguments& a) {
  return UpdateSparqCuda(a.decode, 0, a.transposed, a.mean, a.workspace, Arguments::kBufferBytes, nullptr);
}

constexpr NamedCall kAttend{"AttendCuda", Attend}, kSimple{"AttendCudaSimple", AttendSimple},
    kKeptMass{"KeptMassCuda", KeptMass}, kRowLse{"RowLseCuda", RowLse}, kSelect{"SelectCuda", Select},
    kDense{"DecodeDenseCuda", DecodeDense}, kSparq{"DecodeSparqCuda", DecodeSparq}, kAppend{"AppendTokenCuda", Append},
    kUpdate{"UpdateSparqCuda", Update};

// An array of a call, and how another address gets in its place.
struct Array {
  const char* field;
  std::vector<NamedCall> calls;  // that read or write it
  std::function<void(Arguments*, void*)> put;
};

std::vector<Array> Arrays() {
  using A = Arguments*;
  const std::vector<NamedCall> executors = {kAttend, kSimple}, lists = {kAttend, kSimple, kKeptMass};
  return {
      {"q.data",
       {kAttend, kSimple, kKeptMass, kRowLse, kSelect, kDense, kSparq},
       [](A a, void* p) { a->prefill.q.data = a->decode.q.data = p; }},
      {"k.data",
       {kAttend, kSimple, kKeptMass, kRowLse, kSelect, kDense, kSparq, kAppend, kUpdate},
       [](A a, void* p) { a->prefill.k.data = a->decode.k.data = p; }},
      {"v.data",
       {kAttend, kSimple, kDense, kSparq, kAppend, kUpdate},
       [](A a, void* p) { a->prefill.v.data = a->decode.v.data = p; }},
      {"output.o.data",
       {kAttend, kSimple, kDense, kSparq},
       [](A a, void* p) { a->output.o.data = a->step.o.data = p; }},
      {"output.lse", executors, [](A a, void* p) { a->output.lse = static_cast<float*>(p); }},
      {"output.row_max", executors, [](A a, void* p) { a->output.row_max = static_cast<float*>(p); }},
      {"index.run_begin", lists, [](A a, void* p) { a->index.run_begin = static_cast<int64_t*>(p); }},
      {"index.run_count", lists, [](A a, void* p) { a->index.run_count = static_cast<int32_t*>(p); }},
      {"index.column_begin", lists, [](A a, void* p) { a->index.column_begin = static_cast<int64_t*>(p); }},
      {"index.column_count", lists, [](A a, void* p) { a->index.column_count = static_cast<int32_t*>(p); }},
      {"index.runs", lists, [](A a, void* p) { a->index.runs = static_cast<KeyRun*>(p); }},
      {"index.columns", lists, [](A a, void* p) { a->index.columns = static_cast<int32_t*>(p); }},
      {"mass", {kKeptMass}, [](A a, void* p) { a->mass = static_cast<float*>(p); }},
      {"lse", {kRowLse}, [](A a, void* p) { a->mass = static_cast<float*>(p); }},
      {"buffers.index", {kSelect}, [](A a, void* p) { a->buffers.index = p; }},
      {"buffers.workspace", {kSelect}, [](A a, void* p) { a->buffers.workspace = p; }},
      {"workspace", {kDense, kSparq, kUpdate}, [](A a, void* p) { a->workspace = p; }},
      {"transposed.data", {kSparq, kAppend, kUpdate}, [](A a, void* p) { a->transposed.data = p; }},
      {"mean_value", {kSparq, kAppend, kUpdate}, [](A a, void* p) { a->mean = static_cast<float*>(p); }},
      {"chosen_tokens", {kSparq}, [](A a, void* p) { a->chosen = static_cast<int32_t*>(p); }},
  };
}

// Every array of every call in turn at `address`, where nothing may follow it.
void ExpectAllRefused(void* address, const std::string& words) {
  for (const Array& array : Arrays()) {
    for (const NamedCall& call : array.calls) {
      Arguments a;
      array.put(&a, address);
      const Status status = call.run(a);
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << call.name << ", " << array.field;
      EXPECT_THAT(status.message(), HasSubstr(array.field + words)) << call.name;
      EXPECT_EQ(cudaGetLastError(), cudaSuccess) << call.name << ", " << array.field;
    }
  }
}

void ExpectAllRun() {
  const Arguments a;
  for (const NamedCall& call : {kAttend, kSimple, kKeptMass, kRowLse, kSelect, kDense, kSparq, kAppend, kUpdate}) {
    const Status status = call.run(a);
    EXPECT_TRUE(status.ok()) << call.name << ": " << status.message();
  }
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

class CudaPointerRefusals : public ::testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_GPU(); }
};

TEST_F(CudaPointerRefusals, PlainHostMemory) {
  alignas(256) static char host[256];
  ExpectAllRefused(host, " lies in no memory that CUDA knows");
  ExpectAllRun();
}

TEST_F(CudaPointerRefusals, MemoryOfAnotherGpu) {
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  if (count < 2) GTEST_SKIP() << "it takes two GPUs";
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  const DeviceArray<char> other(int64_t{16} << 20);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  ExpectAllRefused(other.get(), " lies on GPU 1, the current GPU is 0: ");
  ExpectAllRun();
}

TEST_F(CudaPointerRefusals, PinnedHostMemoryIsTheGpusToo) {
  Arguments a;
  void* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, kElements * sizeof(uint16_t)), cudaSuccess);
  std::fill_n(static_cast<uint16_t*>(pinned), kElements, uint16_t{0x3f80});  // ones
  a.prefill.q.data = a.prefill.k.data = pinned;
  const Status status = statistics::RowLseMma(a.prefill, 0, a.mass, nullptr);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  // All scores are sqrt(128), so row i has that plus log(i + 1).
  const std::vector<float> lse = a.masses.Download();
  EXPECT_NEAR(lse[0], std::sqrt(128.0f), 1e-4f);
  EXPECT_NEAR(lse[99], std::sqrt(128.0f) + std::log(100.0f), 1e-4f);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

// Some drivers of virtual machines give no managed memory or register none: there is nothing to let pass then.
TEST_F(CudaPointerRefusals, ManagedMemoryPasses) {
  void* managed = nullptr;
  if (cudaMallocManaged(&managed, 4096) != cudaSuccess) {
    cudaGetLastError();
    GTEST_SKIP() << "the driver gives no managed memory";
  }
  const Status status = CheckOnDevice({{"managed", managed}}, nullptr);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(cudaFree(managed), cudaSuccess);
}

TEST_F(CudaPointerRefusals, RegisteredMemoryPasses) {
  std::vector<char> host(1 << 16);
  if (cudaHostRegister(host.data(), host.size(), cudaHostRegisterDefault) != cudaSuccess) {
    cudaGetLastError();
    GTEST_SKIP() << "the driver registers no host memory";
  }
  int same_address = 0;
  EXPECT_EQ(cudaDeviceGetAttribute(&same_address, cudaDevAttrCanUseHostPointerForRegisteredMem, 0), cudaSuccess);
  EXPECT_EQ(CheckOnDevice({{"host", host.data()}}, nullptr).ok(), same_address != 0);
  EXPECT_EQ(cudaHostUnregister(host.data()), cudaSuccess);
  EXPECT_THAT(CheckOnDevice({{"host", host.data()}}, nullptr).message(),
              HasSubstr("host lies in no memory that CUDA knows"));
  EXPECT_TRUE(CheckOnDevice({{"left out", nullptr}}, nullptr).ok());
}

// A scope that could not be entered has changed nothing, and its end changes nothing; one behind it works.
TEST_F(CudaPointerRefusals, LeaveTheGpuOfAThreadThatNamesAnother) {
  int before = -1, after = -1;
  ASSERT_EQ(cudaGetDevice(&before), cudaSuccess);
  for (const int32_t missing : {4096, -1}) {
    CudaDeviceScope scope;
    const Status status = scope.Enter(missing);
    EXPECT_EQ(status.code(), StatusCode::kDeviceMissing);
    EXPECT_THAT(status.message(), HasSubstr("GPU " + std::to_string(missing) + " does not exist"));
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    EXPECT_EQ(cudaGetDevice(&after), cudaSuccess);
    EXPECT_EQ(after, before);
  }
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  {
    CudaDeviceScope scope;
    const Status status = scope.Enter(count - 1);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(cudaGetDevice(&after), cudaSuccess);
    EXPECT_EQ(after, count - 1);
  }
  EXPECT_EQ(cudaGetDevice(&after), cudaSuccess);
  EXPECT_EQ(after, before);
}

TEST_F(CudaPointerRefusals, DoNotEndACapture) {
  const Arguments sound;
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  // Memory that exists in the graph alone, which CUDA does not know yet.
  void* mass = nullptr;
  EXPECT_EQ(cudaMallocAsync(&mass, kQoHeads * kRows * sizeof(float), stream), cudaSuccess);
  Status status = RowLseCuda(sound.prefill, 0, static_cast<float*>(mass), stream);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(cudaMemcpyAsync(sound.mass, mass, kQoHeads * kRows * sizeof(float), cudaMemcpyDeviceToDevice, stream),
            cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(mass, stream), cudaSuccess);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  // Scores of zeros: log(i + 1).
  EXPECT_NEAR(sound.masses.Download()[99], std::log(100.0f), 1e-5f);
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

}  // namespace
}  // namespace headscope::kernels
