// SPDX-License-Identifier: Apache-2.0
// What holds of every prefill method.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <stop_token>
#include <thread>

#include "kept_sets.h"
#include "kernels/cpu_executor.h"
#include "support/stopped.h"

namespace headscope::kernels {
namespace {

using testing::CausalMask;
using testing::FreshSeed;
using ::testing::HasSubstr;
using testing::IsSubset;
using testing::Mask;
using testing::MaskOf;
using testing::ProblemShape;
using testing::RandomProblem;
using testing::Select;
using testing::SquareShape;

// Small picks, so that every method leaves something out at a few hundred tokens.
std::string SmallParameters(const std::string& method) {
  if (method == "a-shape") return "n_sink=5,n_local=40";
  if (method == "vertical-slash") return "n_vertical=20,n_slash=9,forced_columns=2,forced_slashes=3";
  if (method == "block-sparse") return "n_blocks=2";
  if (method == "s2-attention") return "vertical_stride=3";
  if (method == "sample-attention") return "alpha_c=0.5,alpha_s=0.4,chunk_n=2";
  if (method == "streaming-llm") return "n_sink=5,n_local=20,n_dilated=100";
  if (method == "lm-infinite") return "n_global=5,n_local=40";
  if (method == "big-bird") return "n_global=1,n_window=1,n_random=2";
  if (method == "infllm-prefill") return "block_size=16,n_init=4,n_local=64,top_k=2,n_repr=2,chunk=1";
  if (method == "flex-prefill") return "gamma=0.5,min_budget=0";
  if (method == "x-attention") return "tau=0.6";
  if (method == "sparge-attn") return "tau=0.4";
  if (method == "moba") return "top_k=2,block_size=32";
  if (method == "nsa") return "n_blocks=4,n_local=0";
  if (method == "infllm-v2") return "top_k=2,n_local=64";
  if (method == "hyper-attention") return "block_size=4,sample_size=2,min_seq_len=64";
  if (method == "hash-sparse") return "num_buckets=256";
  if (method == "static-index") return "n_vertical=20,n_slash=9,forced_columns=2,forced_slashes=3";
  if (method == "oracle-top-k") return "k=40";
  if (method == "oracle-blocks") return "n_blocks=2";
  if (method == "oracle-top-p") return "p=0.7";
  return "";
}

class EveryPrefillMethod : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryPrefillMethod, MakesAValidCausalIndexAtEveryLengthAndGroupSize) {
  const uint32_t seed = FreshSeed();
  std::mt19937 random(seed);
  for (const int32_t length : {1, 63, 64, 65, 127, 1000}) {
    for (const int32_t group : {1, 2, 4, 7, 8}) {
      SCOPED_TRACE("seed " + std::to_string(seed) + " length " + std::to_string(length) + " group " +
                   std::to_string(group));
      const RandomProblem data(SquareShape(length, group, 1, 8), &random);
      for (const std::string& parameters : {std::string(), SmallParameters(GetParam())}) {
        const SparseIndex index = Select(GetParam(), parameters, data.View());
        EXPECT_TRUE(IsSubset(MaskOf(index, 0, group - 1), CausalMask(data.View())));
      }
    }
  }
}

// Other tensors of the same shape, or another query head of the same keys: a method is told to see them or not to.
TEST_P(EveryPrefillMethod, ChoosesByWhatItsSpecSays) {
  std::mt19937 random(FreshSeed());
  const std::string parameters = SmallParameters(GetParam());
  bool by_tensors = false, by_head = false;
  // Coarse picks of two problems may be the same by chance.
  for (int trial = 0; trial < 20; ++trial) {
    const RandomProblem data(SquareShape(700, 2, 1, 8), &random), other(SquareShape(700, 2, 1, 8), &random);
    const SparseIndex index = Select(GetParam(), parameters, data.View());
    by_tensors |= MaskOf(index, 0, 0) != MaskOf(Select(GetParam(), parameters, other.View()), 0, 0);
    by_head |= MaskOf(index, 0, 0) != MaskOf(index, 0, 1);
  }
  const MethodSpec& spec = FindPrefillMethod(GetParam())->spec();
  EXPECT_EQ(by_tensors, !spec.IsStatic());
  if (by_tensors) {
    EXPECT_EQ(by_head, spec.chosen_per == ChosenPer::kQueryHead);
  }
}

TEST(PrefillMethods, DefaultsOfMInferenceKeepAllOfAShortPrompt) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(300), &random);
  for (const char* method : {"dense", "a-shape", "vertical-slash", "block-sparse"}) {
    EXPECT_EQ(MaskOf(Select(method, "", data.View())), CausalMask(data.View())) << method;
  }
}

