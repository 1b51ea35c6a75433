// SPDX-License-Identifier: Apache-2.0
#include "settings_dialog.h"

#include <unistd.h>

#include <QDialogButtonBox>
#include <QFormLayout>
#include <QLocale>
#include <QPushButton>
#include <QVBoxLayout>
#include <algorithm>

#include "shown_text.h"

namespace headscope::ui {
namespace {

constexpr int kRefreshMs = 1000;

int Mebibytes(int64_t bytes) {
  return static_cast<int>(bytes >> 20);
}

int MachineMebibytes() {
  return Mebibytes(int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGE_SIZE));
}

}  // namespace

SettingsDialog::SettingsDialog(const MemoryBudget* memory, QWidget* parent) : QDialog(parent), memory_(memory) {
  setObjectName(QStringLiteral("settingsDialog"));
  setWindowTitle(tr("Settings"));
  limit_ = new QSpinBox;
  limit_->setObjectName(QStringLiteral("memoryBudget"));
  limit_->setRange(Mebibytes(MemoryBudget::kLeastBytes),
                   std::max(MachineMebibytes(), Mebibytes(MemoryBudget::DefaultBytes())));
  limit_->setSingleStep(256);
  limit_->setSuffix(tr(" MiB"));
  limit_->setGroupSeparatorShown(true);
  limit_->setLocale(QLocale(QLocale::English, QLocale::UnitedStates));  // "16,384", as CountText
  limit_->setKeyboardTracking(false);
  const QString help =
      tr("Heads, kept masses, map tiles and statistics stay in memory so that they need not be read or computed again. "
         "What was used longest ago goes first; what is on screen stays. Measured runs need memory of their own.");
  limit_->setToolTip(help);
  auto* explained = new QLabel(help);
  explained->setWordWrap(true);
  explained->setForegroundRole(QPalette::PlaceholderText);
  used_ = new QLabel;
  used_->setObjectName(QStringLiteral("memoryUsed"));
  auto* form = new QFormLayout;
  form->addRow(tr("&Memory for caches"), limit_);
  form->addRow(tr("In use"), used_);
  auto* buttons = new QDialogButtonBox(QDialogButtonBox::RestoreDefaults | QDialogButtonBox::Close);
  for (QAbstractButton* button : buttons->buttons()) button->setIcon({});
  buttons->button(QDialogButtonBox::RestoreDefaults)->setText(tr("Restore defaults"));
  buttons->button(QDialogButtonBox::RestoreDefaults)
      ->setToolTip(
          tr("A quarter of this machine's memory: %1 MiB").arg(CountText(Mebibytes(MemoryBudget::DefaultBytes()))));
  auto* layout = new QVBoxLayout(this);
  layout->addLayout(form);
  layout->addWidget(explained);
  layout->addWidget(buttons);
  resize(440, sizeHint().height());

  connect(limit_, &QSpinBox::valueChanged, this, [this](int mebibytes) {
    Q_EMIT MemoryChosen(mebibytes);
    Refresh();
  });
  connect(buttons->button(QDialogButtonBox::RestoreDefaults), &QPushButton::clicked, this, [this] {
    Q_EMIT MemoryChosen(0);
    Refresh();
  });
  connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
  connect(&timer_, &QTimer::timeout, this, &SettingsDialog::Refresh);
}

void SettingsDialog::showEvent(QShowEvent* event) {
  Refresh();
  timer_.start(kRefreshMs);
  QDialog::showEvent(event);
}

void SettingsDialog::hideEvent(QHideEvent* event) {
  timer_.stop();
  QDialog::hideEvent(event);
}

void SettingsDialog::Refresh() {
  used_->setText(tr("%1 MiB").arg(CountText(Mebibytes(memory_->used()))));
  if (limit_->hasFocus()) return;  // it is being typed
  const QSignalBlocker quiet(limit_);
  limit_->setValue(Mebibytes(memory_->capacity()));
}

}  // namespace headscope::ui
