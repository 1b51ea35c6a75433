// SPDX-License-Identifier: Apache-2.0
// What the window remembers from one start to the next, and what it makes of a session file that is damaged or shared.
#include <QAction>
#include <QDir>
#include <QDockWidget>
#include <QFile>
#include <QHeaderView>
#include <QJsonArray>
#include <QJsonDocument>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QTableView>
#include <atomic>
#include <random>
#include <thread>

#include "head_table.h"
#include "shell_fixture.h"
#include "shown_text.h"
#include "trace_keeper.h"

namespace headscope::gui_test {
namespace {

using analysis::HeadId;

class SessionTest : public ShellTest {
 protected:
  QString session_path() const { return File(QStringLiteral("session.json")); }
  QByteArray ReadSession() const {
    QFile file(session_path());
    EXPECT_TRUE(file.open(QIODevice::ReadOnly));
    return file.readAll();
  }
  static void Write(const QString& path, const QByteArray& text) {
    QFile file(path);
    ASSERT_TRUE(file.open(QIODevice::WriteOnly));
    file.write(text);
  }
  QTableView* Table() { return Find<QTableView>("headTable"); }
  int Column(const QString& name) {
    for (int column = 0; column < Table()->model()->columnCount(); ++column) {
      if (ui::HeadTableModel::ColumnName(column) == name) return column;
    }
    ADD_FAILURE() << "no column " << name.toStdString();
    return 0;
  }
  // By the menu of the titles, as a person does it.
  void ToggleColumn(const QString& name) {
    QHeaderView* header = Table()->horizontalHeader();
    Q_EMIT header->customContextMenuRequested(QPoint(5, 5));
    const QString title = Table()->model()->headerData(Column(name), Qt::Horizontal).toString();
    QMenu* menu = window_->findChild<ui::HeadTable*>()->findChild<QMenu*>();
    ASSERT_NE(menu, nullptr);
    for (QAction* action : menu->actions()) {
      if (action->text() == title) QTest::mouseClick(menu, Qt::LeftButton, {}, menu->actionGeometry(action).center());
    }
  }
};

// It was replaced by the defaults, without a word.
TEST_F(SessionTest, OneWithANameTwiceIsNamedAndLeftAlone) {
  const QByteArray text = R"({"theme": "dark", "recent": [], "theme": "light"})";
  Write(session_path(), text);
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_EQ(Find<QLabel>("noticeText")->text(),
            ui::Shown(session_path()) + QStringLiteral(" was not read: one of its objects has the name \"theme\" "
                                                       "twice; remove one of the two."));
  CloseWindow();
  EXPECT_EQ(ReadSession(), text);
}

TEST_F(SessionTest, SortFilterAndColumnsOfTheHeadsTableComeBack) {
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForStatistics());
  const int sink = Column(QStringLiteral("sink_mass"));
  ASSERT_FALSE(Table()->isColumnHidden(sink));
  QHeaderView* header = Table()->horizontalHeader();
  Table()->scrollTo(Table()->model()->index(0, sink));
  const QPoint title(header->sectionViewportPosition(sink) + 12, header->height() / 2);
  while (header->sortIndicatorSection() != sink || header->sortIndicatorOrder() != Qt::DescendingOrder)
    QTest::mouseClick(header->viewport(), Qt::LeftButton, {}, title);
  ToggleColumn(QStringLiteral("class"));
  ToggleColumn(QStringLiteral("rows"));
  QTest::keyClicks(Find<QLineEdit>("headFilter"), QStringLiteral("sink_mass>0.1"));
  const int rows = Table()->model()->rowCount();
  ASSERT_GT(rows, 0);
  ASSERT_LT(rows, 8);

  OpenWindow(QString());
  ASSERT_TRUE(WaitForStatistics());
  EXPECT_EQ(Find<QLineEdit>("headFilter")->text(), QStringLiteral("sink_mass>0.1"));
  ASSERT_EQ(Table()->model()->rowCount(), rows);
  EXPECT_TRUE(Table()->isColumnHidden(Column(QStringLiteral("class"))));
  EXPECT_FALSE(Table()->isColumnHidden(Column(QStringLiteral("rows"))));
  EXPECT_EQ(Table()->horizontalHeader()->sortIndicatorSection(), sink);
  const auto value = [&](int row) {
    return Table()->model()->index(row, sink).data(ui::HeadTableModel::kSortRole).toDouble();
  };
  for (int row = 1; row < rows; ++row) EXPECT_GE(value(row - 1), value(row)) << row;
}

// Every value of the file is replaced by one of each other type, and the file is cut anywhere: a window comes up on its
// defaults, shows the trace and can write its session again.
TEST_F(SessionTest, DamagedFilesGiveAWorkingWindow) {
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForCanvas());
  window_->store()->Select({1, 3});
  CloseWindow();
  const QByteArray good = ReadSession();
  const QJsonObject json = QJsonDocument::fromJson(good).object();
  ASSERT_GE(json.size(), 9);

