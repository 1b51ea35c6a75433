// SPDX-License-Identifier: Apache-2.0
// What the tests of the window share: a small true trace, the real workbench, and the real window on it.
#pragma once

#include <gtest/gtest.h>

#include <QTemporaryDir>
#include <QTest>
#include <functional>
#include <memory>
#include <vector>

#include "head_matrix.h"
#include "main_window.h"
#include "mass_chart.h"
#include "ui/workbench.h"
#include "ui_thread.h"
#include "workbench/statistics_store.h"

namespace headscope::gui_test {

// 2 layers of 4 query heads over 2 KV heads, 512 tokens, head_dim 32, fp32. Head 0 of each layer sees the first token,
// head 1 the token before, the others random keys. LSE is computed here, in float64, from Q and K.
inline constexpr int64_t kTokens = 512;
// `window`: what the model lets a query of layer 1 see, its own token included; 0: every earlier token.
// `text`: what the model and the prompt are called, and token 301 says.
// `answered`: token 301 says a task's answer, and the last two tokens are the model's wrong one.
void WriteSmallTrace(const std::string& path, int32_t window = 0, const std::string& text = {}, bool answered = false);

// What is known of the small trace when its window opens: the statistics of its heads, as at a second start, or
// nothing. They are a quarter of what the processor does in a short test; tests that are about other things have them
// from the first of their kind behind a build.
enum class KnownAtStart { kNothing, kStatistics };

class ShellTest : public ::testing::Test {
 protected:
  // `least_measured_ms`: of every run (app/workbench/trace_workbench.h).
  explicit ShellTest(double least_measured_ms = 0, KnownAtStart known = KnownAtStart::kNothing);
  ~ShellTest() override;

  // A window with its own session file; the one before is closed first (which keeps its session).
  ui::MainWindow& OpenWindow(const QString& open_path);
  void CloseWindow();
  QString File(const QString& name) const { return folder_.filePath(name); }
  QString trace_path() const { return File(QStringLiteral("small.h5")); }
  // Runs the event loop until `done`, at most this long.
  static bool WaitFor(const std::function<bool()>& done, int milliseconds = 20000);
  // Every head's exact statistics are known and no work is under way.
  bool WaitForStatistics();
  bool WaitForCanvas(int milliseconds = 20000);
  // The trace that headscope shows at its first start: 4,096 tokens, 10 layers of 8 heads of a trained model.
  // By a link in this test's folder: what a window keeps beside a trace is not there in the next test.
  QString ShippedTrace() const;
  template <typename T>
  T* Find(const char* name) {
    T* found = window_->findChild<T*>(QLatin1String(name));
    EXPECT_NE(found, nullptr) << name;
    return found;
  }
  // A key to the window; it is made the active one first, for a dialog may just have closed, and shortcuts belong to
  // the active window.
  void Press(Qt::Key key, Qt::KeyboardModifiers modifiers = {});
  // Answers the next file dialog with this path, and with the kind of file whose name has `kind` in it.
  void AnswerFileDialog(const QString& path, const QString& kind = {});
  // Answers the next question by a click on the button of this text.
  void AnswerQuestion(const QString& button);
  struct Question {
    QString text, default_button;
  };
  std::vector<Question> questions_;  // that were answered
  QString kind_at_first_;            // that the file dialog answered last began with
  QString name_at_first_;            // the same of the file's name

  QTemporaryDir folder_;
  ui::UiThread ui_thread_;
  std::unique_ptr<ui::Workbench> workbench_;
  std::unique_ptr<ui::MainWindow> window_;

 private:
  std::unique_ptr<app::StatisticsStore> first_of_its_kind_;  // whose statistics are for the tests behind this one
};

}  // namespace headscope::gui_test
