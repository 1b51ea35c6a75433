// SPDX-License-Identifier: Apache-2.0
#include "runs_model.h"

#include <QFont>
#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>

#include "analysis/types/mass_distribution.h"
#include "shown_text.h"

namespace headscope::ui {
namespace {

using analysis::MethodResult;
using kernels::Phase;
using Column = RunsModel::Column;

bool SameGroup(const MethodResult& a, const MethodResult& b) {
  return a.head == b.head && a.phase == b.phase && a.measured == b.measured;
}

// Of which the table shows the newest.
bool MeasuresTheSame(const MethodResult& a, const MethodResult& b) {
  return SameGroup(a, b) && a.method == b.method && (IsDenseRun(a) || a.parameters == b.parameters);
}

bool SameTiming(const analysis::Timing& a, const analysis::Timing& b) {
  return a.median_ms == b.median_ms && a.mad_ms == b.mad_ms && a.repeats == b.repeats;
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
  if (IsDenseRun(run)) return factor + u'×';
  return QStringLiteral("%1 ± %2×").arg(factor).arg(SpeedupDeviation(run), 0, 'f', digits);
}

QString Repeats(const analysis::Timing& timing, const MethodResult& run) {
  return QObject::tr("%1 repeats on %2").arg(timing.repeats).arg(QString::fromStdString(run.device.name));
}

// "CRA, 5th percentile of 4,090 rows": what one cell says.
QString CraHelp(const MethodResult& run, int column) {
  const QString rows = (run.phase == Phase::kDecode ? QObject::tr("%1 decode steps") : QObject::tr("%1 rows"))
                           .arg(CountText(run.num_rows));
  if (column == RunsModel::kCraMean) return QObject::tr("CRA, mean of %1").arg(rows);
  if (column == RunsModel::kCraMin) return QObject::tr("CRA, minimum of %1").arg(rows);
  if (run.num_rows < analysis::kLeastQuantileRows)
    return QObject::tr("CRA, minimum of %1: too few for a 5th percentile").arg(rows);
  return QObject::tr("CRA, 5th percentile of %1").arg(rows);
}

QString Small(double value) {
  return value == 0 ? QStringLiteral("0") : QString::number(value, 'e', 1);
}

QString Text(const std::string& text) {
  return QString::fromStdString(text);
}

QString CraFifth(const MethodResult& run) {
  if (run.num_rows > 0 && run.num_rows < analysis::kLeastQuantileRows)
    return QObject::tr("min of %1").arg(run.num_rows);
  return QString::number(run.cra_p5, 'f', 3);
}

double TotalMs(const MethodResult& run) {
  return run.select.median_ms + run.attend.median_ms;
}

constexpr char kWideTime[] = "000.0 ± 00.0", kWideNumber[] = "0.00000";

constexpr RunColumn kColumns[] = {
    {.column = Column::kHead,
     .title = "Head",
     .help = "layer:head",
     .widest = "00:00",
     .text = [](const MethodResult& run) { return QStringLiteral("%1:%2").arg(run.head.layer).arg(run.head.head); },
     .value = nullptr},
    {.column = Column::kMethod,
     .title = "Method",
     .help = "dense is the baseline of its head and phase",
     .widest = "sample-attention",
     .text = [](const MethodResult& run) { return Text(run.method); },
     .value = nullptr},
    {.column = Column::kPhase,
     .title = "Phase",
     .help = "prefill: all recorded rows at once; decode: the last rows, one step each",
     .widest = "decode",
     .text = [](const MethodResult& run) { return Text(std::string(NameOf(run.phase))); },
     .value = nullptr},
    {.column = Column::kMeasured,
     .title = "Measured",
     .help = "what was timed: all heads of the layer in one launch, or this head alone",
     .widest = "layer 00: 00 heads",
     .text = [](const MethodResult& run) { return Text(ScopeText(run.head, run.measured)); },
     .value = nullptr},
    {.column = Column::kKept,
     .title = "Kept",
     .help = "kept pairs / visible pairs: those that are causal and inside the model's window, if it has one",
     .widest = "100.0 %",
     .text = [](const MethodResult& run) { return QStringLiteral("%1 %").arg(100 * run.kept_fraction, 0, 'f', 1); },
     .value = [](const MethodResult& run) { return run.kept_fraction; }},
    {.column = Column::kSpeedup,
     .title = "Speed-up",
     .help = "dense time measured alongside / (select + attend) time ± the scatter of both times",
     .widest = "00.0 ± 0.0×",
     .text = Speedup,
     .value = [](const MethodResult& run) { return run.speedup; }},
    {.column = Column::kCraMin,
     .title = "CRA min",
     .help = "CRA (kept share of a row's attention), minimum over the rows",
     .widest = kWideNumber,
     .text = [](const MethodResult& run) { return QString::number(run.cra_min, 'f', 3); },
     .value = [](const MethodResult& run) { return run.cra_min; },
     .tip = [](const MethodResult& run) { return CraHelp(run, Column::kCraMin); }},
    {.column = Column::kCraFifth,
     .title = "CRA p5",
     .help = "CRA, 5th percentile over the rows: 95 % of them keep at least this; with fewer than 20 rows, the minimum",
     .widest = kWideNumber,
     .text = CraFifth,
     .value = [](const MethodResult& run) { return run.cra_p5; },
     .tip = [](const MethodResult& run) { return CraHelp(run, Column::kCraFifth); }},
    {.column = Column::kCraMean,
     .title = "CRA mean",
     .help = "CRA, mean over the rows",
     .widest = kWideNumber,
     .text = [](const MethodResult& run) { return QString::number(run.cra_mean, 'f', 3); },
     .value = [](const MethodResult& run) { return run.cra_mean; },
     .tip = [](const MethodResult& run) { return CraHelp(run, Column::kCraMean); }},
    {.column = Column::kRelativeError,
     .title = "Rel. error",
     .help = "|O − O_dense| / |O_dense|, L2 over all rows",
     .widest = kWideNumber,
     .text = [](const MethodResult& run) { return Small(run.relative_error); },
     .value = [](const MethodResult& run) { return run.relative_error; }},
    {.column = Column::kTotal,
     .title = "Total ms",
     .help = "select + attend",
     .widest = "0000.00",
     .text = [](const MethodResult& run) { return QString::number(TotalMs(run), 'f', Decimals(TotalMs(run))); },
     .value = TotalMs,
     .is_time = true},
    {.column = Column::kSelect,
     .title = "Select ms",
     .help = "building the index: median ± median absolute deviation",
     .widest = kWideTime,
     .text = [](const MethodResult& run) { return IsDenseRun(run) ? QStringLiteral("–") : Milliseconds(run.select); },
     .value = [](const MethodResult& run) { return run.select.median_ms; }},
    {.column = Column::kAttend,
     .title = "Attend ms",
     .help = "attention on the index: median ± median absolute deviation",
     .widest = kWideTime,
     .text = [](const MethodResult& run) { return Milliseconds(run.attend); },
     .value = [](const MethodResult& run) { return run.attend.median_ms; },
     .tip = [](const MethodResult& run) { return Repeats(run.attend, run); },
     .is_time = true},
    {.column = Column::kDense,
     .title = "Dense ms",
     .help = "the dense run measured alongside: median ± median absolute deviation",
     .widest = kWideTime,
     .text = [](const MethodResult& run) { return Milliseconds(run.dense_attend); },
     .value = [](const MethodResult& run) { return run.dense_attend.median_ms; },
     .tip = [](const MethodResult& run) { return Repeats(run.dense_attend, run); },
     .is_time = true},
    {.column = Column::kMaxError,
     .title = "Max error",
     .help = "largest absolute difference of an output",
     .widest = kWideNumber,
     .text = [](const MethodResult& run) { return Small(run.max_error); },
     .value = [](const MethodResult& run) { return run.max_error; }},
    {.column = Column::kCosine,
     .title = "Cosine",
     .help = "of O and O_dense, mean over the rows",
     .widest = kWideNumber,
     .text = [](const MethodResult& run) { return QString::number(run.cosine, 'f', 5); },
     .value = [](const MethodResult& run) { return run.cosine; }},
    {.column = Column::kDenseBy,
     .title = "Dense by",
     .help = "whose dense attention is the baseline; in decode, the faster of headscope's and LibTorch's",
     .widest = "headscope",
     .text = [](const MethodResult& run) { return Text(run.baseline); },
     .value = nullptr},
    {.column = Column::kChosenPer,
     .title = "Chosen per",
     .help = "what shares a selection: nothing (each query head has its own), the query heads of a KV head, or every "
             "head (keys chosen by position)",
     .widest = "query head",
     .text =
         [](const MethodResult& run) {
           return run.chosen_per ? Text(std::string(NameOf(*run.chosen_per))) : QString();
         },
     .value = nullptr},
    {.column = Column::kParameters,
     .title = "Parameters",
     .help = "the method's parameters, as the command line takes them",
     .widest = "alpha_c=0.95,alpha_s=0.95,chunk_n=1",
     .text = [](const MethodResult& run) { return Text(run.parameters); },
     .value = nullptr,
     .tip = [](const MethodResult& run) { return ShownToolTip(Text(run.parameters)); }},
    {.column = Column::kNote,
     .title = "Note",
     .help = "remarks, e.g. why part of the run used another device",
     .widest = kWideNumber,
     .text = [](const MethodResult& run) { return Text(run.note); },
     .value = nullptr,
     .tip = [](const MethodResult& run) { return ShownToolTip(Text(run.note)); }},
};

// A column that is missing, out of order or lacks a part does not compile.
consteval bool IsWhole() {
  int next = 0;
  for (const RunColumn& column : kColumns) {
    if (column.column != next++ || column.title == nullptr || column.help == nullptr || column.widest == nullptr ||
        column.text == nullptr)
      return false;
  }
  return next == RunsModel::kNumColumns;
}
static_assert(IsWhole());

const RunColumn& ColumnOf(int column) {
  return kColumns[static_cast<size_t>(column)];
}

}  // namespace

std::span<const RunColumn> RunColumns() {
  return kColumns;
}

MethodResult DenseRunOf(const MethodResult& run) {
  MethodResult dense;
  dense.head = run.head;
  dense.is_baseline = true;
  dense.method = dense.baseline_method = run.baseline_method;
  dense.phase = run.phase;
  dense.device = dense.select_device = run.device;
  dense.measured = run.measured;
  dense.chosen_per = kernels::ChosenPer::kPlace;
  dense.num_rows = run.num_rows;
  dense.baseline = run.baseline;
  if (run.phase == Phase::kDecode) dense.bytes_allow = 1;
  dense.dense_of_reading = run.dense_of_reading;
  dense.attend = dense.dense_attend = run.dense_attend;
  dense.asked_repeats = run.asked_repeats;
  dense.origin = run.origin;
  return dense;
}

bool IsDenseRun(const MethodResult& run) {
  return run.is_baseline;
}

int RunsModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(runs_.size());
}
int RunsModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : kNumColumns;
}