  std::vector<QByteArray> damaged = {QByteArray("\0\xff\xfe{", 4), good.left(good.size() / 2),
                                     QByteArray(2 << 20, ' ') + good};
  const QJsonValue wrong[] = {QStringLiteral("\u0000\U0001F642AAAA////"),
                              QJsonArray{QJsonArray{}, -7, -1e300, QStringLiteral("layer"), QJsonValue()},
                              QJsonObject{{QStringLiteral("filter"), 5}, {QStringLiteral("columns"), true}}};
  for (const QJsonValue& value : wrong) {
    QJsonObject all;
    for (const QString& key : json.keys()) all[key] = value;
    damaged.push_back(QJsonDocument(all).toJson());
  }
  QJsonObject unknown = json;
  const QJsonObject table{{QStringLiteral("columns"), QJsonArray{QStringLiteral("nothing")}},
                          {QStringLiteral("sort"), QStringLiteral("nothing")},
                          {QStringLiteral("filter"), QString(5000, u'<')}};
  unknown[QStringLiteral("panes")] = QJsonObject{{QStringLiteral("head-table"), table}};
  unknown[QStringLiteral("head")] = QJsonArray{1 << 30, -1};
  // A layout whose first bytes are true and whose end is missing.
  const QByteArray layout = QByteArray::fromBase64(json[QStringLiteral("window_layout")].toString().toLatin1());
  unknown[QStringLiteral("window_layout")] = QString::fromLatin1(layout.left(layout.size() / 2).toBase64());
  damaged.push_back(QJsonDocument(unknown).toJson());
  // As older versions kept it.
  unknown.remove(QStringLiteral("panes"));
  unknown[QStringLiteral("head_table")] = table;
  damaged.push_back(QJsonDocument(unknown).toJson());

  for (const QByteArray& text : damaged) {
    SCOPED_TRACE(text.left(300).toStdString());
    // The files of the trace are as untrusted.
    for (const QString& path : {session_path(), ui::TraceKeeper(nullptr, folder_.path()).FileInSettings(trace_path()),
                                ui::TraceKeeper::FileBeside(trace_path())})
      Write(path, text);
    OpenWindow(trace_path());
    ASSERT_TRUE(WaitForCanvas());
    EXPECT_EQ(window_->canvas()->head(), (HeadId{0, 0}));
    for (const char* dock : {"matrixDock", "tableDock", "runsDock", "massDock"})
      EXPECT_FALSE(Find<QDockWidget>(dock)->isHidden()) << dock;
    CloseWindow();
    const ui::Session kept = ui::Session::Load(session_path());
    EXPECT_EQ(kept.last_trace, trace_path());
  }
}

TEST_F(SessionTest, RandomDamageIsReadWithoutHarm) {
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForCanvas());
  CloseWindow();
  const QByteArray good = ReadSession();
  std::mt19937 random(11);
  const auto below = [&](qsizetype limit) { return static_cast<qsizetype>(random() % static_cast<size_t>(limit)); };
  for (int trial = 0; trial < 2000; ++trial) {
    QByteArray text = good;
    for (qsizetype change = 0; change <= below(4); ++change) {
      const qsizetype at = below(text.size());
      if (below(2) == 0) {
        text[at] = static_cast<char>(below(256));
      } else {
        text.remove(at, below(40));
      }
      if (text.isEmpty()) break;
    }
    const ui::Session session = ui::Session::FromJson(QJsonDocument::fromJson(text).object());
    EXPECT_LE(session.recent.size(), ui::Session::kMostRecent);
    EXPECT_TRUE(session.theme == u"system" || session.theme == u"light" || session.theme == u"dark");
  }
}

TEST_F(SessionTest, TwoWindowsShareOneFileAndKeepBothTraces) {
  const QString other = File(QStringLiteral("other.h5"));
  ASSERT_TRUE(QFile::copy(trace_path(), other));
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForCanvas());
  {
    ui::MainWindow second(workbench_.get(), session_path());
    second.show();
    second.OpenPath(other);
    ASSERT_TRUE(WaitFor([&] { return second.store()->HasTrace(); }));
    second.close();
  }
  EXPECT_EQ(ui::Session::Load(session_path()).last_trace, other);
  CloseWindow();
  const ui::Session kept = ui::Session::Load(session_path());
  EXPECT_EQ(kept.last_trace, trace_path()) << "the window that was closed last";
  EXPECT_EQ(kept.recent, (QStringList{trace_path(), other}));
}

// Writers and readers of other processes never see half a file: it is replaced at once.
TEST_F(SessionTest, AReaderNeverSeesHalfAFile) {
  ui::Session session;
  for (int i = 0; i < ui::Session::kMostRecent; ++i) session.AddRecent(QString(20000, u'x') + QString::number(i));
  ASSERT_TRUE(session.Save(session_path()).isEmpty());
  std::atomic<bool> stop = false;
  const auto write = [&] {
    for (int i = 0; i < 15; ++i) EXPECT_TRUE(session.Save(session_path()).isEmpty());
  };
  std::thread reader([&] {
    while (!stop) EXPECT_EQ(ui::Session::Load(session_path()).recent.size(), ui::Session::kMostRecent);
  });
  std::thread first(write), second(write);
  first.join();
  second.join();
  stop = true;
  reader.join();
  EXPECT_EQ(QDir(folder_.path()).entryList({QStringLiteral("session.json*")}).size(), 1) << "nothing is left over";
}

}  // namespace
}  // namespace headscope::gui_test
