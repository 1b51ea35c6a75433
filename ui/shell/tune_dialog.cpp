// SPDX-License-Identifier: Apache-2.0
#include "tune_dialog.h"

#include <QDialogButtonBox>
#include <QFileDialog>
#include <QFileInfo>
#include <QFormLayout>
#include <QVBoxLayout>
#include <algorithm>

#include "allowed.h"
#include "command_line.h"
#include "run_queue.h"
#include "shown_text.h"

namespace headscope::ui {
namespace {

constexpr double kGreatestShare = 0.999, kGreatestRatio = 100;

}  // namespace

TuneDialog::TuneDialog(WindowState* state, Workbench* workbench, QWidget* parent)
    : QDialog(parent),
      state_(state),
      targets_(workbench->tune_targets()),
      phase_(new QComboBox),
      methods_(new QListWidget),
      target_(new QComboBox),
      value_(new QDoubleSpinBox),
      unit_(new QComboBox),
      checks_(new QListWidget),
      add_check_(new QPushButton(tr("A&dd…"))),
      remove_checks_(new QPushButton(tr("Re&move"))),
      heads_(new QLabel),
      tune_(new QPushButton(tr("&Tune"))),
      copy_(new QPushButton(tr("Copy co&mmand"))) {
  setObjectName(QStringLiteral("tuneDialog"));
  setWindowTitle(tr("Tune heads"));
  phase_->setObjectName(QStringLiteral("tunePhase"));
  phase_->addItems({tr("prefill: the prompt's queries"), tr("decode: one step at a time")});
  methods_->setObjectName(QStringLiteral("tuneMethods"));
  methods_->setAccessibleName(tr("Methods"));
  methods_->setToolTip(
      tr("The budgets are searched; other parameters are the panel's. With several methods, each head gets the one "
         "that reaches the target with the fewest pairs."));
  target_->setObjectName(QStringLiteral("tuneTarget"));
  for (const TuneTargetChoice& choice : targets_) target_->addItem(QString::fromStdString(choice.title));
  value_->setObjectName(QStringLiteral("tuneValue"));
  value_->setDecimals(3);
  value_->setSingleStep(0.01);
  unit_->setObjectName(QStringLiteral("tuneUnit"));
  unit_->addItem(tr("each head"), static_cast<int>(TuneSettings::Unit::kHead));
  unit_->addItem(tr("each layer"), static_cast<int>(TuneSettings::Unit::kLayer));
  unit_->addItem(tr("the whole model"), static_cast<int>(TuneSettings::Unit::kModel));
  unit_->setToolTip(tr("Heads that share a setting must each reach the target"));
  checks_->setObjectName(QStringLiteral("tuneChecks"));
  checks_->setAccessibleName(tr("Held-out traces"));
  checks_->setToolTip(
      tr("What is found on the open trace is tried on these, and reported apart: nothing is chosen by them. Traces of "
         "the same model."));
  checks_->setSelectionMode(QAbstractItemView::ExtendedSelection);
  checks_->setMaximumHeight(4 * fontMetrics().height());
  add_check_->setObjectName(QStringLiteral("tuneAddCheck"));
  remove_checks_->setObjectName(QStringLiteral("tuneRemoveChecks"));
  heads_->setObjectName(QStringLiteral("tuneHeads"));
  heads_->setWordWrap(true);
  tune_->setObjectName(QStringLiteral("tuneStart"));
  tune_->setDefault(true);
  copy_->setObjectName(QStringLiteral("tuneCopy"));
  auto* form = new QFormLayout;
  form->addRow(tr("&Phase"), phase_);
  form->addRow(tr("&Methods"), methods_);
  auto* target = new QHBoxLayout;
  target->addWidget(target_, 1);
  target->addWidget(value_);
  auto* target_label = new QLabel(tr("T&arget"));
  target_label->setBuddy(target_);
  form->addRow(target_label, target);
  form->addRow(tr("One &setting for"), unit_);
  auto* check_buttons = new QVBoxLayout;
  check_buttons->addWidget(add_check_);
  check_buttons->addWidget(remove_checks_);
  check_buttons->addStretch(1);
  auto* checks = new QHBoxLayout;
  checks->addWidget(checks_, 1);
  checks->addLayout(check_buttons);
  auto* checks_label = new QLabel(tr("&Held-out traces"));
  checks_label->setBuddy(checks_);
  form->addRow(checks_label, checks);
  form->addRow(tr("Heads"), heads_);
  auto* buttons = new QDialogButtonBox(QDialogButtonBox::Close);
  buttons->addButton(tune_, QDialogButtonBox::AcceptRole);
  buttons->addButton(copy_, QDialogButtonBox::ActionRole);
  auto* layout = new QVBoxLayout(this);
  layout->addLayout(form, 1);
  layout->addWidget(buttons);
  resize(520, 460);

  connect(phase_, &QComboBox::currentIndexChanged, this, &TuneDialog::FillMethods);
  connect(methods_, &QListWidget::itemChanged, this, &TuneDialog::Update);
  connect(target_, &QComboBox::currentIndexChanged, this, [this](int index) {
    if (index < 0) return;
    const TuneTargetChoice& choice = targets_[static_cast<size_t>(index)];
    value_->setRange(0.001, choice.is_share ? kGreatestShare : kGreatestRatio);
    value_->setValue(choice.value);
  });
  connect(add_check_, &QPushButton::clicked, this, &TuneDialog::AddChecks);
  connect(remove_checks_, &QPushButton::clicked, this, [this] {
    qDeleteAll(checks_->selectedItems());
    Update();
  });
  connect(checks_, &QListWidget::itemSelectionChanged, this, &TuneDialog::Update);
  connect(&state->heads, &HeadStore::FilterChanged, this, &TuneDialog::Update);
  connect(&state->heads, &HeadStore::TraceChanged, this, &TuneDialog::Update);
  connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
  connect(tune_, &QPushButton::clicked, this, [this] {
    accept();
    state_->sweep.Tune(settings());
  });
  connect(copy_, &QPushButton::clicked, this, [this] { Q_EMIT CopyWanted(settings()); });
  const auto usual =
      std::find_if(targets_.begin(), targets_.end(), [](const TuneTargetChoice& choice) { return choice.is_windows; });
  target_->setCurrentIndex(-1);
  target_->setCurrentIndex(usual == targets_.end() ? 0 : static_cast<int>(usual - targets_.begin()));
  phase_->setCurrentIndex(state->trial.is_decode() ? 1 : 0);
  FillMethods();
}

bool TuneDialog::IsDecode() const {
  return phase_->currentIndex() == 1;
}

void TuneDialog::AddChecks() {
  const QString folder = QFileInfo(QString::fromStdString(state_->heads.trace().path)).path();
  for (const QString& path :
       QFileDialog::getOpenFileNames(this, tr("Held-out traces"), folder, tr("Traces (*.h5 *.hdf5);;All files (*)"))) {
    bool is_there = false;
    for (int row = 0; row < checks_->count(); ++row) is_there |= checks_->item(row)->data(Qt::UserRole) == path;
    if (is_there) continue;
    auto* item = new QListWidgetItem(ShownInMenu(QFileInfo(path).fileName()), checks_);
    item->setData(Qt::UserRole, path);
    item->setToolTip(ShownToolTip(path));
  }
  Update();
}

void TuneDialog::FillMethods() {
  methods_->clear();
  const kernels::MethodSpec* const shown = state_->trial.method();
  for (const kernels::MethodSpec& method : state_->trial.methods()) {
    if ((method.phase == kernels::Phase::kDecode) != IsDecode() || !HasBudget(method)) continue;
    auto* item = new QListWidgetItem(QString::fromStdString(method.title), methods_);
    item->setData(Qt::UserRole, QString::fromStdString(method.name));
    item->setToolTip(QString::fromStdString(method.name));
    item->setFlags(Qt::ItemIsEnabled | Qt::ItemIsSelectable | Qt::ItemIsUserCheckable);
    item->setCheckState(shown == &method ? Qt::Checked : Qt::Unchecked);
  }
  Update();
}

void TuneDialog::showEvent(QShowEvent* event) {
  Update();
  QDialog::showEvent(event);
}

void TuneDialog::Update() {
  const auto& all = state_->heads.trace().heads;
  const auto shown =
      std::count_if(all.begin(), all.end(), [this](analysis::HeadId head) { return state_->heads.Passes(head); });
  heads_->setText(static_cast<size_t>(shown) == all.size()
                      ? tr("all %1").arg(shown)
                      : tr("%1 of %2: those that the Heads pane's filter shows").arg(shown).arg(all.size()));
  const QString why_not = shown == 0                   ? tr("no head is shown")
                          : settings().methods.empty() ? tr("no method is chosen")
                                                       : QString();
  Allow(remove_checks_, !checks_->selectedItems().isEmpty(), tr("no trace is selected"));
  for (QPushButton* button : {tune_, copy_}) {
    button->setEnabled(why_not.isEmpty());
    button->setToolTip(why_not);
  }
}

TuneSettings TuneDialog::settings() const {
  TuneSettings settings;
  for (int row = 0; row < methods_->count(); ++row) {
    const QListWidgetItem* const item = methods_->item(row);
    if (item->checkState() != Qt::Checked) continue;
    const std::string name = item->data(Qt::UserRole).toString().toStdString();
    for (const kernels::MethodSpec& method : state_->trial.methods()) {
      if (method.name == name) settings.methods.push_back({name, state_->trial.ValuesOf(method)});
    }
  }
  const int target = target_->currentIndex();
  if (target >= 0)
    settings.target =
        targets_[static_cast<size_t>(target)].name + "=" + QString::number(value_->value(), 'g', 6).toStdString();
  for (int row = 0; row < checks_->count(); ++row)
    settings.checks.push_back(checks_->item(row)->data(Qt::UserRole).toString().toStdString());
  settings.unit = static_cast<TuneSettings::Unit>(unit_->currentData().toInt());
  return settings;
}

}  // namespace headscope::ui
