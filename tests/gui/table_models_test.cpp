// SPDX-License-Identifier: Apache-2.0
// Every table of the window under Qt's own inspector of models, which ends the program where a model breaks a promise:
// while rows come, go, are sorted and filtered.
#include <QAbstractItemModelTester>
#include <QAbstractItemView>
#include <QAbstractProxyModel>
#include <QHeaderView>
#include <QLineEdit>
#include <QSet>
#include <QTableView>

#include "shell_fixture.h"

namespace headscope::gui_test {
namespace {

using ui::Command;

class TableModelsTest : public ShellTest {
 protected:
  // Of every table and what lies behind it; how many.
  qsizetype InspectAll() {
    QSet<QAbstractItemModel*> models;
    for (const QTableView* view : window_->findChildren<QTableView*>()) {
      QAbstractItemModel* model = view->model();
      while (model != nullptr) {
        models.insert(model);
        const auto* const proxy = qobject_cast<QAbstractProxyModel*>(model);
        model = proxy == nullptr ? nullptr : proxy->sourceModel();
      }
    }
    for (QAbstractItemModel* model : models)
      new QAbstractItemModelTester(model, QAbstractItemModelTester::FailureReportingMode::Fatal, window_.get());
    return models.size();
  }
};

TEST_F(TableModelsTest, KeepTheirPromisesWhileRowsComeAndGo) {
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitFor([this] { return window_->store()->HasTrace(); }));
  // Heads and what filters them, runs, bookmarks, the log, and the table of few bits.
  EXPECT_GE(InspectAll(), 6);
  ASSERT_TRUE(WaitForStatistics());
  auto* const heads = Find<QTableView>("headTable");
  auto* const filter = Find<QLineEdit>("headFilter");
  for (const char* text : {"1:", "kurtosis>0", "no such head", ""}) {
    filter->setText(QLatin1String(text));
    QCoreApplication::processEvents();
  }
  for (const Qt::SortOrder order : {Qt::DescendingOrder, Qt::AscendingOrder}) {
    for (int column = 0; column < heads->model()->columnCount(); ++column) heads->sortByColumn(column, order);
  }

  auto* const runs = Find<QTableView>("runsTable");
  window_->commands()[Command::kRun]->trigger();
  ASSERT_TRUE(WaitFor([&] { return runs->model()->rowCount() >= 2 && !window_->state()->trial.running(); }));
  for (int column = 0; column < runs->model()->columnCount(); ++column) runs->sortByColumn(column, Qt::DescendingOrder);
  window_->commands()[Command::kBookmark]->trigger();
  window_->commands()[Command::kUndo]->trigger();
  window_->commands()[Command::kRedo]->trigger();
  window_->commands()[Command::kClearRuns]->trigger();
  window_->state()->log.Add(ui::NoticeLog::Kind::kNews, QStringLiteral("one more line"));
  window_->state()->log.Clear();

  WriteSmallTrace(File(QStringLiteral("other.h5")).toStdString());
  window_->OpenPath(File(QStringLiteral("other.h5")));
  ASSERT_TRUE(WaitFor([this] { return QString::fromStdString(window_->store()->trace().path).endsWith("other.h5"); }));
  EXPECT_EQ(heads->model()->rowCount(), 8);
  ASSERT_TRUE(WaitForStatistics());
}

}  // namespace
}  // namespace headscope::gui_test
