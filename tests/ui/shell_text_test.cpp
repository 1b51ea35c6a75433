// SPDX-License-Identifier: Apache-2.0
// What the window makes of typed text: the palette's search, the table's filter, the search for tokens, lists of
// layers.
#include <gtest/gtest.h>

#include <QStringList>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "capture_estimate.h"
#include "fuzzy_match.h"
#include "head_filter.h"
#include "metric_histogram.h"
#include "shown_text.h"
#include "similar_heads.h"
#include "support/attempts.h"
#include "text_pane.h"
#include "token_search.h"

namespace headscope::ui {
namespace {

using analysis::HeadId;

TEST(ShownTextTest, DigitsOfCountsAreGrouped) {
  EXPECT_EQ(CountText(999), QStringLiteral("999"));
  EXPECT_EQ(CountText(16384), QStringLiteral("16,384"));
  EXPECT_EQ(CountText(131072LL * 131072), QStringLiteral("17,179,869,184"));
}

TEST(TokenViewTest, LinesBreakWhereTheTextDoesAndWhereTheyAreFull) {
  EXPECT_EQ(BreakLines({10, 10, 10, 10}, {false, false, false, false}, 25), (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(BreakLines({10, 10, 10, 10}, {true, false, false, false}, 100), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(BreakLines({90, 10}, {false, false}, 50), (std::vector<int64_t>{0, 1})) << "a long token has its line";
  EXPECT_TRUE(BreakLines({}, {}, 50).empty());
}

TEST(TokenViewTest, TintsGoFromAUniformShareToTheStrongestKeyByTheLogarithm) {
  // Four attended keys: uniform is 0.25.
  const std::vector<float> tints = TintsOf({0.64f, 0.4f, 0.1f, 0.06f, 0.0f});
  EXPECT_FLOAT_EQ(tints[0], 1);
  EXPECT_NEAR(static_cast<double>(tints[1]), std::log(0.4 / 0.25) / std::log(0.64 / 0.25), 1e-6);
  EXPECT_EQ(tints[2], 0);
  EXPECT_EQ(tints[4], 0);
  EXPECT_EQ(TintsOf({0.5f, 0.5f}), (std::vector<float>{0, 0})) << "uniform: nothing stands out";
}

TEST(FuzzyMatch, LettersMustOccurInOrder) {
  EXPECT_GE(FuzzyScore("drk", "Dark colours"), 0);
  EXPECT_GE(FuzzyScore("DRK COL", "Dark colours"), 0);
  EXPECT_EQ(FuzzyScore("krd", "Dark colours"), -1);
  EXPECT_EQ(FuzzyScore("darkk", "Dark"), -1);
  EXPECT_EQ(FuzzyScore("a", ""), -1);
  EXPECT_EQ(FuzzyScore("", "Dark"), 0);
  EXPECT_EQ(FuzzyScore("  ", ""), 0);
}

TEST(FuzzyMatch, WordStartsAndRunsOfLettersCountMore) {
  EXPECT_GT(FuzzyScore("ra", "Run all methods"), FuzzyScore("ra", "Linear map"));
  EXPECT_GT(FuzzyScore("fit", "Fit the whole map"), FuzzyScore("fit", "Find token text"));
  EXPECT_GT(FuzzyScore("mask", "Mask overlay"), FuzzyScore("mask", "Map a sink"));
}

// The score by trying every way to place the letters.
int BestByEnumeration(const QString& pattern, const QString& text, int letter, int from, int last) {
  if (letter == pattern.size()) return 0;
  int best = -1;
  for (int at = from; at < text.size(); ++at) {
    if (text[at].toCaseFolded() != pattern[letter].toCaseFolded()) continue;
    const int rest = BestByEnumeration(pattern, text, letter + 1, at + 1, at);
    if (rest < 0) continue;
    const bool word_start = at == 0 || !text[at - 1].isLetterOrNumber();
    best = std::max(best, 1 + (word_start ? 6 : 0) + (letter > 0 && at == last + 1 ? 7 : 0) + rest);
  }
  return best;
}

TEST(FuzzyMatch, FindsTheBestOfAllPlacements) {
  const QStringList texts = {"aab aba", "a b ab", "bbaab", "abab-abb", "b", "aa ab ba bab"};
  const QStringList patterns = {"a", "ab", "aab", "abb", "bab", "aaaa", "abab"};
  for (const QString& text : texts) {
    for (const QString& pattern : patterns) {
      EXPECT_EQ(FuzzyScore(pattern, text), BestByEnumeration(pattern, text, 0, 0, -2))
          << pattern.toStdString() << " in " << text.toStdString();
    }
  }
}

// Characters beyond 16 bits, which are pairs, at each of the places where the text is cut.
TEST(ShownText, AShortNameIsMadeOfWholeCharacters) {
  const QString pair = QString::fromUcs4(U"\U0001F9E0");
  ASSERT_EQ(pair.size(), 2);
  EXPECT_EQ(ShownShort(QString(41, u'a')), QString(19, u'a') + QChar(0x2026) + QString(20, u'a'));
  for (int before = 0; before < 60; ++before) {
    const QString text = QString(before, u'a') + pair.repeated(3) + QString(60 - before, u'b'),
                  shown = ShownShort(text);
    EXPECT_TRUE(shown.isValidUtf16()) << before << ": " << shown.toStdString();
    EXPECT_LE(shown.size(), 40);
    EXPECT_GE(shown.size(), 38);
    EXPECT_TRUE(text.startsWith(shown.section(QChar(0x2026), 0, 0)));
    EXPECT_TRUE(text.endsWith(shown.section(QChar(0x2026), 1)));
  }
}

TEST(HeadFilter, LayersHeadsClassesAndNumbersMustAllHold) {
  analysis::HeadStatistics statistics;
  statistics.row_means = {{"kurtosis", 2.5}};
  statistics.sink_mass = 0.75;
  statistics.head_class = analysis::HeadClass::kSinkLocal;
  const auto accepts = [&](const char* text, HeadId head) {
    const HeadFilter filter = HeadFilter::Parse(text);
    EXPECT_TRUE(filter.error().isEmpty()) << filter.error().toStdString();
    return filter.Accepts(head, &statistics);
  };
  EXPECT_TRUE(accepts("", {4, 3}));
  EXPECT_TRUE(accepts("4:", {4, 3}));
  EXPECT_FALSE(accepts("4:", {14, 3}));
  EXPECT_TRUE(accepts("4:3", {4, 3}));
  EXPECT_FALSE(accepts("4:3", {4, 30}));
  for (const HeadId head : {HeadId{4, 3}, HeadId{5, 0}, HeadId{5, 9}, HeadId{7, 1}})
    EXPECT_TRUE(accepts("4:3,5:,7:1", head)) << head.layer << ':' << head.head;
  EXPECT_FALSE(accepts("4:3,5:,7:1", {4, 1}));
  EXPECT_TRUE(accepts(HeadFilter::WordOf({{4, 3}, {7, 1}}).toUtf8().constData(), {7, 1}));
  EXPECT_NE(HeadFilter::Parse("4:3,").error(), QString());
  EXPECT_TRUE(accepts("SINK", {0, 0}));
  EXPECT_FALSE(accepts("retrieval", {0, 0}));
  EXPECT_TRUE(accepts("kurtosis>=2.5", {0, 0}));
  EXPECT_FALSE(accepts("kurtosis>2.5", {0, 0}));
  EXPECT_TRUE(accepts("kurtosis<=2.5", {0, 0}));
  EXPECT_FALSE(accepts("kurtosis<2.5", {0, 0}));
  EXPECT_TRUE(accepts("4: sink kurtosis>2 sink_mass>7e-1", {4, 1}));
  EXPECT_TRUE(accepts("layer=4 head>=1 head<2", {4, 1}));
  EXPECT_FALSE(accepts("layer=4 head>=1 head<2", {4, 2}));
  EXPECT_FALSE(accepts("layer=4", {14, 1}));
  EXPECT_TRUE(accepts("class=sink+local", {0, 0}));
  EXPECT_TRUE(accepts("class=sink+", {0, 0})) << "no class is called so: part of a name";
  EXPECT_FALSE(accepts("class=sink", {0, 0})) << "a class of its own";
  EXPECT_TRUE(accepts("local", {0, 0})) << "a word alone is part of a name";
  EXPECT_FALSE(accepts("class=block", {0, 0}));
  // Equal at the digits typed: 0.75 is 0.8 rounded, and 2.5 is no 2.4.
  EXPECT_TRUE(accepts("sink_mass=0.75 sink_mass==0.8 sink_mass=7.5e-1", {0, 0}));
  EXPECT_FALSE(accepts("sink_mass=0.76", {0, 0}));
  EXPECT_FALSE(accepts("kurtosis=2.4", {0, 0}));
  EXPECT_FALSE(accepts("4: sink kurtosis>3", {4, 1}));
}

// The overlap of {1, 0} with {1/2, 1/2} is sqrt(1/2), by hand.
TEST(SimilarHeads, LikenessIsTheOverlapOfColumnsTimesThatOfDistances) {
  analysis::HeadStatistics a, b;
  a.id = {4, 3};
  a.num_tokens = b.num_tokens = 8;
  a.column_profile = {2, 0};
  b.column_profile = {0.5f, 0.5f};
  a.diagonal_profile = b.diagonal_profile = {1, 3};
  EXPECT_NEAR(PatternLikeness(a, b), std::sqrt(0.5), 1e-7);
  EXPECT_EQ(PatternLikeness(a, b), PatternLikeness(b, a));
  EXPECT_NEAR(PatternLikeness(a, a), 1, 1e-12);
  const auto find = [&](analysis::HeadId head) { return head == a.id ? &a : nullptr; };
  const HeadFilter like = HeadFilter::Parse(QStringLiteral("like=4:3"));
  EXPECT_EQ(like.error(), QString());
  EXPECT_TRUE(like.Accepts(a.id, &a, {}, find));
  EXPECT_FALSE(like.Accepts({5, 0}, &b, {}, find));
  b.column_profile = {1, 0.001f};
  EXPECT_GT(PatternLikeness(a, b), kAlike);
  EXPECT_TRUE(like.Accepts({5, 0}, &b, {}, find));
  EXPECT_FALSE(like.Accepts({5, 0}, &b)) << "nothing is known of the other head";
  b.diagonal_profile = {0, 0};
  EXPECT_EQ(PatternLikeness(a, b), 0);
  b.diagonal_profile = {1};
  EXPECT_TRUE(std::isnan(PatternLikeness(a, b)));
  for (const char* wrong : {"like=4", "like=4:", "like=x"})
    EXPECT_NE(HeadFilter::Parse(QLatin1String(wrong)).error(), QString()) << wrong;
}

// The names that columns have were told to a pointer alone.
TEST(HeadFilterText, ANameThatIsNoMetricIsAnsweredByThoseLikeIt) {
  const QString error = HeadFilter::Parse(QStringLiteral("Sparsity>0.9")).error();
  EXPECT_TRUE(error.startsWith(QStringLiteral("\"Sparsity\" is not a metric: type sparsity_0.9")))
      << error.toStdString();
  for (const QString& name : error.mid(error.indexOf(u"type ") + 5).chopped(1).split(QStringLiteral(" or ")))
    EXPECT_EQ(HeadFilter::Parse(name + QStringLiteral(">0.9")).error(), QString()) << name.toStdString();
  EXPECT_TRUE(HeadFilter::Parse(QStringLiteral("nothing>1")).error().contains(QStringLiteral("Shift+F1")));
}

TEST(MetricHistogram, EveryHeadIsInOneBinAndARangeIsWordsOfTheFilter) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const MetricHistogram histogram = MakeHistogram({0, 1, 2, 3, 4, 4, nan}, 4);
  EXPECT_EQ(histogram.counts, (std::vector<int>{1, 1, 1, 3}));
  EXPECT_EQ(histogram.median, 2.5);
  EXPECT_NEAR(histogram.mean, 14.0 / 6, 1e-12);
  EXPECT_EQ(FilterOfBins("kurtosis", histogram, 1, 2), QStringLiteral("kurtosis>=1 kurtosis<3"));
  EXPECT_EQ(FilterOfBins("kurtosis", histogram, 0, 1), QStringLiteral("kurtosis<2"));
  EXPECT_EQ(FilterOfBins("kurtosis", histogram, 3, 3), QStringLiteral("kurtosis>=3"));
  EXPECT_EQ(FilterOfBins("kurtosis", histogram, 0, 3), QString());
  EXPECT_EQ(MakeHistogram({7, 7, 7}, 4).counts, std::vector<int>{3});
  // The scale beside the bars: none of its numbers lies over another.
  EXPECT_EQ(CountTicks(8, 0.01), (std::vector<int>{1, 2, 5, 8}));
  EXPECT_EQ(CountTicks(8, 0.3), (std::vector<int>{1, 8}));
  EXPECT_EQ(CountTicks(4096, 0.2), (std::vector<int>{1, 10, 100, 4096}));
  EXPECT_EQ(CountTicks(1, 0.1), std::vector<int>{1});
  EXPECT_TRUE(CountTicks(0, 0.1).empty());
  EXPECT_DOUBLE_EQ(BarShare(8, 8), 1);
  EXPECT_TRUE(MakeHistogram({nan}, 4).counts.empty());
}

TEST(HeadFilter, AHeadWithoutNumbersFailsComparisonsAndClasses) {
  EXPECT_TRUE(HeadFilter::Parse("4:").Accepts({4, 1}, nullptr));
  EXPECT_FALSE(HeadFilter::Parse("sink").Accepts({4, 1}, nullptr));
  EXPECT_FALSE(HeadFilter::Parse("kurtosis<9").Accepts({4, 1}, nullptr));
  // NaN is neither above nor below.
  analysis::HeadStatistics statistics;
  statistics.row_means = {{"kurtosis", std::nan("")}};
  EXPECT_FALSE(HeadFilter::Parse("kurtosis<9").Accepts({4, 1}, &statistics));
  EXPECT_FALSE(HeadFilter::Parse("kurtosis>=9").Accepts({4, 1}, &statistics));
}

TEST(HeadFilter, WhatIsNotUnderstoodIsNamedAndLetsEveryHeadPass) {
  for (const char* text : {"kurtosi>2", "kurtosi=2", "class>sink", "kurtosis=", "=2", "kurtosis=>2", "kurtosis>inf",
                           "kurtosis>x", "kurtosis>1e+", "4:x", ":3", "kurtosis>", "a:b:c"}) {
    const HeadFilter filter = HeadFilter::Parse(text);
    EXPECT_TRUE(filter.error().startsWith(u'"')) << text << ": " << filter.error().toStdString();
    EXPECT_TRUE(filter.Accepts({1, 2}, nullptr)) << text;
  }
}

TEST(TokenSearch, FindsTextAcrossTokenBordersWithoutCase) {
  const std::vector<std::string> tokens = {"The", " pass", "key", "", " is", " KEY", "\xC3\xA4rger"};
  using Found = std::vector<int64_t>;
  EXPECT_EQ(FindTokens(tokens, "passkey"), Found({1}));
  EXPECT_EQ(FindTokens(tokens, "key"), Found({2, 5}));
  EXPECT_EQ(FindTokens(tokens, "s"), Found({1, 4}));  // twice in one token is one place
  EXPECT_EQ(FindTokens(tokens, " is"), Found({4}));   // not the empty token before it
  EXPECT_EQ(FindTokens(tokens, QString::fromUtf8("\xC3\x84RGER")), Found({6}));
  EXPECT_EQ(FindTokens(tokens, "passkeys"), Found());
  EXPECT_EQ(FindTokens(tokens, ""), Found());
  EXPECT_EQ(FindTokens({}, "a"), Found());
}

TEST(TokenSearch, AnswersAreWhereThePromptSaysThemAndWhereTheModelGaveOne) {
  TraceSummary trace;
  trace.token_text = {"The", " key is", " 99", "114", ".", " So", ":", " 12", "3", " or", " 12", "3"};
  EXPECT_TRUE(AnswerSpans(trace).empty()) << "of no task";
  using Spans = std::vector<TokenSpan>;
  trace.expected_answer = " 99114";
  EXPECT_EQ(AnswerSpans(trace), Spans({{2, 4}}));
  trace.model_answer = " 123";  // a wrong one, which the model then repeats
  trace.model_answer_begin = 7;
  trace.model_answer_end = 9;
  EXPECT_EQ(AnswerSpans(trace), Spans({{2, 4}, {7, 9}})) << "where it was generated, not where its text comes last";
  trace.model_answer = " 99114";
  trace.token_text[7] = " 9911";
  trace.token_text[8] = "4";
  EXPECT_EQ(AnswerSpans(trace), Spans({{2, 4}, {7, 9}})) << "a right one is marked once";
  trace.expected_answer = " ";
  EXPECT_EQ(AnswerSpans(trace), Spans({{7, 9}}));
  trace.model_answer_end = 100;
  EXPECT_TRUE(AnswerSpans(trace).empty()) << "no tokens of this trace";
}

// Answers that overlap themselves, and those that go back over what almost matched, against a naive search.
TEST(TokenSearch, AnswersAreFoundAsByANaiveSearch) {
  for (const std::string answer : {"aa", "aab", "abab", "abcabd", "b"}) {
    TraceSummary trace;
    trace.expected_answer = answer;
    trace.token_text = {"a", "a", "", "aab", "ab", "a", "b", "abcab", "cabdaa", "abcabca", "bd", "b"};
    std::string whole;
    std::vector<int64_t> token_of;  // of each byte
    for (size_t token = 0; token < trace.token_text.size(); ++token) {
      whole += trace.token_text[token];
      token_of.resize(whole.size(), static_cast<int64_t>(token));
    }
    std::vector<TokenSpan> expected;
    for (size_t at = 0; at + answer.size() <= whole.size();) {
      const bool is_there = whole.compare(at, answer.size(), answer) == 0;
      if (is_there) expected.push_back({token_of[at], token_of[at + answer.size() - 1] + 1});
      at += is_there ? answer.size() : 1;
    }
    EXPECT_FALSE(expected.empty());
    EXPECT_EQ(AnswerSpans(trace), expected) << answer;
  }
}

TEST(TokenSearch, AnswersOfHostileTracesAreLimitedAndTakeLinearTime) {
  TraceSummary trace;
  trace.token_text.assign(200'000, "aaaaaaaaaa");
  trace.expected_answer = "a";
  EXPECT_EQ(AnswerSpans(trace).size(), kMostAnswerSpans);
  // Each byte almost ends a match.
  trace.expected_answer = std::string(kMostAnswerBytes - 1, 'a') + "b";
  EXPECT_TRUE(HoldsOnce([&] { return ProcessorSeconds([&] { EXPECT_TRUE(AnswerSpans(trace).empty()); }) < 1; }))
      << "of 2 MB";
  trace.expected_answer = std::string(kMostAnswerBytes + 1, 'a');
  EXPECT_TRUE(AnswerSpans(trace).empty()) << "not looked for";
}

TEST(CaptureEstimate, ListsAreCountedOnceAndBelowTheLimit) {
  EXPECT_EQ(CountChosen("", 10), 10);
  EXPECT_EQ(CountChosen("0-3,7", 10), 5);
  EXPECT_EQ(CountChosen("0-3, 2-4", 10), 5);
  EXPECT_EQ(CountChosen("8-20", 10), 2);
  for (const char* bad : {"a", "3-1", "1,,2", "-1", "1-", "1;2"}) EXPECT_EQ(CountChosen(bad, 10), -1) << bad;
}

TEST(CaptureEstimate, RowsFollowTheirPolicy) {
  EXPECT_EQ(CountRows("all", 100, 5), 105);
  EXPECT_EQ(CountRows("last:16", 100, 5), 21);
  EXPECT_EQ(CountRows("last:200", 100, 0), 100);
  EXPECT_EQ(CountRows("every:7", 100, 0), 15);  // 0, 7 .. 98
  EXPECT_EQ(CountRows("random:16", 100, 5), 21);
  EXPECT_EQ(CountRows("random:200:7", 100, 0), 100);
  EXPECT_EQ(CountRows("0:16,90:200", 100, 5), 31);  // of the second range the ten rows that there are
  for (const char* bad :
       {"", "random:0", "random:3:", "every:2:3", "last:0", "every:", "every:-1", "first:3", "3:3", "3:", "1:2;3:4"})
    EXPECT_EQ(CountRows(bad, 100, 0), -1) << bad;
  EXPECT_EQ(RowsProblem("0:16,90:200", {}), "") << "how long the prompt is, is not known yet";
  EXPECT_EQ(RowsProblem("0:16,90:100", 100), "");
  EXPECT_EQ(RowsProblem("0:16,90:101", 100), "the prompt has the rows 0 to 99");
  EXPECT_EQ(RowsProblem("4:3", 100), "a range A:B holds the rows A to B-1, so B must be above A");
}

TEST(CaptureEstimate, CountsQueriesOfHeadsAndKeysOfTheirGroups) {
  ModelDescription model;
  model.recorded_type = ElementType::kBFloat16;
  model.num_layers = 10;
  model.num_qo_heads = 8;
  model.num_kv_heads = 4;
  model.head_dim = 64;
  CaptureSettings settings;
  // Per layer: 8 heads x 100 rows x (64 x 2 + 4), 100 counts of keys, and K, V of 4 heads x 100 x 64 x 2.
  EXPECT_EQ(EstimateTraceBytes(model, settings, 100), 10 * (8 * 100 * 132 + 100 * 8 + 2 * 4 * 100 * 128));
  model.recorded_type = ElementType::kFloat32;
  EXPECT_EQ(EstimateTraceBytes(model, settings, 100), 10 * (8 * 100 * 260 + 100 * 8 + 2 * 4 * 100 * 256));
  settings.layers = "3";
  settings.heads = "0,1,7";  // KV heads 0 and 3
  settings.dtype = ElementType::kFloat32;
  settings.rows = "last:10";
  EXPECT_EQ(EstimateTraceBytes(model, settings, 100), 3 * 10 * 260 + 10 * 8 + 2 * 2 * 100 * 256);
  const int64_t plain = EstimateTraceBytes(model, settings, 100);
  settings.record = {{"vectors", "", Recordable::Size::kQueriesAndKeys}};
  EXPECT_EQ(EstimateTraceBytes(model, settings, 100) - plain, (3 * 10 + 2 * 100) * 256);
  settings.record = {{"a", "", Recordable::Size::kHeadsAndTokens}, {"b", "", Recordable::Size::kTokens}};
  EXPECT_EQ(EstimateTraceBytes(model, settings, 100) - plain, 4 * 3 * 100 + 4 * 100);
  settings.record = {{"cache", "", Recordable::Size::kKeysAndValues}};
  EXPECT_EQ(EstimateTraceBytes(model, settings, 100) - plain, 2 * 2 * 100 * 256);
  settings.record = {{"outputs", "", Recordable::Size::kOutputs}};
  EXPECT_EQ(EstimateTraceBytes(model, settings, 100) - plain, 3 * 10 * 256);
  model.hidden_size = 512;
  settings.record = {{"hidden", "", Recordable::Size::kHiddenStates}};
  EXPECT_EQ(EstimateTraceBytes(model, settings, 100) - plain, 100 * 512 * 4);
  settings.record.clear();
  settings.heads.clear();
  settings.kv_heads = "0,3";  // with both query heads of each
  EXPECT_EQ(EstimateTraceBytes(model, settings, 100), 4 * 10 * 260 + 10 * 8 + 2 * 2 * 100 * 256);
  settings.kv_heads = "x";
  EXPECT_EQ(EstimateTraceBytes(model, settings, 100), -1);
  settings.kv_heads.clear();
  settings.heads = "x";
  EXPECT_EQ(EstimateTraceBytes(model, settings, 100), -1);
}

TEST(CaptureEstimate, TimesReadAsPeopleWriteThem) {
  EXPECT_EQ(FormatSeconds(0.02), "1 s");
  EXPECT_EQ(FormatSeconds(41.4), "41 s");
  EXPECT_EQ(FormatSeconds(185), "3 min");
  EXPECT_EQ(FormatSeconds(9000), "2.5 h");
}

}  // namespace
}  // namespace headscope::ui
