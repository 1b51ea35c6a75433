// SPDX-License-Identifier: Apache-2.0
// What a closed trace held is given back: the program, started anew, is as large after a small trace as it was before
// the large one, within what a window needs anyway.
//
// By hand, with any other trace, budget and number of heads:
//   HEADSCOPE_TEST_TRACE=long.h5 HEADSCOPE_TEST_BUDGET_MIB=1024 HEADSCOPE_TEST_HEADS=100 xvfb-run -a gui_shell_test
//     --gtest_filter=MemoryTest.EveryCacheOfTheWindowStaysInsideOneBudget
#include <QDialog>
#include <QDialogButtonBox>
#include <QFile>
#include <QLocale>
#include <QPushButton>
#include <QSpinBox>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "allocated_bytes.h"
#include "analysis/types/number_text.h"
#include "resident_bytes.h"
#include "shell_fixture.h"

namespace headscope::gui_test {
namespace {

class MemoryTest : public ShellTest {
 protected:
  void LookAtEvery(size_t step) {
    const auto& heads = window_->store()->trace().heads;
    for (size_t i = 0; i < heads.size(); i += step) {
      window_->store()->Select(heads[i]);
      ASSERT_TRUE(WaitForCanvas(60000));
    }
  }
};

TEST_F(MemoryTest, AClosedTraceIsGivenBack) {
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForStatistics());
  ASSERT_TRUE(WaitForCanvas());
  ASSERT_NO_FATAL_FAILURE(LookAtEvery(2));
  const int64_t before = ResidentBytes();
  window_->OpenPath(ShippedTrace());
  ASSERT_TRUE(WaitFor([&] { return window_->store()->trace().heads.size() == 80; }));
  window_->commands()[ui::Command::kCancelWork]->trigger();  // the statistics: they keep no head
  ASSERT_NO_FATAL_FAILURE(LookAtEvery(5));
  const int64_t most = ResidentBytes();
  ASSERT_GT(most, before + (int64_t{150} << 20)) << "16 heads of 4,096 tokens, their tiles and masses";
  window_->OpenPath(trace_path());
  ASSERT_TRUE(WaitFor([&] { return window_->store()->trace().heads.size() == 8; }));
  ASSERT_TRUE(WaitForCanvas());
  const int64_t allowed = before + (most - before) / 8;
  EXPECT_TRUE(WaitFor([&] { return ResidentBytes() < allowed; }))
      << (before >> 20) << " MiB before, " << (most >> 20) << " with the large trace, " << (ResidentBytes() >> 20)
      << " after it";
}

// All that is kept of 16 heads would be nearly three times as much.
TEST_F(MemoryTest, EveryCacheOfTheWindowStaysInsideOneBudget) {
  const QString other = qEnvironmentVariable("HEADSCOPE_TEST_TRACE");
  const int budget_mib = qEnvironmentVariableIntValue("HEADSCOPE_TEST_BUDGET_MIB");
  const int num_heads = std::max(16, qEnvironmentVariableIntValue("HEADSCOPE_TEST_HEADS"));
  OpenWindow(other.isEmpty() ? ShippedTrace() : other);
  ASSERT_TRUE(WaitFor([&] { return window_->store()->HasTrace(); }));
  window_->commands()[ui::Command::kCancelWork]->trigger();
  ui::MemoryBudget& memory = workbench_->memory();
  memory.SetCapacity(budget_mib > 0 ? int64_t{budget_mib} << 20 : ui::MemoryBudget::kLeastBytes);
  ASSERT_TRUE(WaitForCanvas(60000));
  const int64_t uncounted = AllocatedBytes() - memory.used();
  int64_t most = 0, least_late = memory.capacity();
  const std::vector<analysis::HeadId>& heads = window_->store()->trace().heads;
  for (int looked_at = 1; looked_at <= num_heads; ++looked_at) {
    const auto place = static_cast<size_t>(2 * looked_at);  // every second head, and then the others
    window_->store()->Select(heads[(place + place / heads.size()) % heads.size()]);
    ASSERT_TRUE(WaitForCanvas(60000));
    most = std::max(most, memory.used());
    if (looked_at > num_heads / 2) least_late = std::min(least_late, memory.used());
  }
  EXPECT_LE(most, memory.capacity());
  EXPECT_GT(least_late, memory.capacity() * 3 / 4) << "it is used, too";
  // What a pass over a head takes for itself goes with the pass, which may end behind the picture.
  constexpr int64_t kElse = int64_t{48} << 20;
  EXPECT_TRUE(WaitFor([&] { return AllocatedBytes() - memory.used() < uncounted + kElse; }))
      << "what is counted is what is there: " << (uncounted >> 20) << " MiB beside it before, "
      << ((AllocatedBytes() - memory.used()) >> 20) << " after " << num_heads << " heads";
  // What heads that have left took is the system's again, and no high-water mark of the allocator's.
  constexpr int64_t kKept = int64_t{96} << 20;
  EXPECT_TRUE(WaitFor([&] { return ResidentBytes() < AllocatedBytes() + kKept; }))
      << (ResidentBytes() >> 20) << " MiB are resident, " << (AllocatedBytes() >> 20) << " allocated";
  std::printf("%lld MiB resident, %lld allocated, %lld counted after %d heads\n",
              static_cast<long long>(ResidentBytes() >> 20), static_cast<long long>(AllocatedBytes() >> 20),
              static_cast<long long>(memory.used() >> 20), num_heads);
  // The head on show is whole: its mask follows, and what has left comes again.
  window_->store()->Select(window_->store()->trace().heads.front());
  ASSERT_TRUE(WaitForCanvas(60000));
  EXPECT_NE(window_->canvas()->mask(), nullptr);
}

TEST_F(MemoryTest, SettingsGroupCountsInOneWayWhateverTheSystemsLanguage) {
  const QLocale before;
  QLocale::setDefault(QLocale(QLocale::German));
  OpenWindow(trace_path());
  window_->commands()[ui::Command::kSettings]->trigger();
  auto* limit = Find<QSpinBox>("memoryBudget");
  limit->setMaximum(20000);
  limit->setValue(16384);
  EXPECT_EQ(limit->text(), QStringLiteral("16,384 MiB"));
  const auto* defaults =
      Find<QDialog>("settingsDialog")->findChild<QDialogButtonBox*>()->button(QDialogButtonBox::RestoreDefaults);
  const std::string count = analysis::Grouped(ui::MemoryBudget::DefaultBytes() >> 20);
  EXPECT_TRUE(defaults->toolTip().endsWith(QString::fromStdString(": " + count + " MiB")));
  QLocale::setDefault(before);
}

TEST_F(MemoryTest, TheBudgetIsASettingThatIsKept) {
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_EQ(workbench_->memory().capacity(), ui::MemoryBudget::DefaultBytes());
  window_->commands()[ui::Command::kSettings]->trigger();
  auto* limit = Find<QSpinBox>("memoryBudget");
  EXPECT_EQ(limit->value(), ui::MemoryBudget::DefaultBytes() >> 20);
  EXPECT_EQ(limit->suffix(), QStringLiteral(" MiB"));
  EXPECT_FALSE(limit->toolTip().isEmpty());
  limit->setValue(300);
  EXPECT_EQ(workbench_->memory().capacity(), int64_t{300} << 20);
  CloseWindow();
  workbench_->memory().SetCapacity(ui::MemoryBudget::DefaultBytes());
  OpenWindow(trace_path());
  EXPECT_EQ(workbench_->memory().capacity(), int64_t{300} << 20);
}

}  // namespace
}  // namespace headscope::gui_test
