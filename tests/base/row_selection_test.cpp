// SPDX-License-Identifier: Apache-2.0
#include "base/row_selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"

namespace headscope {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

TEST(RowSelection, KeepsWhatItsTextSays) {
  const auto kept = [](const std::string& text) {
    RowSelection rows(text);
    rows.Draw(10);
    std::vector<int64_t> positions;
    for (int64_t i = 0; i < 12; ++i) {
      if (rows.Keeps(i, 10)) positions.push_back(i);
    }
    return positions;
  };
  EXPECT_THAT(kept("all"), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_THAT(kept("last:2"), ElementsAre(8, 9, 10, 11));
  EXPECT_THAT(kept("last:99"), ::testing::SizeIs(12));
  EXPECT_THAT(kept("every:4"), ElementsAre(0, 4, 8, 10, 11));
  const std::vector<int64_t> drawn = kept("random:4");
  EXPECT_THAT(drawn, ::testing::SizeIs(6));  // and the two rows of decode steps
  EXPECT_THAT(std::vector(drawn.end() - 2, drawn.end()), ElementsAre(10, 11));
  EXPECT_EQ(drawn, kept("random:4:1"));
  EXPECT_NE(drawn, kept("random:4:2"));
  EXPECT_THAT(kept("random:99"), ::testing::SizeIs(12));
  EXPECT_THAT(kept("2:4"), ElementsAre(2, 3, 10, 11));
  EXPECT_THAT(kept("7:10,0:2,1:3"), ElementsAre(0, 1, 2, 7, 8, 9, 10, 11));
  EXPECT_THROW(kept("2:11"), UsageError) << "behind the prompt";
  RowSelection ranges("0:2,2:5,8:9,4:6");
  ranges.Draw(10);
  EXPECT_EQ(ranges.Count(10), 7) << "a row of two ranges counts once";
  EXPECT_EQ(ranges.Count(3), 3) << "of a prompt that is shorter than was thought";
  for (const char* bad : {"",           "2:2",       "3:2",
                          "1",          "1:",        "1:2,",
                          "1:2;3:4",    "1:2 ",      "1:99999999999999999999",
                          "random",     "random:0",  "random:3:",
                          "random:3:x", "every:2:3", "last",
                          "last:",      "last:0",    "every:-1",
                          "every:4x",   "first:3",   "all:1"})
    EXPECT_THROW(RowSelection{bad}, UsageError) << bad;
}

TEST(RowSelection, OfSomeRowsRefusesAll) {
  RowSelection some = RowSelection::SomeOf("every:4", "some");
  some.Draw(10);
  EXPECT_EQ(some.Count(10), 3);
  EXPECT_THAT([] { RowSelection::SomeOf("all", "some"); },
              ThrowsMessage<UsageError>(StartsWith("some \"all\": it must be last:N")));
}

}  // namespace
}  // namespace headscope
