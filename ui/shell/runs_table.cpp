#include "runs_table.h"

#include <QFont>
#include <QLabel>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>

#include "shown_text.h"
#include "wrapped_header.h"

namespace headscope::ui {
namespace {

using analysis::MethodResult;

constexpr int64_t kLeastQuantileRows = 20;  // a fifth percentile of fewer is their minimum

bool SameGroup(const MethodResult& a, const MethodResult& b) {
  return a.head == b.head && a.phase == b.phase && a.measured == b.measured;
}
bool SameTiming(const analysis::Timing& a, const analysis::Timing& b) {
  return a.median_ms == b.median_ms && a.mad_ms == b.mad_ms && a.repeats == b.repeats;
}

MethodResult DenseRow(const MethodResult& run) {
  MethodResult dense;
  dense.head = run.head;
  dense.method = run.phase == "decode" ? "decode/dense" : "dense";
  dense.is_baseline = true;
  dense.phase = run.phase;
  dense.device = dense.select_device = run.device;
  dense.measured = run.measured;
  dense.measured_heads = run.measured_heads;
  dense.measured_kv_heads = run.measured_kv_heads;
  dense.chosen_per = "place";
  dense.num_rows = run.num_rows;
  dense.baseline = run.baseline;
  dense.bytes_allow = run.phase == "decode" ? 1 : 0;
  dense.attend = dense.dense_attend = run.dense_attend;
  return dense;
}

double Value(const MethodResult& run, int column) {
  switch (column) {
    case RunsTableModel::kKept:
      return run.kept_fraction;
    case RunsTableModel::kCraMin:
      return run.cra_min;
    case RunsTableModel::kCraFifth:
      return run.cra_p5;
    case RunsTableModel::kCraMean:
      return run.cra_mean;
    case RunsTableModel::kSelect:
      return run.select.median_ms;
    case RunsTableModel::kAttend:
      return run.attend.median_ms;
    case RunsTableModel::kTotal:
      return run.select.median_ms + run.attend.median_ms;
    case RunsTableModel::kDense:
      return run.dense_attend.median_ms;
    case RunsTableModel::kSpeedup:
      return run.speedup;
    case RunsTableModel::kRelativeError:
      return run.relative_error;
    case RunsTableModel::kMaxError:
      return run.max_error;
    case RunsTableModel::kCosine:
      return run.cosine;
    default:
      return 0;
  }
}

// Digits after the point that leave three or four in all.
int Decimals(double value) {
  return value >= 100 ? 0 : value >= 10 ? 1 : 2;
}

QString Milliseconds(const analysis::Timing& timing) {
  const int digits = Decimals(timing.median_ms);
  return QStringLiteral("%1 ± %2").arg(timing.median_ms, 0, 'f', digits).arg(timing.mad_ms, 0, 'f', digits);
}

// Of a quotient, to first order: the relative deviations of both times, added.
double SpeedupDeviation(const MethodResult& run) {
  const double own_ms = run.select.median_ms + run.attend.median_ms, dense_ms = run.dense_attend.median_ms;
  if (own_ms <= 0 || dense_ms <= 0) return 0;
  return run.speedup * (run.dense_attend.mad_ms / dense_ms + (run.select.mad_ms + run.attend.mad_ms) / own_ms);
}

QString Speedup(const MethodResult& run) {
  const int digits = Decimals(run.speedup);
  const QString factor = QString::number(run.speedup, 'f', digits);
  if (run.is_baseline) return factor + u'×';
  return QStringLiteral("%1 ± %2×").arg(factor).arg(SpeedupDeviation(run), 0, 'f', digits);
}

QString Repeats(const analysis::Timing& timing, const MethodResult& run) {
  return QObject::tr("%1 repeats on %2").arg(timing.repeats).arg(QString::fromStdString(run.device));
}

QString Small(double value) {
  return value == 0 ? QStringLiteral("0") : QString::number(value, 'e', 1);
}

QString Text(const MethodResult& run, int column) {
  switch (column) {
    case RunsTableModel::kHead:
      return QStringLiteral("%1:%2").arg(run.head.layer).arg(run.head.head);
    case RunsTableModel::kMethod:
      return QString::fromStdString(run.method);
    case RunsTableModel::kPhase:
      return QString::fromStdString(run.phase);
    case RunsTableModel::kKept:
      return QStringLiteral("%1 %").arg(100 * run.kept_fraction, 0, 'f', 1);
    case RunsTableModel::kCraMin:
      return QString::number(run.cra_min, 'f', 3);
    case RunsTableModel::kCraFifth:
      if (run.num_rows > 0 && run.num_rows < kLeastQuantileRows) return QObject::tr("min of %1").arg(run.num_rows);
      return QString::number(run.cra_p5, 'f', 3);
    case RunsTableModel::kCraMean:
      return QString::number(run.cra_mean, 'f', 3);
    case RunsTableModel::kSelect:
      return run.is_baseline ? QStringLiteral("–") : Milliseconds(run.select);
    case RunsTableModel::kAttend:
      return Milliseconds(run.attend);
    case RunsTableModel::kDense:
      return Milliseconds(run.dense_attend);
    case RunsTableModel::kTotal:
      return QString::number(run.select.median_ms + run.attend.median_ms, 'f', 2);
    case RunsTableModel::kSpeedup:
      return Speedup(run);
    case RunsTableModel::kRelativeError:
      return Small(run.relative_error);
    case RunsTableModel::kMaxError:
      return Small(run.max_error);
    case RunsTableModel::kCosine:
      return QString::number(run.cosine, 'f', 5);
    case RunsTableModel::kMeasured:
      return QString::fromStdString(run.measured);
    case RunsTableModel::kDenseBy:
      return QString::fromStdString(run.baseline);
    case RunsTableModel::kChosenPer:
      return QString::fromStdString(run.chosen_per);
    case RunsTableModel::kParameters:
      return QString::fromStdString(run.parameters);
    case RunsTableModel::kNote:
      return QString::fromStdString(run.note);
    default:
      return {};
  }
}

bool IsText(int column) {
  return column <= RunsTableModel::kMeasured || column >= RunsTableModel::kDenseBy;
}

// What a column makes room for.
QString WidestText(int column) {
  switch (column) {
    case RunsTableModel::kHead:
      return QStringLiteral("00:00");
    case RunsTableModel::kMethod:
      return QStringLiteral("sample-attention");
    case RunsTableModel::kPhase:
      return QStringLiteral("decode");
    case RunsTableModel::kMeasured:
      return QStringLiteral("layer 00: 00 heads");
    case RunsTableModel::kDenseBy:
      return QStringLiteral("headscope");
    case RunsTableModel::kChosenPer:
      return QStringLiteral("query head");
    case RunsTableModel::kKept:
      return QStringLiteral("100.0 %");
    case RunsTableModel::kSpeedup:
      return QStringLiteral("00.0 ± 0.0×");
    case RunsTableModel::kSelect:
    case RunsTableModel::kAttend:
    case RunsTableModel::kDense:
      return QStringLiteral("000.0 ± 00.0");
    case RunsTableModel::kTotal:
      return QStringLiteral("0000.00");
    case RunsTableModel::kParameters:
      return QStringLiteral("alpha_c=0.95,alpha_s=0.95,chunk_n=1");
    default:
      return QStringLiteral("0.00000");
  }
}

struct ColumnText {
  const char* title;
  const char* help;
};
constexpr ColumnText kColumns[] = {
    {"Head", "layer:head"},
    {"Method", "dense is the baseline of its head and phase"},
    {"Phase", "prefill: all recorded rows at once; decode: the last rows, one step each"},
    {"Measured", "what the times are of: the head's layer, all its heads in one launch, or the head alone"},
    {"Kept", "kept pairs / visible pairs: those that are causal and inside the model's window, if it has one"},
    {"Speed-up",
     "time of the dense attention measured with the run / (select + attend) ± what the times' deviations allow"},
    {"CRA min", "kept mass of the row that keeps least"},
    {"CRA 5 %", "kept mass that 95 % of the rows reach: its fifth percentile; of fewer than 20 rows the least"},
    {"CRA mean", "kept mass, mean over rows"},
    {"Rel. error", "|O − O_dense| / |O_dense|, L2 over all rows"},
    {"Total ms", "select + attend"},
    {"Select ms", "making the index: median ± median absolute deviation"},
    {"Attend ms", "attention on the index: median ± median absolute deviation"},
    {"Dense ms", "dense attention as it was timed with this run: median ± median absolute deviation"},
    {"Max error", "largest absolute difference of an output"},
    {"Cosine", "of O and O_dense, mean over rows"},
    {"Dense by", "whose dense attention the baseline is"},
    {"Chosen per", "who shares a choice of keys: a query head, a KV head with its query heads, or all by place"},
    {"Parameters", "as typed after --method"},
    {"Note", "what else to know beside the numbers: for instance why a part ran on another device"},
};
static_assert(std::size(kColumns) == RunsTableModel::kNumColumns);

}  // namespace

int RunsTableModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(runs_.size());
}
int RunsTableModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : kNumColumns;
}

