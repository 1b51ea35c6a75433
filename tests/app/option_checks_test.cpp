// SPDX-License-Identifier: Apache-2.0
#include "support/option_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "base/error_with_help.h"
#include "base/errors.h"
#include "support/output_file.h"

namespace headscope::app {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

// One subcommand with two lists and a text in which commas mean nothing.
class Lists : public testing::Test {
 protected:
  Lists() : app_("test") {
    CLI::App* command = app_.add_subcommand("bench", "");
    command->add_option("--lengths", lengths_)->delimiter(',');
    command->add_option("-m,--metrics", metrics_)->delimiter(',');
    command->add_option("--text", text_);
    command->add_flag("--quiet", quiet_);
    command->add_option("trace", trace_);
    PrepareOptions(app_);
  }

  std::string Refusal(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "headscope");
    const std::optional<Fault> fault = EmptyElement(app_, static_cast<int>(arguments.size()), arguments.data());
    return fault ? SentenceOf(*fault) : "";
  }

  CLI::App app_;
  std::vector<int> lengths_;
  std::vector<std::string> metrics_;
  std::string text_, trace_;
  bool quiet_ = false;
};

TEST_F(Lists, AreNamedAsOptionsWhereALowerRoomNamesTheField) {
  const auto named = [&](const Fault& fault) {
    UsageError error(fault);
    NameTheOption(app_, &error);
    return std::string(error.what());
  };
  const Fault fault{.field = "text", .value = "a", .problem = "it is short"};
  EXPECT_EQ(named(fault), "text a: it is short") << "before anything is parsed";
  app_.parse("bench --text a");
  EXPECT_EQ(named(fault), "--text a: it is short");
  EXPECT_EQ(named({.field = "text", .value = "\"a b\"", .problem = "it is long"}), "--text \"a b\": it is long");
  EXPECT_EQ(named({.file = "a.json", .field = "text", .problem = "is no text"}), "a.json: text: is no text");
  EXPECT_EQ(named({.field = "trace", .value = "x.h5", .problem = "is a positional"}), "trace x.h5: is a positional");
  EXPECT_EQ(named({.field = "unknown", .value = "a", .problem = "b"}), "unknown a: b");
  EXPECT_EQ(named({.problem = "text a: it is short"}), "text a: it is short") << "a sentence is not taken apart";
}

// A command whose options take numbers from a range.
class Ranges : public testing::Test {
 protected:
  Ranges() : app_("test") {
    command_ = app_.add_subcommand("bench", "");
    LimitIntegers(command_->add_option("--repeat", repeat_, "Timed repeats"), 1, 8);
    LimitIntegers(command_->add_option("--rows", rows_, "Rows")->delimiter(','), 1);
    LimitIntegers(command_->add_option("--seed", seed_, "Seed"), 0, std::numeric_limits<int64_t>::max());
    LimitNumbers(command_->add_option("--seconds", seconds_, "How long"), 0.5, 600);
    command_->add_option("--any", any_, "Of no range");
    PrepareOptions(app_);
  }

  std::string Refusal(const std::string& option, const std::string& text) {
    try {
      app_.parse(std::vector<std::string>{text, option, "bench"});  // CLI11 takes them last first
    } catch (const CLI::ValidationError& refused) {
      return refused.what();
    }
    return "";
  }

  CLI::App app_;
  CLI::App* command_ = nullptr;
  int32_t repeat_ = 1, any_ = 0;
  std::vector<int64_t> rows_;
  uint64_t seed_ = 0;
  double seconds_ = 1;
};

TEST_F(Ranges, StandInTheHelp) {
  const std::string help = command_->help();
  for (const char* said : {"Timed repeats; 1 to 8", "Rows; from 1", "Seed; from 0", "How long; 0.5 to 600"})
    EXPECT_THAT(help, HasSubstr(said));
  EXPECT_THAT(help, testing::Not(HasSubstr("[1")));
}

TEST_F(Ranges, RefuseWhatIsOutside) {
  for (const char* text : {"0", "9", "-1", "1.5", "two", "99999999999999999999"}) {
    EXPECT_THAT(Refusal("--repeat", text), HasSubstr("--repeat: must be an integer from 1 to 8, not ")) << text;
  }
  EXPECT_THAT(Refusal("--rows", "5,0"), HasSubstr("must be an integer from 1 to 2147483647, not 0"));
  EXPECT_THAT(Refusal("--seconds", "0.4"), HasSubstr("must be a number from 0.5 to 600, not 0.4"));
  EXPECT_THAT(Refusal("--seconds", "nan"), HasSubstr("must be a number"));
  EXPECT_THAT(Refusal("--any", "4294967296"), HasSubstr("--any: must be an integer from"));
  for (const char* option : {"--repeat", "--rows", "--seconds", "--any"})
    EXPECT_THAT(Refusal(option, ""), HasSubstr("is empty")) << option;
}