TEST_P(EveryPrefillMethod, QueriesMayBeTheLastRowsOnly) {
  // Head by head, the last rows alone keep what the method says of a problem that begins there; keys stay at their
  // positions.
  std::mt19937 random(FreshSeed());
  ProblemShape shape = SquareShape(500, 4, 2, 8);
  shape.seq_q = 150;
  shape.first_position = 350;
  shape.batch = 2;
  const RandomProblem data(shape, &random);
  const SparseIndex index = Select(GetParam(), SmallParameters(GetParam()), data.View());
  for (int32_t sequence = 0; sequence < 2; ++sequence) {
    for (int32_t head = 0; head < 4; ++head)
      EXPECT_TRUE(IsSubset(MaskOf(index, sequence, head), CausalMask(data.View())));
  }
  EXPECT_GT(CountPairs(index.View(), 1, 3).kept, 0);
}

TEST_P(EveryPrefillMethod, HeadsOfAGroupAreSelectedAsIfTheyHadTheirOwnKeysOrShareAChoice) {
  std::mt19937 random(FreshSeed());
  const RandomProblem grouped(SquareShape(260, 6, 2, 8), &random);
  RandomProblem repeated(SquareShape(260, 6, 6, 8), &random);
  for (int32_t head = 0; head < 6; ++head) {
    for (int32_t row = 0; row < 260; ++row) {
      for (int32_t d = 0; d < 8; ++d) {
        repeated.q.Set(0, head, row, d, grouped.q.Get(0, head, row, d));
        repeated.k.Set(0, head, row, d, grouped.k.Get(0, head / 3, row, d));
      }
    }
  }
  const SparseIndex expected = Select(GetParam(), SmallParameters(GetParam()), repeated.View());
  const SparseIndex actual = Select(GetParam(), SmallParameters(GetParam()), grouped.View());
  const bool shared = FindPrefillMethod(GetParam())->spec().chosen_per == ChosenPer::kKvHead;
  for (int32_t head = 0; head < 6; ++head) {
    EXPECT_EQ(MaskOf(actual, 0, head), shared ? MaskOf(actual, 0, head / 3 * 3) : MaskOf(expected, 0, head))
        << "head " << head;
  }
}

TEST_P(EveryPrefillMethod, GivesTheSameIndexWhateverTheThreads) {
  std::mt19937 random(FreshSeed());
  ProblemShape shape = SquareShape(400, 8, 2);
  shape.batch = 2;
  const RandomProblem data(shape, &random);
  RunOptions one_thread;
  one_thread.num_threads = 1;
  const SparseIndex expected = Select(GetParam(), SmallParameters(GetParam()), data.View(), one_thread);
  for (const int32_t num_threads : {2, 3, 16}) {
    RunOptions options;
    options.num_threads = num_threads;
    const SparseIndex index = Select(GetParam(), SmallParameters(GetParam()), data.View(), options);
    EXPECT_EQ(index.runs, expected.runs);
    EXPECT_EQ(index.columns, expected.columns);
    EXPECT_EQ(index.run_begin, expected.run_begin);
    EXPECT_EQ(index.column_count, expected.column_count);
  }
}

TEST_P(EveryPrefillMethod, StorageTypesOfTheSameValuesGiveTheSameIndex) {
  std::mt19937 random(FreshSeed());
  ProblemShape shape = SquareShape(300, 2, 1);
  shape.dtype = DType::kBFloat16;
  const RandomProblem narrow(shape, &random);
  shape.dtype = DType::kFloat32;
  RandomProblem wide(shape, &random);
  for (int32_t row = 0; row < 300; ++row) {
    for (int32_t d = 0; d < 16; ++d) {
      for (int32_t head = 0; head < 2; ++head) wide.q.Set(0, head, row, d, narrow.q.Get(0, head, row, d));
      wide.k.Set(0, 0, row, d, narrow.k.Get(0, 0, row, d));
    }
  }
  const SparseIndex expected = Select(GetParam(), SmallParameters(GetParam()), wide.View());
  const SparseIndex index = Select(GetParam(), SmallParameters(GetParam()), narrow.View());
  EXPECT_EQ(index.runs, expected.runs);
  EXPECT_EQ(index.columns, expected.columns);
}