QVariant RunsTableModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) return {};
  const MethodResult& run = runs_[static_cast<size_t>(index.row())];
  switch (role) {
    case Qt::DisplayRole:
      return TextOf(run, index.column());
    case Qt::ToolTipRole:
      return index.column() >= kParameters ? QVariant(ShownToolTip(TextOf(run, index.column())))
             : index.column() >= kCraMin && index.column() <= kCraMean
                 ? QVariant(QObject::tr("of %1 rows").arg(run.num_rows))
             : index.column() == kAttend ? QVariant(Repeats(run.attend, run))
             : index.column() == kDense  ? QVariant(Repeats(run.dense_attend, run))
                                         : QVariant();
    case Qt::FontRole: {
      QFont font;
      font.setBold(run.is_baseline);
      return font;
    }
    case Qt::TextAlignmentRole:
      return static_cast<int>(Qt::AlignVCenter | (IsText(index.column()) ? Qt::AlignLeft : Qt::AlignRight));
    default:
      return {};
  }
}

QVariant RunsTableModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return {};
  if (role == Qt::DisplayRole) return QString::fromUtf8(kColumns[section].title);
  if (role == Qt::ToolTipRole) return QString::fromUtf8(kColumns[section].help);
  return {};
}

void RunsTableModel::sort(int column, Qt::SortOrder order) {
  sort_column_ = column;
  sort_order_ = order;
  beginResetModel();
  Arrange();
  endResetModel();
}

