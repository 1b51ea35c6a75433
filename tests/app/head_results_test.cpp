// SPDX-License-Identifier: Apache-2.0
// Which heads of a trace methods run on, and whose fault it is where they do not.
#include "commands/head_results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/errors.h"
#include "data/synthetic_trace.h"
#include "data/trace_reader.h"
#include "data/trace_writer.h"

namespace headscope::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// A trace without tokens whose layers 0, 2 and 4 have heads of these sizes.
std::string WriteLayers(const data::testing::ScratchFolder& folder, const std::vector<int32_t>& sizes) {
  data::TraceLayout layout = data::testing::SmallLayout(data::Encoding::kFloat32, 10);
  for (size_t layer = 0; layer < sizes.size(); ++layer)
    layout.facts[layer].head_dim = layout.facts[layer].v_head_dim = sizes[layer];
  const std::string path = folder.File("layers.h5");
  data::TraceWriter(path, layout, true).Flush();
  return path;
}

TEST(CheckMethodsRun, TellsTheFileFromTheChoiceOfHeads) {
  const data::testing::ScratchFolder folder;
  const data::TraceReader some(WriteLayers(folder, {12, 16, 16}));
  EXPECT_NO_THROW(CheckMethodsRun(some, {{2, 1}, {4, 3}}));
  // Another --heads would do.
  EXPECT_THAT(
      [&] {
        CheckMethodsRun(some, {{2, 1}, {0, 1}});
      },
      ThrowsMessage<UsageError>(AllOf(HasSubstr(some.path()), HasSubstr("head_dim is 12"), HasSubstr("2:1"))));
  const data::TraceReader none(WriteLayers(folder, {12, 12, 12}));
  EXPECT_THAT(
      [&] {
        CheckMethodsRun(none, {{2, 1}});
      },
      ThrowsMessage<BadInputError>(HasSubstr("methods cannot run on its heads")));
}

}  // namespace
}  // namespace headscope::app
