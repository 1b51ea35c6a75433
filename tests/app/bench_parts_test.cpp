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

#include "analysis/head_tensors.h"
#include "base/device.h"
#include "base/errors.h"
#include "bench/bench_report.h"
#include "bench/figure.h"
#include "bench/placed_problem.h"
#include "bench/sustain.h"
#include "bench/trace_heads.h"
#include "bench/window_trace.h"
#include "bench/workload.h"
#include "data/trace_reader.h"
#include "data/trace_schema.h"
#include "kernels/step_elements.h"
#include "synthetic_trace.h"

namespace headscope::app::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Every head of it is a head that can be read, and the log-sum-exp is that of the stored numbers, one by one in
// float64.
TEST(SyntheticTraceTest, HoldsAsManyHeadsAsAskedForAndTheirLogSumExp) {
  const SyntheticTraceShape shape = ParseSyntheticTrace("300x64");
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / "synthetic_of_bench.h5";
  std::filesystem::remove(path);
  double last_share = -1;
  WriteSyntheticTrace(path.string(), shape, [&](double share) { last_share = share; }, {});
  EXPECT_EQ(last_share, 1);
  const data::TraceReader trace(path.string());
  EXPECT_TRUE(trace.complete());
  EXPECT_EQ(trace.num_tokens(), 300);
  EXPECT_EQ(trace.num_rows(), 300);
  ASSERT_EQ(trace.layout().layers.size(), 2U);
  const auto first = analysis::LoadHead(trace, {0, 0}), last = analysis::LoadHead(trace, {1, 31});
  EXPECT_EQ(first->k.size(), 300U * 16);
  EXPECT_EQ(first->k, last->k);
  EXPECT_EQ(first->q, last->q);
  for (const size_t row : {size_t{0}, size_t{1}, size_t{77}, size_t{299}}) {
    double sum = 0;
    for (size_t key = 0; key <= row; ++key) {
      double score = 0;
      for (size_t i = 0; i < 16; ++i)
        score += static_cast<double>(last->q[row * 16 + i]) * static_cast<double>(last->k[key * 16 + i]);
      sum += std::exp(score / 4);
    }
    EXPECT_NEAR(static_cast<double>(last->lse[row]), std::log(sum), 1e-4) << row;
  }
  EXPECT_THROW(WriteSyntheticTrace(path.string(), shape, [](double) {}, {}), FailedError) << "it is there already";
  std::filesystem::remove(path);
  for (const char* wrong : {"", "300", "300x", "0x4", "300x33", "300x64x", "300 x64", "9999999x1"})
    EXPECT_THROW(ParseSyntheticTrace(wrong), UsageError) << wrong;
}

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
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "shares.tsv";
  std::ofstream(file) << "0.25\t0.75\n";
  EXPECT_NE(ParseWorkload("duo-attention:path=" + file.string()).prefill, nullptr);
  EXPECT_NE(ParseWorkload("decode/duo-attention:threshold=1,path=" + file.string()).decode, nullptr);
}

TEST(WorkloadTest, ListsOfChosenTokensSayHowMany) {
  const Workload latent = ParseWorkload("latent/tokens-2048");
  EXPECT_EQ(latent.latent_tokens, 2048);
  EXPECT_EQ(latent.name, "latent/tokens-2048");
  for (const char* wrong : {"latent/", "latent/tokens-", "latent/tokens-0", "latent/tokens-20x", "latent/blocks-90"}) {
    EXPECT_THAT([&] { ParseWorkload(wrong); }, testing::ThrowsMessage<UsageError>(HasSubstr("latent/tokens-N")))
        << wrong;
  }
}

TEST(WorkloadTest, FixedSetsMayBeAttendedToInFp8) {
  const Workload workload = ParseWorkload("fp8/blocks-80");
  EXPECT_TRUE(workload.fp8);
  EXPECT_EQ(workload.name, "fp8/blocks-80");
  EXPECT_EQ(workload.fixed.pattern, ParseWorkload("blocks-80").fixed.pattern);
  EXPECT_STREQ(workload.source(), "fixed");
  EXPECT_FALSE(ParseWorkload("blocks-80").fp8);
  EXPECT_THAT([] { ParseWorkload("fp8/vertical-slash"); },
              testing::ThrowsMessage<UsageError>(HasSubstr("methods fp8/vertical-slash: fp8/ takes a fixed set")));
}

