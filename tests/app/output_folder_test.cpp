// SPDX-License-Identifier: Apache-2.0
#include "support/output_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/errors.h"

namespace headscope::app {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

class OutputFolders : public testing::Test {
 protected:
  OutputFolders() : base_(fs::path(testing::TempDir()) / "output_folders") {
    fs::remove_all(base_);
    fs::create_directory(base_);
  }
  ~OutputFolders() override { fs::remove_all(base_); }

  const fs::path base_;
};

TEST_F(OutputFolders, AreMadeAndKeptOnceTheyHoldSomething) {
  const fs::path path = base_ / "a" / "b";
  {
    const OutputFolder folder("--save-index", path.string());
    EXPECT_TRUE(fs::is_directory(path));
    std::ofstream(path / "file") << "kept";
  }
  EXPECT_TRUE(fs::exists(path / "file"));
}

TEST_F(OutputFolders, ThatStayEmptyAreRemovedOnlyWhenTheyWereMadeHere) {
  const fs::path made = base_ / "made";
  const fs::path found = base_ / "found";
  fs::create_directory(found);
  {
    const OutputFolder a("output", made.string());
    const OutputFolder b("output", found.string());
    EXPECT_TRUE(fs::is_directory(made));
  }
  EXPECT_FALSE(fs::exists(made));
  EXPECT_TRUE(fs::is_directory(found));
}

TEST_F(OutputFolders, AboveAnEmptyOneAreRemovedToo) {
  const fs::path a = base_ / "a";
  {
    const OutputFolder folder("output", (a / "b" / "c" / "").string());
    EXPECT_TRUE(fs::is_directory(a / "b" / "c"));
  }
  EXPECT_FALSE(fs::exists(a));
  {
    const OutputFolder folder("output", (a / "b" / "c").string());
    std::ofstream(a / "file") << "kept";
  }
  EXPECT_FALSE(fs::exists(a / "b"));
  EXPECT_TRUE(fs::exists(a / "file"));
  { const OutputFolder folder("output", (a / "b").string()); }
  EXPECT_FALSE(fs::exists(a / "b"));
  EXPECT_TRUE(fs::exists(a / "file")) << "a folder that was there already stays";
}

TEST_F(OutputFolders, ThatCouldBeMadeOnlyInPartLeaveNothingBehind) {
  const fs::path a = base_ / "a";
  const std::string path = (a / "b" / std::string(300, 'x') / "d").string();  // a name longer than file systems take
  EXPECT_THAT([&] { const OutputFolder folder("output", path); },
              ThrowsMessage<UsageError>(HasSubstr("output " + path + ": ")));
  EXPECT_FALSE(fs::exists(a));
}

TEST_F(OutputFolders, ThatCannotBeMadeAreRefusedWithTheOption) {
  const fs::path file = base_ / "file";
  std::ofstream(file) << "a file";
  EXPECT_THAT([&] { const OutputFolder folder("--save-index", file.string()); },
              ThrowsMessage<UsageError>(HasSubstr("--save-index " + file.string() + ": ")));
  EXPECT_THROW(const OutputFolder folder("--save-index", (file / "below").string()), UsageError);
  EXPECT_TRUE(fs::is_regular_file(file));
}

}  // namespace
}  // namespace headscope::app