TEST_P(EveryPrefillMethod, SurvivesNaNAndInfinity) {
  std::mt19937 random(FreshSeed());
  for (const float poison : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                             -std::numeric_limits<float>::infinity(), std::numeric_limits<float>::max()}) {
    RandomProblem data(SquareShape(300), &random);
    for (int32_t row = 0; row < 300; row += 3) data.k.Set(0, 0, row, row % 16, poison);
    data.q.Set(0, 0, 299, 0, poison);
    Select(GetParam(), SmallParameters(GetParam()), data.View());
  }
}

TEST_P(EveryPrefillMethod, StopsWhenCancelledAndLeavesTheIndexAlone) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(2000, 4, 2), &random);
  const PrefillMethod* method = FindPrefillMethod(GetParam());
  const std::stop_token stopped = StoppedToken();
  RunOptions options;
  options.stop = stopped;
  SparseIndex index;
  index.columns = {42};
  const Status status = method->Select(data.View(), ParameterValues(method->spec()), options, &index);
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  EXPECT_EQ(index.columns, std::vector<int32_t>{42});
  EXPECT_TRUE(index.runs.empty());
}

TEST_P(EveryPrefillMethod, ConstantValuesComeBackUnchanged) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(200, 2, 1, 8), &random);
  for (int32_t row = 0; row < 200; ++row) {
    for (int32_t d = 0; d < 8; ++d) data.v.Set(0, 0, row, d, 0.25f * static_cast<float>(d));
  }
  const SparseIndex index = Select(GetParam(), SmallParameters(GetParam()), data.View());
  std::vector<float> o(2 * 200 * 8);
  std::vector<float> lse(2 * 200);
  const AttentionOutput output{{o.data(), 2 * 200 * 8, 200 * 8, 8}, lse.data()};
  ASSERT_TRUE(AttendReference(data.View(), index.View(), output).ok());
  int num_rows = 0;
  for (size_t i = 0; i < o.size(); ++i) {
    const bool empty = std::isinf(lse[i / 8]);
    num_rows += !empty;
    ASSERT_FLOAT_EQ(o[i], empty ? 0.0f : 0.25f * static_cast<float>(i % 8));
  }
  EXPECT_GT(num_rows, 0);
}

TEST_P(EveryPrefillMethod, LengthProductsNeed64Bits) {
  std::mt19937 random(FreshSeed());
  // The square of the first leaves int32, of the second uint32. An oracle's time grows with it.
  const bool oracle = FindPrefillMethod(GetParam())->spec().family == "oracle";
  for (const int32_t length : {46341, 65600}) {
    if (oracle && length > 46341) continue;
    const RandomProblem data(SquareShape(length, 1, 1, 8), &random, 0.5f);
    const SparseIndex index = Select(GetParam(), "", data.View());
    const PairCount count = CountPairs(index.View());
    EXPECT_EQ(count.dense, int64_t{length} * (int64_t{length} + 1) / 2);
    EXPECT_GT(count.kept, length);
    EXPECT_LE(count.kept, count.dense);
    // A count over rows of the kept ranges, apart from the closed forms.
    std::vector<ColumnRange> ranges;
    int64_t sampled = 0;
    int64_t counted = 0;
    const int32_t tile = index.View().NumRowTiles() - 1;
    for (int32_t row = tile * index.tile_rows; row < length; ++row) {
      ranges.clear();
      AppendKeptRanges(index.View(), 0, 0, row, &ranges);
      for (const ColumnRange& range : ranges) sampled += range.end - range.begin;
      if (ranges.empty()) continue;  // FlexPrefill's share of the whole map may leave out the last rows' blocks
      ASSERT_LE(ranges.back().end, row + 1);
    }
    SparseIndex last_tile = index;
    for (int32_t i = 0; i < tile; ++i) {
      last_tile.run_count[static_cast<size_t>(i)] = 0;
      last_tile.column_count[static_cast<size_t>(i)] = 0;
    }
    counted = CountPairs(last_tile.View()).kept;
    EXPECT_EQ(counted, sampled);
  }
}

