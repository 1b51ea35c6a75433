// SPDX-License-Identifier: Apache-2.0
#include "head_table.h"

#include <QContextMenuEvent>
#include <QHBoxLayout>
#include <QJsonArray>
#include <QKeyEvent>
#include <QLabel>
#include <QMenu>
#include <QStyle>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>
#include <limits>

#include "error_ink.h"
#include "panes.h"
#include "selected_rows.h"
#include "table_picture.h"
#include "wrapped_header.h"

namespace headscope::ui {
namespace {

// Metrics whose columns are shown at first; the header's menu shows the others.
constexpr int kMetricsShown = 11;
constexpr int kLongestFilter = 40000;  // characters: 4,096 heads by their numbers

class FilterProxy : public QSortFilterProxyModel {
 public:
  FilterProxy(const HeadStore* store, HeadTableModel* model, QObject* parent)
      : QSortFilterProxyModel(parent), store_(store), model_(model) {
    setSourceModel(model);
    setSortRole(HeadTableModel::kSortRole);
    setDynamicSortFilter(true);
  }
  void FilterAnew() { invalidateFilter(); }

 protected:
  bool filterAcceptsRow(int row, const QModelIndex&) const override { return store_->Passes(model_->HeadAt(row)); }

 private:
  const HeadStore* const store_;
  HeadTableModel* const model_;
};

}  // namespace

HeadTableModel::HeadTableModel(HeadStore* store, QObject* parent) : QAbstractTableModel(parent), store_(store) {
  connect(store, &HeadStore::TraceChanged, this, [this] {
    beginResetModel();
    endResetModel();
  });
  connect(store, &HeadStore::StatisticsChanged, this, [this](analysis::HeadId head) {
    const int row = RowOf(head);
    if (row >= 0) Q_EMIT dataChanged(index(row, 0), index(row, columnCount() - 1));
  });
  connect(store, &HeadStore::MetricChanged, this, [this] {
    const int column = DifferenceColumn();
    if (rowCount() > 0) Q_EMIT dataChanged(index(0, column), index(rowCount() - 1, column));
    Q_EMIT headerDataChanged(Qt::Horizontal, column, column);
  });
  // The filter may ask for them.
  connect(store, &HeadStore::TagsChanged, this, [this](analysis::HeadId head) {
    const int row = RowOf(head);
    if (row >= 0) Q_EMIT dataChanged(index(row, 0), index(row, columnCount() - 1));
  });
}

int HeadTableModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(store_->trace().heads.size());
}

int HeadTableModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : DifferenceColumn() + 1;
}

int HeadTableModel::DifferenceColumn() {
  return kFirstMetric + static_cast<int>(analysis::Metrics().size());
}

int HeadTableModel::RowOf(analysis::HeadId head) const {
  const auto& heads = store_->trace().heads;
  const auto at = std::lower_bound(heads.begin(), heads.end(), head);
  return at != heads.end() && *at == head ? static_cast<int>(at - heads.begin()) : -1;
}

QVariant HeadTableModel::Value(const analysis::HeadId& head, int row, int column) const {
  switch (column) {
    case kLayer:
      return head.layer;
    case kHead:
      return head.head;
    case kKvHead:
      return store_->trace().kv_head_of_head[static_cast<size_t>(row)];
    default:
      break;
  }
  const analysis::HeadStatistics* statistics = store_->Find(head);
  if (statistics == nullptr) return {};
  if (column == DifferenceColumn()) {
    const double difference = store_->shows_differences() ? store_->MetricOf(head) : std::nan("");
    return std::isnan(difference) ? QVariant() : QVariant(difference);
  }
  if (column == kClass) return QString::fromLatin1(analysis::HeadClassName(statistics->head_class));
  if (column == kRows) return static_cast<qlonglong>(statistics->num_rows);
  return analysis::MetricValue(*statistics, analysis::Metrics()[static_cast<size_t>(column - kFirstMetric)].name);
}

