// Thousands of traces with a few random bytes changed, read in children with limits on memory and time: none may crash
// or hang.
#include "trace_fuzz.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <random>
#include <string>

#include "synthetic_trace.h"

namespace headscope::data {
namespace {

constexpr int kFiles = 3000;
constexpr int kFilesPerChild = 500;
constexpr rlim_t kMemory = rlim_t{2} << 30;
constexpr rlim_t kSeconds = 60;  // of processor time, for one child's files

std::string SmallTrace() {
  const testing::ScratchFolder folder;
  TraceLayout layout = testing::SmallLayout(Encoding::kBFloat16, 8);
  layout.layers = {1};
  layout.window_per_layer = {0};
  layout.qo_heads = {2};
  layout.kv_heads = {1};
  layout.model.head_dim = 4;  // little data, so that most changes hit what HDF5 parses
  testing::WriteTrace(folder.File("t.h5"), layout, 8, 4);
  std::ifstream in(folder.File("t.h5"), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Mutant `number` of `original`: one to four bytes changed. The same for the same number, always.
std::string Mutant(const std::string& original, int number) {
  std::mt19937 random(static_cast<unsigned>(number));
  std::string bytes = original;
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

TEST(TraceFuzz, ThousandsOfChangedFilesNeitherCrashNorHang) {
  const std::string original = SmallTrace();
  ASSERT_GT(original.size(), 1000u);
  ASSERT_LT(original.size(), 40000u);
  auto* progress = static_cast<Progress*>(
      mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(progress, MAP_FAILED);
  progress->read = 0;
  for (int first = 0; first < kFiles; first += kFilesPerChild) {
    const pid_t child = fork();
    if (child == 0) {
      const rlimit seconds{kSeconds, kSeconds}, core{0, 0};
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
      const rlimit memory{kMemory, kMemory};
      setrlimit(RLIMIT_AS, &memory);  // sanitizers reserve terabytes of addresses
#endif
      setrlimit(RLIMIT_CPU, &seconds);
      setrlimit(RLIMIT_CORE, &core);
      for (int number = first; number < first + kFilesPerChild; ++number) {
        progress->current = number;
        const std::string bytes = Mutant(original, number);
        LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
        progress->read = progress->read + testing::LastOutcome();
      }
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
        << "mutant " << progress->current
        << (WIFSIGNALED(status) ? std::string(": ") + strsignal(WTERMSIG(status)) : "");
  }
  // Both outcomes must be common, or the changes miss what matters.
  EXPECT_GT(progress->read, kFiles / 50);
  EXPECT_LT(progress->read, kFiles * 49 / 50);
  std::printf("%d of %d changed files were still readable, the others were refused\n", static_cast<int>(progress->read),
              kFiles);
  munmap(progress, sizeof(Progress));
}

}  // namespace
}  // namespace headscope::data