TEST_P(EveryPrefillMethod, RefusesBadProblemsByName) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(64, 4, 2), &random);
  const PrefillMethod* method = FindPrefillMethod(GetParam());
  const ParameterValues values(method->spec());
  auto expect_refused = [&](auto change, const std::string& words) {
    AttentionProblem problem = data.View();
    change(problem);
    SparseIndex index;
    index.columns = {42};
    const Status status = method->Select(problem, values, {}, &index);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << words;
    EXPECT_THAT(status.message(), HasSubstr(words));
    EXPECT_EQ(index.columns, std::vector<int32_t>{42});
  };
  expect_refused([](AttentionProblem& p) { p.q.data = nullptr; }, "q.data is null");
  expect_refused([](AttentionProblem& p) { p.k.data = nullptr; }, "k.data is null");
  expect_refused([](AttentionProblem& p) { p.k.row_stride = 4; }, "k.row_stride is 4");
  expect_refused([](AttentionProblem& p) { p.q.head_stride = -1; }, "q.head_stride");
  expect_refused([](AttentionProblem& p) { p.num_kv_heads = 3; }, "num_qo_heads is 4");
  expect_refused([](AttentionProblem& p) { p.num_kv_heads = 0; }, "num_kv_heads is 0");
  expect_refused([](AttentionProblem& p) { p.batch = 0; }, "batch is 0");
  expect_refused([](AttentionProblem& p) { p.seq_q = 0; }, "seq_q is 0");
  expect_refused([](AttentionProblem& p) { p.seq_k = 1 << 28; }, "seq_k is 268435456");
  expect_refused([](AttentionProblem& p) { p.head_dim = 0; }, "head_dim is 0");
  expect_refused([](AttentionProblem& p) { p.first_position = 1; }, "first_position is 1");
  expect_refused([](AttentionProblem& p) { p.first_position = -1; }, "first_position is -1");
  expect_refused([](AttentionProblem& p) { p.dtype = static_cast<DType>(7); }, "dtype is 7");
  expect_refused([](AttentionProblem& p) { p.scale = std::numeric_limits<float>::quiet_NaN(); }, "scale");
  expect_refused([](AttentionProblem& p) { p.scale = -0.125f; }, "scale is -0.125");
  expect_refused([](AttentionProblem& p) { p.soft_cap = -1; }, "soft_cap");
}

TEST(PrefillMethods, RefuseMissingAndIllegalValues) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(64), &random);
  for (const PrefillMethod* method : PrefillMethods()) {
    if (method->spec().parameters.empty()) continue;
    const ParameterSpec& first = method->spec().parameters.front();
    SparseIndex index;
    Status status = method->Select(data.View(), ParameterValues(), {}, &index);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(first.name));
    // The same names with a wider range, as a method of another build would hand them over.
    MethodSpec wider = method->spec();
    wider.parameters.front().maximum = first.maximum + 1;
    ParameterValues values(wider);
    ASSERT_EQ(values.Set(wider, first.name, first.maximum + 1), "");
    status = method->Select(data.View(), values, {}, &index);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("; it must be"));
  }
}

TEST(SelectByHead, CanBeCancelledInTheMiddle) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(20000, 16, 1, 8), &random);
  const PrefillMethod* method = FindPrefillMethod("sample-attention");
  const ParameterValues values = testing::Values(method->spec(), "chunk_n=64");
  std::stop_source stop;
  RunOptions options;
  options.stop = stop.get_token();
  SparseIndex index;
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stop.request_stop();
  });
  const Status status = method->Select(data.View(), values, options, &index);
  canceller.join();
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  EXPECT_TRUE(index.run_begin.empty());
}

std::vector<std::string> PrefillNames() {
  std::vector<std::string> names;
  for (const PrefillMethod* method : PrefillMethods()) names.push_back(method->spec().name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryPrefillMethod, ::testing::ValuesIn(PrefillNames()), [](const auto& name_info) {
  std::string name = name_info.param;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
});

}  // namespace
}  // namespace headscope::kernels
