// What a closed trace held is given back: the program, started anew, is as large after a small trace as it was before
// the large one, within what a window needs anyway.
#include <QFile>
#include <algorithm>
#include <fstream>
#include <string>

#include "shell_fixture.h"

namespace headscope::gui_test {
namespace {

class MemoryTest : public ShellTest {
 protected:
  // Bytes of this process in memory that no file backs (proc(5): VmRSS would count libraries as well).
  static int64_t ResidentBytes() {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
      int64_t kilobytes = 0;
      if (word == "RssAnon:" && status >> kilobytes) return kilobytes * 1024;
    }
    ADD_FAILURE() << "/proc/self/status has no RssAnon";
    return 0;
  }
  void LookAtEveryHead() {
    for (const analysis::HeadId head : window_->store()->trace().heads) {
      window_->store()->Select(head);
      ASSERT_TRUE(WaitForCanvas(60000));
    }
  }
};

TEST_F(MemoryTest, AClosedTraceIsGivenBack) {
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForStatistics());
  ASSERT_TRUE(WaitForCanvas());
  ASSERT_NO_FATAL_FAILURE(LookAtEveryHead());
  const int64_t before = ResidentBytes();
  window_->OpenPath(ShippedTrace());
  ASSERT_TRUE(WaitFor([&] { return window_->store()->trace().heads.size() == 80; }));
  window_->commands()[ui::Command::kCancelWork]->trigger();  // the statistics: they keep no head
  ASSERT_NO_FATAL_FAILURE(LookAtEveryHead());
  const int64_t most = ResidentBytes();
  ASSERT_GT(most, before + (int64_t{300} << 20)) << "80 heads of 4,096 tokens, their tiles and masses";
  window_->OpenPath(trace_path());
  ASSERT_TRUE(WaitFor([&] { return window_->store()->trace().heads.size() == 8; }));
  ASSERT_TRUE(WaitForCanvas());
  const int64_t allowed = before + (most - before) / 8;
  EXPECT_TRUE(WaitFor([&] { return ResidentBytes() < allowed; }, 5000))
      << (before >> 20) << " MiB before, " << (most >> 20) << " with the large trace, " << (ResidentBytes() >> 20)
      << " after it";
}

}  // namespace
}  // namespace headscope::gui_test
