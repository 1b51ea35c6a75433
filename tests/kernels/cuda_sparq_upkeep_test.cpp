// SPDX-License-Identifier: Apache-2.0
// What SparQ keeps beside the cache, of many tokens at once: the component-major copy of K and the mean of V. The code
// of the kernel's threads runs on the host, one after the other between two barriers; the call itself on a GPU, beside
// the CPU's copy and mean. What lies around the new tokens' places must stay as it was.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "decode/operands_of.h"
#include "decode/sparq_upkeep_threads.cuh"
#include "device_array.h"
#include "float_codes.h"
#include "kernels/cpu_sparq.h"
#include "kernels/cuda_decode.h"
#include "run_seed.h"
#include "support/gpu.h"

namespace headscope::kernels {
namespace {

using testing::DeviceArray;

constexpr uint16_t kGuard = 0x7abc;
constexpr float kMeanGuard = std::numeric_limits<float>::quiet_NaN();
constexpr int32_t kBatch = 2, kHeads = 3, kLists = kBatch * kHeads;

// K and V of random numbers, with room for some tokens more, which are NaN, and between heads; and where the copy and
// the mean go.
struct Cache {
  Cache(DType of, int32_t dim, int32_t tokens, unsigned seed) : dtype(of), head_dim(dim), num_tokens(tokens) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0.5f, 1.0f);
    const auto fill = [&](std::vector<uint16_t>* to, int64_t row, int64_t head) {
      to->assign(static_cast<size_t>(kLists * head), uint16_t{0xffff});  // NaN
      for (int64_t list = 0; list < kLists; ++list) {
        for (int64_t token = 0; token < num_tokens; ++token) {
          for (int64_t d = 0; d < head_dim; ++d)
            (*to)[static_cast<size_t>(list * head + token * row + d)] = test::ToCode(normal(random), dtype);
        }
      }
    };
    fill(&k, KeyRow(), KeyHead());
    fill(&v, ValueRow(), ValueHead());
  }

  int64_t KeyRow() const { return head_dim + 8; }  // keys do not lie side by side
  int64_t KeyHead() const { return (num_tokens + 3) * KeyRow() + 16; }
  int64_t ValueRow() const { return head_dim; }
  int64_t ValueHead() const { return (num_tokens + 5) * ValueRow() + 8; }
  // Room for the tokens rounded up to 8, and as many again before the next component.
  int64_t Stride() const { return (num_tokens + 7) / 8 * 8 + 8; }
  int64_t CopyHead() const { return head_dim * Stride() + 24; }

  // The problem over tokens [begin, end), with K and V at these places.
  AttentionProblem Problem(const void* k_at, const void* v_at, int32_t begin, int32_t end) const {
    AttentionProblem problem;
    problem.batch = kBatch;
    problem.num_qo_heads = 4 * kHeads;
    problem.num_kv_heads = kHeads;
    problem.head_dim = head_dim;
    problem.seq_q = 1;
    problem.seq_k = end - begin;
    problem.first_position = problem.seq_k - 1;
    problem.dtype = dtype;
    problem.k = {static_cast<const uint16_t*>(k_at) + begin * KeyRow(), kHeads * KeyHead(), KeyHead(), KeyRow()};
    problem.v = {static_cast<const uint16_t*>(v_at) + begin * ValueRow(), kHeads * ValueHead(), ValueHead(),
                 ValueRow()};
    problem.q = problem.k;  // nobody looks at it
    return problem;
  }
  TransposedKeys Copy(void* at) const { return {at, kHeads * CopyHead(), CopyHead(), Stride()}; }
  size_t CopySize() const { return static_cast<size_t>(kLists * CopyHead()); }

  uint16_t Key(int64_t list, int64_t token, int64_t d) const {
    return k[static_cast<size_t>(list * KeyHead() + token * KeyRow() + d)];
  }
  double Value(int64_t list, int64_t token, int64_t d) const {
    return static_cast<double>(
        test::FromCode(v[static_cast<size_t>(list * ValueHead() + token * ValueRow() + d)], dtype));
  }

