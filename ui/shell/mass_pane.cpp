#include "mass_pane.h"

#include <QHBoxLayout>
#include <QVBoxLayout>

namespace headscope::ui {

MassPane::MassPane(HeadCanvas* canvas, QWidget* parent) : QWidget(parent), canvas_(canvas), chart_(new MassChart) {
  below_ = new QLabel;
  below_->setObjectName(QStringLiteral("belowTarget"));
  below_->setMinimumWidth(1);
  worst_ = new QPushButton;
  worst_->setObjectName(QStringLiteral("worstQuery"));
  worst_->setFlat(true);
  worst_->setToolTip(tr("Go to the query that keeps the least of its mass, and the key that it loses most of"));
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

  connect(logarithmic, &QCheckBox::toggled, chart_, &MassChart::SetLogarithmic);
  connect(chart_, &MassChart::TargetMoved, canvas_, &HeadCanvas::AimAtMass);
  connect(canvas_, &HeadCanvas::MaskStateChanged, this, &MassPane::Refresh);
  connect(worst_, &QPushButton::clicked, canvas_, &HeadCanvas::GoToWorst);
  connect(search_, &QPushButton::clicked, this, [this] {
    if (searching_) {
      Q_EMIT CancelRequested();
    } else {
      Q_EMIT SearchRequested();
    }
  });
  Refresh();
}

void MassPane::SetSearching(bool searching) {
  searching_ = searching;
  Refresh();
}

void MassPane::SetSearchable(bool searchable) {
  searchable_ = searchable;
  Refresh();
}

void MassPane::showEvent(QShowEvent*) {
  canvas_->SetMaskWatched(true);
}
void MassPane::hideEvent(QHideEvent*) {
  canvas_->SetMaskWatched(false);
}

void MassPane::Refresh() {
  const LiveMask* mask = canvas_->mask();
  const double target = canvas_->mass_target();
  chart_->SetTarget(target);
  chart_->SetMass(mask != nullptr ? std::optional(mask->distribution) : std::nullopt, canvas_->IsMaskPending());
  search_->setText(searching_ ? tr("Cancel search") : tr("Meet target"));
  search_->setToolTip(
      searchable_ ? tr("Find the cheapest parameters with fewer than 5 % of the queries below %1").arg(target)
                  : tr("Finds a method's cheapest parameters: open a head, and choose a prefill method that has "
                       "a budget to search"));
  search_->setEnabled(searching_ || (searchable_ && canvas_->HasHead()));
  // Where everything is kept, the masses of the queries differ by rounding alone.
  const bool is_any_worst = mask != nullptr && mask->summary.kept_fraction < 1;
  worst_->setEnabled(is_any_worst);
  if (mask == nullptr) {
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

}  // namespace headscope::ui