QVariant HeadTableModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) return {};
  const analysis::HeadId head = HeadAt(index.row());
  const QVariant value = Value(head, index.row(), index.column());
  // Nothing is on its way.
  const std::optional<TraceSummary>& other = store_->other();
  const bool is_missing = index.column() == DifferenceColumn() && other &&
                          !std::binary_search(other->heads.begin(), other->heads.end(), head);
  switch (role) {
    case Qt::DisplayRole:
      if (is_missing) return QStringLiteral("–");
      if (!value.isValid()) return QStringLiteral("…");
      return index.column() >= kFirstMetric ? QVariant(FormatMetric(value.toDouble())) : value;
    case kSortRole:
      if (value.isValid() && index.column() == DifferenceColumn()) return std::fabs(value.toDouble());
      // Heads that are not known yet sort below all others.
      return value.isValid() || index.column() == kClass ? value : QVariant(-std::numeric_limits<double>::infinity());
    case Qt::TextAlignmentRole:
      return static_cast<int>(Qt::AlignVCenter | (index.column() == kClass ? Qt::AlignLeft : Qt::AlignRight));
    case Qt::ToolTipRole:
      if (is_missing) return tr("the other trace has no such head");
      if (const analysis::HeadStatistics* statistics = store_->Find(head);
          statistics != nullptr && index.column() == kClass) {
        return QString::fromStdString(statistics->class_reason);
      } else if (statistics != nullptr && index.column() == kRows) {
        return QStringLiteral("computed on %1").arg(QString::fromStdString(statistics->device.name));
      }
      return {};
    default:
      return {};
  }
}

QVariant HeadTableModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return {};
  // The heads with most of a metric are what a first click on its title is for; numbers of heads count upwards.
  if (role == Qt::InitialSortOrderRole)
    return static_cast<int>(section < kFirstMetric ? Qt::AscendingOrder : Qt::DescendingOrder);
  static constexpr const char* kTitles[] = {"Layer", "Head", "KV", "Class", "Rows"};
  static constexpr const char* kHelp[] = {"layer of the model", "query head", "KV head that the query head reads",
                                          "what the head mostly does", "query rows that the numbers cover"};
  if (section < kFirstMetric) {
    if (role == Qt::DisplayRole) return QString::fromLatin1(kTitles[section]);
    if (role == Qt::ToolTipRole) return QString::fromLatin1(kHelp[section]);
    return {};
  }
  if (section == DifferenceColumn()) {
    if (role == Qt::DisplayRole) return tr("Difference");
    if (role == Qt::ToolTipRole)
      return tr("%1; sorted by magnitude").arg(QString::fromStdString(store_->MetricTitle()));
    return {};
  }
  const analysis::MetricInfo& metric = analysis::Metrics()[static_cast<size_t>(section - kFirstMetric)];
  if (role == Qt::DisplayRole) return QString::fromStdString(metric.title);
  if (role == Qt::ToolTipRole)
    return QStringLiteral("%1: %2").arg(QString::fromStdString(metric.name), QString::fromStdString(metric.help));
  if (role == kMetricNameRole) return QString::fromStdString(metric.name);
  return {};
}

QString HeadTableModel::ColumnName(int column) {
  static constexpr const char* kNames[] = {"layer", "head", "kv_head", "class", "rows"};
  if (column == DifferenceColumn()) return QStringLiteral("difference");
  return column < kFirstMetric
             ? QString::fromLatin1(kNames[column])
             : QString::fromStdString(analysis::Metrics()[static_cast<size_t>(column - kFirstMetric)].name);
}

