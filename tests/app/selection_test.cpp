// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "choices/figure_traces.h"
#include "choices/head_selection.h"

namespace headscope::app {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

std::vector<analysis::HeadId> Recorded() {
  std::vector<analysis::HeadId> heads;
  for (int layer : {0, 1, 4}) {
    for (int head : {0, 1, 2, 3}) heads.push_back({layer, head});
  }
  return heads;
}

TEST(ParseNumberList, TakesRangesAndNumbersSortedWithoutRepeats) {
  EXPECT_THAT(ParseNumberList("7,0-3,2", "layers"), ElementsAre(0, 1, 2, 3, 7));
  EXPECT_THAT(ParseNumberList("", "layers"), IsEmpty());
}

TEST(ParseNumberList, RefusesWhatIsNoList) {
  for (const char* text : {"a", "1,", "-1", "3-1", "1--2", "*", "1 2", "99999999999999999999"}) {
    EXPECT_THROW(ParseNumberList(text, "layers"), UsageError) << text;
  }
  EXPECT_THAT([] { ParseNumberList("3-1", "layers"); }, ThrowsMessage<UsageError>(HasSubstr("layers \"3-1\"")));
}

TEST(NamesOfTraces, HaveTheFoldersThatTellThemApart) {
  EXPECT_THAT(NamesOfTraces({"/data/a/long.h5", "/data/b/short.h5"}), ElementsAre("long", "short"));
  EXPECT_THAT(NamesOfTraces({"/data/a/trace.h5", "/data/b/trace.h5", "/data/b/other.h5"}),
              ElementsAre("a/trace", "b/trace", "other"));
  EXPECT_THAT(NamesOfTraces({"/data/a/x/trace.h5", "/data/b/x/trace.h5", "/data/b/y/trace.h5"}),
              ElementsAre("a/x/trace", "b/x/trace", "y/trace"));
  EXPECT_THAT(NamesOfTraces({"/trace.h5", "/b/trace.h5"}), ElementsAre("trace", "b/trace"));
  EXPECT_THAT(NamesOfTraces({"/data/trace.h5", "/data/./trace.h5"}), ElementsAre("trace (1)", "trace (2)"));
}

TEST(ParseHeads, ChoosesByLayerAndHead) {
  EXPECT_EQ(ParseHeads("", Recorded()).size(), 12u);
  EXPECT_THAT(ParseHeads("4:3", Recorded()), ElementsAre(analysis::HeadId{4, 3}));
  EXPECT_THAT(ParseHeads("0-1:2,1:2", Recorded()), ElementsAre(analysis::HeadId{0, 2}, analysis::HeadId{1, 2}));
  EXPECT_EQ(ParseHeads("*:0", Recorded()).size(), 3u);
  EXPECT_EQ(ParseHeads("4:*", Recorded()).size(), 4u);
}

// compare's rows came sorted, whatever was asked for.
TEST(ParseHeads, AsTypedKeepsTheOrderAndEachHeadOnce) {
  using analysis::HeadId;
  EXPECT_THAT(ParseHeadsAsTyped("4:2,0:1,4:0-2", Recorded()),
              ElementsAre(HeadId{4, 2}, HeadId{0, 1}, HeadId{4, 0}, HeadId{4, 1}));
  EXPECT_THAT(ParseHeads("4:2,0:1,4:2", Recorded()), ElementsAre(HeadId{0, 1}, HeadId{4, 2}));
  EXPECT_EQ(ParseHeadsAsTyped("", Recorded()).size(), 12u);
}

TEST(ParseHeads, RefusesHeadsThatWereNotRecorded) {
  EXPECT_THAT([] { ParseHeads("2:0", Recorded()); },
              ThrowsMessage<UsageError>(HasSubstr("no recorded head matches 2:0")));
  EXPECT_THAT([] { ParseHeads("2:0", Recorded(), "head"); }, ThrowsMessage<UsageError>(HasSubstr("head \"2:0\"")));
  EXPECT_THAT([] { ParseHeads("3", Recorded()); }, ThrowsMessage<UsageError>(HasSubstr("colon")));
}

// 0-99:1 of a trace of ten layers meant 0-9:1.
TEST(ParseHeads, RefusesARangeThatEndsPastTheLast) {
  EXPECT_THAT([] { ParseHeads("0-99:1", Recorded()); },
              ThrowsMessage<UsageError>(HasSubstr("heads \"0-99:1\": the range 0-99 ends past layer 4, the last")));
  EXPECT_THAT([] { ParseHeads("0:2-4", Recorded()); }, ThrowsMessage<UsageError>(HasSubstr("ends past head 3")));
  EXPECT_EQ(ParseHeads("0-4:0", Recorded()).size(), 3u) << "layers 2 and 3 were not recorded";
}

TEST(ParseRange, MustRiseAndStayInside) {
  EXPECT_EQ(ParseRange("", 100, "rows"), std::make_pair(int64_t{0}, int64_t{100}));
  EXPECT_EQ(ParseRange("10:20", 100, "rows"), std::make_pair(int64_t{10}, int64_t{20}));
  EXPECT_EQ(ParseRange(":20", 100, "rows"), std::make_pair(int64_t{0}, int64_t{20}));
  EXPECT_EQ(ParseRange("90:", 100, "rows"), std::make_pair(int64_t{90}, int64_t{100}));
  for (const char* text : {"20:10", "5:5", "0:101", "5", "a:b"})
    EXPECT_THROW(ParseRange(text, 100, "rows"), UsageError) << text;
}

TEST(ParseSize, HasLimits) {
  EXPECT_EQ(ParseSize("640x480", "size"), std::make_pair(640, 480));
  for (const char* text : {"640", "0x5", "15x100", "20000x100", "ax5"})
    EXPECT_THROW(ParseSize(text, "size"), UsageError) << text;
}

}  // namespace
}  // namespace headscope::app
