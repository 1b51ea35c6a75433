// The pane of the kept mass: its histogram, the share of queries below the target, the worst query, and the search for
// the cheapest parameters that meet the target.
#pragma once

#include <QCheckBox>
#include <QLabel>
#include <QPushButton>
#include <QWidget>

#include "canvas_widget.h"
#include "mass_chart.h"

namespace headscope::ui {

class MassPane : public QWidget {
  Q_OBJECT

 public:
  // Shows the canvas' mask and moves its target; `canvas` outlives the pane.
  explicit MassPane(HeadCanvas* canvas, QWidget* parent = nullptr);

  void SetSearching(bool searching);
  // Whether the method has budgets to search.
  void SetSearchable(bool searchable);

 Q_SIGNALS:
  void SearchRequested();
  void CancelRequested();

 protected:
  void showEvent(QShowEvent* event) override;
  void hideEvent(QHideEvent* event) override;

 private:
  void Refresh();

  HeadCanvas* const canvas_;
  MassChart* chart_;
  QLabel* below_;
  QPushButton *worst_, *search_;
  bool searching_ = false, searchable_ = false;
};

}  // namespace headscope::ui
