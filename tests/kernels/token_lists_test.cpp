// SPDX-License-Identifier: Apache-2.0
#include "kernels/token_lists.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

namespace headscope::kernels {
namespace {

TEST(TokenLists, AreCausalWithoutRepeatsAndShareWhatIsAsked) {
  constexpr int32_t kLength = 200;
  for (const double shared : {0.0, 0.9}) {
    const TokenListShape shape{
        .num_queries = 1500, .first_position = 50, .length = kLength, .shared = shared, .seed = 7};
    const std::vector<int32_t> lists = MakeTokenLists(shape);
    ASSERT_EQ(lists.size(), 1500u * kLength);
    EXPECT_EQ(lists, MakeTokenLists(shape));
    std::set<int32_t> before;
    int64_t common = 0, counted = 0;
    for (int32_t t = 0; t < shape.num_queries; ++t) {
      const int32_t position = shape.first_position + t;
      const int32_t* const list = lists.data() + int64_t{t} * kLength;
      const int32_t tokens = std::min(position + 1, kLength);
      const std::set<int32_t> own(list, list + tokens);
      ASSERT_EQ(own.size(), static_cast<size_t>(tokens)) << "query " << t << " names a token twice";
      ASSERT_GE(*own.begin(), 0);
      ASSERT_EQ(*own.rbegin(), position) << "a query has its own token, and none behind it";
      for (int32_t i = tokens; i < kLength; ++i) ASSERT_EQ(list[i], -1);
      // Far from the prompt's beginning, where lists could not differ.
      if (position > 10 * kLength / 2) {
        for (const int32_t token : own) common += before.contains(token) ? 1 : 0;
        counted += kLength;
      }
      before = own;
    }
    const double share = static_cast<double>(common) / static_cast<double>(counted);
    // By chance a drawn token was in the list before: up to a fifth of them here.
    EXPECT_GE(share, shared - 0.02);
    EXPECT_LE(share, shared + 0.2);
  }
}

}  // namespace
}  // namespace headscope::kernels