// A row in FP8 stands beside that of the same set in 16 bits: pairs are the same, so times say it.
TEST(ReportTest, RowsInFp8HaveARatioAndAnError) {
  const auto row = [](const char* method, double ms) {
    Row made;
    made.method = method;
    made.attend_ms = made.total_ms = Summarize({ms});
    made.kept_pairs = made.dense_pairs = 1000;
    return made;
  };
  Section section;
  section.shape = {.num_qo_heads = 1, .num_kv_heads = 1, .head_dim = 128, .seq_q = 8, .seq_k = 8};
  section.rows = {row("dense, LibTorch", 4), row("dense", 3), row("blocks-90", 2), row("fp8/blocks-90", 1.6)};
  section.rows[0].kind = RowKind::kReference;
  Row& fp8 = section.rows[3];
  fp8.in_16_bits = "blocks-90";
  fp8.errors = {.all = 0.03, .worst = 0.05};
  fp8.total_ms = Summarize({5});  // with quantising, which has no say in the ratio
  Report report;
  report.device_kind = DeviceKind::kCuda;
  report.sections = {section};
  EXPECT_DOUBLE_EQ(RatiosOf(report, section, fp8).to_16_bits, 2 / 1.6);
  EXPECT_EQ(RatiosOf(report, section, section.rows[2]).to_16_bits, 0);
  EXPECT_THAT(Table(report), HasSubstr("fp8/blocks-90: relative L2 to float64 (worst row) 3.00e-02 (5.00e-02); "
                                       "attends at 1.25 of the rate in 16 bits"));
  EXPECT_THAT(Json(report), HasSubstr("\"rate_to_16_bits\": 1.25"));
  report.sections[0].rows.erase(report.sections[0].rows.begin() + 2);
  EXPECT_EQ(RatiosOf(report, report.sections[0], report.sections[0].rows[2]).to_16_bits, 0);
}