QVariant RunsModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) return {};
  const MethodResult& run = runs_[static_cast<size_t>(index.row())];
  const RunColumn& column = ColumnOf(index.column());
  switch (role) {
    case Qt::DisplayRole:
      return TextOf(run, index.column());
    case Qt::ToolTipRole:
      if (index.column() == kNote) return ShownToolTip(TextOf(run, kNote));
      return column.tip != nullptr ? QVariant(column.tip(run)) : QVariant();
    case Qt::FontRole: {
      QFont font;
      font.setBold(IsDenseRun(run));
      return font;
    }
    case Qt::TextAlignmentRole:
      return static_cast<int>(Qt::AlignVCenter | (column.value == nullptr ? Qt::AlignLeft : Qt::AlignRight));
    default:
      return {};
  }
}

QVariant RunsModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return {};
  if (role == Qt::DisplayRole) return QString::fromUtf8(ColumnOf(section).title);
  if (role == Qt::ToolTipRole) return QString::fromUtf8(ColumnOf(section).help);
  return {};
}

void RunsModel::sort(int column, Qt::SortOrder order) {
  sort_column_ = column;
  sort_order_ = order;
  beginResetModel();
  Arrange();
  endResetModel();
}

void RunsModel::Arrange() {
  selected_.clear();
  std::stable_sort(runs_.begin(), runs_.end(), [this](const MethodResult& a, const MethodResult& b) {
    // Prefill before decode: it is the phase on the map.
    const auto group = [](const MethodResult& run) {
      return std::tuple(run.head, run.phase == Phase::kDecode, run.measured, !IsDenseRun(run));
    };
    if (group(a) != group(b)) return group(a) < group(b);
    const bool ascending = sort_order_ == Qt::AscendingOrder;
    const MethodResult &low = ascending ? a : b, &high = ascending ? b : a;
    const RunColumn& by = ColumnOf(sort_column_);
    return by.value == nullptr ? by.text(low) < by.text(high) : by.value(low) < by.value(high);
  });
}

