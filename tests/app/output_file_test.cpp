// SPDX-License-Identifier: Apache-2.0
#include "support/output_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <new>
#include <sstream>
#include <thread>

#include "base/errors.h"
#include "base/file_format.h"
#include "support/exit_codes.h"
#include "support/sudden_end.h"

namespace {

// What the two system calls that give a free name say instead of doing their work; 0: they do it.
int rename_refusal = 0;
int link_refusal = 0;

class Refusing {
 public:
  Refusing(int by_rename, int by_link) {
    rename_refusal = by_rename;
    link_refusal = by_link;
  }
  ~Refusing() { rename_refusal = link_refusal = 0; }
  Refusing(const Refusing&) = delete;
  Refusing& operator=(const Refusing&) = delete;
};

}  // namespace

// In this program they stand for the C library's, so that a file system without one or the other, which few machines
// have at hand, can be played by any.
extern "C" int renameat2(int from_folder, const char* from, int to_folder, const char* to,
                         unsigned int flags) noexcept {
  if (rename_refusal == 0) {
    return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
  }
  errno = rename_refusal;
  return -1;
}

extern "C" int link(const char* from, const char* to) noexcept {
  if (link_refusal == 0) return static_cast<int>(::syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0));
  errno = link_refusal;
  return -1;
}

namespace headscope::app {
namespace {

namespace fs = std::filesystem;

class OutputFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("headscope-output-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Path(const char* name) const { return (folder_ / name).string(); }
  static std::string Contents(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  int64_t NumFiles() const { return std::distance(fs::directory_iterator(folder_), fs::directory_iterator()); }

  fs::path folder_;
};

TEST_F(OutputFileTest, AppearsOnlyWhenCommitted) {
  {
    OutputFile output(Path("a.json"), false);
    std::ofstream(output.temporary_path()) << "half";
    EXPECT_FALSE(fs::exists(Path("a.json")));
  }
  EXPECT_EQ(NumFiles(), 0) << "an output that was not committed leaves nothing behind";
  {
    OutputFile output(Path("a.json"), false);
    EXPECT_EQ(FindFileFormat(output.temporary_path()), FileFormat::kJson);
    std::ofstream(output.temporary_path()) << "whole";
    output.Commit();
  }
  EXPECT_EQ(Contents(Path("a.json")), "whole");
  EXPECT_EQ(NumFiles(), 1);
}

TEST_F(OutputFileTest, KeepsAnExistingFileUnlessForced) {
  WriteText("old", Path("a.csv"), false);
  EXPECT_THROW(WriteText("new", Path("a.csv"), false), UsageError);
  EXPECT_EQ(Contents(Path("a.csv")), "old");
  WriteText("new", Path("a.csv"), true);
  EXPECT_EQ(Contents(Path("a.csv")), "new");
}

TEST_F(OutputFileTest, FailuresNameTheTargetAndNotTheTemporaryFile) {
  const OutputFile output(Path("a.h5"), false);
  try {
    output.Write([](const std::string& path) { throw FailedError({.file = path, .problem = "the disk is full"}); });
    FAIL();
  } catch (const FailedError& error) {
    EXPECT_EQ(error.what(), Path("a.h5") + ": the disk is full");
  }
  EXPECT_THROW(output.Write([](const std::string&) { throw UsageError("another file: is bad"); }), UsageError)
      << "what is about another file keeps its type";
}

TEST_F(OutputFileTest, RefusesFoldersAndMissingFolders) {
  EXPECT_THROW(CheckOutputTarget(folder_.string(), true), UsageError);
  EXPECT_THROW(CheckOutputTarget(Path("missing/a.csv"), false), UsageError);
}

TEST_F(OutputFileTest, RefusesWhatIsNoRegularFileEvenWhenForced) {
  WriteText("real", Path("real.json"), false);
  fs::create_symlink(Path("real.json"), Path("link.json"));
  fs::create_symlink(Path("nowhere.json"), Path("dangling.json"));
  ASSERT_EQ(::mkfifo(Path("pipe.json").c_str(), 0600), 0);
  for (const char* name : {"link.json", "dangling.json", "pipe.json"}) {
    for (const bool force : {false, true}) {
      EXPECT_THROW(CheckOutputTarget(Path(name), force), UsageError) << name;
      EXPECT_THROW(WriteText("new", Path(name), force), UsageError) << name;
    }
  }
  EXPECT_EQ(Contents(Path("real.json")), "real");
  EXPECT_TRUE(fs::is_symlink(Path("link.json")));
  EXPECT_TRUE(fs::is_fifo(Path("pipe.json")));
  EXPECT_FALSE(fs::exists(Path("nowhere.json")));
  EXPECT_EQ(NumFiles(), 4);
}

TEST_F(OutputFileTest, KeepsAFileThatAppearedMeanwhileUnlessForced) {
  for (const bool force : {false, true}) {
    const std::string path = Path(force ? "forced.json" : "kept.json");
    {
      OutputFile output(path, force);
      std::ofstream(output.temporary_path()) << "mine";
      std::ofstream(path) << "theirs";
      if (force) {
        output.Commit();
      } else {
        EXPECT_THROW(output.Commit(), UsageError);
      }
    }
    EXPECT_EQ(Contents(path), force ? "mine" : "theirs");
  }
  EXPECT_EQ(NumFiles(), 2) << "what could not be committed is removed";
}

// EINVAL is a file system's answer, ENOSYS that of a kernel without the call.
TEST_F(OutputFileTest, IsLinkedIntoPlaceWhereItCannotBeRenamedToAFreeName) {
  for (const int refusal : {EINVAL, ENOSYS}) {
    const Refusing refusing(refusal, 0);
    const std::string free = Path(("free" + std::to_string(refusal)).c_str());
    WriteText("mine", free, false);
    EXPECT_EQ(Contents(free), "mine");
    struct stat status {};
    ASSERT_EQ(::stat(free.c_str(), &status), 0);
    EXPECT_EQ(status.st_nlink, 1u) << "the temporary name is left behind";

    const std::string taken = Path(("taken" + std::to_string(refusal)).c_str());
    OutputFile output(taken, false);
    std::ofstream(output.temporary_path()) << "mine";
    std::ofstream(taken) << "theirs";
    EXPECT_THROW(output.Commit(), UsageError);
    EXPECT_EQ(Contents(taken), "theirs");
  }
  EXPECT_EQ(NumFiles(), 4) << "what could not be committed is removed";
}

TEST_F(OutputFileTest, IsNotThereWhereItCanNeitherBeRenamedNorLinked) {
  const Refusing refusing(EINVAL, EPERM);
  EXPECT_THROW(WriteText("mine", Path("a.json"), false), FailedError);
  EXPECT_EQ(NumFiles(), 0);
  WriteText("mine", Path("a.json"), true);  // --force asks for no free name
  EXPECT_EQ(Contents(Path("a.json")), "mine");
}

TEST_F(OutputFileTest, OtherRefusalsToRenameAreNotGoneAround) {
  const Refusing refusing(EACCES, 0);
  EXPECT_THROW(WriteText("mine", Path("a.json"), false), FailedError);
  EXPECT_EQ(NumFiles(), 0);
}

TEST_F(OutputFileTest, TakesEveryNameThatTheFileSystemTakes) {
  const std::string longest = std::string(NAME_MAX - 4, 'n') + ".csv";
  WriteText("long", Path(longest.c_str()), false);
  EXPECT_EQ(Contents(Path(longest.c_str())), "long");
  try {
    CheckOutputTarget(Path(("n" + longest).c_str()), false);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("choose a shorter name"), std::string::npos) << error.what();
  }
  EXPECT_THROW(CheckOutputTarget("", false), UsageError);
}

TEST_F(OutputFileTest, TwoOutputsOfOneFolderDoNotMeet) {
  OutputFile one(Path("a.json"), false);
  std::ofstream(one.temporary_path()) << "one";
  OutputFile two(Path("b.json"), false);
  std::ofstream(two.temporary_path()) << "two";
  one.Commit();
  two.Commit();
  EXPECT_EQ(Contents(Path("a.json")), "one");
  EXPECT_EQ(Contents(Path("b.json")), "two");
}

TEST_F(OutputFileTest, FilesOfWritersThatAreGoneAreRemovedByTheNextOne) {
  const pid_t child = ::fork();
  if (child == 0) {  // killed while it writes
    const OutputFile output(Path("a.json"), false);
    std::ofstream(output.temporary_path()) << "half";
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_EQ(NumFiles(), 1);
  {
    OutputFile living(Path("b.json"), false);
    EXPECT_EQ(NumFiles(), 0);
    std::ofstream(living.temporary_path()) << "half";
    // The same process number, started at another time: not the one that wrote. No number at all: not headscope's.
    std::string gone = living.temporary_path();
    const size_t start = gone.rfind('-', gone.rfind('-') - 1) + 1;
    gone.insert(start, "1");
    std::ofstream(gone) << "half";
    std::ofstream(Path(".partial-mine.json")) << "somebody's";
    const OutputFile another(Path("c.json"), false);
    EXPECT_TRUE(fs::exists(living.temporary_path())) << "its writer runs";
    EXPECT_FALSE(fs::exists(gone));
    living.Commit();
  }
  EXPECT_EQ(Contents(Path("b.json")), "half");
  EXPECT_EQ(Contents(Path(".partial-mine.json")), "somebody's");
  EXPECT_EQ(NumFiles(), 2);
}

TEST_F(OutputFileTest, LeavesNothingAtAnEndThatNoHandlerSees) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::fclose(stderr);
    PrepareForSuddenEnd();
    const OutputFile output(Path("a.json"), false);
    std::ofstream(output.temporary_path()) << "half";
    std::thread([] { throw std::bad_alloc(); }).join();
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), kDeviceOrMemoryMissing);
  EXPECT_EQ(NumFiles(), 0);
}