TEST(WorkloadTest, ARefusedParameterNamesThisCommandsOption) {
  EXPECT_THAT([] { ParseWorkload("vertical-slash:n_foo=3"); },
              testing::ThrowsMessage<UsageError>(testing::StartsWith("methods: method vertical-slash: ")));
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
class FullDevice : public BenchDevice {
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
  void Download(const void* device, int64_t bytes, void* host) override {
    std::memcpy(host, device, static_cast<size_t>(bytes));
  }
  bool is_host() const override { return false; }
  kernels::DType OutputType(kernels::DType dtype) const override { return dtype; }
  double Milliseconds(const std::function<void()>&) override { return 0; }
  double SustainedMilliseconds(const std::function<void()>&, double, const std::stop_token&) override { return 0; }
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

TEST(Fp8Test, ADeviceWithoutItSaysSo) {
  FullDevice device(0);
  EXPECT_THROW(device.AttendFp8({}, {}), UsageError);
}

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

// Scaled scores of query head 1 (of KV head 0) at the last row, of the data that `text` names.
std::vector<double> LastScores(const std::string& text) {
  Group group;
  group.shape = {.seed = 7, .num_qo_heads = 2, .num_kv_heads = 1, .head_dim = 128, .seq_q = 1, .seq_k = 2048};
  SetData(text, &group);
  std::vector<float> q(256), k(size_t{2048} * 128);
  EXPECT_TRUE(
      kernels::FillSeeded(group.shape, kernels::SeededTensor::kQuery, kernels::DType::kFloat32, {}, q.data()).ok());
  EXPECT_TRUE(
      kernels::FillSeeded(group.shape, kernels::SeededTensor::kKey, kernels::DType::kFloat32, {}, k.data()).ok());
  std::vector<double> scores;
  for (size_t j = 0; j < 2048; ++j) {
    double dot = 0;
    for (size_t d = 0; d < 128; ++d) dot += double{q[128 + d]} * double{k[j * 128 + d]};
    scores.push_back(dot / std::sqrt(128.0));
  }
  return scores;
}

double MeanOf(const std::vector<double>& x, size_t begin, size_t end) {
  double sum = 0;
  for (size_t i = begin; i < end; ++i) sum += x[i];
  return sum / static_cast<double>(end - begin);
}

TEST(DataTest, ScoresAreAsTheKindSays) {
  const std::vector<double> peaky = LastScores("peaky:30");
  const double mean = MeanOf(peaky, 0, 2048);
  double variance = 0;
  for (const double x : peaky) variance += (x - mean) * (x - mean) / 2048;
  EXPECT_NEAR(std::sqrt(variance), 30, 5);  // the query's own length varies, too

  // 15 stretches of 128 keys between the middles of the first and the last.
  const std::vector<double> rising = LastScores("rising:6");
  EXPECT_NEAR((MeanOf(rising, 1920, 2048) - MeanOf(rising, 0, 128)) / 15, 6, 0.6);

  const std::vector<double> local = LastScores("local:40");
  EXPECT_GT(local.back(), 30);
  EXPECT_GE(std::max_element(local.begin(), local.end()), local.end() - 64);
  EXPECT_LT(MeanOf(local, 0, 1500), 20);
}

TEST(DataTest, NamesAreReadAndRecipesSaySo) {
  Group group;
  group.shape = {.num_qo_heads = 1, .num_kv_heads = 1, .head_dim = 8, .seq_q = 1, .seq_k = 1};
  EXPECT_EQ(kernels::RecipeOf(group.shape), kernels::kSeededRecipe);
  SetData("peaky", &group);
  EXPECT_EQ(kernels::RecipeOf(group.shape), "headscope-peaky-1:9");
  SetData("rising:7.5", &group);
  EXPECT_EQ(kernels::RecipeOf(group.shape), "headscope-rising-1:7.5");
  SetData("seeded", &group);
  EXPECT_EQ(kernels::RecipeOf(group.shape), kernels::kSeededRecipe);
  for (const char* wrong :
       {"", "peak", "peaky:", "peaky:x", "peaky:-1", "peaky:1001", "peaky:nan", "seeded:3", "trace:"})
    EXPECT_THROW(SetData(wrong, &group), UsageError) << wrong;
  EXPECT_THROW(SetData("trace:/no/such/file.h5", &group), BadInputError);
}

TEST(DataTest, ATracesHeadsAreTheProblem) {
  namespace dt = data::testing;
  const dt::ScratchFolder folder;
  data::TraceLayout layout = dt::SmallLayout(ElementType::kFloat32, 40);
  layout.row_selection = "all";
  layout.facts.assign(3, data::UsualFacts(layout.model));
  layout.facts[1].window = 8;
  for (data::LayerFacts& facts : layout.facts) facts.softmax_scale = 0.5f;
  const std::string path = folder.File("heads.h5");
  dt::WriteTrace(path, layout, 40, 7);

  Group group;
  SetData("trace:" + path + ":4", &group);
  ASSERT_NE(group.trace, nullptr);
  EXPECT_EQ(group.trace->name(), "trace " + path + ", layer 4");
  EXPECT_EQ(TraceHeads(path).name(), "trace " + path + ", layer 0");
  EXPECT_EQ(group.trace->num_tokens(), 40);
  EXPECT_EQ(group.trace->dtype(), kernels::DType::kFloat32);
  EXPECT_EQ(group.shape.num_qo_heads, 8);
  EXPECT_EQ(group.shape.num_kv_heads, 4);
  EXPECT_EQ(group.shape.head_dim, 16);
  // A step at token 29: its row of Q, and 30 keys.
  group.shape.seq_q = 1;
  group.shape.seq_k = 30;
  FullDevice device(5);
  const auto placed = Place(device, group.shape, kernels::DType::kFloat32, {}, group.trace.get());
  EXPECT_EQ(placed->problem.scale, 0.5f);
  const data::TraceReader reader(path);
  std::vector<float> expected(30 * 16);
  for (int32_t head = 0; head < 8; ++head) {
    reader.ReadQ(2, head, 29, 30, expected.data());
    EXPECT_EQ(std::memcmp(static_cast<const float*>(placed->problem.q.data) + head * 16, expected.data(), 64), 0);
  }
  for (int32_t head = 0; head < 4; ++head) {
    reader.ReadV(2, head, 0, 30, expected.data());
    EXPECT_EQ(std::memcmp(static_cast<const float*>(placed->problem.v.data) + head * 480, expected.data(), 1920), 0);
  }
  // Rounded where the problem has 16 bits.
  reader.ReadK(2, 3, 0, 30, expected.data());
  for (const kernels::DType dtype : {kernels::DType::kBFloat16, kernels::DType::kFloat16}) {
    FullDevice room(5);
    const auto halves = Place(room, group.shape, dtype, {}, group.trace.get());
    const std::vector<float> rounded = ReadElements(room, halves->problem.k.data, dtype, 3 * 480, 480);
    for (size_t i = 0; i < rounded.size(); ++i)
      EXPECT_LE(std::abs(rounded[i] - expected[i]),
                std::abs(expected[i]) / (dtype == kernels::DType::kFloat16 ? 2048 : 256));
  }

  const auto refusal = [](const std::string& text, TakenLayers taken = TakenLayers::kAny) -> std::string {
    try {
      TraceHeads heads(text, taken);
    } catch (const BadInputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal(path + ":2", TakenLayers::kPlain), HasSubstr("window"));
  EXPECT_EQ(refusal(path + ":2"), "");
  EXPECT_THAT(refusal(path + ":3"), HasSubstr("layer 3 was not recorded"));
  const std::string some_rows = folder.File("rows.h5");
  layout.row_selection = "every:2";
  dt::WriteTrace(some_rows, layout, 40, 7);
  EXPECT_THAT(refusal(some_rows), HasSubstr("query rows"));
}

// A step of a layer with a window is over the tokens that it sees, and the prompt's queries are the recorded rows right
// before it.
TEST(DataTest, AStepsPromptIsTheTraces) {
  namespace dt = data::testing;
  const dt::ScratchFolder folder;
  data::TraceLayout layout = dt::SmallLayout(ElementType::kFloat32, 40);
  layout.row_selection = "all";
  layout.facts.assign(3, data::UsualFacts(layout.model));
  layout.facts[1].window = 8;
  layout.facts[1].v_head_dim = 8;
  layout.facts[1].soft_cap = 30;
  const std::string path = folder.File("heads.h5");
  dt::WriteTrace(path, layout, 40, 7);

  const TraceHeads trace(path + ":2");
  kernels::SeededProblem shape{.batch = 1, .seq_q = 1, .seq_k = 30};
  trace.SetShape(&shape);
  FullDevice device(5);
  const auto placed = Place(device, shape, kernels::DType::kFloat32, {}, &trace);
  EXPECT_EQ(placed->problem.seq_k, 8);
  EXPECT_EQ(placed->problem.layer, 2);
  EXPECT_EQ(placed->problem.soft_cap, 30);
  EXPECT_EQ(placed->window, 8);
  const data::TraceReader reader(path);
  std::vector<float> expected(8 * 16), queries(static_cast<size_t>(8 * 3 * 16));
  placed->prompt_queries(3, queries.data());
  for (int32_t head = 0; head < 8; ++head) {
    reader.ReadQ(1, head, 26, 29, expected.data());  // the step's own row is 29
    EXPECT_EQ(std::memcmp(queries.data() + head * 48, expected.data(), 192), 0);
  }
  for (int32_t head = 0; head < 4; ++head) {
    reader.ReadK(1, head, 22, 30, expected.data());
    EXPECT_EQ(std::memcmp(static_cast<const float*>(placed->problem.k.data) + head * 128, expected.data(), 512), 0);
    reader.ReadV(1, head, 22, 30, expected.data());
    EXPECT_EQ(std::memcmp(static_cast<const float*>(placed->problem.v.data) + head * 64, expected.data(), 256), 0);
  }

  // Of a seed they are of the same data as the step's own.
  const kernels::SeededProblem seeded{.seed = 3,
                                      .num_qo_heads = 1,
                                      .num_kv_heads = 1,
                                      .head_dim = 8,
                                      .seq_q = 1,
                                      .seq_k = 20,
                                      .data = kernels::SeededData::kRising,
                                      .strength = 5};
  kernels::SeededProblem prompt = seeded;
  prompt.seq_q = 4;
  prompt.seq_k = 19;
  FullDevice room(5);
  std::vector<float> made(32), rising(32);
  Place(room, seeded, kernels::DType::kFloat32, {})->prompt_queries(4, made.data());
  ASSERT_TRUE(
      kernels::FillSeeded(prompt, kernels::SeededTensor::kQuery, kernels::DType::kFloat32, {}, rising.data()).ok());
  EXPECT_EQ(made, rising);
}

// Two keys, whose weights can be told by hand.
TEST(ExactRowsTest, ErrorsAreThoseOfFloat64) {
  const kernels::SeededProblem shape{.num_qo_heads = 1, .num_kv_heads = 1, .head_dim = 8, .seq_q = 2, .seq_k = 2};
  FullDevice device(5);
  const auto placed = Place(device, shape, kernels::DType::kFloat32, {});
  auto* const q = static_cast<float*>(const_cast<void*>(placed->problem.q.data));
  auto* const k = static_cast<float*>(const_cast<void*>(placed->problem.k.data));
  auto* const v = static_cast<float*>(const_cast<void*>(placed->problem.v.data));
  std::fill(q, q + 16, 1.0f);
  for (int i = 0; i < 8; ++i) {
    k[i] = 0;
    k[8 + i] = 0.25f;  // a scaled score of 2 / sqrt(8)
    v[i] = 1;
    v[8 + i] = 3;
  }
  const ExactRows exact(device, *placed, 1, {});
  const double weight = 1 / (1 + std::exp(-2 / std::sqrt(8.0)));
  std::vector<float> output(16, 1.0f);
  std::fill(output.begin() + 8, output.end(), static_cast<float>(1 + 2 * weight));
  EXPECT_LT(exact.ErrorsOf(output).all, 1e-7);
  EXPECT_LT(exact.ErrorsOf(output).worst, 1e-7);
  for (size_t i = 8; i < 16; ++i) output[i] *= 1.5f;
  EXPECT_NEAR(exact.ErrorsOf(output).worst, 0.5, 1e-6);
  const double row = 1 + 2 * weight;
  EXPECT_NEAR(exact.ErrorsOf(output).all, 0.5 * row / std::sqrt(1 + row * row), 1e-6);
}

// Of the same problem with an index that keeps the second row's own key alone.
TEST(ExactRowsTest, KnowWhatAnIndexKeeps) {
  const kernels::SeededProblem shape{.num_qo_heads = 1, .num_kv_heads = 1, .head_dim = 8, .seq_q = 2, .seq_k = 2};
  FullDevice device(5);
  const auto placed = Place(device, shape, kernels::DType::kFloat32, {});
  const auto* const v = static_cast<const float*>(placed->problem.v.data);
  kernels::SparseIndex index = kernels::MakeFixedIndex(ParseWorkload("dense").fixed, 1, 1, 2, 1);
  index.runs = {kernels::KeyRun::Make(1, 1, 0)};
  index.run_begin.assign(index.run_begin.size(), 0);
  index.run_count.assign(index.run_count.size(), 1);
  const ExactRows exact(device, *placed, 1, {}, &index);
  std::vector<float> output(v + 8, v + 16);
  output.insert(output.end(), v + 8, v + 16);
  EXPECT_LT(exact.ErrorsOf(output).worst, 1e-6);
  const ExactRows dense(device, *placed, 1, {});
  EXPECT_GT(dense.ErrorsOf(output).worst, 0.1);
}

TEST(SustainTest, TheSecondHalfCounts) {
  double clock = 0;
  int batches = 0;
  const double ms = Sustain(1.0, {}, [&](int runs) {
    ++batches;
    const double took = runs * (clock < 400 ? 2.0 : 5.0);  // throttled after half of it
    clock += took;
    return took;
  });
  EXPECT_DOUBLE_EQ(ms, 5);
  EXPECT_GE(clock, 1000);
  EXPECT_LT(batches, 30);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THROW(Sustain(1.0, stop.get_token(), [](int) { return 1.0; }), CancelledError);
}

// Counted by hand, of every step: what its selection moved but for the new token's rows, which the append writes.
TEST(StepBytesTest, AreWhatASelectionMovedWithoutTheNewTokensRows) {
  kernels::AttentionProblem problem;
  problem.batch = 3;
  problem.num_kv_heads = 2;
  problem.seq_k = 70'000;
  problem.head_dim = 128;
  problem.dtype = kernels::DType::kBFloat16;
  const int64_t lists = 3 * 2, size = 2, row = 2 * 128;
  const auto bytes = [&](int64_t elements) { return StepBytes(problem, elements); };
  EXPECT_EQ(bytes(row + 1000), lists * 1000 * size);
  EXPECT_EQ(bytes(kernels::ElementsOfTokens(problem, 70'000)), lists * 70'000 * row * size);
  const kernels::EstimatedTopTokens sparq{.rank = 32, .num_tokens = 128};
  const int64_t chosen = 128 * row + 2 * 128;  // and the mean value
  EXPECT_EQ(bytes(kernels::ElementsOf(sparq, problem).moved), lists * (int64_t{70'000} * 32 + chosen) * size);
  EXPECT_EQ(bytes(kernels::ElementsOf(sparq, problem, /*two_copies=*/false).moved),
            lists * (int64_t{70'000} * 128 + chosen) * size);
  // 4375 pages, whose least and largest keys are read, and 64 of them are attended to.
  EXPECT_EQ(bytes(kernels::ElementsOf(kernels::PagesByBounds{.budget = 1024, .page_size = 16}, problem).moved),
            lists * (4375 * row + 1024 * row) * size);
}

// Counted by hand: of a list a key read and written, a value read, the mean's 64 numbers of fp32 read and written.
TEST(UpkeepBytesTest, AreThoseOfWhatSparqKeeps) {
  kernels::AttentionProblem problem;
  problem.batch = 3;
  problem.num_kv_heads = 2;
  problem.seq_k = 70'000;
  problem.head_dim = 128;
  problem.v_head_dim = 64;
  problem.dtype = kernels::DType::kBFloat16;
  const int64_t lists = 3 * 2, key = 128 * 2, value = 64 * 2, mean = 64 * 4;
  kernels::EstimatedTopTokens sparq{.rank = 32, .num_tokens = 128};
  EXPECT_EQ(kernels::UpdateBytes(sparq, problem, 69'999), lists * (2 * key + value + 2 * mean));
  EXPECT_EQ(kernels::UpdateBytes(sparq, problem, 69'990), lists * (10 * (2 * key + value) + 2 * mean));
  EXPECT_EQ(kernels::UpdateBytes(sparq, problem, 0), lists * (70'000 * (2 * key + value) + mean));
  EXPECT_EQ(kernels::UpdateBytes(sparq, problem, 69'999, /*two_copies=*/false), lists * (value + 2 * mean));
  sparq.mean_value = false;
  EXPECT_EQ(kernels::UpdateBytes(sparq, problem, 69'999), lists * 2 * key);
  EXPECT_EQ(kernels::UpdateBytes(sparq, problem, 69'999, /*two_copies=*/false), 0);
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
  report.device_kind = headscope::DeviceKind::kCpu;
  const Ratios on_cpu = RatiosOf(report, section, section.rows[2]);
  EXPECT_DOUBLE_EQ(on_cpu.rate, 2e9);
  EXPECT_DOUBLE_EQ(on_cpu.of_ceiling, 0.5);  // of reading as many bytes, at its fastest
  report.device_kind = headscope::DeviceKind::kCuda;
  report.copy.work = 4e6;
  report.copy.ms = {1, 0, 1, 1};
  EXPECT_DOUBLE_EQ(RatiosOf(report, section, section.rows[2]).of_ceiling, 0.5);  // of 4 GB/s
}

TEST(RatiosTest, ARowIsComparedWithEitherDense) {
  const Section section = DecodeSection();
  Report report;
  report.device_kind = headscope::DeviceKind::kCpu;
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
  EXPECT_THAT(changed([](data::IndexFile* f) { f->first_position = 7; }), HasSubstr("first_position"));
  EXPECT_THAT(changed([](data::IndexFile* f) { f->mask_kind = 0; }), HasSubstr("mask_kind"));
  std::filesystem::remove(path);
}

TEST(ReportTest, RatiosCompareLikeWithLike) {
  Report report;
  report.device_kind = headscope::DeviceKind::kCuda;
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