void RunsTableModel::Arrange() {
  std::stable_sort(runs_.begin(), runs_.end(), [this](const MethodResult& a, const MethodResult& b) {
    // Prefill before decode: it is the phase on the map.
    const auto group = [](const MethodResult& run) {
      return std::tuple(run.head, run.phase == "decode", run.measured, !run.is_baseline);
    };
    if (group(a) != group(b)) return group(a) < group(b);
    const bool ascending = sort_order_ == Qt::AscendingOrder;
    const MethodResult &low = ascending ? a : b, &high = ascending ? b : a;
    return IsText(sort_column_) ? Text(low, sort_column_) < Text(high, sort_column_)
                                : Value(low, sort_column_) < Value(high, sort_column_);
  });
}

bool RunsTableModel::SharesItsTime(const MethodResult& dense) const {
  return std::all_of(runs_.begin(), runs_.end(), [&](const MethodResult& run) {
    return !SameGroup(run, dense) || SameTiming(run.dense_attend, dense.dense_attend);
  });
}

QString RunsTableModel::TextOf(const MethodResult& run, int column) const {
  const bool is_time = column == kAttend || column == kTotal || column == kDense;
  if ((is_time || column == kNote) && run.is_baseline && !SharesItsTime(run)) {
    return is_time ? QStringLiteral("–") : tr("each run was timed with a dense of its own: its column Dense ms");
  }
  return Text(run, column);
}