TEST(WriteRefusal, NamesTheRemedyForTheReason) {
  EXPECT_THAT(WriteRefusal("a.csv", EACCES).remedy, testing::HasSubstr("a folder that you may write to"));
  EXPECT_THAT(WriteRefusal("a.csv", ENAMETOOLONG).remedy, testing::HasSubstr("a shorter name"));
  EXPECT_THAT(WriteRefusal("a.csv", ENOSPC).remedy, testing::HasSubstr("free some disk space"));
}

TEST_F(OutputFileTest, RefusesAnInputUnderAnyNameEvenWhenForced) {
  WriteText("trace", Path("in.h5"), false);
  WriteText("other", Path("other.h5"), false);
  fs::create_symlink(Path("in.h5"), Path("symbolic.h5"));
  fs::create_hard_link(Path("in.h5"), Path("hard.h5"));
  const std::string roundabout = (folder_ / ".." / folder_.filename() / "in.h5").string();
  for (const std::string& target : {Path("in.h5"), Path("symbolic.h5"), Path("hard.h5"), roundabout}) {
    EXPECT_THROW(CheckOutputTarget(target, true, {"", Path("in.h5")}), UsageError) << target;
  }
  EXPECT_NO_THROW(CheckOutputTarget(Path("other.h5"), true, {"", Path("in.h5")}));
  EXPECT_NO_THROW(CheckOutputTarget(Path("new.h5"), false, {Path("in.h5"), Path("missing.h5")}));
}

}  // namespace
}  // namespace headscope::app
