// The registry and parameter values: what the command line, the window and the tuner are made from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "kernels/method_names.h"

namespace headscope::kernels {
namespace {

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

TEST(Registry, ListsTheMethodsDenseFirst) {
  EXPECT_THAT(Names(PrefillMethods()),
              ElementsAre("dense", "a-shape", "vertical-slash", "block-sparse", "s2-attention", "sample-attention"));
  EXPECT_THAT(Names(DecodeMethods()), ElementsAre("dense", "sparq", "sliding-window"));
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
            "dense, a-shape, vertical-slash, block-sparse, s2-attention, sample-attention, decode/dense, sparq, "
            "sliding-window");
}

TEST(Registry, DescribesEveryMethodAndParameter) {
  for (const MethodSpec* spec : AllSpecs()) {
    SCOPED_TRACE(spec->name);
    EXPECT_THAT(spec->name, MatchesRegex("[a-z0-9-]+"));
    for (const std::string& text : {spec->title, spec->family, spec->paper, spec->summary}) {
      EXPECT_THAT(text, MatchesRegex("[^\n]+"));
    }
    std::set<std::string> names;
    for (const ParameterSpec& parameter : spec->parameters) {
      SCOPED_TRACE(parameter.name);
      EXPECT_TRUE(names.insert(parameter.name).second);
      EXPECT_THAT(parameter.name, MatchesRegex("[a-z0-9_]+"));
      EXPECT_THAT(parameter.help, MatchesRegex("[^\n]+"));
      EXPECT_THAT(parameter.cost, MatchesRegex("[^\n]+"));
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
  EXPECT_EQ(values.ToString(SampleSpec()), "alpha_c=0.5,alpha_s=0.95,chunk_n=3,own_rows_only=0,keep_diagonal=0");
}

TEST(ParameterValues, RefuseInOneSentenceAndChangeNothing) {
  ParameterValues values(SampleSpec());
  const ParameterValues before = values;
  const std::pair<const char*, const char*> bad[] = {
      {"alpha_c=1.5", "alpha_c is 1.5, legal is a number from 0 to 1"},
      {"alpha_c=nan", "alpha_c is nan, legal is"},
      {"chunk_n=2.5", "chunk_n is 2.5, legal is a whole number from 1 to 64"},
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

TEST(ParameterValues, AskingForAnUnknownNameIsAProgrammingError) {
  EXPECT_THROW((void)ParameterValues(SampleSpec()).Real("n_sink"), std::out_of_range);
}

}  // namespace
}  // namespace headscope::kernels
