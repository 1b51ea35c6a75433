// SPDX-License-Identifier: Apache-2.0
// The menu of a head, or of several, in the matrix, the table and the maps: by mouse and by key.
#include <QClipboard>
#include <QContextMenuEvent>
#include <QDockWidget>
#include <QHeaderView>
#include <QInputDialog>
#include <QLineEdit>
#include <QMenu>
#include <QTableView>

#include "head_matrix.h"
#include "head_of_row.h"
#include "head_table.h"
#include "maps_pane.h"
#include "shell_fixture.h"

namespace headscope::gui_test {
namespace {

using analysis::HeadId;

class HeadsMenuTest : public ShellTest {
 protected:
  HeadsMenuTest() : ShellTest(0, KnownAtStart::kStatistics) {}
  void Open() {
    OpenWindow(trace_path());
    ASSERT_TRUE(WaitForStatistics());
    ASSERT_TRUE(WaitForCanvas());
    table_ = Find<QTableView>("headTable");
  }
  // As the platform sends it.
  void AskForMenu(QWidget* of, QPoint at, QContextMenuEvent::Reason reason = QContextMenuEvent::Mouse) {
    QContextMenuEvent event(reason, at, of->mapToGlobal(at));
    QApplication::sendEvent(of, &event);
  }
  QPoint RowAt(int row) const { return table_->visualRect(table_->model()->index(row, 0)).center(); }
  // The menu's entry. Null: none is open, or it has no such entry.
  QAction* Take(const char* name) {
    auto* menu = window_->findChild<QMenu*>(QStringLiteral("headsMenu"));
    return menu == nullptr ? nullptr : menu->findChild<QAction*>(QLatin1String(name));
  }
  void Choose(const char* name) {
    QAction* const action = Take(name);
    ASSERT_NE(action, nullptr) << name;
    action->trigger();
    window_->findChild<QMenu*>(QStringLiteral("headsMenu"))->close();
    ASSERT_TRUE(WaitFor([&] { return window_->findChild<QMenu*>(QStringLiteral("headsMenu")) == nullptr; }));
  }
  QString FilterText() { return Find<QLineEdit>("headFilter")->text(); }

