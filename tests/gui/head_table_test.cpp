// SPDX-License-Identifier: Apache-2.0
// The heads table by mouse and keyboard: its filter, the row of the open head, and what the matrix makes of both.
#include "head_table.h"

#include <QDockWidget>
#include <QHeaderView>
#include <QImage>
#include <QLabel>
#include <QLineEdit>
#include <QTableView>
#include <algorithm>

#include "head_of_row.h"
#include "histogram_pane.h"
#include "shell_fixture.h"
#include "similar_heads.h"

namespace headscope::gui_test {
namespace {

using analysis::HeadId;

class HeadTableTest : public ShellTest {
 protected:
  HeadTableTest() : ShellTest(0, KnownAtStart::kStatistics) {}
  void Open() {
    OpenWindow(trace_path());
    ASSERT_TRUE(WaitForStatistics());
    ASSERT_TRUE(WaitForCanvas());
    table_ = Find<QTableView>("headTable");
    filter_ = Find<QLineEdit>("headFilter");
  }
  void Filter(const char* text) {
    filter_->setFocus();
    filter_->clear();
    QTest::keyClicks(filter_, QLatin1String(text));
  }
  HeadId Shown() const { return window_->canvas()->head(); }

  QTableView* table_ = nullptr;
  QLineEdit* filter_ = nullptr;
};

// The head on show is hidden by the filter. The first row used to look like the open one, and a click on it, or Enter,
// did nothing.
TEST_F(HeadTableTest, FirstRowOpensByClickWhileTheOpenHeadIsFilteredOut) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Filter("1:");
  ASSERT_EQ(table_->model()->rowCount(), 4);
  EXPECT_FALSE(table_->currentIndex().isValid()) << "no row is the open head's";
  EXPECT_FALSE(table_->selectionModel()->hasSelection());
  QTest::mouseClick(table_->viewport(), Qt::LeftButton, {}, table_->visualRect(table_->model()->index(0, 0)).center());
  EXPECT_EQ(Shown(), (HeadId{1, 0}));
}

// Red letters alone said that nothing was filtered, and why only to a pointer that rested on them.
TEST_F(HeadTableTest, AFilterThatIsNotUnderstoodIsSaidInWords) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const auto* error = Find<QLabel>("filterError");
  EXPECT_FALSE(error->isVisible());
  Filter("kurtosis>much");
  EXPECT_TRUE(error->isVisible());
  EXPECT_TRUE(error->text().contains(QStringLiteral("much"))) << error->text().toStdString();
  EXPECT_EQ(table_->model()->rowCount(), 8);
  Filter("kurtosis>0");
  EXPECT_FALSE(error->isVisible());
}

TEST_F(HeadTableTest, HeadsLikeTheOpenOneAreFiltered) {
  ASSERT_NO_FATAL_FAILURE(Open());
  window_->store()->Select({1, 2});
  window_->commands()[ui::Command::kLikeHeads]->trigger();
  EXPECT_EQ(filter_->text(), QStringLiteral("like=1:2"));
  const analysis::HeadStatistics* const open = window_->store()->Find({1, 2});
  ASSERT_NE(open, nullptr);
  int alike = 0;
  for (const HeadId& head : window_->store()->trace().heads) {
    const bool is_alike = ui::PatternLikeness(*window_->store()->Find(head), *open) >= ui::kAlike;
    EXPECT_EQ(window_->store()->Passes(head), is_alike) << head.layer << ':' << head.head;
    alike += is_alike ? 1 : 0;
  }
  EXPECT_EQ(table_->model()->rowCount(), alike);
  EXPECT_GE(alike, 1);
}