  // Of tokens [begin, end): guards everywhere but in the places of tokens from `first` on, counted from begin.
  std::vector<uint16_t> ExpectedCopy(int32_t begin, int32_t end, int32_t first = 0) const {
    std::vector<uint16_t> copy(CopySize(), kGuard);
    for (int64_t list = 0; list < kLists; ++list) {
      for (int64_t d = 0; d < head_dim; ++d) {
        for (int64_t token = first; token < end - begin; ++token)
          copy[static_cast<size_t>(list * CopyHead() + d * Stride() + token)] = Key(list, begin + token, d);
      }
    }
    return copy;
  }
  double Mean(int64_t list, int64_t d, int32_t begin, int32_t end) const {
    double sum = 0;
    for (int64_t token = begin; token < end; ++token) sum += Value(list, token, d);
    return sum / (end - begin);
  }
  void ExpectMean(const std::vector<float>& mean, int32_t begin, int32_t end, double tolerance) const {
    for (int64_t list = 0; list < kLists; ++list) {
      for (int64_t d = 0; d < head_dim; ++d) {
        ASSERT_NEAR(static_cast<double>(mean[static_cast<size_t>(list * head_dim + d)]), Mean(list, d, begin, end),
                    tolerance)
            << "list " << list << ", component " << d << ", tokens " << begin << " to " << end;
      }
    }
  }

  const DType dtype;
  const int32_t head_dim, num_tokens;
  std::vector<uint16_t> k, v;
};

// A part's sums are of a few hundred numbers below 8, in fp32.
constexpr double kMeanTolerance = 2e-6;

// What decode on the CPU keeps of all tokens.
void ExpectTheCpus(const Cache& cache, const std::vector<uint16_t>& copy, const std::vector<float>& mean) {
  const AttentionProblem host = cache.Problem(cache.k.data(), cache.v.data(), 0, cache.num_tokens);
  std::vector<std::byte> memory;
  TransposedKeys keys;
  Status status = TransposeKeysCpu(host, {}, &memory, &keys);
  std::vector<float> of_cpu(static_cast<size_t>(kLists * cache.head_dim));
  if (status.ok()) status = MeanValueCpu(host, {}, of_cpu.data());
  ASSERT_TRUE(status.ok()) << status.message();
  for (int64_t list = 0; list < kLists; ++list) {
    for (int64_t d = 0; d < cache.head_dim; ++d) {
      const uint16_t* const row = static_cast<const uint16_t*>(keys.data) + list / kHeads * keys.batch_stride +
                                  list % kHeads * keys.head_stride + d * keys.component_stride;
      const uint16_t* const found = copy.data() + list * cache.CopyHead() + d * cache.Stride();
      ASSERT_TRUE(std::equal(row, row + cache.num_tokens, found)) << "list " << list << ", component " << d;
      const auto at = static_cast<size_t>(list * cache.head_dim + d);
      ASSERT_NEAR(static_cast<double>(mean[at]), static_cast<double>(of_cpu[at]), kMeanTolerance);
    }
  }
}

// The launches of an update, on the host.
template <typename T, int D>
void RunThreads(decode::UpkeepParams params) {
  decode::PlanUpkeep(&params);
  std::vector<uint4> shared(decode::UpkeepSharedBytes(D) / sizeof(uint4));
  std::vector<float> sums(static_cast<size_t>(decode::kUpkeepThreads * decode::kVectorElements));
  const auto each_thread = [](auto&& work) {
    for (int thread = 0; thread < decode::kUpkeepThreads; ++thread) work(thread);
  };
  for (int list = 0; list < params.lists; ++list) {
    const decode::ListKeys keys = decode::KeysOfList(params, list);
    for (int64_t tile = params.first_tile; tile < params.first_tile + params.tiles; ++tile) {
      std::fill(shared.begin(), shared.end(), uint4{~0u, ~0u, ~0u, ~0u});
      each_thread([&](int thread) { decode::ReadTile<D>(keys, tile, thread, shared.data()); });
      each_thread([&](int thread) { decode::WriteTile<D>(keys, tile, thread, shared.data()); });
    }
    for (int part = 0; part < params.parts; ++part) {
      std::fill(sums.begin(), sums.end(), kMeanGuard);
      each_thread([&](int thread) { decode::SumRows<T, D>(params, list, part, thread, sums.data()); });
      for (int thread = 0; thread < D; ++thread) decode::AddRows<D>(params, list, part, thread, sums.data());
    }
    for (int d = 0; params.parts > 0 && d < D; ++d) decode::MoveMean(params, list, d);
  }
}

void UpdateByThreads(const AttentionProblem& problem, int32_t first_token, const TransposedKeys& copy, float* mean) {
  std::vector<float> partial(static_cast<size_t>(kLists * decode::MostParts(problem.seq_k) * problem.head_dim),
                             kMeanGuard);
  decode::UpkeepParams params{decode::AppendOperandsOf(problem, copy, mean)};
  params.partial = partial.data();
  params.first_token = first_token;
  const bool bf16 = problem.dtype == DType::kBFloat16;
  if (problem.head_dim == 64) {
    bf16 ? RunThreads<__nv_bfloat16, 64>(params) : RunThreads<__half, 64>(params);
  } else {
    bf16 ? RunThreads<__nv_bfloat16, 128>(params) : RunThreads<__half, 128>(params);
  }
}

