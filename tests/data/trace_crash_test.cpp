// SPDX-License-Identifier: Apache-2.0
// Writers that are killed, and disks that are full: what was flushed must be there, exactly.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "synthetic_trace.h"

namespace headscope::data {
namespace {

using testing::FirstDifference;
using ::testing::HasSubstr;
using testing::ScratchFolder;
using testing::StressVariant;

// A child whose standard output is read through a pipe.
class WriterProcess {
 public:
  explicit WriterProcess(std::vector<std::string> arguments) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    arguments.insert(arguments.begin(), HEADSCOPE_WRITER_PROCESS);
    std::vector<char*> raw;
    raw.reserve(arguments.size() + 1);
    for (std::string& argument : arguments) {
      raw.push_back(argument.data());
    }
    raw.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      execv(raw[0], raw.data());
      _exit(127);
    }
    close(ends[1]);
    pipe_ = ends[0];
  }
  ~WriterProcess() {
    if (pid_ > 0) {
      Kill();
    }
    close(pipe_);
  }

  // Waits until so many flushes were reported.
  void WaitForLines(int count) {
    for (char byte = 0; count > 0 && read(pipe_, &byte, 1) == 1; count -= byte == '\n') {
      output_ += byte;
    }
  }
  void Kill() {
    kill(pid_, SIGKILL);
    Wait();
  }
  // Everything printed until the end, and the wait status.
  int Wait() {
    char buffer[4096];
    for (ssize_t got = 0; (got = read(pipe_, buffer, sizeof buffer)) > 0;) {
      output_.append(buffer, static_cast<size_t>(got));
    }
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }
  // The last number that was printed with its line feed.
  int64_t LastCount() const {
    const size_t end = output_.rfind('\n');
    if (end == std::string::npos) {
      return 0;
    }
    const size_t begin = end == 0 ? std::string::npos : output_.rfind('\n', end - 1);
    return std::stoll(output_.substr(begin == std::string::npos ? 0 : begin + 1, end));
  }
  const std::string& output() const { return output_; }

 private:
  pid_t pid_ = -1;
  int pipe_ = -1;
  std::string output_;
};

TEST(TraceAfterKill, FiftyWritersKilledAtRandomMomentsLoseNothingFlushed) {
  const ScratchFolder folder;
  std::mt19937 random(20240607);
  std::uniform_int_distribution<int> flushes(1, 6), microseconds(0, 20000);
  int incomplete = 0;
  for (int trial = 0; trial < 50; ++trial) {
    SCOPED_TRACE("trial " + std::to_string(trial));
    const std::string path = folder.File(std::to_string(trial) + ".h5");
    const StressVariant variant = testing::Variant(trial);
    WriterProcess writer({path, std::to_string(trial)});
    writer.WaitForLines(flushes(random));
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds(random)));
    writer.Kill();
    const TraceReader reader(path);
    EXPECT_GT(writer.LastCount(), 0);
    EXPECT_GE(reader.num_tokens(), writer.LastCount());
    EXPECT_EQ(FirstDifference(reader, variant.num_prompt), "");
    incomplete += !reader.complete();
  }
  EXPECT_EQ(incomplete, 50) << "a writer ended before it was killed";
}

TEST(TraceAfterKill, FilesOfATraceHoldWhatAllOfThemFlushed) {
  const ScratchFolder folder;
  std::mt19937 random(20261128);
  std::uniform_int_distribution<int> flushes(1, 4), microseconds(0, 20000);
  for (int trial = 0; trial < 20; ++trial) {
    SCOPED_TRACE("trial " + std::to_string(trial));
    const std::string path = folder.File(std::to_string(trial) + ".h5");
    const StressVariant variant = testing::Variant(trial);
    WriterProcess writer({path, std::to_string(trial), "--files", trial % 2 == 0 ? "3" : "2"});
    writer.WaitForLines(flushes(random));
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds(random)));
    writer.Kill();
    const TraceReader reader(path);
    EXPECT_EQ(std::ssize(reader.files()), trial % 2 == 0 ? 3 : 2);
    EXPECT_GT(writer.LastCount(), 0);
    EXPECT_GE(reader.num_tokens(), writer.LastCount());
    EXPECT_FALSE(reader.complete());
    EXPECT_EQ(FirstDifference(reader, variant.num_prompt), "");
  }
}