HeadTable::HeadTable(HeadStore* store, QWidget* parent)
    : QWidget(parent), store_(store), model_(new HeadTableModel(store, this)) {
  proxy_ = new FilterProxy(store, model_, this);
  // A row may leave under the filter when its head's exact numbers come. Qt then makes its neighbour the current row,
  // which must not open another head: so these two come before what the view connects.
  connect(proxy_, &QAbstractItemModel::rowsAboutToBeRemoved, this, [this] { following_ = true; });
  connect(proxy_, &QAbstractItemModel::rowsRemoved, this, [this] { following_ = false; });
  filter_ = new QLineEdit(this);
  filter_->setObjectName(QStringLiteral("headFilter"));
  filter_->setAccessibleName(tr("Filter of the heads"));
  filter_->setPlaceholderText(tr("Filter: 4:   4:3   retrieval   kurtosis>2   #tag"));
  filter_->setClearButtonEnabled(true);
  filter_->setMaxLength(kLongestFilter);
  filter_->setAcceptDrops(false);  // a file that is dropped here is for the window, not its address for the filter
  view_ = new QTableView(this);
  view_->setObjectName(QStringLiteral("headTable"));
  view_->setAccessibleName(tr("Heads"));
  auto* header = new WrappedHeader(view_);
  view_->setHorizontalHeader(header);
  view_->setModel(proxy_);
  view_->setSortingEnabled(true);
  view_->sortByColumn(HeadTableModel::kLayer, Qt::AscendingOrder);
  view_->setSelectionBehavior(QAbstractItemView::SelectRows);
  view_->setSelectionMode(QAbstractItemView::ExtendedSelection);
  view_->setAlternatingRowColors(true);
  view_->setTabKeyNavigation(false);  // Tab goes on to the next pane; arrows walk the rows
  view_->setShowGrid(false);
  view_->setWordWrap(false);
  view_->verticalHeader()->hide();
  view_->verticalHeader()->setDefaultSectionSize(view_->fontMetrics().height() + 6);
  filter_->installEventFilter(this);  // here: the filter of events knows the table, too
  view_->installEventFilter(this);
  view_->viewport()->installEventFilter(this);
  header->setContextMenuPolicy(Qt::CustomContextMenu);
  connect(header, &QHeaderView::customContextMenuRequested, this, &HeadTable::ShowColumnMenu);
  // By the title and the widest text that a column may hold: the rows are not known yet.
  const int margin = 2 * (view_->style()->pixelMetric(QStyle::PM_FocusFrameHMargin, nullptr, view_) + 2);
  for (int column = 0; column < model_->columnCount(); ++column) {
    const QString widest = column == HeadTableModel::kClass        ? QStringLiteral("vertical-slash")
                           : column == HeadTableModel::kRows       ? QStringLiteral("000000")
                           : column < HeadTableModel::kFirstMetric ? QStringLiteral("000")
                                                                   : QStringLiteral("-0.000");
    header->resizeSection(
        column, std::max(header->TitleWidth(column), view_->fontMetrics().horizontalAdvance(widest) + margin));
    // The rows are the same for all heads, once their exact numbers are there.
    view_->setColumnHidden(column,
                           column == HeadTableModel::kRows || column >= HeadTableModel::kFirstMetric + kMetricsShown);
  }
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(6, 6, 6, 6);
  layout->setSpacing(6);
  count_ = new QLabel(this);
  count_->setObjectName(QStringLiteral("headCount"));
  count_->setForegroundRole(QPalette::PlaceholderText);
  auto* top = new QHBoxLayout;
  top->addWidget(filter_, 1);
  top->addWidget(count_);
  layout->addLayout(top);
  not_understood_ = new QLabel(this);
  not_understood_->setObjectName(QStringLiteral("filterError"));
  not_understood_->setWordWrap(true);
  not_understood_->setTextFormat(Qt::PlainText);
  not_understood_->hide();
  layout->addWidget(not_understood_);
  layout->addWidget(view_);

  no_match_ = new QLabel;
  no_match_->setObjectName(QStringLiteral("noHeadMatches"));
  no_match_->setAlignment(Qt::AlignCenter);
  no_match_->setWordWrap(true);
  no_match_->setTextFormat(Qt::PlainText);
  no_match_->setForegroundRole(QPalette::PlaceholderText);
  no_match_->hide();
  auto* over_rows = new QVBoxLayout(view_->viewport());
  over_rows->addWidget(no_match_);

  connect(filter_, &QLineEdit::textChanged, this, &HeadTable::ApplyFilter);
  connect(store, &HeadStore::FilterAsked, filter_, &QLineEdit::setText);
  connect(filter_, &QLineEdit::textChanged, this, &HeadTable::ViewStateChanged);
  connect(header, &QHeaderView::sortIndicatorChanged, this, &HeadTable::ViewStateChanged);
  // Rows come and go with the trace and, under a filter, with every head whose numbers become known.
  for (const auto changed : {&QAbstractItemModel::rowsInserted, &QAbstractItemModel::rowsRemoved}) {
    connect(proxy_, changed, this, &HeadTable::SayWhetherNoneMatches);
    connect(proxy_, changed, this, &HeadTable::MarkOpenRow);
  }
  connect(proxy_, &QAbstractItemModel::modelReset, this, &HeadTable::SayWhetherNoneMatches);
  connect(store, &HeadStore::SelectionChanged, this, [this] { ShowOpenRow(); });
  const auto show_sinks = [this, store] {
    const std::vector<analysis::MetricInfo>& metrics = analysis::Metrics();
    for (int i = 0; i < static_cast<int>(metrics.size()); ++i) {
      if (metrics[static_cast<size_t>(i)].of_sinks)
        view_->setColumnHidden(HeadTableModel::kFirstMetric + i, !store->trace().has_sinks);
    }
  };
  connect(store, &HeadStore::TraceChanged, this, show_sinks);
  show_sinks();
  connect(store, &HeadStore::MetricChanged, this, &HeadTable::ShowDifferences);
  // Beside the class, and not behind the metrics, where nobody would see it.
  header->moveSection(header->visualIndex(HeadTableModel::DifferenceColumn()),
                      header->visualIndex(HeadTableModel::kClass) + 1);
  // Besides the keys and clicks that move the current row: those on a row that is the current one already.
  connect(view_->selectionModel(), &QItemSelectionModel::currentRowChanged, this, &HeadTable::OpenRow);
  connect(view_, &QTableView::clicked, this, &HeadTable::OpenRow);
  connect(view_, &QTableView::activated, this, &HeadTable::OpenRow);
}