struct Format {
  DType dtype;
  int32_t head_dim;
};
constexpr Format kFormats[] = {
    {DType::kBFloat16, 64}, {DType::kBFloat16, 128}, {DType::kFloat16, 64}, {DType::kFloat16, 128}};

std::string NameOf(const Format& format) {
  return std::string(format.dtype == DType::kBFloat16 ? "bf16_d" : "fp16_d") + std::to_string(format.head_dim);
}

// From a token on, to an end: at, before and behind the edges of vectors and tiles, and over many parts.
constexpr std::pair<int32_t, int32_t> kUpdates[] = {
    {0, 1},   {0, 7},    {0, 8},     {0, 9},     {0, 63},     {0, 64},   {0, 65},     {0, 200},
    {1, 2},   {1, 64},   {7, 9},     {8, 16},    {9, 15},     {60, 61},  {63, 64},    {63, 65},
    {64, 65}, {64, 128}, {100, 200}, {127, 129}, {130, 5000}, {0, 5000}, {4096, 5000}};

TEST(SparqUpkeepThreads, WriteThePlacesOfNewTokensAlone) {
  for (const Format& format : kFormats) {
    for (const auto& [first, end] : kUpdates) {
      SCOPED_TRACE(NameOf(format) + ", " + std::to_string(first) + " to " + std::to_string(end));
      const Cache cache(format.dtype, format.head_dim, end, 5);
      std::vector<uint16_t> copy(cache.CopySize(), kGuard);
      const size_t means = static_cast<size_t>(kLists) * static_cast<size_t>(format.head_dim);
      std::vector<float> mean(means + 8, kMeanGuard);
      for (int64_t at = 0; first > 0 && at < static_cast<int64_t>(means); ++at) {
        mean[static_cast<size_t>(at)] =
            static_cast<float>(cache.Mean(at / format.head_dim, at % format.head_dim, 0, first));
      }
      UpdateByThreads(cache.Problem(cache.k.data(), cache.v.data(), 0, end), first, cache.Copy(copy.data()),
                      mean.data());
      ASSERT_EQ(copy, cache.ExpectedCopy(0, end, first));
      cache.ExpectMean(mean, 0, end, kMeanTolerance);
      if (first == 0) ExpectTheCpus(cache, copy, mean);
      for (size_t i = means; i < mean.size(); ++i) EXPECT_TRUE(std::isnan(mean[i]));
    }
  }
}

TEST(SparqUpkeepThreads, LeaveOutWhatIsNotWanted) {
  const Cache cache(DType::kBFloat16, 64, 100, 6);
  const AttentionProblem problem = cache.Problem(cache.k.data(), cache.v.data(), 0, 100);
  std::vector<uint16_t> copy(cache.CopySize(), kGuard);
  UpdateByThreads(problem, 0, cache.Copy(copy.data()), nullptr);
  EXPECT_EQ(copy, cache.ExpectedCopy(0, 100));
  std::vector<float> mean(kLists * 64, kMeanGuard);
  UpdateByThreads(problem, 0, {}, mean.data());
  cache.ExpectMean(mean, 0, 100, kMeanTolerance);
}

TEST(SparqUpkeepPlan, PartsAreTilesAndCoverTheTokensOnce) {
  for (const int32_t num_tokens : {1, 64, 65, 4096, 4097, 46341, 131072, 2000000000}) {
    const int32_t each = decode::PartTokens(num_tokens), parts = decode::NumParts(num_tokens);
    EXPECT_EQ(each % decode::kTileKeys, 0) << num_tokens;
    EXPECT_GE(parts, 1);
    EXPECT_LE(parts, decode::MostParts(num_tokens)) << num_tokens;
    EXPECT_GE(int64_t{parts} * each, num_tokens);
    EXPECT_LT(int64_t{parts - 1} * each, num_tokens) << "the last part has tokens";
  }
  for (int32_t tokens = 1; tokens < 10000; tokens += 37)
    EXPECT_LE(decode::MostParts(tokens), decode::MostParts(tokens + 1)) << "what serves a cache serves shorter ones";
}

