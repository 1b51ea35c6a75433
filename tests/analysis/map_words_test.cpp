// SPDX-License-Identifier: Apache-2.0
#include "analysis/types/map_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "analysis/types/token_spans.h"
#include "base/version.h"

namespace headscope::analysis {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

MapOnShow MapOf(ViewKind view) {
  MapOnShow map;
  map.view = view;
  map.head = {4, 3};
  map.kv_head = 1;
  map.source = {"tiny", "task passkey", "a.h5", 4096, 0};
  map.last_query = 4095;
  map.last_key = 4095;
  map.method = MapMethod{.title = "Vertical-slash", .summary = {}, .num_rows = 4090};
  map.method->summary.parameters = "n_slash=10";
  map.method->summary.kept_fraction = 0.125;
  map.method->summary.cra_min = 0.25;
  map.method->summary.cra_p5 = 0.5;
  map.method->summary.cra_mean = 0.75;
  return map;
}

TEST(MapWords, ATitleNamesTheHeadAndTheSourceWhereItIsFrom) {
  const MapCaption caption = DescribeMap(MapOf(ViewKind::kScores));
  EXPECT_EQ(caption.title, "Attention map of layer 4, head 3 (KV head 1)");
  EXPECT_EQ(caption.source,
            std::string("tiny, task passkey, 4,096 tokens: queries 0 to 4095, keys 0 to 4095 (a.h5, headscope ") +
                Version() + ")");
  EXPECT_THAT(caption.lines, ElementsAre("Colour: attention probability p, the largest of a pixel's scores, "
                                         "logarithmic scale. Hatched: keys after the query."))
      << "the method's mask is not on show";
}

TEST(MapWords, AMaskSaysItsMethodWhatItKeepsAndWhichOfItIsGrey) {
  MapOnShow map = MapOf(ViewKind::kOverlay);
  map.profiles = true;
  EXPECT_THAT(DescribeMap(map).lines,
              ElementsAre(StartsWith("Colour: attention probability p"),
                          "Right of the map: share of each query's attention on the visible keys, grey, and kept by "
                          "the method, blue. Below: mean p per key.",
                          "Vertical-slash (n_slash=10). Grey: left out; kept: 12.50 % of the scores. CRA of 4,090 "
                          "queries: min 0.250, 5th percentile 0.500, mean 0.750."));
  map.view = ViewKind::kLost;
  EXPECT_THAT(DescribeMap(map).Legend(), HasSubstr("Grey: kept, colours: left out; kept: 12.50 %"));
  map.view = ViewKind::kMask;
  EXPECT_THAT(DescribeMap(map).Legend(), HasSubstr("Colour: share of a pixel's scores that the method keeps."));
  EXPECT_THAT(DescribeMap(map).Legend(), Not(HasSubstr("Grey")));
  map.source.first_token = 100;
  map.outside_mass = 0.25;
  EXPECT_THAT(DescribeMap(map).Legend(), HasSubstr("of the cut's scores"));
  EXPECT_THAT(DescribeMap(map).Legend(), HasSubstr("0.750. 25.0 % of the attention lies on tokens before the cut."));
}

TEST(MapWords, AComparisonNamesBothSides) {
  MapOnShow map = MapOf(ViewKind::kOverlap);
  map.other_method = map.method;
  map.other_method->title = "A-shape";
  map.overlap = MaskOverlap{.first_alone = 1, .second_alone = 20, .both = 79, .pairs = 1000};
  const MapCaption masks = DescribeMap(map);
  EXPECT_THAT(masks.lines, SizeIs(3));
  EXPECT_THAT(masks.lines[0], HasSubstr("Orange: 1 Vertical-slash only: 0.10 % (1 score); blue: 2 A-shape only: 2.00 % "
                                        "(20 scores); green: both: 7.90 % (79 scores)."));
  EXPECT_THAT(masks.lines[1], StartsWith("1 Vertical-slash (n_slash=10); kept: "));
  EXPECT_THAT(masks.lines[2], StartsWith("2 A-shape (n_slash=10); kept: "));
  map = MapOf(ViewKind::kOther);
  map.other_head = HeadId{2, 7};
  map.other_trace = "b.h5";
  map.compared_rows = 1000;
  const MapCaption values = DescribeMap(map);
  EXPECT_THAT(values.lines, SizeIs(1)) << "methods have no part in it";
  EXPECT_THAT(values.lines[0], HasSubstr("attention probability of head 2:7 of b.h5 minus this head's"));
  EXPECT_THAT(values.lines[0], HasSubstr("Compared: the first 1,000 queries, which both have."));
}

TEST(MapWords, WhatIsNotThereIsNotExplained) {
  MapOnShow map = MapOf(ViewKind::kScores);
  map.causal = false;
  map.kv_head = -1;
  map.source = {};
  map.source.num_tokens = 5;
  const MapCaption caption = DescribeMap(map);
  EXPECT_THAT(caption.Legend(), Not(HasSubstr("Hatched")));
  EXPECT_THAT(caption.Legend(), Not(HasSubstr("Orange")));
  EXPECT_EQ(caption.title, "Attention map of layer 4, head 3");
  EXPECT_THAT(caption.source, StartsWith("5 tokens: queries"));
  map.answers = true;
  EXPECT_THAT(DescribeMap(map).Legend(), HasSubstr("Orange on the axes: the task's answer."));
}

TEST(MapWords, LinesBreakBetweenWordsAndLoseNone) {
  const std::string text = "of each query’s attention on the visible keys, unbreakable_and_longer_than_a_line, grey";
  const std::vector<std::string> lines = WrapWords(text, 100, 10);
  std::string again;
  for (const std::string& line : lines) {
    EXPECT_TRUE(line.size() <= 19 || line.find(' ') == std::string::npos) << line;
    again += (again.empty() ? "" : " ") + line;
  }
  EXPECT_EQ(again, text);
  EXPECT_GT(lines.size(), 4U);
  EXPECT_THAT(WrapWords("", 100, 10), SizeIs(0));
}

TEST(TokenSpans, AnAnswerIsFoundAcrossTokensAndTheModelsOwnCountsOnce) {
  const std::vector<std::string> tokens = {"is", " 4", "2.", " So", " 42"};
  EXPECT_THAT(AnswerSpans(" 42", tokens, {0, 0}), ElementsAre(TokenSpan{1, 3}, TokenSpan{4, 5}));
  EXPECT_THAT(AnswerSpans(" 42", tokens, {4, 5}), ElementsAre(TokenSpan{1, 3}, TokenSpan{4, 5}));
  EXPECT_THAT(AnswerSpans("", tokens, {3, 4}), ElementsAre(TokenSpan{3, 4}));
  EXPECT_THAT(AnswerSpans("", tokens, {3, 9}), SizeIs(0)) << "beyond the trace";
}

}  // namespace
}  // namespace headscope::analysis
