// SPDX-License-Identifier: Apache-2.0
// The measured runs, grouped by head, with dense attention pinned on top of each group. A run's speed-up is against the
// dense attention that was timed with that very run: what else the machine did in those moments met both alike.
#pragma once

#include <QAbstractTableModel>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ui/workbench.h"

namespace headscope::ui {

// One column: all that is known of it, in one row of the table in runs_model.cpp.
struct RunColumn {
  int column;          // RunsModel::Column
  const char* title;   // with its unit
  const char* help;    // one line
  const char* widest;  // what it makes room for
  QString (*text)(const analysis::MethodResult& run);
  double (*value)(const analysis::MethodResult& run);           // to sort by; null: by its text
  QString (*tip)(const analysis::MethodResult& run) = nullptr;  // of a cell
  bool is_time = false;  // of the dense row it is shown only while all runs share its baseline
};
std::span<const RunColumn> RunColumns();

// Dense attention, of either phase.
bool IsDenseRun(const analysis::MethodResult& run);
// The dense run that was timed with `run`, as a run of its own.
analysis::MethodResult DenseRunOf(const analysis::MethodResult& run);

class RunsModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column {
    kHead,
    kMethod,
    kPhase,
    kMeasured,
    kKept,
    kSpeedup,
    kCraMin,
    kCraFifth,
    kCraMean,
    kRelativeError,
    kTotal,
    kSelect,
    kAttend,
    kDense,
    kMaxError,
    kCosine,
    kDenseBy,
    kChosenPer,
    kParameters,
    kNote,
    kNumColumns
  };

  using QAbstractTableModel::QAbstractTableModel;
  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
  // Sorts inside each head's group and phase; the dense row stays first.
  void sort(int column, Qt::SortOrder order) override;

  // A run of the same head, method, parameters and measured heads replaces the one before. Every run keeps its own
  // baseline and its speed-up; the dense row of a group shows a time only while all its runs were timed with that one.
  void Add(const analysis::MethodResult& result);
  // One that Add would replace by `result`.
  bool HasSuch(const analysis::MethodResult& result) const;
  void Clear();
  const std::vector<analysis::MethodResult>& runs() const { return runs_; }
  // What a person has selected; nothing after a change of the runs.
  void SetSelected(std::vector<int> rows) { selected_ = std::move(rows); }
  // The first selected run that is no baseline; else nothing.
  std::optional<analysis::MethodResult> SelectedRun() const;
  // The selected rows, or all, with a header line, tab-separated.
  QString AsText() const;
  // Measured runs that no file holds; baselines come with them and do not count.
  int NumUnsaved() const;
  void MarkSaved() { is_saved_ = true; }

 private:
  void Arrange();
  QString TextOf(const analysis::MethodResult& run, int column) const;
  // Whether every run of the dense row's group was timed with the dense row's baseline.
  bool SharesItsTime(const analysis::MethodResult& dense) const;
  std::vector<analysis::MethodResult> runs_;  // as shown, dense rows included
  std::vector<int> selected_;                 // rows
  bool is_saved_ = true;
  int sort_column_ = kSpeedup;
  Qt::SortOrder sort_order_ = Qt::DescendingOrder;
};

}  // namespace headscope::ui
