// SPDX-License-Identifier: Apache-2.0
#include "class_dialog.h"

#include <QDialogButtonBox>
#include <QFileDialog>
#include <QFormLayout>
#include <QGroupBox>
#include <QSignalBlocker>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>
#include <limits>

namespace headscope::ui {
namespace {

constexpr double kNoAlarm = -1;  // the least value of the box, shown as words
constexpr int kCountAfterMs = 50;

QLabel* HelpLabel(const QString& text) {
  auto* label = new QLabel(text);
  label->setWordWrap(true);
  label->setForegroundRole(QPalette::PlaceholderText);
  return label;
}

QDoubleSpinBox* NumberBox(const QString& name, const QString& help) {
  auto* box = new QDoubleSpinBox;
  box->setObjectName(name);
  box->setToolTip(help);
  box->setAccessibleDescription(help);
  box->setKeyboardTracking(false);  // a number that is half typed classes nothing
  return box;
}

QWidget* Beside(QDoubleSpinBox* box, const QString& help) {
  auto* row = new QWidget;
  auto* layout = new QHBoxLayout(row);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(box);
  layout->addWidget(HelpLabel(help), 1);
  return row;
}

}  // namespace

ClassDialog::ClassDialog(WindowState* state, QWidget* parent)
    : QDialog(parent), state_(state), counts_(new QLabel), error_(new QLabel) {
  setObjectName(QStringLiteral("classDialog"));
  setWindowTitle(tr("Classes and alarms"));
  ClassSettings* const settings = &state->classes;
  auto* classes = new QGroupBox(tr("Class of a head: the first rule that holds"));
  auto* form = new QFormLayout(classes);
  for (size_t i = 0; i < settings->defaults().size(); ++i) {
    const ClassThreshold& threshold = settings->defaults()[i];
    const QString name = QString::fromStdString(threshold.name);
    const QString help = QString::fromStdString(threshold.help);
    QDoubleSpinBox* const box =
        NumberBox(QStringLiteral("threshold-") + name, tr("%1. Default: %2").arg(help).arg(threshold.value, 0, 'g', 3));
    box->setRange(0, 1);
    box->setDecimals(3);
    box->setSingleStep(0.01);
    thresholds_.push_back(box);
    auto* label = new QLabel(name);
    label->setBuddy(box);
    box->setAccessibleName(label->text());  // a buddy names what has the same parent alone
    form->addRow(label, Beside(box, help));
    connect(box, &QDoubleSpinBox::valueChanged, this, [this, i](double value) {
      std::vector<double> values = state_->classes.values();
      values[i] = value;
      state_->classes.SetValues(values);
    });
  }
  auto* alarms = new QGroupBox(tr("Alarm: in red in the matrix"));
  auto* alarm_form = new QFormLayout(alarms);
  for (size_t i = 0; i < settings->alarms().size(); ++i) {
    const analysis::MetricInfo& metric = settings->alarms()[i].metric;
    const QString help = QString::fromStdString(metric.help);
    QDoubleSpinBox* const box = NumberBox(QStringLiteral("alarm-") + QString::fromStdString(metric.name),
                                          tr("%1. Default: %2").arg(help).arg(metric.alarm, 0, 'g', 6));
    box->setRange(kNoAlarm, 1e6);
    box->setDecimals(1);
    box->setSpecialValueText(tr("no alarm"));
    alarms_.push_back(box);
    auto* label = new QLabel(tr("%1 above").arg(QString::fromStdString(metric.title)));
    label->setBuddy(box);
    box->setAccessibleName(label->text());
    alarm_form->addRow(label, Beside(box, help));
    connect(box, &QDoubleSpinBox::valueChanged, this, [this, i](double value) {
      state_->classes.SetAlarm(i, value < 0 ? std::numeric_limits<double>::infinity() : value);
    });
  }
  counts_->setObjectName(QStringLiteral("classCounts"));
  counts_->setWordWrap(true);
  error_->setObjectName(QStringLiteral("classError"));
  error_->setWordWrap(true);
  error_->setTextFormat(Qt::PlainText);
  error_->hide();
  auto* buttons = new QDialogButtonBox(QDialogButtonBox::RestoreDefaults | QDialogButtonBox::Close);
  buttons->setObjectName(QStringLiteral("classButtons"));
  reset_ = buttons->button(QDialogButtonBox::RestoreDefaults);
  for (QAbstractButton* button : buttons->buttons()) button->setIcon({});
  buttons->button(QDialogButtonBox::RestoreDefaults)->setText(tr("Restore defaults"));
  const auto add = [&](const QString& text, const char* name, const QString& help) {
    QPushButton* const button = buttons->addButton(text, QDialogButtonBox::ActionRole);
    button->setObjectName(QLatin1String(name));
    button->setToolTip(help);
    return button;
  };
  connect(add(tr("&Load…"), "loadClasses", tr("Read thresholds from a file that Save has written")),
          &QPushButton::clicked, this, &ClassDialog::Load);
  connect(add(tr("&Save…"), "saveClasses", tr("Save to a file, for this window and the command line")),
          &QPushButton::clicked, this, &ClassDialog::Save);
  connect(add(tr("Copy co&mmand"), "copyClasses", tr("The command that classifies this trace's heads the same way")),
          &QPushButton::clicked, this, &ClassDialog::CopyWanted);
  auto* layout = new QVBoxLayout(this);
  layout->addWidget(classes);
  layout->addWidget(alarms);
  layout->addWidget(counts_);
  layout->addWidget(error_);
  layout->addWidget(buttons);
  resize(640, sizeHint().height());

  count_timer_.setSingleShot(true);
  count_timer_.setInterval(kCountAfterMs);
  connect(&count_timer_, &QTimer::timeout, this, &ClassDialog::CountClasses);
  const auto count_soon = [this] {
    if (!count_timer_.isActive()) count_timer_.start();
  };
  connect(&state->heads, &HeadStore::StatisticsChanged, this, count_soon);
  connect(&state->heads, &HeadStore::TraceChanged, this, count_soon);
  connect(settings, &ClassSettings::Changed, this, &ClassDialog::Refresh);
  connect(reset_, &QPushButton::clicked, settings, &ClassSettings::Reset);
  connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
  Refresh();
}

void ClassDialog::Refresh() {
  for (size_t i = 0; i < thresholds_.size(); ++i) {
    const QSignalBlocker quiet(thresholds_[i]);
    thresholds_[i]->setValue(state_->classes.values()[i]);
  }
  for (size_t i = 0; i < alarms_.size(); ++i) {
    const QSignalBlocker quiet(alarms_[i]);
    const double value = state_->classes.alarms()[i].value;
    alarms_[i]->setValue(std::isfinite(value) ? value : kNoAlarm);
  }
  reset_->setEnabled(!state_->classes.IsDefault());
  CountClasses();
}

void ClassDialog::CountClasses() {
  const std::vector<analysis::HeadStatistics> heads = state_->heads.AllStatistics();
  QStringList texts;
  for (const analysis::HeadClassInfo& one : analysis::kHeadClasses) {
    const auto count =
        std::count_if(heads.begin(), heads.end(), [&](const auto& head) { return head.head_class == one.head_class; });
    if (count > 0) texts.append(tr("%1: %2").arg(QLatin1String(one.name)).arg(count));
  }
  for (const ClassSettings::Alarm& alarm : state_->classes.alarms()) {
    const auto count = std::count_if(heads.begin(), heads.end(), [&](const auto& head) {
      return analysis::MetricValue(head, alarm.metric.name) > alarm.value;
    });
    texts.append(tr("%1 alarms: %2").arg(QString::fromStdString(alarm.metric.title)).arg(count));
  }
  counts_->setText(heads.empty() ? tr("No head's statistics are known yet.")
                                 : tr("Of %1 heads: %2").arg(heads.size()).arg(texts.join(QStringLiteral(", "))));
}

void ClassDialog::Load() {
  const QString path = QFileDialog::getOpenFileName(this, tr("Load thresholds"), {}, tr("Thresholds (*.json)"));
  if (path.isEmpty()) return;
  std::vector<double> values;
  const std::string error = state_->workbench->ReadClassThresholds(path.toStdString(), &values);
  error_->setText(QString::fromStdString(error));
  error_->setVisible(!error.empty());
  if (error.empty()) state_->classes.SetValues(values);
}

void ClassDialog::Save() {
  const QString path = QFileDialog::getSaveFileName(this, tr("Save thresholds"), QStringLiteral("classes.json"),
                                                    tr("Thresholds (*.json)"));
  if (path.isEmpty()) return;
  const std::string error = state_->workbench->WriteClassThresholds(state_->classes.values(), path.toStdString());
  error_->setText(QString::fromStdString(error));
  error_->setVisible(!error.empty());
}

}  // namespace headscope::ui