bool RunsModel::SharesItsTime(const MethodResult& dense) const {
  return std::all_of(runs_.begin(), runs_.end(), [&](const MethodResult& run) {
    return !SameGroup(run, dense) || SameTiming(run.dense_attend, dense.dense_attend);
  });
}

QString RunsModel::TextOf(const MethodResult& run, int column) const {
  const bool is_time = ColumnOf(column).is_time;
  if ((is_time || column == kNote) && IsDenseRun(run) && !SharesItsTime(run)) {
    return is_time ? QStringLiteral("–") : tr("each run was timed against its own dense run: see its Dense ms");
  }
  return ColumnOf(column).text(run);
}

void RunsModel::Add(const MethodResult& result) {
  beginResetModel();
  const auto put = [this](const MethodResult& run) {
    const auto same = std::find_if(runs_.begin(), runs_.end(),
                                   [&](const MethodResult& other) { return MeasuresTheSame(run, other); });
    if (same != runs_.end()) {
      *same = run;
    } else {
      runs_.push_back(run);
    }
  };
  put(DenseRunOf(result));
  if (!IsDenseRun(result)) put(result);
  is_saved_ = false;
  Arrange();
  endResetModel();
}

bool RunsModel::HasSuch(const MethodResult& result) const {
  return std::any_of(runs_.begin(), runs_.end(),
                     [&](const MethodResult& other) { return MeasuresTheSame(result, other); });
}

