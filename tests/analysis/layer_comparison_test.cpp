// SPDX-License-Identifier: Apache-2.0
// Methods on a whole layer: what is judged is the head's own, what is timed is the layer, in turn with its baseline.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <set>
#include <stop_token>

#include "analysis/compare.h"
#include "analysis/types/number_text.h"
#include "compare/chosen_per.h"
#include "compare/decode_steps.h"
#include "compare/round_order.h"
#include "data/synthetic_trace.h"
#include "kernels/method_names.h"
#include "support/attempts.h"
#include "synthetic_heads.h"

namespace headscope::analysis {
namespace {

using ::testing::HasSubstr;
using testing::MakeRandomLayer;
using ::testing::Not;
using testing::RandomLayer;

AskedMethod Asked(const std::string& name, const std::string& parameters = "") {
  const kernels::MethodSpec& spec = *kernels::FindMethod(name).spec();
  AskedMethod asked{name, kernels::ParameterValues(spec)};
  EXPECT_EQ(asked.values.Parse(spec, parameters), "");
  return asked;
}

CompareOptions QuickLayer() {
  CompareOptions options;
  options.repeats = 2;
  options.num_threads = 2;
  options.decode_rows = 5;
  return options;
}

std::vector<MethodResult> Compare(const MeasuredHeadsPtr& measured, const std::vector<AskedMethod>& methods,
                                  const std::vector<HeadId>& heads, const CompareOptions& options = QuickLayer()) {
  std::vector<MethodResult> results;
  const kernels::Status status = LayerComparison(measured, options).Run(methods, heads, &results);
  EXPECT_TRUE(status.ok()) << status.message();
  results.resize(methods.size() * heads.size());
  return results;
}

class OnALayer : public ::testing::TestWithParam<testing::RandomHeadShape> {};

// Prefill methods choose per query head: a head keeps and loses in its layer what it does alone.
TEST_P(OnALayer, APrefillMethodJudgesAHeadAsIfItWereAlone) {
  const RandomLayer layer = MakeRandomLayer(GetParam(), 2, 2, 40);
  const std::vector<AskedMethod> methods = {Asked("dense"),
                                            Asked("a-shape", "n_sink=20,n_local=40"),
                                            Asked("vertical-slash", "n_vertical=40,n_slash=30"),
                                            Asked("block-sparse", "n_blocks=2"),
                                            Asked("s2-attention", "vertical_stride=3"),
                                            Asked("sample-attention", "alpha_c=0.5,alpha_s=0.5")};
  const std::vector<HeadId> heads = {{3, 3}, {3, 0}};
  const std::vector<MethodResult> results = Compare(layer.measured, methods, heads);
  for (size_t i = 0; i < results.size(); ++i) {
    const MethodResult& result = results[i];
    const AskedMethod& method = methods[i % methods.size()];
    SCOPED_TRACE(method.name);
    EXPECT_EQ(result.head, heads[i / methods.size()]) << "in the order asked for";
    EXPECT_EQ(result.method, method.name);
    EXPECT_EQ(result.measured, (MeasuredScope{Measure::kLayer, 4, 2, 4}));
    EXPECT_EQ(result.num_rows, layer.measured->num_rows);
    MethodResult alone;
    HeadComparison comparison(layer.heads[static_cast<size_t>(result.head.head)], QuickLayer());
    ASSERT_TRUE(comparison.Run(method.name, method.values, &alone).ok());
    EXPECT_EQ(alone.measured, (MeasuredScope{Measure::kHead, 1, 1, 0}));
    EXPECT_EQ(result.kept_fraction, alone.kept_fraction);
    EXPECT_NEAR(result.cra_min, alone.cra_min, 1e-6);
    EXPECT_NEAR(result.cra_mean, alone.cra_mean, 1e-6);
    EXPECT_NEAR(result.relative_error, alone.relative_error, 1e-5);
    EXPECT_NEAR(result.max_error, alone.max_error, 1e-4);
    EXPECT_LT(result.kernel_error, 1e-5);
  }
  // One measurement serves both heads.
  for (size_t m = 0; m < methods.size(); ++m) {
    EXPECT_EQ(results[m].attend.median_ms, results[m + methods.size()].attend.median_ms);
    EXPECT_EQ(results[m].dense_attend.median_ms, results[0].attend.median_ms) << "the baseline of the same rounds";
    EXPECT_EQ(results[m].baseline, "headscope");
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, OnALayer,
                         ::testing::Values(testing::RandomHeadShape{.num_tokens = 400},
                                           testing::RandomHeadShape{
                                               .num_tokens = 330, .first_row = 130, .window = 90}));

// SparQ Attention, section 4: over grouped queries |q| and the approximate scores are summed within the group, and a KV
// head has one choice. A head by itself was all that could be run.
TEST(LayerComparison, SparqChoosesPerKvHeadInALayerAndPerQueryHeadAlone) {
  const RandomLayer layer = MakeRandomLayer({.num_tokens = 300}, 2, 4, 7);
  const AskedMethod sparq = Asked("sparq", "r=4,k=24,reallocate=0");
  const HeadId head{3, 6};
  const MethodResult grouped = Compare(layer.measured, {sparq}, {head}).front();
  const MethodResult alone = Compare(AloneHead(layer.heads[6]), {sparq}, {head}).front();
  EXPECT_EQ(grouped.chosen_per, kernels::ChosenPer::kKvHead);
  EXPECT_EQ(alone.chosen_per, kernels::ChosenPer::kQueryHead);
  EXPECT_LT(grouped.cra_mean, alone.cra_mean) << "four heads share the 24 tokens";
  EXPECT_LT(grouped.kernel_error, 1e-5);
  EXPECT_EQ(grouped.num_rows, 5);
  // By the definition: the group's problem, the head's mass on the tokens of its KV head.
  const DecodeSteps steps(*layer.measured, head, 5);
  double mean = 0;
  for (int64_t step = 0; step < 5; ++step) {
    kernels::DecodeSelection selection;
    const kernels::AttentionProblem problem = steps.Problem(layer.measured->Problem(), step);
    ASSERT_TRUE(kernels::FindDecodeMethod("sparq")->Select(problem, sparq.values, {.num_threads = 1}, &selection).ok());
    ASSERT_EQ(selection.page_begin.size(), 3u);
    const std::vector<int32_t> tokens(selection.pages.begin() + selection.page_begin[1], selection.pages.end());
    mean += steps.KeptMass(*layer.heads[6], step, tokens) / 5;
  }
  EXPECT_NEAR(grouped.cra_mean, mean, 1e-6);
}

TEST(LayerComparison, DecodeOfALayerIsJudgedHeadByHead) {
  for (const int32_t window : {0, 60}) {
    const RandomLayer layer = MakeRandomLayer({.num_tokens = 300, .window = window}, 2, 2, 9);
    const std::vector<AskedMethod> methods = {Asked("decode/dense"), Asked("sliding-window", "n_local=20,n_sink=4"),
                                              Asked("sparq", "r=8,k=32")};
    for (const MethodResult& result : Compare(layer.measured, methods, {{3, 0}, {3, 3}})) {
      SCOPED_TRACE(result.method);
      EXPECT_LT(result.kernel_error, 1e-5);
      EXPECT_EQ(result.phase, kernels::Phase::kDecode);
      EXPECT_GT(result.bytes_allow, result.method == "decode/dense" ? 0.99 : 1);
      if (result.method != "sliding-window") continue;
      EXPECT_EQ(result.chosen_per, kernels::ChosenPer::kPlace);
      MethodResult alone;
      HeadComparison comparison(layer.heads[static_cast<size_t>(result.head.head)], QuickLayer());
      ASSERT_TRUE(comparison.Run(result.method, methods[1].values, &alone).ok());
      EXPECT_EQ(result.kept_fraction, alone.kept_fraction);
      EXPECT_NEAR(result.cra_min, alone.cra_min, 1e-6);
      EXPECT_NEAR(result.relative_error, alone.relative_error, 1e-5);
    }
  }
}

class InNoTime final : public OtherDecode {
 public:
  explicit InNoTime(int* runs) : runs_(runs) {}
  kernels::Status Run() override {
    ++*runs_;
    return {};
  }

 private:
  int* const runs_;
};

// Who is fast beside a slow baseline is not fast.
TEST(LayerComparison, TheFasterOfTwoDenseDecodesIsTheBaselineAndIsNamed) {
  const RandomLayer layer = MakeRandomLayer({.num_tokens = 200}, 1, 2, 3);
  CompareOptions options = QuickLayer();
  int runs = 0;
  options.other_dense.name = "another";
  options.other_dense.make = [&](const kernels::AttentionProblem& step, std::unique_ptr<OtherDecode>* made) {
    EXPECT_EQ(step.seq_q, 1);
    EXPECT_EQ(step.num_qo_heads, 2);
    *made = std::make_unique<InNoTime>(&runs);
    return kernels::Status{};
  };
  EXPECT_TRUE(HoldsOnce([&] {
    runs = 0;
    const std::vector<MethodResult> results =
        Compare(layer.measured, {Asked("decode/dense"), Asked("sparq"), Asked("a-shape")}, {{3, 0}}, options);
    EXPECT_EQ(runs, 5 * (1 + options.repeats)) << "5 steps, warmed up and then timed in every round";
    EXPECT_EQ(results[1].baseline, "another");
    EXPECT_EQ(results[2].baseline, "headscope") << "prefill has its own";
    return results[1].dense_attend.median_ms < results[0].attend.median_ms && results[1].speedup < 1 &&
           results[0].speedup < 1;
  })) << "headscope's dense decode, or a method, beside a faster one";
}

// A speed-up above what the bytes allow says something about the baseline, and so does the note.
TEST(LayerComparison, ASpeedUpBeyondItsBytesSaysHowFarDenseIsFromReading) {
  const RandomLayer layer = MakeRandomLayer({.num_tokens = 400}, 1, 2, 3);
  for (const MethodResult& result :
       Compare(layer.measured, {Asked("decode/dense"), Asked("sparq", "r=8,k=32"), Asked("a-shape")}, {{3, 0}})) {
    const bool decode = result.phase == kernels::Phase::kDecode;
    EXPECT_EQ(std::isfinite(result.bytes_allow), decode);
    EXPECT_EQ(std::isfinite(result.dense_of_reading), decode);
    if (!decode) continue;
    EXPECT_GT(result.dense_of_reading, 0);
    const std::string said = "dense decode itself ran at " + FormatNumber("%.0f", 100 * result.dense_of_reading) + " %";
    if (result.speedup > 1.1 * result.bytes_allow) {
      EXPECT_THAT(result.note, HasSubstr(said));
    } else {
      EXPECT_THAT(result.note, Not(HasSubstr("dense decode itself")));
    }
  }
}

// A window stops one run and measures the next with the same dense baseline.
TEST(LayerComparison, TheLastTokenAloneStopsARun) {
  const RandomLayer layer = MakeRandomLayer({}, 2, 2, 40);
  for (const AskedMethod& method : {Asked("vertical-slash", "n_vertical=20,n_slash=10"), Asked("quest")}) {
    SCOPED_TRACE(method.name);
    LayerComparison comparison(layer.measured, QuickLayer());
    std::vector<MethodResult> results;
    std::stop_source before, now;
    comparison.StopBy(before.get_token());
    kernels::Status status = comparison.Run({method}, {{3, 1}}, &results);
    ASSERT_TRUE(status.ok()) << status.message();
    before.request_stop();
    comparison.StopBy(now.get_token());
    status = comparison.Run({method}, {{3, 1}}, &results);
    EXPECT_TRUE(status.ok()) << status.message();
    now.request_stop();
    EXPECT_EQ(comparison.Run({method}, {{3, 1}}, &results).code(), kernels::StatusCode::kCancelled);
  }
}

// Asked for head 1, told of head 0.
TEST(LayerComparison, ARefusalNamesTheHeadThatWasAskedFor) {
  RandomLayer layer = MakeRandomLayer({.num_tokens = 200}, 1, 2, 3);
  auto gaps = std::make_shared<MeasuredHeads>(*layer.measured);
  for (size_t row = 0; row < gaps->row_positions.size(); ++row)
    gaps->row_positions[row] = static_cast<int32_t>(row) * 2;
  std::vector<MethodResult> results;
  for (const char* method : {"a-shape", "sparq"}) {
    const kernels::Status status = LayerComparison(gaps, QuickLayer()).Run({Asked(method)}, {{3, 1}}, &results);
    EXPECT_THAT(status.message(), HasSubstr("head 3:1 ")) << method;
  }
}

TEST(RoundOrder, EveryEntryGoesFirstAndBehindEveryOther) {
  constexpr size_t kEntries = 4;
  std::set<size_t> first;
  std::set<std::pair<size_t, size_t>> neighbours;
  for (int32_t round = 0; round < 2 * static_cast<int32_t>(kEntries); ++round) {
    const std::vector<size_t> order = RoundOrder(round, kEntries);
    EXPECT_EQ(std::set<size_t>(order.begin(), order.end()).size(), kEntries);
    first.insert(order.front());
    for (size_t i = 1; i < kEntries; ++i) neighbours.insert({order[i - 1], order[i]});
  }
  EXPECT_EQ(first.size(), kEntries);
  for (size_t i = 0; i < kEntries; ++i) {
    const size_t next = (i + 1) % kEntries;
    EXPECT_TRUE(neighbours.contains({i, next}) && neighbours.contains({next, i})) << i;
  }
}

class PartOfLayerTest : public ::testing::Test {
 protected:
  static std::vector<int32_t> Numbers(int32_t count) {
    std::vector<int32_t> numbers;
    for (int32_t i = 0; i < count; ++i) numbers.push_back(i);
    return numbers;
  }
  // Every head of 8 over 4 KV heads, or only `qo_heads`.
  void Write(const std::vector<int32_t>& qo_heads) {
    data::TraceLayout layout = data::testing::SmallLayout(ElementType::kBFloat16, 40);
    for (data::LayerFacts& facts : layout.facts) {
      facts.qo_heads = qo_heads;
      facts.kv_heads = Numbers(4);
    }
    data::testing::WriteTrace(folder_.File("trace.h5"), layout, 40, 40);
    trace_ = std::make_unique<data::TraceReader>(folder_.File("trace.h5"));
    layer_ = trace_->layout().layers.front();
  }
  data::testing::ScratchFolder folder_;
  std::unique_ptr<data::TraceReader> trace_;
  int32_t layer_ = 0;
};

TEST_F(PartOfLayerTest, IsTheWholeLayerWhereItWasRecordedAndFitsMemory) {
  Write(Numbers(8));
  const LayerPart all = PartOfLayer(*trace_, {layer_, 5}, 1 << 30);
  EXPECT_EQ(all.num_qo_heads, 8);
  EXPECT_EQ(all.num_kv_heads, 4);
  EXPECT_EQ(all.why_fewer, "");
  // Room for two of the four KV groups.
  const LayerPart two = PartOfLayer(*trace_, {layer_, 5}, MeasuredBytes(*trace_, layer_, 4, 2));
  EXPECT_EQ(two.num_qo_heads, 4);
  EXPECT_LE(two.first_qo_head, 5);
  EXPECT_GT(two.first_qo_head + two.num_qo_heads, 5);
  EXPECT_THAT(two.why_fewer, HasSubstr("memory"));
  EXPECT_EQ(PartOfLayer(*trace_, {layer_, 5}, 1).num_qo_heads, 2) << "at least its own group";
  const MeasuredHeadsPtr loaded = LoadLayer(*trace_, {layer_, 5}, 1);
  EXPECT_EQ(loaded->Name(), "layer " + std::to_string(layer_) + ": 2 of 8 heads");
}

TEST_F(PartOfLayerTest, TakesWholeGroupsThatLieSideBySideAndSaysWhyTheyAreFewer) {
  Write({0, 2, 3, 4, 5, 7});  // groups of two: 1 and 2 are whole
  const LayerPart part = PartOfLayer(*trace_, {layer_, 2}, 1 << 30);
  EXPECT_EQ(part.first_qo_head, 2);
  EXPECT_EQ(part.num_qo_heads, 4);
  EXPECT_EQ(part.first_kv_head, 1);
  EXPECT_EQ(part.num_kv_heads, 2);
  EXPECT_NE(part.why_fewer, "");
  const LayerPart own = PartOfLayer(*trace_, {layer_, 7}, 1 << 30);
  EXPECT_EQ(own.first_qo_head, 7);
  EXPECT_EQ(own.num_qo_heads, 1);
  EXPECT_THAT(own.why_fewer, HasSubstr("KV head 3"));
}

TEST_F(PartOfLayerTest, ALoadedLayerHoldsWhatItsHeadsHold) {
  Write(Numbers(8));
  const MeasuredHeadsPtr layer = LoadLayer(*trace_, {layer_, 3});
  EXPECT_EQ(layer->Problem().num_qo_heads, 8);
  for (int32_t i = 0; i < 8; ++i) {
    const HeadTensorsPtr own = LoadHead(*trace_, {layer_, i}), made = layer->Head({layer_, i});
    EXPECT_EQ(made->id, own->id);
    EXPECT_EQ(made->kv_head, own->kv_head);
    EXPECT_EQ(made->q, own->q);
    EXPECT_EQ(made->k, own->k);
    EXPECT_EQ(made->v, own->v);
    EXPECT_EQ(made->lse, own->lse);
    EXPECT_EQ(made->row_positions, own->row_positions);
    // By itself, too, it is a head of a layer that groups its queries.
    EXPECT_EQ(AloneHead(own)->Problem().LayerGroupSize(), 2);
    EXPECT_EQ(layer->Problem().LayerGroupSize(), 2);
    EXPECT_EQ(AloneHead(own)->layer_kv_heads, 4);
    EXPECT_EQ(layer->layer_kv_heads, 4);
  }
}

// A KV head without others in its layer shares its budget with nobody, whether or not all its query heads are there.
TEST(NoteOfMissingHeads, IsOfALayerThatHasOtherKvHeads) {
  const AskedMethod shares = Asked("snap-kv", "allocation=ada"), own = Asked("snap-kv"), together = Asked("tova");
  const auto note = [](const AskedMethod& asked, int32_t num_qo_heads, int32_t num_kv_heads, int32_t heads_of_layer,
                       int32_t layer_kv_heads) {
    MeasuredHeads heads;
    heads.num_qo_heads = num_qo_heads;
    heads.num_kv_heads = num_kv_heads;
    heads.heads_of_layer = heads_of_layer;
    heads.layer_kv_heads = layer_kv_heads;
    return NoteOfMissingHeads(*kernels::FindDecodeMethod(asked.name), asked.values, heads);
  };
  EXPECT_THAT(note(shares, 1, 1, 0, 4), HasSubstr("one by itself has an even share"));
  EXPECT_THAT(note(shares, 2, 1, 8, 4), HasSubstr("one by itself has an even share"));
  EXPECT_THAT(note(shares, 4, 2, 8, 4), HasSubstr("those that were measured shared"));
  EXPECT_THAT(note(shares, 1, 1, 0, 0), HasSubstr("one by itself has an even share")) << "it is not known";
  EXPECT_EQ(note(shares, 1, 1, 0, 1), "");
  EXPECT_EQ(note(shares, 3, 1, 8, 1), "");
  EXPECT_EQ(note(shares, 8, 4, 8, 4), "");
  EXPECT_EQ(note(own, 1, 1, 0, 4), "");
  EXPECT_THAT(note(together, 1, 1, 0, 1), HasSubstr("one by itself has its own"));
}

}  // namespace
}  // namespace headscope::analysis
