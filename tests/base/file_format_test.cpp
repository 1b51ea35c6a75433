// SPDX-License-Identifier: Apache-2.0
#include "base/file_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "base/errors.h"

namespace headscope {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

TEST(FileFormat, IsWhatTheLastExtensionSays) {
  EXPECT_EQ(FindFileFormat("a.json"), FileFormat::kJson);
  EXPECT_EQ(FindFileFormat("b/c.d/e.CSV"), FileFormat::kCsv);
  EXPECT_EQ(FindFileFormat("a.h5"), FileFormat::kHdf5);
  EXPECT_EQ(FindFileFormat("a.hdf5"), FileFormat::kHdf5);
  EXPECT_EQ(FindFileFormat("a.json.png"), FileFormat::kPng);
  for (const char* none : {"", "json", ".json", "a.", "a.json.txt", "a.json/b", "a.jsonl"})
    EXPECT_EQ(FindFileFormat(none), std::nullopt) << none;
}

TEST(FileFormat, AnOutputOfAnotherKindIsRefusedWithTheList) {
  constexpr std::array kKinds = {FileFormat::kSvg, FileFormat::kPdf, FileFormat::kHdf5};
  EXPECT_EQ(FormatOfOutput("a.PDF", kKinds), FileFormat::kPdf);
  EXPECT_THAT([&] { FormatOfOutput("a.json", kKinds); },
              ThrowsMessage<UsageError>("output a.json: the extension must be .svg, .pdf or .h5"));
  EXPECT_THAT([&] { FormatOfOutput("a", kKinds, "or give --format"); },
              ThrowsMessage<UsageError>(AllOf(StartsWith("output a: "), HasSubstr("; or give --format"))));
  EXPECT_THAT([&] { FormatOfOutput("", std::array{FileFormat::kJson}); },
              ThrowsMessage<UsageError>("output \"\": the extension must be .json"));
}

}  // namespace
}  // namespace headscope