void RunsModel::Clear() {
  beginResetModel();
  runs_.clear();
  selected_.clear();
  is_saved_ = true;
  endResetModel();
}

std::optional<MethodResult> RunsModel::SelectedRun() const {
  for (const int row : selected_) {
    const MethodResult& run = runs_[static_cast<size_t>(row)];
    if (!IsDenseRun(run)) return run;
  }
  return std::nullopt;
}

QString RunsModel::AsText() const {
  QStringList lines, fields;
  for (int column = 0; column < kNumColumns; ++column)
    fields.append(headerData(column, Qt::Horizontal, Qt::DisplayRole).toString());
  lines.append(fields.join(u'\t'));
  for (int row = 0; row < rowCount(); ++row) {
    if (!selected_.empty() && std::find(selected_.begin(), selected_.end(), row) == selected_.end()) continue;
    fields.clear();
    for (int column = 0; column < kNumColumns; ++column)
      fields.append(data(index(row, column), Qt::DisplayRole).toString());
    lines.append(fields.join(u'\t'));
  }
  return lines.join(u'\n') + u'\n';
}

int RunsModel::NumUnsaved() const {
  return is_saved_ ? 0 : static_cast<int>(std::count_if(runs_.begin(), runs_.end(), std::not_fn(IsDenseRun)));
}

}  // namespace headscope::ui
