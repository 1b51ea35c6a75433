// SPDX-License-Identifier: Apache-2.0
#include "mass_pane.h"

#include <QHBoxLayout>
#include <QVBoxLayout>
#include <algorithm>

#include "kept_choices.h"
#include "panes.h"
#include "picture_file.h"

namespace headscope::ui {

MassPane::MassPane(WindowState* state, QWidget* parent) : QWidget(parent), state_(state), chart_(new MassChart) {
  below_ = new QLabel;
  below_->setObjectName(QStringLiteral("belowTarget"));
  below_->setMinimumWidth(1);
  below_->setWordWrap(true);  // cut, it would say another number
  worst_ = new QPushButton;
  worst_->setObjectName(QStringLiteral("worstQuery"));
  worst_->setFlat(true);
  worst_->setToolTip(tr("Go to the query that keeps the least mass, at the key on which it loses most"));
  search_ = new QPushButton;
  search_->setObjectName(QStringLiteral("meetTarget"));
  auto* logarithmic = new QCheckBox(tr("log counts"));
  logarithmic->setObjectName(QStringLiteral("logCounts"));
  logarithmic->setChecked(true);

  auto* top = new QHBoxLayout;
  top->addWidget(below_, 1);
  top->addWidget(worst_);
  auto* bottom = new QHBoxLayout;
  bottom->addWidget(logarithmic);
  bottom->addStretch(1);
  bottom->addWidget(search_);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(6, 2, 6, 4);
  layout->setSpacing(2);
  layout->addLayout(top);
  layout->addWidget(chart_, 1);
  layout->addLayout(bottom);

  state->offers.OfferPicture(
      chart_, {.name = QStringLiteral("kept-mass"),
               .title = tr("Kept mass"),
               .write = [chart = chart_](const QString& path, int width) { return WritePicture(chart, path, width); },
               .why_not = [state] { return state->trial.mask() ? QString() : tr("no kept mass is known yet"); }});
  connect(logarithmic, &QCheckBox::toggled, chart_, &MassChart::SetLogarithmic);
  KeepChoices(&state->offers, this, QStringLiteral("kept-mass"), {logarithmic});
  MethodTrial* const trial = &state_->trial;
  RunQueue* const queue = &state_->queue;
  connect(chart_, &MassChart::TargetMoved, trial, &MethodTrial::AimAt);
  connect(chart_, &MassChart::Brushed, trial, [trial](double begin, double end) {
    constexpr double kAbove = 2;  // rounding takes a mass beyond 1
    trial->SetBrush(end > begin ? MethodTrial::Brush({begin, end >= 1 ? kAbove : end}) : std::nullopt);
  });
  connect(trial, &MethodTrial::Changed, this, &MassPane::Refresh);
  connect(trial, &MethodTrial::MethodChanged, this, &MassPane::Refresh);
  connect(queue, &RunQueue::SearchingChanged, this, &MassPane::Refresh);
  connect(&state_->heads, &HeadStore::SelectionChanged, this, &MassPane::Refresh);
  connect(worst_, &QPushButton::clicked, trial, &MethodTrial::FindWorstQuery);
  connect(search_, &QPushButton::clicked, this, [queue] {
    if (queue->searching()) {
      queue->StopSearch();
    } else {
      queue->MeetTarget();
    }
  });
  Refresh();
}

void MassPane::showEvent(QShowEvent*) {
  state_->trial.SetMaskWanted(this, true);
}
void MassPane::hideEvent(QHideEvent*) {
  state_->trial.SetMaskWanted(this, false);
}

void MassPane::Refresh() {
  const std::optional<LiveMask>& mask = state_->trial.mask();
  const double target = state_->trial.target();
  const bool searching = state_->queue.searching(), searchable = state_->queue.CanSearch();
  chart_->SetTarget(target);
  const MethodTrial::Brush& brush = state_->trial.brush();
  chart_->SetBrush(brush ? MethodTrial::Brush({brush->first, std::min(brush->second, 1.0)}) : std::nullopt);
  chart_->SetMass(mask ? std::optional(mask->distribution) : std::nullopt, state_->trial.mask_pending(),
                  state_->trial.WhyNoMask());
  search_->setText(searching ? tr("Cancel search") : tr("Meet target"));
  search_->setToolTip(
      searchable ? tr("Find the cheapest parameters with fewer than 5 % of the queries below %1").arg(target)
                 : tr("Finds a method's cheapest parameters; needs an open head and a method with a budget to search"));
  search_->setEnabled(searching || searchable);
  // Where everything is kept, the masses of the queries differ by rounding alone.
  const bool is_any_worst = mask && mask->summary.kept_fraction < 1;
  worst_->setEnabled(is_any_worst);
  if (!mask) {
    below_->clear();
    worst_->setText(tr("worst query"));
    return;
  }
  below_->setText(tr("below %1: %2 %").arg(target).arg(100 * analysis::ShareBelow(mask->kept_mass, target), 0, 'f', 2));
  below_->setToolTip(tr("Share of the %1 queries that keep less than %2 of their attention")
                         .arg(mask->distribution.num_rows)
                         .arg(target));
  worst_->setText(is_any_worst ? tr("worst: query %1").arg(mask->summary.worst_row) : tr("worst: none"));
}

QWidget* MakeMassPane(WindowState* state) {
  return new MassPane(state);
}

}  // namespace headscope::ui
