// SPDX-License-Identifier: Apache-2.0
// What a trace says of itself is shown as text: no control character, line break, mark of another writing direction or
// markup gets through to a label, a tooltip, a title or a menu.
#include <QAbstractButton>
#include <QComboBox>
#include <QFile>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QSignalSpy>
#include <QTableView>
#include <QTreeWidget>

#include "shell_fixture.h"
#include "trace_keeper.h"

namespace headscope::gui_test {
namespace {

// Escape sequence, line break, a right-to-left override, a line separator, bytes that are no UTF-8, markup.
constexpr char kHostile[] = "x\033[31m\r\ny\u202Ez\u2028\xff\xfe<img src='a'><b>bold</b>";

class HostileTextTest : public ShellTest {
 protected:
  static bool IsPlain(const QString& text) {
    for (const QChar c : text) {
      if (c.category() == QChar::Other_Control && c != u'\n' && c != u'\t') return false;  // of our own lines
      if (c.unicode() == 0x202E || c.unicode() == 0x2028) return false;
    }
    return true;
  }
  // Every text that the window has, tooltips too.
  void ExpectPlain() {
    EXPECT_TRUE(IsPlain(window_->windowTitle()));
    for (const QWidget* widget : window_->findChildren<QWidget*>()) {
      EXPECT_TRUE(IsPlain(widget->toolTip())) << widget->objectName().toStdString();
      EXPECT_FALSE(widget->toolTip().contains(QStringLiteral("<img"))) << widget->objectName().toStdString();
      const QVariant text = widget->property("text");
      EXPECT_TRUE(IsPlain(text.toString())) << widget->objectName().toStdString() << text.toString().toStdString();
      const auto* label = qobject_cast<const QLabel*>(widget);
      if (label != nullptr && label->text().contains(QStringLiteral("<img"))) {
        EXPECT_EQ(label->textFormat(), Qt::PlainText) << label->objectName().toStdString();
      }
    }
    for (const QAction* action : window_->findChildren<QAction*>()) EXPECT_TRUE(IsPlain(action->text()));
  }
};

TEST_F(HostileTextTest, NamesAndTokensOfATrace) {
  const QString path = File(QStringLiteral("a\n\033[31m<img src='a'> & b.h5"));
  WriteSmallTrace(path.toStdString(), 0, kHostile);
  OpenWindow(path);
  ASSERT_TRUE(WaitForStatistics()) << Find<QLabel>("noticeText")->text().toStdString();
  ASSERT_TRUE(WaitForCanvas());
  ExpectPlain();
  auto* info = Find<QTreeWidget>("traceInfo");
  bool says_model = false;
  for (int row = 0; row < info->topLevelItemCount(); ++row) {
    const QTreeWidgetItem* item = info->topLevelItem(row);
    EXPECT_TRUE(IsPlain(item->text(1)) && !item->text(1).contains(u'\n')) << item->text(1).toStdString();
    EXPECT_FALSE(item->toolTip(1).contains(QStringLiteral("<img"))) << item->toolTip(1).toStdString();
    says_model = says_model || item->text(1).contains(QStringLiteral("bold"));
  }
  EXPECT_TRUE(says_model) << "it is shown, not hidden";
  for (const std::string& token : window_->store()->trace().token_text)
    ASSERT_TRUE(IsPlain(QString::fromStdString(token)) && token.find('\n') == std::string::npos) << token;
  window_->canvas()->GoTo(300, 300);
  QSignalSpy cursor(window_->canvas(), &ui::HeadCanvas::CursorMoved);
  ASSERT_TRUE(WaitForCanvas());
  QTest::mouseMove(window_->canvas(), window_->canvas()->PixelOf(300, 300).toPoint());
  WaitFor([&] { return cursor.count() > 0; }, 2000);
  ExpectPlain();
}

TEST_F(HostileTextTest, ErrorsOfAFileThatIsNone) {
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForCanvas());
  const QString path = File(QStringLiteral("b\n\033[31m<img src='a'>.h5"));
  QFile file(path);
  ASSERT_TRUE(file.open(QIODevice::WriteOnly));
  file.write(kHostile);
  file.close();
  window_->OpenPath(path);
  auto* notice = Find<QLabel>("noticeText");
  ASSERT_TRUE(WaitFor([&] { return notice->text().contains(QStringLiteral("<img")); })) << notice->text().toStdString();
  EXPECT_FALSE(notice->text().contains(u'\n'));
  ExpectPlain();
}

TEST_F(HostileTextTest, ALongNameOfAFileDoesNotWidenTheWindow) {
  const QString name = QString(120, u'n') + QStringLiteral(".h5"), path = File(name);
  ASSERT_TRUE(QFile::copy(trace_path(), path));
  OpenWindow(path);
  ASSERT_TRUE(WaitForCanvas());
  ASSERT_TRUE(WaitForStatistics());
  constexpr int kSmallScreen = 800;
  EXPECT_LE(window_->minimumSizeHint().width(), kSmallScreen);
  auto* notice = Find<QLabel>("noticeText");
  const QString missing = File((QString(60, u'y') + u'/').repeated(3) + QString(180, u'x') + QStringLiteral(".h5"));
  window_->OpenPath(missing);
  ASSERT_TRUE(WaitFor([&] { return notice->isVisible(); }));
  EXPECT_LE(window_->minimumSizeHint().width(), kSmallScreen) << "said in a notice";
  EXPECT_TRUE(notice->text().contains(missing)) << "as it is copied: " << notice->text().toStdString();
  EXPECT_GT(notice->heightForWidth(600), 3 * notice->fontMetrics().height()) << "lines break behind slashes";
  ui::ProgressReport report;
  report.stage = "Exporting " + name.toStdString();
  auto* progress = Find<ui::ProgressStrip>("progressStrip");
  progress->Begin(QStringLiteral("export"), [] {});
  progress->Update(QStringLiteral("export"), report);
  EXPECT_LE(window_->minimumSizeHint().width(), kSmallScreen) << "said in the status bar";
  progress->End(QStringLiteral("export"));
  AnswerFileDialog(path);
  window_->commands()[ui::Command::kCompareTrace]->trigger();
  ASSERT_TRUE(WaitFor([&] { return window_->store()->HasOther(); }));
  ASSERT_TRUE(WaitForStatistics());
  EXPECT_LE(window_->minimumSizeHint().width(), kSmallScreen) << "said beside the head";
  EXPECT_TRUE(Find<QLabel>("headLabel")->text().contains(QStringLiteral(" of nnn"))) << "and there it is short";
  window_->resize(kSmallScreen, 600);
  EXPECT_TRUE(WaitFor([&] { return window_->width() == kSmallScreen; }));
}

// The file of runs beside a trace is as untrusted as the trace.
TEST_F(HostileTextTest, RunsThatAFileSays) {
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForCanvas());
  const QString contents = QString::fromStdString(window_->store()->trace().contents);
  CloseWindow();
  QFile file(ui::TraceKeeper::FileBeside(trace_path()));
  ASSERT_TRUE(file.open(QIODevice::WriteOnly));
  const QByteArray hostile = R"("x\u001b[31m\r\ny\u202e<img src='a'>")";
  file.write(R"({"schema": "headscope-trace-state-1", "runs": [{"id": "1", "contents": ")" + contents.toUtf8() +
             R"(", "run": {"layer": 0, "head": 1, "method": )" + hostile + R"(, "phase": "prefill", "parameters": )" +
             hostile + R"(, "note": )" + hostile + R"(}}, 7, {"id": []}, {"id": "2", "contents": ")" +
             contents.toUtf8() + R"(", "run": {"layer": 1e300, "method": 3}}]})");
  file.close();
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForCanvas());
  auto* model = Find<QTableView>("runsTable")->model();
  ASSERT_EQ(model->rowCount(), 2) << "dense, and the run that has a method and a head of this trace";
  for (int column = 0; column < model->columnCount(); ++column) {
    const QString text = model->index(1, column).data().toString();
    EXPECT_TRUE(IsPlain(text) && !text.contains(u'\n')) << text.toStdString();
    EXPECT_FALSE(model->index(1, column).data(Qt::ToolTipRole).toString().contains(QStringLiteral("<img")));
  }
  QTableView* view = Find<QTableView>("runsTable");
  Q_EMIT view->activated(model->index(1, 0));  // a method that there is not
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_EQ(window_->canvas()->head(), (analysis::HeadId{0, 1}));
}

}  // namespace
}  // namespace headscope::gui_test