void HeadTable::ShowDifferences() {
  const int column = HeadTableModel::DifferenceColumn();
  const bool shown = store_->shows_differences();
  if (shown != view_->isColumnHidden(column)) return;
  view_->setColumnHidden(column, !shown);
  // Rows in the order of a column that is gone would look like rows in none.
  if (!shown && view_->horizontalHeader()->sortIndicatorSection() == column)
    view_->sortByColumn(HeadTableModel::kLayer, Qt::AscendingOrder);
}

void HeadTable::OpenRow(const QModelIndex& row) {
  if (!following_ && row.isValid()) Q_EMIT HeadActivated(model_->HeadAt(proxy_->mapToSource(row).row()));
}

bool HeadTable::eventFilter(QObject* watched, QEvent* event) {
  if (watched == filter_ && event->type() == QEvent::KeyPress) {
    const int key = static_cast<const QKeyEvent*>(event)->key();
    if ((key == Qt::Key_Down || key == Qt::Key_Return || key == Qt::Key_Enter) && proxy_->rowCount() > 0 &&
        filter_error_.isEmpty()) {  // what is not understood chooses no head
      view_->setFocus();
      view_->setCurrentIndex(proxy_->index(0, 0));
      return true;
    }
  }
  if (watched == view_->viewport() && event->type() == QEvent::MouseButtonPress &&
      static_cast<const QMouseEvent*>(event)->button() == Qt::RightButton) {
    return true;  // it asks for a menu, and opens no head and selects none
  }
  if ((watched == view_ || watched == view_->viewport()) && event->type() == QEvent::ContextMenu) {
    const auto* menu = static_cast<const QContextMenuEvent*>(event);
    if (menu->reason() == QContextMenuEvent::Keyboard) {
      const QModelIndex row = view_->currentIndex();
      AskForHeadsMenu(row, view_->viewport()->mapToGlobal(view_->visualRect(row).bottomLeft()));
    } else {
      AskForHeadsMenu(view_->indexAt(view_->viewport()->mapFromGlobal(menu->globalPos())), menu->globalPos());
    }
    return true;
  }
  return QWidget::eventFilter(watched, event);
}

void HeadTable::AskForHeadsMenu(const QModelIndex& row, QPoint global) {
  if (!row.isValid()) return;
  std::vector<int> rows = SelectedRows(view_);
  if (std::find(rows.begin(), rows.end(), row.row()) == rows.end()) rows = {row.row()};
  std::vector<analysis::HeadId> heads;
  for (const int of : rows) heads.push_back(model_->HeadAt(proxy_->mapToSource(proxy_->index(of, 0)).row()));
  std::sort(heads.begin(), heads.end());
  Q_EMIT HeadsMenuWanted(heads, global, {SortMenu(view_)->menuAction(), ColumnMenu()->menuAction()});
}

void HeadTable::ApplyFilter(const QString& text) {
  const HeadFilter filter = HeadFilter::Parse(text);
  filter_error_ = filter.error();
  filter_->setToolTip(filter_error_);
  not_understood_->setText(filter_error_);
  not_understood_->setVisible(!filter_error_.isEmpty());
  QPalette colors = palette();
  colors.setColor(QPalette::WindowText, ErrorInk(colors));
  not_understood_->setPalette(colors);
  store_->SetFilter(filter);
  static_cast<FilterProxy*>(proxy_)->FilterAnew();
  SayWhetherNoneMatches();
  ShowOpenRow();
}

