// SPDX-License-Identifier: Apache-2.0
#include "analysis/types/measured_scope.h"

#include <gtest/gtest.h>

namespace headscope::analysis {
namespace {

constexpr HeadId kHead{5, 7};

TEST(MeasuredScope, IsOneSentence) {
  EXPECT_EQ(ScopeText(kHead, {Measure::kLayer, 8, 2, 8}), "layer 5: 8 heads");
  EXPECT_EQ(ScopeText(kHead, {Measure::kLayer, 4, 1, 8}), "layer 5: 4 of 8 heads");
  EXPECT_EQ(ScopeText(kHead, {Measure::kLayer, 1, 1, 8}), "layer 5: 1 of 8 heads");
  EXPECT_EQ(ScopeText(kHead, {Measure::kLayer, 1, 1, 1}), "layer 5: 1 head");
  EXPECT_EQ(ScopeText(kHead, {Measure::kHead}), "head 5:7 alone");
  EXPECT_EQ(ScopeText(kHead, {}), "") << "nobody knows";
}

TEST(MeasuredScope, ComesBackFromItsSentence) {
  for (const MeasuredScope& scope : {MeasuredScope{Measure::kLayer, 8, 2, 8}, MeasuredScope{Measure::kLayer, 4, 2, 8},
                                     MeasuredScope{Measure::kLayer, 1, 1, 1}, MeasuredScope{Measure::kHead, 1, 1, 0}}) {
    MeasuredScope read;
    read.num_kv_heads = scope.num_kv_heads;
    EXPECT_TRUE(TakeScopeText(ScopeText(kHead, scope), &read));
    EXPECT_EQ(read, scope);
  }
}

TEST(MeasuredScope, AnotherSentenceChangesNothing) {
  for (const char* text : {"", "layer", "layer 5: heads", "layer 5: 8 of heads", "layer 5: 8 heads more",
                           "layer -5: 8 heads", "layer 5: -8 heads", "layer 5: 8 of -9 heads",
                           "layer 5: 99999999999 heads", "head 5:7", "head 5 alone", "head 5:7 alone "}) {
    MeasuredScope read{Measure::kLayer, 3, 3, 3};
    EXPECT_FALSE(TakeScopeText(text, &read)) << text;
    EXPECT_EQ(read, (MeasuredScope{Measure::kLayer, 3, 3, 3})) << text;
  }
}

TEST(MeasuredScope, MeasuresHaveNames) {
  for (const Measure measure : {Measure::kHead, Measure::kLayer}) EXPECT_EQ(MeasureOfName(NameOf(measure)), measure);
  EXPECT_EQ(NameOf(Measure::kHead), "head");
  EXPECT_EQ(NameOf(Measure::kLayer), "layer");
  EXPECT_EQ(MeasureOfName("model"), std::nullopt);
}

}  // namespace
}  // namespace headscope::analysis
