// SPDX-License-Identifier: Apache-2.0
// How long the prompt is of which a trace may be a part: ranges of lengths go by it.
#include <gtest/gtest.h>

#include <string>

#include "choices/tuning_traces.h"
#include "data/trace_export.h"
#include "synthetic_trace.h"

namespace headscope::app {
namespace {

constexpr int64_t kPromptLength = 100, kDecoded = 50;

TEST(PromptTokens, OfAPartAreThoseOfTheWholePromptWithoutWhatWasDecoded) {
  const data::testing::ScratchFolder folder;
  data::TraceLayout layout = data::testing::SmallLayout(ElementType::kFloat32, kPromptLength + kDecoded);
  layout.row_selection = "all";
  {
    data::TraceWriter writer(folder.File("whole.h5"), layout, false, kPromptLength + kDecoded);
    data::testing::AppendPass(writer, layout, 0, kPromptLength, kPromptLength);
    data::testing::AppendPass(writer, layout, kPromptLength, kPromptLength + kDecoded, kPromptLength);
    writer.Finish();
  }
  const data::TraceReader whole(folder.File("whole.h5"));
  EXPECT_EQ(PromptTokens(whole), kPromptLength);
  const auto of_part = [&](int64_t begin, int64_t end) {
    const std::string path = folder.File(std::to_string(begin) + "-" + std::to_string(end) + ".h5");
    data::ExportTrace(whole, {.first_token = begin, .end_token = end}, {}, path);
    return PromptTokens(data::TraceReader(path));
  };
  EXPECT_EQ(of_part(0, 60), 60) << "as far as it was kept";
  EXPECT_EQ(of_part(40, 80), 80);
  EXPECT_EQ(of_part(40, 130), kPromptLength);
  EXPECT_EQ(of_part(100, 130), kPromptLength);
  EXPECT_EQ(of_part(120, 150), 120) << "the prompt had ended before";
}

}  // namespace
}  // namespace headscope::app
