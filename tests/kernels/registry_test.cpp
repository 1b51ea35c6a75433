// SPDX-License-Identifier: Apache-2.0
// The registry and parameter values: what the command line, the window and the tuner are made from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "kernels/method_names.h"

namespace headscope::kernels {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

std::vector<const MethodSpec*> AllSpecs() {
  std::vector<const MethodSpec*> specs;
  for (const PrefillMethod* method : PrefillMethods()) specs.push_back(&method->spec());
  for (const DecodeMethod* method : DecodeMethods()) specs.push_back(&method->spec());
  return specs;
}

std::vector<std::string> Names(const auto& methods) {
  std::vector<std::string> names;
  for (const auto* method : methods) names.push_back(method->spec().name);
  return names;
}

// (A method's file whose line is missing does not compile: nothing declares its function.)
TEST(Registry, ListsEachMethodOnceAndTheBaselineFirst) {
  const auto check = [](const auto& methods) {
    ASSERT_GE(methods.size(), 20U);
    EXPECT_EQ(methods.front()->spec().name, "dense");
    for (const auto* method : methods) EXPECT_EQ(method->spec().baseline, method == methods.front());
  };
  check(PrefillMethods());
  check(DecodeMethods());
  std::vector<std::string> names = Names(PrefillMethods()), decode = Names(DecodeMethods());
  names.insert(names.end(), decode.begin() + 1, decode.end());  // dense is in both
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

TEST(Registry, FindsByNameAndOnlyByName) {
  for (const PrefillMethod* method : PrefillMethods()) EXPECT_EQ(FindPrefillMethod(method->spec().name), method);
  for (const DecodeMethod* method : DecodeMethods()) EXPECT_EQ(FindDecodeMethod(method->spec().name), method);
  EXPECT_EQ(FindPrefillMethod("sparq"), nullptr);
  EXPECT_EQ(FindPrefillMethod("Dense"), nullptr);
  EXPECT_EQ(FindDecodeMethod(""), nullptr);
}

TEST(MethodNames, AUniqueNameFindsItsMethodAndNoOther) {
  for (const PrefillMethod* method : PrefillMethods()) {
    const NamedMethod found = FindMethod(UniqueName(method->spec()));
    EXPECT_EQ(found.prefill, method);
    EXPECT_EQ(found.decode, nullptr);
    EXPECT_EQ(found.spec(), &method->spec());
  }
  for (const DecodeMethod* method : DecodeMethods()) {
    const NamedMethod found = FindMethod(UniqueName(method->spec()));
    EXPECT_EQ(found.prefill, nullptr);
    EXPECT_EQ(found.decode, method);
    EXPECT_EQ(found.spec(), &method->spec());
    EXPECT_EQ(FindMethod("decode/" + method->spec().name).decode, method);
  }
  for (const char* name : {"", "decode/", "decode/a-shape", "prefill/dense", "decode/decode/dense", "Dense"}) {
    EXPECT_EQ(FindMethod(name).spec(), nullptr) << name;
  }
}

TEST(MethodNames, AreListedForMessages) {
  EXPECT_EQ(MethodNames(),
            "dense, a-shape, vertical-slash, block-sparse, s2-attention, sample-attention, streaming-llm, "
            "sliding-window-prefill, lm-infinite, "
            "big-bird, infllm-prefill, flex-prefill, x-attention, sparge-attn, moba, nsa, infllm-v2, hyper-attention, "
            "hash-sparse, "
            "static-index, oracle-top-k, oracle-blocks, oracle-top-p, decode/dense, sparq, sliding-window, "
            "lm-infinite-decode, exact-top-k, low-rank, quest, twilight, "
            "v-attention, magic-pig, l-serve, infllm, tidal-decode, think, h2o, tova, "
            "snap-kv, pyramid-kv, chunk-kv, knorm, key-diff, lag-kv, expected-attention, cur-dkv");
}

TEST(Registry, DescribesEveryMethodAndParameter) {
  for (const MethodSpec* spec : AllSpecs()) {
    SCOPED_TRACE(spec->name);
    EXPECT_THAT(spec->name, MatchesRegex("[a-z0-9-]+"));
    for (const std::string& text :
         {spec->title, spec->family, spec->paper, spec->summary, spec->always_keeps, spec->selection_cost}) {
      EXPECT_THAT(text, MatchesRegex("[^\n]+"));
    }
    std::set<std::string> names;
    for (const ParameterSpec& parameter : spec->parameters) {
      SCOPED_TRACE(parameter.name);
      EXPECT_TRUE(names.insert(parameter.name).second);
      EXPECT_THAT(parameter.name, MatchesRegex("[a-z0-9_]+"));
      EXPECT_THAT(parameter.help, MatchesRegex("[^\n]+"));
      EXPECT_THAT(parameter.cost, MatchesRegex("[^\n]+"));
      if (!parameter.instead_of.empty()) {
        const auto budget = std::ranges::find(spec->parameters, parameter.instead_of, &ParameterSpec::name);
        ASSERT_NE(budget, spec->parameters.end());
        EXPECT_THAT(budget->unit, AnyOf(Unit::kTokens, Unit::kBlocks));
        EXPECT_EQ(parameter.default_value, 0) << "set by the budget";
      }
      EXPECT_LT(parameter.minimum, parameter.maximum);
      EXPECT_GT(parameter.step, 0);
      EXPECT_LE(std::fabs(parameter.maximum), std::numeric_limits<int32_t>::max());
      ParameterValues values;
      EXPECT_EQ(values.Set(*spec, parameter.name, parameter.default_value), "");
      EXPECT_EQ(values.Set(*spec, parameter.name, parameter.minimum), "");
      EXPECT_EQ(values.Set(*spec, parameter.name, parameter.maximum), "");
    }
  }
  for (const PrefillMethod* method : PrefillMethods()) EXPECT_EQ(method->spec().phase, Phase::kPrefill);
  for (const DecodeMethod* method : DecodeMethods()) EXPECT_EQ(method->spec().phase, Phase::kDecode);
}

// The window names a method by its name alone, whatever its phase; only the baselines share theirs.
TEST(Registry, NamesAreUniqueButForTheBaselines) {
  std::set<std::string> names;
  for (const MethodSpec* spec : AllSpecs()) {
    if (spec->baseline) continue;
    EXPECT_TRUE(names.insert(spec->name).second) << spec->name;
  }
}

TEST(Registry, HasOneBaselineOfEachPhaseWithoutParameters) {
  for (const Phase phase : {Phase::kPrefill, Phase::kDecode}) {
    int baselines = 0;
    for (const MethodSpec* spec : AllSpecs()) {
      if (spec->phase != phase || !spec->baseline) continue;
      ++baselines;
      EXPECT_TRUE(spec->parameters.empty()) << spec->name;
      EXPECT_TRUE(spec->IsStatic()) << spec->name;
    }
    EXPECT_EQ(baselines, 1);
  }
  EXPECT_TRUE(PrefillBaseline().spec().baseline);
  EXPECT_EQ(&PrefillBaseline(), FindPrefillMethod("dense"));
  EXPECT_TRUE(DecodeBaseline().spec().baseline);
  EXPECT_EQ(&DecodeBaseline(), FindDecodeMethod("dense"));
}

TEST(Registry, ParametersAreWhole) {
  for (const MethodSpec* spec : AllSpecs()) {
    for (const ParameterSpec& parameter : spec->parameters) {
      SCOPED_TRACE(spec->name + " " + parameter.name);
      const bool is_choice = parameter.type == ParameterType::kChoice;
      EXPECT_EQ(is_choice, !parameter.choices.empty());
      if (is_choice || parameter.type == ParameterType::kFlag) {
        EXPECT_EQ(parameter.minimum, 0);
        EXPECT_EQ(parameter.maximum, is_choice ? static_cast<double>(parameter.choices.size()) - 1 : 1);
      }
      EXPECT_EQ(parameter.unit == Unit::kShareOfParameter, !parameter.share_of.empty());
      EXPECT_EQ(parameter.unit == Unit::kBlocks, parameter.tokens_per_unit > 1);
      EXPECT_LE(parameter.scaled_floor, std::max(parameter.default_value, 0.0));
      EXPECT_EQ(parameter.role == ParameterRole::kMassShare, parameter.unit == Unit::kShareOfMass);
    }
  }
}

// Of the kvpress library's names: each has its own settings, and no run has one by accident.
TEST(KvpressName, IsThatOfTheEntrysOwnSettings) {
  std::set<std::string> names;
  for (const MethodSpec* spec : AllSpecs()) {
    for (const KvpressEntry& entry : spec->kvpress) {
      ParameterValues values(*spec);
      EXPECT_EQ(values.Parse(*spec, entry.values), "") << spec->name;
      EXPECT_EQ(KvpressName(*spec, values), entry.name) << spec->name;
      EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
      for (const ParameterSpec& parameter : spec->parameters) {
        if (std::ranges::find(entry.given, parameter.name) != entry.given.end()) continue;
        ParameterValues other = values;
        const double at = values.Real(parameter.name);
        ASSERT_EQ(other.Set(*spec, parameter.name, at == parameter.maximum ? parameter.minimum : parameter.maximum),
                  "");
        EXPECT_TRUE(!values.Matters(parameter) || KvpressName(*spec, other) != entry.name) << parameter.name;
      }
    }
  }
  EXPECT_TRUE(names.contains("critical_adakv_snapkv"));
  EXPECT_TRUE(names.contains("streaming_llm"));
  const auto name = [](const char* method, const char* parameters) {
    const MethodSpec& spec = FindDecodeMethod(method)->spec();
    ParameterValues values(spec);
    EXPECT_EQ(values.Parse(spec, parameters), "");
    return KvpressName(spec, values);
  };
  EXPECT_EQ(name("snap-kv", "budget=77"), "snapkv");
  EXPECT_EQ(name("snap-kv", "allocation=ada"), "") << "the paper's AdaKV, which the library lacks";
  EXPECT_EQ(name("knorm", "allocation=kvpress"), "");
  EXPECT_EQ(name("chunk-kv", ""), "") << "its chunks are of 20";
  EXPECT_EQ(name("expected-attention", "critical=1,allocation=kvpress"), "") << "it leaves the values' norms out";
  EXPECT_EQ(name("sliding-window", "n_sink=4,n_local=99"), "streaming_llm");
}

TEST(Units, AreReadAsCounts) {
  EXPECT_EQ(UnitText({.unit = Unit::kTokens}), "tokens");
  EXPECT_EQ(UnitText({.unit = Unit::kBlocks}, /*one=*/true), "block");
  EXPECT_EQ(UnitText({.unit = Unit::kShareOfMass}, /*one=*/true), "share of mass");
  EXPECT_EQ(UnitText({.unit = Unit::kShareOfParameter, .share_of = "k"}), "share of k");
  EXPECT_EQ(UnitText({}), "");
}

TEST(Units, BoundAParameter) {
  const ParameterSpec blocks{.minimum = 1, .maximum = 1 << 14, .unit = Unit::kBlocks, .tokens_per_unit = 64};
  EXPECT_EQ(LargestUseful(blocks, 4097, 0), 65);
  EXPECT_EQ(LargestUseful(blocks, int64_t{1} << 31, 0), 1 << 14);
  const ParameterSpec components{.minimum = 1, .maximum = 1024, .unit = Unit::kComponents};
  EXPECT_EQ(LargestUseful(components, 4097, 96), 96);
  EXPECT_EQ(LargestUseful(components, 4097, 0), 1024) << "not known";
  EXPECT_EQ(LargestUseful({.maximum = 7}, 3, 3), 7) << "a pure number";
}

TEST(ParameterValues, PrintWhatTheyParse) {
  for (const MethodSpec* spec : AllSpecs()) {
    ParameterValues values(*spec);
    for (const ParameterSpec& parameter : spec->parameters) {
      ASSERT_EQ(values.Set(*spec, parameter.name, parameter.minimum), "");
    }
    ParameterValues parsed(*spec);
    EXPECT_EQ(parsed.Parse(*spec, values.ToString(*spec)), "");
    EXPECT_EQ(parsed, values) << values.ToString(*spec);
  }
}

const MethodSpec& SampleSpec() {
  return FindPrefillMethod("sample-attention")->spec();
}

TEST(ParameterValues, ParseNumbersAndFlagsOverThePresentValues) {
  ParameterValues values(SampleSpec());
  EXPECT_EQ(values.Parse(SampleSpec(), " alpha_c = 0.5 ,chunk_n=3, own_rows_only=true"), "");
  EXPECT_EQ(values.Real("alpha_c"), 0.5);
  EXPECT_EQ(values.Integer("chunk_n"), 3);
  EXPECT_TRUE(values.Flag("own_rows_only"));
  EXPECT_EQ(values.Real("alpha_s"), 0.95);
  EXPECT_EQ(values.Parse(SampleSpec(), ""), "");
  EXPECT_EQ(values.Parse(SampleSpec(), "own_rows_only=off"), "");
  EXPECT_FALSE(values.Flag("own_rows_only"));
  EXPECT_EQ(values.ToString(SampleSpec()),
            "alpha_c=0.5,alpha_s=0.95,chunk_n=3,own_rows_only=0,keep_diagonal=0,by_length=off");
}

TEST(ParameterValues, RefuseInOneSentenceAndChangeNothing) {
  ParameterValues values(SampleSpec());
  const ParameterValues before = values;
  const std::pair<const char*, const char*> bad[] = {
      {"alpha_c=1.5", "alpha_c is 1.5; it must be a number from 0 to 1"},
      {"alpha_c=nan", "alpha_c is nan; it must be"},
      {"chunk_n=2.5", "chunk_n is 2.5; it must be an integer from 1 to 64"},
      {"alpha_s=0.1,chunk_n=0", "chunk_n is 0"},
      {"beta=1", "unknown parameter \"beta\", known are alpha_c, alpha_s"},
      {"alpha_c", "\"alpha_c\" is not name=number"},
      {"alpha_c=", "is not name=number"},
      {"alpha_c=0.5x", "is not name=number"},
      {"alpha_c=0,5", "\"5\" is not name=number"},
      {"=1", "unknown parameter \"\""},
      {"alpha_c=0.5, alpha_c=0.5", "alpha_c is given twice"},
      {"alpha_c=0.5,", "nothing follows the last comma"},
      {",alpha_c=0.5", "\"\" is not name=number"},
  };
  for (const auto& [text, words] : bad) {
    const std::string error = values.Parse(SampleSpec(), text);
    EXPECT_THAT(error, HasSubstr(words)) << text;
    EXPECT_THAT(error, HasSubstr("sample-attention"));
    EXPECT_EQ(values, before) << text;
  }
  EXPECT_THAT(ParameterValues().Set(FindPrefillMethod("dense")->spec(), "k", 1), HasSubstr("dense has no parameters"));
}

enum class Pooling : uint8_t { kMean, kMaximum, kNorm };

MethodSpec PoolingSpec() {
  return {.name = "pooled",
          .parameters = {{.name = "pooling",
                          .type = ParameterType::kChoice,
                          .default_value = 1,
                          .maximum = 2,
                          .choices = {"mean", "max", "norm"}},
                         {.name = "count", .default_value = 3, .maximum = 9}}};
}

TEST(ParameterValues, AChoiceIsTypedAndPrintedByItsName) {
  const MethodSpec spec = PoolingSpec();
  ParameterValues values(spec);
  EXPECT_EQ(values.Choice<Pooling>("pooling"), Pooling::kMaximum);
  EXPECT_EQ(values.ToString(spec), "pooling=max,count=3");
  EXPECT_EQ(values.Parse(spec, "pooling=norm"), "");
  EXPECT_EQ(values.Choice<Pooling>("pooling"), Pooling::kNorm);
  ParameterValues read(spec);
  EXPECT_EQ(read.Parse(spec, values.ToString(spec)), "");
  EXPECT_EQ(read, values);
  EXPECT_EQ(values.Set(spec, "pooling", 0), "");
  EXPECT_EQ(values.ToString(spec), "pooling=mean,count=3");
  EXPECT_NE(values.Set(spec, "pooling", 3), "");
  for (const char* text : {"pooling=average", "pooling=1", "pooling=", "pooling=Mean"}) {
    const ParameterValues before = values;
    EXPECT_THAT(values.Parse(spec, text), HasSubstr("it must be one of mean, max, norm")) << text;
    EXPECT_EQ(values, before);
  }
}

TEST(ParameterValues, WordsAreForFlagsOnly) {
  const MethodSpec spec = PoolingSpec();
  ParameterValues values(spec);
  EXPECT_THAT(values.Parse(spec, "count=true"), HasSubstr("\"count=true\" is not name=number"));
  EXPECT_EQ(values.Integer("count"), 3);
}

TEST(ParameterValues, CheckSaysWhetherTheyAreAMethodsOwn) {
  const MethodSpec spec = PoolingSpec();
  EXPECT_EQ(ParameterValues(spec).Check(spec), "");
  EXPECT_THAT(ParameterValues().Check(spec), HasSubstr("pooling has no value; start from the method's defaults"));
  MethodSpec wider = spec;
  wider.parameters[1].maximum = 100;
  ParameterValues values(wider);
  ASSERT_EQ(values.Set(wider, "count", 50), "");
  EXPECT_THAT(values.Check(spec), HasSubstr("count is 50; it must be"));
}

TEST(ParameterValues, AskingForAnUnknownNameIsAProgrammingError) {
  EXPECT_THROW((void)ParameterValues(SampleSpec()).Real("n_sink"), std::out_of_range);
}

}  // namespace
}  // namespace headscope::kernels
