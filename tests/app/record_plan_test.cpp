// SPDX-License-Identifier: Apache-2.0
#include "commands/record_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"

namespace headscope::app {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(RecordPlan, SaysWhatTheOptionsSay) {
  const RecordPlan plan = ParseRecordPlan(
      R"({"format": "headscope-record-1", "layers": [7, 0, 1], "kv_heads": "0-1,3", "rows": "random:8:2",
          "points": ["pre-rope", "value-norms"], "decode": 8, "dtype": "fp32", "files": 4})",
      "plan.json");
  EXPECT_EQ(plan.layers, "7,0,1");
  EXPECT_EQ(plan.heads, std::nullopt);
  EXPECT_EQ(plan.kv_heads, "0-1,3");
  EXPECT_EQ(plan.rows, "random:8:2");
  ASSERT_TRUE(plan.points);
  EXPECT_THAT(*plan.points, ElementsAre("pre-rope", "value-norms"));
  EXPECT_EQ(plan.decode, 8);
  EXPECT_EQ(plan.dtype, "fp32");
  EXPECT_EQ(plan.files, 4);
  const RecordPlan least = ParseRecordPlan(R"({"format": "headscope-record-1"})", "plan.json");
  EXPECT_FALSE(least.layers || least.heads || least.kv_heads || least.rows || least.points || least.decode ||
               least.dtype || least.files);
}

std::string Refusal(const std::string& text) {
  try {
    ParseRecordPlan(text, "plan.json");
  } catch (const BadInputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(RecordPlan, NamesTheKeyOfWhatIsWrong) {
  for (const auto& [keys, problem] : std::initializer_list<std::pair<std::string, std::string>>{
           {R"("layer": [1])", "\"layer\": is not known; the keys are format, layers, heads"},
           {R"("layers": [1], "layers": [2])", "\"layers\": appears twice"},
           {R"("layers": [])", "layers: is empty"},
           {R"("layers": "")", "layers: is empty"},
           {R"("layers": 3)", "layers: is 3, not a list"},
           {R"("layers": [-1])", "layers: holds -1"},
           {R"("layers": [1.5])", "layers: holds 1.5"},
           {R"("heads": ["0"])", "heads: holds \"0\""},
           {R"("heads": [2147483648])", "heads: holds 2147483648"},
           {R"("heads": [[1]])", "heads: holds [1]"},
           {R"("heads": [1], "kv_heads": [0])", "kv_heads: is given as well as heads"},
           {R"("rows": 16)", "rows: is 16, not a string"},
           {R"("points": "pre-rope")", "points: is \"pre-rope\", not a list"},
           {R"("points": [1])", "points: holds 1"},
           {R"("decode": -1)", "decode: is -1"},
           {R"("files": 0)", "files: is 0, not a number from 1 to 64"},
           {R"("files": 65)", "files: is 65"},
           {R"("files": "4")", "files: is \"4\""},
           {R"("files": 4294967297)", "files: is 4294967297"},
           {R"("decode": "8")", "decode: is \"8\""},
           {R"("dtype": null)", "dtype: is null"},
       }) {
    EXPECT_THAT(Refusal(R"({"format": "headscope-record-1", )" + keys + "}"),
                AllOf(HasSubstr("plan.json: "), HasSubstr(problem), HasSubstr("; ")))
        << keys;
  }
  for (const char* text : {"", "[]", "null", "{", "\xff", "{} {}", "\"headscope-record-1\""})
    EXPECT_THAT(Refusal(text), HasSubstr("plan.json: is not a JSON object; ")) << text;
  for (const char* text : {"{}", R"({"format": 1})", R"({"format": "headscope-record-2"})"})
    EXPECT_THAT(Refusal(text), HasSubstr("instead of headscope-record-1")) << text;
  EXPECT_THAT(Refusal(std::string(100000, '[')), HasSubstr("is not a JSON object")) << "nested deeply";
}

}  // namespace
}  // namespace headscope::app
