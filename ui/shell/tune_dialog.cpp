// SPDX-License-Identifier: Apache-2.0
#include "tune_dialog.h"

#include <QDialogButtonBox>
#include <QFileDialog>
#include <QFileInfo>
#include <QFormLayout>
#include <QPushButton>
#include <QScreen>
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
      choose_(new QComboBox),
      traces_(new QListWidget),
      checks_(new QListWidget),
      ranges_(new QLineEdit),
      check_rows_(new QLineEdit),
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
  value_->setAccessibleName(tr("Target"));
  value_->setDecimals(3);
  value_->setSingleStep(0.01);
  unit_->setObjectName(QStringLiteral("tuneUnit"));
  unit_->addItem(tr("each head"), static_cast<int>(TuneSettings::Unit::kHead));
  unit_->addItem(tr("each layer"), static_cast<int>(TuneSettings::Unit::kLayer));
  unit_->addItem(tr("the whole model"), static_cast<int>(TuneSettings::Unit::kModel));
  unit_->setToolTip(tr("Heads that share a setting must each reach the target"));
  choose_->setObjectName(QStringLiteral("tuneChoose"));
  choose_->addItem(tr("the smaller error of the output"), static_cast<int>(TuneSettings::Choice::kUsual));
  choose_->addItem(tr("the larger mass"), static_cast<int>(TuneSettings::Choice::kMass));
  choose_->setToolTip(
      tr("What decides between several methods that keep within the limit: the error, as in MInference's paper, or the "
         "mass, as in its published code"));
  ranges_->setObjectName(QStringLiteral("tuneRanges"));
  ranges_->setPlaceholderText(tr("one range for all; for example 16K, 48K"));
  ranges_->setToolTip(
      tr("Prompt lengths at which one range ends and the next begins, in tokens or in units of 1024 (16K). Each range "
         "gets its own settings, found on the traces whose prompts fall into it. SampleAttention: 16K, 48K, 80K, "
         "112K"));
  check_rows_->setObjectName(QStringLiteral("tuneCheckRows"));
  check_rows_->setPlaceholderText(tr("none; for example every:4 or last:512"));
  check_rows_->setToolTip(
      tr("Queries held out of the search: last:N, every:N, random:N or ranges such as 0:16,100:200. Settings found on "
         "the other queries are checked on these, of the held-out traces if there are any. For prefill methods."));
  heads_->setObjectName(QStringLiteral("tuneHeads"));
  heads_->setWordWrap(true);
  tune_->setObjectName(QStringLiteral("tuneStart"));
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
  form->addRow(tr("&Between methods"), choose_);
  auto* traces_label = new QLabel(tr("More t&races"));
  traces_label->setBuddy(traces_);
  form->addRow(traces_label,
               TraceList(traces_, QStringLiteral("Trace"), tr("More traces"),
                         tr("A setting must reach the target over the rows of these and of the open trace. "
                            "Traces of the same model.")));
  form->addRow(tr("&Lengths"), ranges_);
  auto* checks_label = new QLabel(tr("&Held-out traces"));
  checks_label->setBuddy(checks_);
  form->addRow(checks_label,
               TraceList(checks_, QStringLiteral("Check"), tr("Held-out traces"),
                         tr("Settings are checked on these, not chosen by them, and reported separately. Traces of the "
                            "same model.")));
  form->addRow(tr("Held-&out rows"), check_rows_);
  form->addRow(tr("Heads"), heads_);
  auto* buttons = new QDialogButtonBox(QDialogButtonBox::Close);
  buttons->addButton(tune_, QDialogButtonBox::AcceptRole);
  buttons->addButton(copy_, QDialogButtonBox::ActionRole);
  buttons->button(QDialogButtonBox::Close)->setIcon({});  // beside buttons that have none
  for (QPushButton* button : {buttons->button(QDialogButtonBox::Close), copy_}) button->setAutoDefault(false);
  auto* layout = new QVBoxLayout(this);
  layout->addLayout(form, 1);
  layout->addWidget(buttons);
  tune_->setDefault(true);  // Enter in any field; it has to stand in the dialog by then
  resize(QSize(520, 560).boundedTo(screen()->availableSize()));

  connect(phase_, &QComboBox::currentIndexChanged, this, &TuneDialog::FillMethods);
  connect(methods_, &QListWidget::itemChanged, this, &TuneDialog::Update);
  connect(target_, &QComboBox::currentIndexChanged, this, [this](int index) {
    if (index < 0) return;
    const TuneTargetChoice& choice = targets_[static_cast<size_t>(index)];
    value_->setRange(0.001, choice.is_share ? kGreatestShare : kGreatestRatio);
    value_->setValue(choice.value);
    Update();
  });
  for (const QLineEdit* const field : {ranges_, check_rows_})
    connect(field, &QLineEdit::textChanged, this, &TuneDialog::Update);
  connect(&state->heads, &HeadStore::FilterChanged, this, &TuneDialog::Update);
  connect(&state->heads, &HeadStore::TraceChanged, this, &TuneDialog::Update);
  connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
  connect(tune_, &QPushButton::clicked, this, [this] {
    accept();
    Q_EMIT TuneWanted(settings());
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

const TuneTargetChoice* TuneDialog::Target() const {
  const int place = target_->currentIndex();
  return place < 0 ? nullptr : &targets_[static_cast<size_t>(place)];
}

QLayout* TuneDialog::TraceList(QListWidget* list, const QString& name, const QString& title, const QString& help) {
  list->setObjectName(QStringLiteral("tune%1s").arg(name));
  list->setAccessibleName(title);
  list->setToolTip(help);
  list->setSelectionMode(QAbstractItemView::ExtendedSelection);
  list->setMaximumHeight(4 * fontMetrics().height());
  auto* add = new QPushButton(tr("Add…"));
  add->setObjectName(QStringLiteral("tuneAdd") + name);
  add->setAccessibleName(tr("%1: add").arg(title));
  auto* remove = new QPushButton(tr("Remove"));
  remove->setObjectName(QStringLiteral("tuneRemove%1s").arg(name));
  remove->setAccessibleName(tr("%1: remove").arg(title));
  const auto allow_removal = [list, remove] {
    Allow(remove, !list->selectedItems().isEmpty(), tr("no trace is selected"));
  };
  connect(add, &QPushButton::clicked, this, [this, list, title] { AddTraces(list, title); });
  connect(remove, &QPushButton::clicked, this, [this, list] {
    qDeleteAll(list->selectedItems());
    Update();
  });
  connect(list, &QListWidget::itemSelectionChanged, this, allow_removal);
  allow_removal();
  auto* buttons = new QVBoxLayout;
  for (QPushButton* button : {add, remove}) {
    button->setAutoDefault(false);
    buttons->addWidget(button);
  }
  buttons->addStretch(1);
  auto* layout = new QHBoxLayout;
  layout->addWidget(list, 1);
  layout->addLayout(buttons);
  return layout;
}

void TuneDialog::AddTraces(QListWidget* list, const QString& title) {
  const QString folder = QFileInfo(QString::fromStdString(state_->heads.trace().path)).path();
  for (const QString& path :
       QFileDialog::getOpenFileNames(this, title, folder, tr("Traces (*.h5 *.hdf5);;All files (*)"))) {
    bool is_there = false;
    for (const QListWidget* const other : {traces_, checks_}) {
      for (int row = 0; row < other->count(); ++row) is_there |= other->item(row)->data(Qt::UserRole) == path;
    }
    if (is_there) continue;
    auto* item = new QListWidgetItem(ShownInMenu(QFileInfo(path).fileName()), list);
    item->setData(Qt::UserRole, path);
    item->setToolTip(ShownToolTip(path));
  }
  Update();
}

std::vector<std::string> TuneDialog::Ranges() const {
  std::vector<std::string> ranges;
  for (const QString& edge : ranges_->text().split(u',', Qt::SkipEmptyParts)) {
    if (!edge.trimmed().isEmpty()) ranges.push_back(edge.trimmed().toStdString());
  }
  return ranges;
}

void TuneDialog::FillMethods() {
  methods_->clear();
  const kernels::MethodSpec* const shown = state_->trial.method();
  for (const kernels::MethodSpec& method : state_->trial.methods()) {
    if ((method.phase == kernels::Phase::kDecode) != IsDecode() || !HasBudget(method)) continue;
    auto* item = new QListWidgetItem(QString::fromStdString(method.title), methods_);
    item->setData(Qt::UserRole, QString::fromStdString(method.name));
    item->setToolTip(QString::fromStdString(method.name + ": " + method.summary + "\n" + method.paper));
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
  check_rows_->setEnabled(!IsDecode());
  const TuneTargetChoice* const target = Target();
  Allow(choose_, target != nullptr && target->is_limit && settings().methods.size() > 1,
        tr("only with several methods and a limit on pairs or work"));
  QString why_not = shown == 0                   ? tr("no head is shown")
                    : settings().methods.empty() ? tr("no method is chosen")
                                                 : QString::fromStdString(state_->workbench->WhyNotRanges(Ranges()));
  if (why_not.isEmpty()) why_not = QString::fromStdString(state_->workbench->WhyNotCheckRows(settings().check_rows));
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
  if (const TuneTargetChoice* const target = Target(); target != nullptr) {
    settings.target = {target->name, value_->value()};
    settings.from_budgets = target->from_budgets;
    if (target->is_limit && settings.methods.size() > 1)
      settings.choose = static_cast<TuneSettings::Choice>(choose_->currentData().toInt());
  }
  const auto paths = [](const QListWidget* list) {
    std::vector<std::string> all;
    all.reserve(static_cast<size_t>(list->count()));
    for (int row = 0; row < list->count(); ++row)
      all.push_back(list->item(row)->data(Qt::UserRole).toString().toStdString());
    return all;
  };
  settings.traces = paths(traces_);
  settings.checks = paths(checks_);
  settings.ranges = Ranges();
  if (!IsDecode()) settings.check_rows = check_rows_->text().trimmed().toStdString();
  settings.unit = static_cast<TuneSettings::Unit>(unit_->currentData().toInt());
  return settings;
}

}  // namespace headscope::ui