void RunsTableModel::Add(const MethodResult& result) {
  beginResetModel();
  const auto put = [this](const MethodResult& run) {
    const auto same = std::find_if(runs_.begin(), runs_.end(), [&](const MethodResult& other) {
      return SameGroup(run, other) && run.method == other.method &&
             (run.is_baseline || run.parameters == other.parameters);
    });
    if (same != runs_.end()) {
      *same = run;
    } else {
      runs_.push_back(run);
    }
  };
  put(DenseRow(result));
  if (!result.is_baseline) put(result);
  is_saved_ = false;
  Arrange();
  endResetModel();
}

void RunsTableModel::Clear() {
  beginResetModel();
  runs_.clear();
  is_saved_ = true;
  endResetModel();
}

int RunsTableModel::NumUnsaved() const {
  return is_saved_ ? 0
                   : static_cast<int>(std::count_if(runs_.begin(), runs_.end(),
                                                    std::not_fn(std::mem_fn(&MethodResult::is_baseline))));
}

RunsTable::RunsTable(QWidget* parent) : QWidget(parent), model_(new RunsTableModel(this)) {
  view_ = new QTableView(this);
  view_->setObjectName(QStringLiteral("runsTable"));
  auto* header = new WrappedHeader(view_);
  view_->setHorizontalHeader(header);
  view_->setModel(model_);
  header->setSortIndicator(RunsTableModel::kSpeedup, Qt::DescendingOrder);
  view_->setSortingEnabled(true);
  view_->setSelectionBehavior(QAbstractItemView::SelectRows);
  view_->setAlternatingRowColors(true);
  view_->setTabKeyNavigation(false);
  view_->setShowGrid(false);
  view_->setWordWrap(false);
  view_->verticalHeader()->hide();
  view_->verticalHeader()->setDefaultSectionSize(view_->fontMetrics().height() + 6);
  header->setStretchLastSection(true);
  QFont bold = view_->font();
  bold.setBold(true);  // the baseline's rows
  const QFontMetrics metrics(bold);
  const int padding = metrics.horizontalAdvance(QStringLiteral("M"));
  for (int column = 0; column < RunsTableModel::kNumColumns; ++column) {
    view_->setColumnWidth(
        column, std::max(header->TitleWidth(column), metrics.horizontalAdvance(WidestText(column)) + padding));
  }
  connect(view_, &QTableView::activated, this,
          [this](const QModelIndex& index) { Q_EMIT RunActivated(model_->runs()[static_cast<size_t>(index.row())]); });
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(6, 6, 6, 6);
  layout->addWidget(view_);
  auto* hint =
      new QLabel(tr("No runs yet: Ctrl+R measures the panel's method on this head, Ctrl+Shift+R every method, "
                    "Ctrl+Shift+T every prefill method where it keeps the target's mass."));
  hint->setObjectName(QStringLiteral("runsHint"));
  hint->setAlignment(Qt::AlignCenter);
  hint->setWordWrap(true);
  hint->setForegroundRole(QPalette::PlaceholderText);
  auto* over_rows = new QVBoxLayout(view_->viewport());
  over_rows->addWidget(hint);
  connect(model_, &QAbstractItemModel::modelReset, hint, [this, hint] { hint->setVisible(model_->rowCount() == 0); });
}

QString RunsTable::AsText() const {
  QStringList lines, fields;
  for (int column = 0; column < RunsTableModel::kNumColumns; ++column) {
    fields.append(model_->headerData(column, Qt::Horizontal, Qt::DisplayRole).toString());
  }
  lines.append(fields.join(u'\t'));
  const bool some = view_->selectionModel()->hasSelection();
  for (int row = 0; row < model_->rowCount(); ++row) {
    if (some && !view_->selectionModel()->isRowSelected(row, {})) continue;
    fields.clear();
    for (int column = 0; column < RunsTableModel::kNumColumns; ++column) {
      fields.append(model_->data(model_->index(row, column), Qt::DisplayRole).toString());
    }
    lines.append(fields.join(u'\t'));
  }
  return lines.join(u'\n') + u'\n';
}

}  // namespace headscope::ui