  QTableView* table_ = nullptr;
};

TEST_F(HeadsMenuTest, AHeadOfTheMatrixIsOpenedComparedAndFilteredBy) {
  ASSERT_NO_FATAL_FAILURE(Open());
  auto* matrix = Find<ui::HeadMatrix>("headMatrix");
  const HeadId open = window_->canvas()->head(), other{1, 2};
  ASSERT_NE(open, other);
  AskForMenu(matrix, *matrix->CellCentre(other));
  ASSERT_NO_FATAL_FAILURE(Choose("besideHead"));
  auto* second = Find<ui::HeadCanvas>("secondCanvas");
  EXPECT_EQ(second->head(), other);
  EXPECT_EQ(window_->canvas()->head(), open) << "the open head stays";
  AskForMenu(matrix, *matrix->CellCentre(other));
  ASSERT_NO_FATAL_FAILURE(Choose("layerOfHead"));
  EXPECT_EQ(FilterText(), QStringLiteral("1:"));
  AskForMenu(matrix, *matrix->CellCentre(other));
  ASSERT_NO_FATAL_FAILURE(Choose("classOfHead"));
  EXPECT_TRUE(window_->store()->Passes(other));
  EXPECT_TRUE(FilterText().startsWith(QStringLiteral("class="))) << FilterText().toStdString();
  AskForMenu(matrix, *matrix->CellCentre(other));
  ASSERT_NO_FATAL_FAILURE(Choose("openHead"));
  EXPECT_EQ(window_->canvas()->head(), other);
  // By a key it is about the open head.
  AskForMenu(matrix, {1, 1}, QContextMenuEvent::Keyboard);
  ASSERT_NO_FATAL_FAILURE(Choose("copyHeads"));
  EXPECT_EQ(QApplication::clipboard()->text(), QStringLiteral("1:2"));
  AskForMenu(matrix, {1, 1});
  EXPECT_EQ(Take("openHead"), nullptr) << "no head is there";
}

TEST_F(HeadsMenuTest, SeveralRowsAreFilteredAndTaggedTogether) {
  ASSERT_NO_FATAL_FAILURE(Open());
  QTest::mouseClick(table_->viewport(), Qt::LeftButton, {}, RowAt(0));
  QTest::mouseClick(table_->viewport(), Qt::LeftButton, Qt::ControlModifier, RowAt(2));
  const std::vector<HeadId> both = {HeadOfRow(table_, 0), HeadOfRow(table_, 2)};
  ASSERT_EQ(table_->selectionModel()->selectedRows().size(), 2);
  const HeadId open = window_->canvas()->head();
  QTest::mousePress(table_->viewport(), Qt::RightButton, {}, RowAt(0));
  QTest::mouseRelease(table_->viewport(), Qt::RightButton, {}, RowAt(0));
  EXPECT_EQ(window_->canvas()->head(), open) << "asking for a menu opens nothing";
  EXPECT_EQ(table_->selectionModel()->selectedRows().size(), 2);
  while (QWidget* popup = QApplication::activePopupWidget()) popup->close();
  ASSERT_TRUE(WaitFor([&] { return window_->findChild<QMenu*>(QStringLiteral("headsMenu")) == nullptr; }));

  AskForMenu(table_->viewport(), RowAt(2));
  EXPECT_EQ(Take("openHead"), nullptr) << "it is about both";
  ASSERT_NO_FATAL_FAILURE(Choose("tagHeads"));
  auto* ask = Find<QInputDialog>("tagDialog");
  ask->setTextValue(QStringLiteral("pair"));
  ask->accept();
  for (const HeadId& head : window_->store()->trace().heads) {
    const bool is_tagged = std::find(both.begin(), both.end(), head) != both.end();
    EXPECT_EQ(window_->store()->TagsOf(head), is_tagged ? QStringList{QStringLiteral("pair")} : QStringList())
        << head.layer << ':' << head.head;
  }
  AskForMenu(table_, {}, QContextMenuEvent::Keyboard);
  ASSERT_NO_FATAL_FAILURE(Choose("onlyHeads"));
  EXPECT_EQ(table_->model()->rowCount(), 2);
  for (const HeadId& head : window_->store()->trace().heads)
    EXPECT_EQ(window_->store()->Passes(head), std::find(both.begin(), both.end(), head) != both.end());
}

// The titles of a table take no keys: what they do with the mouse is in the menu of its rows.
TEST_F(HeadsMenuTest, ATableIsSortedAndItsColumnsAreChosenByKeys) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const auto choose = [&](const char* submenu, const QString& entry) {
    AskForMenu(table_, {}, QContextMenuEvent::Keyboard);
    auto* menu = window_->findChild<QMenu*>(QStringLiteral("headsMenu"));
    ASSERT_NE(menu, nullptr);
    auto* opened = menu->findChild<QMenu*>(QLatin1String(submenu));
    ASSERT_NE(opened, nullptr) << submenu;
    EXPECT_TRUE(menu->actions().contains(opened->menuAction()));
    for (QAction* action : opened->actions()) {
      if (action->text() != entry) continue;
      action->trigger();
      menu->close();
      ASSERT_TRUE(WaitFor([&] { return window_->findChild<QMenu*>(QStringLiteral("headsMenu")) == nullptr; }));
      EXPECT_EQ(table_->findChild<QMenu*>(QLatin1String(submenu)), nullptr) << "it goes with the menu";
      return;
    }
    FAIL() << submenu << " has no " << entry.toStdString();
  };
  const QHeaderView* const header = table_->horizontalHeader();
  const int metric = ui::HeadTableModel::kFirstMetric;
  const QString title = table_->model()->headerData(metric, Qt::Horizontal).toString().simplified();
  ASSERT_NO_FATAL_FAILURE(choose("sortMenu", title));
  EXPECT_EQ(header->sortIndicatorSection(), metric);
  EXPECT_EQ(header->sortIndicatorOrder(), Qt::DescendingOrder) << "as the first click on a metric's title";
  ASSERT_NO_FATAL_FAILURE(choose("sortMenu", title));
  EXPECT_EQ(header->sortIndicatorOrder(), Qt::AscendingOrder) << "and the second";
  ASSERT_NO_FATAL_FAILURE(choose("columnMenu", title));
  EXPECT_TRUE(table_->isColumnHidden(metric));
  window_->commands()[ui::Command::kUndo]->trigger();
  EXPECT_FALSE(table_->isColumnHidden(metric));
}

TEST_F(HeadsMenuTest, ARowThatIsNotSelectedAndAMapHaveTheMenuOfTheirHead) {
  ASSERT_NO_FATAL_FAILURE(Open());
  QTest::mouseClick(table_->viewport(), Qt::LeftButton, {}, RowAt(0));
  AskForMenu(table_->viewport(), RowAt(3));
  const HeadId row = HeadOfRow(table_, 3);
  ASSERT_NO_FATAL_FAILURE(Choose("openHead"));
  EXPECT_EQ(window_->canvas()->head(), row);
  Find<QDockWidget>("mapsDock")->raise();
  auto* maps = Find<ui::MapsView>("mapsView");
  ASSERT_TRUE(WaitFor([&] { return maps->isVisible() && maps->RectOf({0, 1}).isValid(); }));
  AskForMenu(maps->viewport(), maps->RectOf({0, 1}).center());
  ASSERT_NO_FATAL_FAILURE(Choose("likeHead"));
  EXPECT_EQ(FilterText(), QStringLiteral("like=0:1"));
}

}  // namespace
}  // namespace headscope::gui_test
