// SPDX-License-Identifier: Apache-2.0
#include "choices/method_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "base/errors.h"
#include "choices/file_method.h"

namespace headscope::app {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;

TEST(ParseMethod, TakesNameAndParameters) {
  const MethodChoice choice = ParseMethod("a-shape:n_sink=16,n_local=256");
  ASSERT_NE(choice.prefill, nullptr);
  EXPECT_EQ(choice.values.Integer("n_sink"), 16);
  EXPECT_EQ(choice.values.Integer("n_local"), 256);
}

TEST(ParseMethod, NamesTheKnownOnes) {
  EXPECT_THAT([] { ParseMethod("nothing"); }, ThrowsMessage<UsageError>(HasSubstr("vertical-slash")));
  EXPECT_THROW(ParseMethod("a-shape:n_sink=-1"), UsageError);
  EXPECT_THROW(ParseMethod("a-shape:no_such=1"), UsageError);
  EXPECT_THROW(ParseMethod("a-shape:n_sink"), UsageError);
}

TEST(MethodArgument, IsWhatParseMethodTakes) {
  EXPECT_EQ(MethodArgument("a-shape", "n_sink=16"), "a-shape:n_sink=16");
  EXPECT_EQ(MethodArgument("dense", ""), "dense");
  EXPECT_EQ(MethodArgument("mask-file[masks/my mask.json]", ""), "mask-file:path=masks/my mask.json");
  EXPECT_EQ(MethodArgument("duo-attention[a.tsv]", "sinks=64"), "duo-attention:path=a.tsv,sinks=64");
  EXPECT_EQ(MethodArgument("decode/duo-attention[a.tsv]", ""), "decode/duo-attention:path=a.tsv");
  // The way back: the file is asked for, so the name was understood.
  EXPECT_THAT([] { ParseMethod(MethodArgument("mask-file[no such file.json]", "")); },
              ThrowsMessage<std::exception>(HasSubstr("no such file.json")));
}

// The path ended at its first comma: another file than the one that was named was asked for.
TEST(MethodArgument, NamesAFileWithCommasInItsName) {
  EXPECT_EQ(MethodArgument("mask-file[a,b/m.json]", ""), "mask-file:path=a,b/m.json");
  EXPECT_EQ(MethodArgument("duo-attention[a=1,b.tsv]", "sinks=64"), "duo-attention:path=a=1,b.tsv,sinks=64");
  EXPECT_EQ(MethodArgument("duo-attention[a,x=1.tsv]", "sinks=64"), "duo-attention:path=\"a,x=1.tsv\",sinks=64");
  EXPECT_EQ(MethodArgument("mask-file[\"a\".json]", ""), "mask-file:path=\"\"\"a\"\".json\"");
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "runs,x=1,of \"two\"";
  std::filesystem::create_directories(folder);
  for (const char* name : {"a,b.tsv", "a,b=1.tsv", "\"a\".tsv", "a,", "a,,b", "=", "\"", "a\",b=1"}) {
    const std::filesystem::path file = folder / name;
    std::ofstream(file) << "0.25\t0.75\n";
    for (const std::string parameters : {"", "threshold=0.25"}) {
      const std::string own = "duo-attention[" + file.string() + "]";
      const MethodChoice choice = ParseMethod(MethodArgument(own, parameters));
      EXPECT_EQ(choice.name, own);
      EXPECT_EQ(choice.values.Real("threshold"), parameters.empty() ? 0.5 : 0.25);
    }
  }
  std::filesystem::remove_all(folder);
}

TEST(ParseMethod, TakesAPathWithCommasAndQuotesAmongParameters) {
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "one,two.tsv";
  std::ofstream(file) << "0.25\t0.75\n";
  for (const std::string& path : {file.string(), '"' + file.string() + '"'}) {
    const MethodChoice choice = ParseMethod("duo-attention:n_sink=3,path=" + path + ",threshold=0.25");
    EXPECT_EQ(choice.name, "duo-attention[" + file.string() + "]");
    EXPECT_EQ(choice.values.Real("threshold"), 0.25);
    EXPECT_EQ(choice.values.Integer("n_sink"), 3);
  }
  for (const char* path : {"path=\"a.tsv", "path=\"a.tsv\"x", "path=\"", "path=\"a\"\""}) {
    EXPECT_THAT(
        [&] { ParseMethod(std::string("duo-attention:") + path); },
        ThrowsMessage<UsageError>(HasSubstr("the quotes of path= do not end with the path; write path=\"FILE\"")))
        << path;
  }
  EXPECT_THAT([] { ParseMethod("duo-attention:path=\"\""); }, ThrowsMessage<UsageError>(HasSubstr("no file is given")));
}

// One file, two methods: either may be asked for first.
TEST(ParseMethod, MakesAFilesMethodsOfBothPhases) {
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "shares of both phases.tsv";
  std::ofstream(file) << "0.25\t0.75\n";
  const std::string path = "path=" + file.string();
  const MethodChoice decode = ParseMethod("decode/duo-attention:threshold=0.25," + path);
  ASSERT_NE(decode.decode, nullptr);
  EXPECT_EQ(decode.name, "decode/duo-attention[" + file.string() + "]");
  EXPECT_EQ(decode.values.Real("threshold"), 0.25);
  const MethodChoice prefill = ParseMethod("duo-attention:" + path);
  ASSERT_NE(prefill.prefill, nullptr);
  EXPECT_EQ(prefill.name, "duo-attention[" + file.string() + "]");
  EXPECT_EQ(ParseMethod("decode/duo-attention:" + path).decode, decode.decode) << "read once";
  EXPECT_THAT([&] { ParseMethod("decode/mask-file:" + path); },
              ThrowsMessage<UsageError>(HasSubstr("mask-file makes prefill methods alone; write mask-file:path=FILE")));
  EXPECT_THAT([] { ParseMethod("decode/duo-attention"); },
              ThrowsMessage<UsageError>(HasSubstr("no file is given; write decode/duo-attention:path=FILE")));
}

TEST(ParseMethod, NamesTheFieldThatHasTheText) {
  EXPECT_THAT([] { ParseMethod("a-shape:n_foo=3"); },
              ThrowsMessage<UsageError>(StartsWith("method: method a-shape: unknown parameter \"n_foo\"")));
  EXPECT_THAT([] { ParseMethod("a-shape:n_foo=3", "methods"); },
              ThrowsMessage<UsageError>(StartsWith("methods: method a-shape: ")));
  EXPECT_THAT([] { ParseMethod("nothing", "methods"); }, ThrowsMessage<UsageError>(StartsWith("methods: \"nothing\"")));
}

TEST(ParseMethod, DenseExistsInBothPhases) {
  EXPECT_NE(ParseMethod("dense").prefill, nullptr);
  EXPECT_NE(ParseMethod("decode/dense").decode, nullptr);
  EXPECT_NE(ParseMethod("sparq").decode, nullptr);
}

TEST(DemonstrationMethods, AreAllRegisteredOnes) {
  const std::vector<MethodChoice> choices = DemonstrationMethods(4096);
  EXPECT_EQ(choices.size(), kernels::PrefillMethods().size() + kernels::DecodeMethods().size());
  std::set<std::string> names;
  for (const MethodChoice& choice : choices) names.insert(choice.name);
  EXPECT_EQ(names.size(), choices.size());
}

// What a prompt of 4096 tokens gets of the papers' lengths, as it was before the registry said which of them shrink.
TEST(DemonstrationMethods, ShrinkLengthsDownToTheirFloors) {
  std::map<std::string, std::string> run;
  for (const MethodChoice& choice : DemonstrationMethods(4096)) run[choice.name] = choice.values.ToString(*choice.spec);
  EXPECT_EQ(run["a-shape"], "n_sink=64,n_local=256");
  EXPECT_EQ(run["vertical-slash"], "n_vertical=32,n_slash=94,last_q=64,forced_columns=0,forced_slashes=0");
  EXPECT_EQ(run["block-sparse"], "n_blocks=8");
  for (const MethodChoice& choice : DemonstrationMethods(65536))
    EXPECT_EQ(choice.values, kernels::ParameterValues(*choice.spec)) << choice.name;
}

}  // namespace
}  // namespace headscope::app
