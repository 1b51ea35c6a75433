// SPDX-License-Identifier: Apache-2.0
// Thousands of traces with a few bytes changed, read in children with limits on memory and time: none may crash, hang
// or take much memory. Half of them are changed inside the structures that HDF5 parses, with the checksums put right:
// one in fifty of those used to kill the program.
#include "trace_fuzz.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <random>
#include <string>

#include "hdf5_mutator.h"
#include "synthetic_trace.h"

namespace headscope::data {
namespace {

constexpr int kFilesPerChild = 250;
constexpr rlim_t kSeconds = 60;                   // of processor time, for one child's files
constexpr int64_t kPeakKiB = int64_t{128} << 10;  // of the reader or a process of its; the files have 20 to 70 KiB

int Runs(int usual) {
  const char* more = std::getenv("HEADSCOPE_FUZZ_RUNS");
  return more != nullptr ? std::atoi(more) : usual;
}

// Mutant `number` of `original`. The same for the same number, always.
std::string Mutant(const std::string& original, const std::vector<testing::Hdf5Structure>& structures, int number) {
  std::mt19937 random(static_cast<unsigned>(number));
  std::string bytes = original;
  if (number % 4 != 0) {
    testing::MutateStructures(structures, random, &bytes);
    return bytes;
  }
  const int changes = 1 + static_cast<int>(random() % 4);
  for (int i = 0; i < changes; ++i) {
    bytes[random() % bytes.size()] = static_cast<char>(random());
  }
  return bytes;
}

struct Progress {
  volatile int current;
  volatile int read;
};

void RunMutants(const std::string& original, const std::vector<testing::Hdf5Structure>& structures, int first, int end,
                Progress* progress) {
  const rlimit seconds{kSeconds, kSeconds}, core{0, 0};
  setrlimit(RLIMIT_CPU, &seconds);
  setrlimit(RLIMIT_CORE, &core);
  for (int number = first; number < end; ++number) {
    progress->current = number;
    const std::string bytes = Mutant(original, structures, number);
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    progress->read = progress->read + testing::LastOutcome();
  }
}

void ReadChanged(const std::string& original, int files) {
  ASSERT_GT(original.size(), 1000u);
  ASSERT_LT(original.size(), 100000u);
  const std::vector<testing::Hdf5Structure> structures = testing::FindStructures(original);
  ASSERT_GT(structures.size(), 40u) << "the checksums of most structures were not found";
  auto* progress = static_cast<Progress*>(
      mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(progress, MAP_FAILED);
  progress->read = 0;
  for (int first = 0; first < files; first += kFilesPerChild) {
    const pid_t child = fork();
    if (child == 0) {
      RunMutants(original, structures, first, std::min(first + kFilesPerChild, files), progress);
      _exit(0);
    }
    int status = 0;
    rusage usage{};
    ASSERT_EQ(wait4(child, &status, 0, &usage), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
        << "mutant " << progress->current
        << (WIFSIGNALED(status) ? std::string(": ") + strsignal(WTERMSIG(status)) : "");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    EXPECT_LT(usage.ru_maxrss, kPeakKiB) << "mutants " << first << " to " << first + kFilesPerChild;
#endif
  }
  // Both outcomes must be common, or the changes miss what matters.
  EXPECT_GT(progress->read, files / 50);
  EXPECT_LT(progress->read, files * 49 / 50);
  std::printf("%d of %d changed files were still readable, the others were refused\n", static_cast<int>(progress->read),
              files);
  munmap(progress, sizeof(Progress));
}

TEST(TraceFuzz, ThousandsOfChangedFilesNeitherCrashNorHangNorTakeMuchMemory) {
  ReadChanged(testing::TinyTrace(), Runs(1000));
}

// With every table, link and optional tensor that a trace may have.
TEST(TraceFuzz, SoItIsWithLayersThatDiffer) {
  ReadChanged(testing::TinyDifferingTrace(), Runs(600));
}

}  // namespace
}  // namespace headscope::data