// Find zone's habit: the range of a histogram that is dragged filters what it is made of.
TEST_F(HeadTableTest, ARangeDraggedInTheHistogramFiltersTheHeads) {
  ASSERT_NO_FATAL_FAILURE(Open());
  window_->store()->SetMetric("entropy");
  Find<QDockWidget>("histogramDock")->raise();
  auto* histogram = Find<ui::HistogramPane>("histogram");
  ASSERT_TRUE(WaitFor([&] { return !histogram->histogram().counts.empty(); }));
  EXPECT_TRUE(histogram->WhyNot().isEmpty());
  constexpr size_t kFirst = 10, kLast = 29;
  QTest::mousePress(histogram, Qt::LeftButton, {}, histogram->PlaceOf(kLast));
  QTest::mouseMove(histogram, histogram->PlaceOf(kFirst));
  QTest::mouseRelease(histogram, Qt::LeftButton, {}, histogram->PlaceOf(kFirst));
  EXPECT_TRUE(filter_->text().startsWith(QStringLiteral("entropy>="))) << filter_->text().toStdString();
  const double begin = histogram->histogram().EdgeOf(kFirst), end = histogram->histogram().EdgeOf(kLast + 1);
  int inside = 0;
  for (const HeadId& head : window_->store()->trace().heads) {
    const double value = window_->store()->MetricOf(head);
    inside += value >= begin && value < end ? 1 : 0;
  }
  EXPECT_EQ(table_->model()->rowCount(), inside);
  EXPECT_LT(inside, 8);
  // Numbers that come later move the bins: the bars in colour stay those of the values that were chosen.
  analysis::HeadStatistics largest = *window_->store()->Find(window_->store()->trace().heads.front());
  largest.entropy = 4 * histogram->histogram().end;
  window_->store()->Add(largest);
  ASSERT_TRUE(WaitFor([&] {
    histogram->repaint();
    return histogram->histogram().end == largest.entropy;
  }));
  for (size_t bin = 0; bin < histogram->histogram().counts.size(); ++bin) {
    const double middle = (histogram->histogram().EdgeOf(bin) + histogram->histogram().EdgeOf(bin + 1)) / 2;
    EXPECT_EQ(histogram->IsChosen(bin), middle >= begin && middle < end) << bin;
  }
  QTest::keyClick(histogram, Qt::Key_Escape);
  EXPECT_EQ(filter_->text(), QString());
  QTest::keyClick(histogram, Qt::Key_Right);  // the first bin, which holds the least
  EXPECT_TRUE(filter_->text().startsWith(QStringLiteral("entropy<"))) << filter_->text().toStdString();
  EXPECT_GE(table_->model()->rowCount(), 1);
  window_->store()->SetMetric(ui::HeadStore::kClassMetric);
  EXPECT_FALSE(histogram->WhyNot().isEmpty());
}

// It was a column of zeros for every other model.
TEST_F(HeadTableTest, TheLearnedSinksColumnIsThereForModelsThatHaveThem) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const std::vector<analysis::MetricInfo>& metrics = analysis::Metrics();
  const auto of_sinks =
      std::find_if(metrics.begin(), metrics.end(), [](const auto& metric) { return metric.of_sinks; });
  ASSERT_NE(of_sinks, metrics.end());
  const int column = ui::HeadTableModel::kFirstMetric + static_cast<int>(of_sinks - metrics.begin());
  EXPECT_TRUE(table_->isColumnHidden(column));
  ui::TraceSummary with_sinks = window_->store()->trace();
  with_sinks.has_sinks = true;
  window_->store()->SetTrace(with_sinks);
  EXPECT_FALSE(table_->isColumnHidden(column));
}

TEST_F(HeadTableTest, EnterOpensTheRowThatIsTheCurrentOne) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Filter("1:");
  table_->setFocus();
  QTest::keyClick(table_, Qt::Key_Down);
  EXPECT_EQ(Shown(), (HeadId{1, 0}));
  // Another head is opened elsewhere and filtered out, and the same row is asked for again.
  window_->store()->Select({0, 2});
  EXPECT_FALSE(table_->currentIndex().isValid());
  QTest::keyClick(table_, Qt::Key_Down);
  EXPECT_EQ(Shown(), (HeadId{1, 0}));
}