// Of the 32 banks of shared memory each gives a word at a time: of a quarter warp's 16 bytes, and of a warp's elements.
template <int D>
void ExpectNoBankConflicts() {
  constexpr int kPieces = D / decode::kVectorElements, kGroups = decode::kTileKeys / decode::kVectorElements;
  std::set<int> places;
  for (int row = 0; row < decode::kTileKeys; ++row) {
    for (int piece = 0; piece < kPieces; ++piece) places.insert(decode::TilePlace<D>(row, piece));
  }
  EXPECT_EQ(places.size(), static_cast<size_t>(decode::kTileKeys * kPieces));
  EXPECT_EQ(*places.rbegin() + 1, decode::kTileKeys * kPieces);
  for (int quarter = 0; quarter < decode::kUpkeepThreads / 8; ++quarter) {
    std::set<int> banks;
    for (int lane = 0; lane < 8; ++lane) {
      const int thread = quarter * 8 + lane;
      banks.insert(decode::TilePlace<D>(thread / kPieces, thread % kPieces) % 8);
    }
    EXPECT_EQ(banks.size(), 8U) << "quarter " << quarter;
  }
  for (int warp = 0; warp < decode::kUpkeepThreads / 32; ++warp) {
    for (int i = 0; i < decode::kVectorElements; ++i) {
      std::array<std::set<int>, 32> words;
      for (int lane = 0; lane < 32; ++lane) {
        const int thread = warp * 32 + lane, d = thread / kGroups;
        const int row = thread % kGroups * decode::kVectorElements + i;
        const int element = decode::TilePlace<D>(row, d / decode::kVectorElements) * decode::kVectorElements +
                            d % decode::kVectorElements;
        words[static_cast<size_t>(element / 2 % 32)].insert(element / 2);
      }
      for (const std::set<int>& of_bank : words) EXPECT_LE(of_bank.size(), 1U) << "warp " << warp;
    }
  }
}

TEST(SparqUpkeepThreads, MeetNoBankTwice) {
  ExpectNoBankConflicts<64>();
  ExpectNoBankConflicts<128>();
}

// On the GPU.
class CudaSparqUpkeep : public ::testing::TestWithParam<Format> {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_GPU();
    seed_ = testing::FreshSeed();
  }

  // A cache on the GPU, and what is kept beside it.
  struct OnGpu {
    OnGpu(const Cache& of, int32_t first_of_window = 0)
        : cache(of),
          begin(first_of_window),
          k(of.k),
          v(of.v),
          copy(std::vector<uint16_t>(of.CopySize(), kGuard)),
          mean(std::vector<float>(static_cast<size_t>(kLists * of.head_dim + 8), kMeanGuard)),
          workspace(std::vector<unsigned char>(Bytes() + 1, 0xff)) {}

    size_t Bytes() const {
      return UpdateSparqWorkspaceBytes(cache.Problem(cache.k.data(), cache.v.data(), begin, cache.num_tokens));
    }
    // Tokens from `first` to `end`, counted from the window's.
    void Update(int32_t first, int32_t end) const {
      const Status status = UpdateSparqCuda(cache.Problem(k.get(), v.get(), begin, begin + end), first,
                                            cache.Copy(copy.get()), mean.get(), workspace.get(), Bytes(), nullptr);
      ASSERT_TRUE(status.ok()) << status.message();
    }
    void ExpectAround() const {
      const std::vector<float> means = mean.Download();
      for (size_t i = static_cast<size_t>(kLists * cache.head_dim); i < means.size(); ++i)
        EXPECT_TRUE(std::isnan(means[i])) << "behind the means";
      EXPECT_EQ(workspace.Download().back(), 0xff) << "behind the workspace";
    }

    const Cache& cache;
    const int32_t begin;
    DeviceArray<uint16_t> k, v, copy;
    DeviceArray<float> mean;
    DeviceArray<unsigned char> workspace;
  };

  unsigned seed_ = 0;
};

TEST_P(CudaSparqUpkeep, IsTheCpusCopyAndMean) {
  const Format& format = GetParam();
  for (const int32_t tokens : {1, 7, 8, 63, 64, 65, 130, 1000, 4097, 9001}) {
    SCOPED_TRACE(tokens);
    const Cache cache(format.dtype, format.head_dim, tokens, seed_);
    const OnGpu gpu(cache);
    gpu.Update(0, tokens);
    const std::vector<uint16_t> copy = gpu.copy.Download();
    ASSERT_EQ(copy, cache.ExpectedCopy(0, tokens));
    const std::vector<float> mean = gpu.mean.Download();
    cache.ExpectMean(mean, 0, tokens, kMeanTolerance);
    gpu.ExpectAround();
    ExpectTheCpus(cache, copy, mean);
    // Made anew, from whatever is there; and the same bits.
    gpu.Update(0, tokens);
    EXPECT_EQ(gpu.copy.Download(), copy);
    const std::vector<float> again = gpu.mean.Download();
    EXPECT_TRUE(std::equal(again.begin(), again.end() - 8, mean.begin()));
  }
}