TEST(TraceAfterKill, ReaderOfALivingWriterInAnotherProcessSeesGrowth) {
  const ScratchFolder folder;
  const std::string path = folder.File("t.h5");
  const StressVariant variant = testing::Variant(1);
  WriterProcess writer({path, "1"});
  writer.WaitForLines(1);
  int64_t last = 0;
  int grown = 0;
  for (int look = 0; look < 10; ++look) {
    const TraceReader reader(path);
    EXPECT_FALSE(reader.complete());
    EXPECT_GE(reader.num_tokens(), last);
    EXPECT_EQ(FirstDifference(reader, variant.num_prompt), "");
    grown += reader.num_tokens() > last;
    last = reader.num_tokens();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_GE(grown, 3);
}

// Outcome line of the writer process: "stopped|<error>|<flushed>|<readable>|<first difference>".
void ExpectCleanStop(WriterProcess& writer, const std::string& path, const StressVariant& variant,
                     const std::string& reason, bool readable_here) {
  const int status = writer.Wait();
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
    GTEST_SKIP() << "this user may not mount a small file system; the file size limit below covers the same code";
  }
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status << "\n" << writer.output();
  const std::string line = writer.output().substr(writer.output().find("stopped|"));
  std::vector<std::string> fields;
  for (size_t at = 0; at != std::string::npos;) {
    const size_t next = line.find_first_of("|\n", at);
    fields.push_back(line.substr(at, next - at));
    at = next == std::string::npos ? next : next + 1;
  }
  ASSERT_GE(fields.size(), 5u) << line;
  EXPECT_THAT(fields[1], HasSubstr(path));
  EXPECT_THAT(fields[1], HasSubstr(reason));
  EXPECT_THAT(fields[1], HasSubstr("what was flushed before is intact"));
  EXPECT_THAT(fields[1], HasSubstr("free some disk space"));
  EXPECT_GT(std::stoll(fields[2]), 0);
  EXPECT_GE(std::stoll(fields[3]), std::stoll(fields[2]))
      << "the process that met the full disk cannot read its own trace";
  EXPECT_EQ(fields[4], "");
  if (readable_here) {
    const TraceReader reader(path);
    EXPECT_EQ(reader.num_tokens(), std::stoll(fields[3]));
    EXPECT_EQ(FirstDifference(reader, variant.num_prompt), "");
  }
}

TEST(TraceOnFullDisk, WritesThatFailStopCleanlyWhereverTheyFail) {
  const ScratchFolder folder;
  int64_t limit = 9000000;  // the first chunks of all heads take 8 MB
  for (const int variant : {1, 3, 9, 11}) {
    SCOPED_TRACE("variant " + std::to_string(variant));
    const std::string path = folder.File(std::to_string(variant) + ".h5");
    WriterProcess writer({path, std::to_string(variant), "--file-limit", std::to_string(limit += 1777777)});
    ExpectCleanStop(writer, path, testing::Variant(variant), "File too large", true);
  }
}

TEST(TraceOnFullDisk, NearlyFullDiskIsNoticedBeforeWriting) {
  const ScratchFolder folder;
  const std::string path = folder.File("t.h5");
  WriterProcess writer({path, "3", "--small-disk", "33554432"});
  ExpectCleanStop(writer, path, testing::Variant(3), "the disk is nearly full", false);
}

// Of 16 files each finds room for what it has begun, 2.6 MB and the reserve; all of them together, 42 MB, do not.
TEST(TraceOnFullDisk, FilesOfOneTraceAskForWhatAllOfThemLack) {
  const ScratchFolder folder;
  WriterProcess writer({folder.File("t.h5"), "3", "--files", "16", "--small-disk", "25165824"});
  const int status = writer.Wait();
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "this user may not mount a small file system";
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  EXPECT_THAT(writer.output(), HasSubstr("the disk is nearly full"));
  EXPECT_THAT(writer.output(), HasSubstr("|0|0|\n")) << "what is there is no trace any more";
}

// Whoever keeps the open chunks: of variant 3 the writer, of variant 11 HDF5's cache, which has no room for all.
class OpenChunksOf : public ::testing::TestWithParam<int> {};

TEST_P(OpenChunksOf, DiskFilledBySomebodyElseStopsTheWriter) {
  const ScratchFolder folder;
  const std::string path = folder.File("t.h5");
  WriterProcess writer({path, std::to_string(GetParam()), "--small-disk", "67108864", "--fill"});
  ExpectCleanStop(writer, path, testing::Variant(GetParam()), "No space left on device", false);
}

INSTANTIATE_TEST_SUITE_P(TraceOnFullDisk, OpenChunksOf, ::testing::Values(3, 11));

TEST(TraceAfterKill, VariantsKeepOpenChunksInBothWays) {
  EXPECT_EQ(testing::Variant(3).open_chunk_bytes, kOpenChunkBytes);
  EXPECT_EQ(testing::Variant(11).open_chunk_bytes, testing::kFewOpenChunks);
  EXPECT_EQ(testing::Variant(3).layout.facts, testing::Variant(11).layout.facts);
  EXPECT_LT(testing::kFewOpenChunks, static_cast<size_t>(BytesOfOpenChunks(testing::Variant(11).layout,
                                                                           testing::Variant(11).layout.max_tokens)));
}

}  // namespace
}  // namespace headscope::data