TEST_F(HeadTableTest, DownAndEnterInTheFilterReachTheFirstHit) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Filter("1:2");
  QTest::keyClick(filter_, Qt::Key_Return);
  EXPECT_EQ(Shown(), (HeadId{1, 2}));
  EXPECT_TRUE(table_->hasFocus());
  Filter("1:");
  QTest::keyClick(filter_, Qt::Key_Down);
  EXPECT_EQ(Shown(), (HeadId{1, 0}));
  QTest::keyClick(table_, Qt::Key_Down);
  EXPECT_EQ(Shown(), (HeadId{1, 1})) << "the arrows go on from there";
  Filter("kurtosis>1e9");
  QTest::keyClick(filter_, Qt::Key_Return);
  EXPECT_EQ(Shown(), (HeadId{1, 1})) << "no hit to go to";
  EXPECT_TRUE(filter_->hasFocus());
}

TEST_F(HeadTableTest, OpenRowIsInSightAgainWhenTheFilterGoes) {
  ASSERT_NO_FATAL_FAILURE(Open());
  window_->store()->Select({1, 3});
  // Two rows high: the last of eight is out of sight wherever the table begins.
  table_->setFixedHeight(table_->horizontalHeader()->height() + 2 * table_->verticalHeader()->defaultSectionSize() +
                         20);
  QTest::qWait(50);
  Filter("0:");
  Filter("");
  ASSERT_EQ(table_->model()->rowCount(), 8);
  const QModelIndex open = table_->currentIndex();
  ASSERT_TRUE(open.isValid());
  EXPECT_EQ(HeadOfRow(table_, open.row()), (HeadId{1, 3}));
  EXPECT_TRUE(table_->viewport()->rect().intersects(table_->visualRect(open)));
}

TEST_F(HeadTableTest, FirstClickOnAMetricSortsTheMostToTheTop) {
  ASSERT_NO_FATAL_FAILURE(Open());
  QHeaderView* header = table_->horizontalHeader();
  const int metric = ui::HeadTableModel::kFirstMetric;
  table_->scrollTo(table_->model()->index(0, metric));
  const auto click = [&](int column) {
    const QPoint title(header->sectionViewportPosition(column) + 12, header->height() / 2);
    QTest::mouseClick(header->viewport(), Qt::LeftButton, {}, title);
  };
  click(metric);
  ASSERT_EQ(header->sortIndicatorSection(), metric);
  EXPECT_EQ(header->sortIndicatorOrder(), Qt::DescendingOrder);
  const auto value = [&](int row) {
    return table_->model()->index(row, metric).data(ui::HeadTableModel::kSortRole).toDouble();
  };
  EXPECT_GT(value(0), value(7));
  click(metric);
  EXPECT_EQ(header->sortIndicatorOrder(), Qt::AscendingOrder);
}

TEST_F(HeadTableTest, MatrixDimsWhatTheFilterLeavesOut) {
  ASSERT_NO_FATAL_FAILURE(Open());
  auto* matrix = Find<ui::HeadMatrix>("headMatrix");
  window_->store()->SetMetric(ui::HeadStore::kClassMetric);  // cells without numbers: plain colours
  const auto color = [&](HeadId head) {
    return matrix->grab().toImage().pixelColor(*matrix->CellCentre(head) * matrix->devicePixelRatioF());
  };
  const QColor left_out = color({0, 1}), kept = color({1, 1});
  Filter("1:");
  EXPECT_NE(color({0, 1}), left_out);
  EXPECT_EQ(color({1, 1}), kept);
  Filter("");
  EXPECT_EQ(color({0, 1}), left_out);
}

// A row leaves under the filter when its numbers change: its neighbour becomes the table's current row by itself, which
// used to open the neighbour's head.
TEST_F(HeadTableTest, RowThatLeavesUnderTheFilterOpensNoOtherHead) {
  ASSERT_NO_FATAL_FAILURE(Open());
  window_->store()->Select({0, 0});
  Filter("sink_mass>0.1");
  ASSERT_GT(table_->model()->rowCount(), 1);
  ASSERT_EQ(HeadOfRow(table_, table_->currentIndex().row()), (HeadId{0, 0}));
  analysis::HeadStatistics changed = *window_->store()->Find({0, 0});
  changed.sink_mass = 0;
  window_->store()->Add(changed);
  EXPECT_EQ(Shown(), (HeadId{0, 0}));
  EXPECT_FALSE(table_->currentIndex().isValid());
}

}  // namespace
}  // namespace headscope::gui_test