TEST_P(CudaSparqUpkeep, PieceByPieceIsTheWhole) {
  const Format& format = GetParam();
  constexpr int32_t kTokens = 700;
  const Cache cache(format.dtype, format.head_dim, kTokens, seed_);
  for (const std::vector<int32_t>& ends : {std::vector<int32_t>{1, 2, 3, 700},
                                           {64, 65, 66, 67, 700},
                                           {61, 130, 699, 700},
                                           {7, 8, 9, 500, 501, 502, 503, 700}}) {
    const OnGpu gpu(cache);
    int32_t before = 0;
    for (const int32_t end : ends) {
      gpu.Update(before, end);
      EXPECT_EQ(gpu.copy.Download(), cache.ExpectedCopy(0, end)) << before << " to " << end;
      before = end;
      cache.ExpectMean(gpu.mean.Download(), 0, end, 1e-5);
    }
    gpu.ExpectAround();
  }
  // Tokens before the first are not touched.
  const OnGpu later(cache);
  ASSERT_EQ(cudaMemset(later.mean.get(), 0, static_cast<size_t>(kLists * format.head_dim) * sizeof(float)),
            cudaSuccess);
  later.Update(133, kTokens);
  EXPECT_EQ(later.copy.Download(), cache.ExpectedCopy(0, kTokens, 133));
}

TEST_P(CudaSparqUpkeep, OneTokenIsAppendToken) {
  const Format& format = GetParam();
  constexpr int32_t kTokens = 90;
  const Cache cache(format.dtype, format.head_dim, kTokens, seed_);
  const OnGpu updated(cache), appended(cache);
  updated.Update(0, 80);
  appended.Update(0, 80);
  for (int32_t token = 80; token < kTokens; ++token) {
    updated.Update(token, token + 1);
    const AttentionProblem problem = cache.Problem(appended.k.get(), appended.v.get(), 0, token + 1);
    ASSERT_TRUE(AppendTokenCuda(problem, cache.Copy(appended.copy.get()), appended.mean.get(), nullptr).ok());
  }
  EXPECT_EQ(updated.copy.Download(), appended.copy.Download());
  const std::vector<float> mean = updated.mean.Download(), expected = appended.mean.Download();
  EXPECT_TRUE(std::equal(mean.begin(), mean.end() - 8, expected.begin()));
}

TEST_P(CudaSparqUpkeep, AWindowBeginsAnywhere) {
  const Format& format = GetParam();
  const Cache cache(format.dtype, format.head_dim, 300, seed_);
  for (const int32_t begin : {1, 7, 64, 77, 299}) {
    const OnGpu gpu(cache, begin);
    gpu.Update(0, 300 - begin);
    EXPECT_EQ(gpu.copy.Download(), cache.ExpectedCopy(begin, 300)) << begin;
    cache.ExpectMean(gpu.mean.Download(), begin, 300, kMeanTolerance);
    gpu.ExpectAround();
  }
}

TEST_P(CudaSparqUpkeep, KeysOrTheMeanAlone) {
  const Format& format = GetParam();
  const Cache cache(format.dtype, format.head_dim, 200, seed_);
  const OnGpu gpu(cache);
  const AttentionProblem problem = cache.Problem(gpu.k.get(), gpu.v.get(), 0, 200);
  ASSERT_TRUE(UpdateSparqCuda(problem, 0, cache.Copy(gpu.copy.get()), nullptr, nullptr, 0, nullptr).ok());
  EXPECT_EQ(gpu.copy.Download(), cache.ExpectedCopy(0, 200));
  for (const float mean : gpu.mean.Download()) EXPECT_TRUE(std::isnan(mean));
  ASSERT_TRUE(UpdateSparqCuda(problem, 0, {}, gpu.mean.get(), gpu.workspace.get(), gpu.Bytes(), nullptr).ok());
  cache.ExpectMean(gpu.mean.Download(), 0, 200, kMeanTolerance);
  EXPECT_EQ(gpu.copy.Download(), cache.ExpectedCopy(0, 200));
}

INSTANTIATE_TEST_SUITE_P(Formats, CudaSparqUpkeep, ::testing::ValuesIn(kFormats),
                         [](const auto& at) { return NameOf(at.param); });

}  // namespace
}  // namespace headscope::kernels