void HeadTable::SayWhetherNoneMatches() {
  no_match_->setText(tr("No head matches the filter."));
  no_match_->setVisible(store_->HasTrace() && proxy_->rowCount() == 0);
  const bool filters = !filter_->text().isEmpty() && filter_error_.isEmpty();
  count_->setText(tr("%1 of %2").arg(proxy_->rowCount()).arg(model_->rowCount()));
  count_->setVisible(filters && store_->HasTrace());
}

QJsonObject HeadTable::ViewState() const {
  QJsonArray columns;
  for (int column = 0; column < model_->columnCount(); ++column) {
    if (!view_->isColumnHidden(column) && column != HeadTableModel::DifferenceColumn())
      columns.append(HeadTableModel::ColumnName(column));
  }
  const QHeaderView* header = view_->horizontalHeader();
  return {{QStringLiteral("filter"), filter_->text()},
          {QStringLiteral("sort"), HeadTableModel::ColumnName(header->sortIndicatorSection())},
          {QStringLiteral("descending"), header->sortIndicatorOrder() == Qt::DescendingOrder},
          {QStringLiteral("columns"), columns}};
}

void HeadTable::RestoreViewState(const QJsonObject& state) {
  const QJsonArray shown = state.value(QLatin1String("columns")).toArray();
  const QJsonValue sorted = state.value(QLatin1String("sort"));
  const bool descending = state.value(QLatin1String("descending")).toBool();
  for (int column = 0; column < HeadTableModel::DifferenceColumn(); ++column) {
    const QString name = HeadTableModel::ColumnName(column);
    // The first columns say which head a row is; no menu hides them.
    if (!shown.isEmpty() && column >= HeadTableModel::kClass) view_->setColumnHidden(column, !shown.contains(name));
    if (sorted == name) view_->sortByColumn(column, descending ? Qt::DescendingOrder : Qt::AscendingOrder);
  }
  filter_->setText(state.value(QLatin1String("filter")).toString());
}

QModelIndex HeadTable::MarkOpenRow() {
  const int row = store_->selected() ? model_->RowOf(*store_->selected()) : -1;
  const QModelIndex index = row >= 0 ? proxy_->mapFromSource(model_->index(row, 0)) : QModelIndex();
  following_ = true;
  if (index.isValid()) {
    if (view_->currentIndex().row() != index.row()) view_->setCurrentIndex(index);
  } else {
    view_->selectionModel()->clear();  // no other row may look like the open one
  }
  following_ = false;
  return index;
}

void HeadTable::ShowOpenRow() {
  const QModelIndex index = MarkOpenRow();
  if (index.isValid()) view_->scrollTo(index);
}

QMenu* HeadTable::ColumnMenu() {
  auto* menu = new QMenu(tr("Columns"), this);
  menu->setObjectName(QStringLiteral("columnMenu"));
  for (int column = HeadTableModel::kClass; column < HeadTableModel::DifferenceColumn(); ++column) {
    QAction* action = menu->addAction(model_->headerData(column, Qt::Horizontal, Qt::DisplayRole).toString());
    action->setCheckable(true);
    action->setChecked(!view_->isColumnHidden(column));
    connect(action, &QAction::toggled, this, [this, column](bool shown) {
      view_->setColumnHidden(column, !shown);
      Q_EMIT ViewStateChanged();
    });
  }
  return menu;
}

void HeadTable::ShowColumnMenu(QPoint position) {
  QMenu* const menu = ColumnMenu();
  menu->setAttribute(Qt::WA_DeleteOnClose);
  menu->popup(view_->horizontalHeader()->mapToGlobal(position));
}

QWidget* MakeHeadTablePane(WindowState* state) {
  auto* table = new HeadTable(&state->heads);
  QObject::connect(table, &HeadTable::HeadActivated, &state->heads, &HeadStore::Select);
  QObject::connect(table, &HeadTable::HeadsMenuWanted, &state->offers, &PaneOffers::HeadsMenuWanted);
  QObject::connect(table, &HeadTable::ViewStateChanged, &state->offers, &PaneOffers::ViewChanged);
  state->offers.OfferView(
      table, QStringLiteral("head-table"),
      {[table] { return table->ViewState(); }, [table](const QJsonObject& view) { table->RestoreViewState(view); }});
  state->offers.OfferPicture(
      table, {.name = QStringLiteral("heads"),
              .title = QObject::tr("Heads"),
              .write = {},
              .why_not = [state] { return state->heads.HasTrace() ? QString() : QObject::tr("no trace is open"); },
              .table = [table] { return DrawingOf(*table->view(), QObject::tr("Heads")); }});
  return table;
}

}  // namespace headscope::ui