TEST_F(Ranges, TakeTheirEnds) {
  EXPECT_EQ(Refusal("--repeat", "8"), "");
  EXPECT_EQ(repeat_, 8);
  EXPECT_EQ(Refusal("--rows", "1,2147483647"), "");
  EXPECT_THAT(rows_, ElementsAre(1, 2147483647));
  EXPECT_EQ(Refusal("--seed", "9223372036854775807"), "");
  EXPECT_EQ(seed_, 9'223'372'036'854'775'807U);
  EXPECT_EQ(Refusal("--seconds", "600"), "");
  EXPECT_EQ(seconds_, 600);
}

TEST_F(Lists, SayThatAnOptionReplacesAnOutput) {
  OutputExistsError exists({.field = "output", .value = "a.json", .problem = "it exists", .remedy = "choose another"});
  NameTheOption(app_, &exists);
  EXPECT_STREQ(exists.what(), "output a.json: it exists; choose another; or give --force to replace it");
}

TEST_F(Lists, NameTheSubcommandThatHelps) {
  const auto named = [&](Help help) {
    ErrorWithHelp<BadInputError> error({.file = "a", .problem = "is none", .remedy = "give one"}, help);
    NameTheOption(app_, &error);
    EXPECT_EQ(error.kind(), ErrorKind::kBadInput);
    return std::string(error.what());
  };
  EXPECT_EQ(named(Help::kCapture), "a: is none; give one; `headscope capture` writes one");
  EXPECT_EQ(named(Help::kSaveIndex),
            "a: is none; give one; `headscope compare` and `headscope bench` write one with --save-index");
  BadInputError plain({.file = "a", .problem = "is none", .remedy = "give one"});
  NameTheOption(app_, &plain);
  EXPECT_STREQ(plain.what(), "a: is none; give one");
}

TEST_F(Lists, ThatAreFullPass) {
  EXPECT_EQ(Refusal({"bench", "--lengths", "512,3", "--metrics=a,b", "--text", "a,,b"}), "");
  EXPECT_EQ(Refusal({"bench", "--lengths", "512", "--lengths", "1024", "-m", "a"}), "");
  EXPECT_EQ(Refusal({}), "");
  EXPECT_EQ(Refusal({"no-command", "--lengths", ","}), "");
  EXPECT_EQ(Refusal({"bench", "--no-option", "a,,b"}), "");
}

TEST_F(Lists, WithAnEmptyElementNameTheOptionAndTheText) {
  for (const char* text : {"512,,3", "512,", ",512", ","}) {
    EXPECT_THAT(Refusal({"bench", "--lengths", text}), AllOf(HasSubstr("--lengths"), HasSubstr(text))) << text;
  }
  EXPECT_THAT(Refusal({"bench", "--metrics=a,,b"}), HasSubstr("--metrics \"a,,b\""));
  EXPECT_THAT(Refusal({"bench", "-m", "a,"}), HasSubstr("--metrics \"a,\""));
  EXPECT_THAT(Refusal({"bench", "--lengths", "1", "--lengths", "2,,3"}), HasSubstr("--lengths \"2,,3\""));
}

TEST_F(Lists, AreNotReadInAnotherOptionsValueThatBeginsAsAnOptionDoes) {
  for (const char* text : {"--metrics=a,,b", "-m=a,,b", "--metrics"}) {
    const std::vector<const char*> arguments = {"bench", "--text", text, "a,,b.h5"};
    EXPECT_EQ(Refusal(arguments), "") << text;
    app_.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    EXPECT_EQ(text_, text) << "as CLI11 reads it";
  }
  EXPECT_THAT(Refusal({"bench", "--quiet", "--metrics=a,,b"}), HasSubstr("--metrics \"a,,b\"")) << "a flag has none";
}

TEST_F(Lists, TakeOneArgumentAndLeaveTheNextToTheTrace) {
  for (const char* trace : {"a.h5", "a,,b.h5", ",a.h5", "a,"}) {
    const std::vector<const char*> arguments = {"bench", "--metrics", "a,b", trace, "--lengths=1", "--metrics", "c"};
    EXPECT_EQ(Refusal(arguments), "") << trace;
    app_.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // CLI11 takes them last first
    EXPECT_EQ(trace_, trace);
    EXPECT_THAT(metrics_, ElementsAre("a", "b", "c"));
    EXPECT_THAT(lengths_, ElementsAre(1));
  }
}

}  // namespace
}  // namespace headscope::app
