// SPDX-License-Identifier: Apache-2.0
#include "log_pane.h"

#include <QApplication>
#include <QClipboard>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QShortcut>
#include <QVBoxLayout>
#include <algorithm>

#include "allowed.h"
#include "panes.h"
#include "selected_rows.h"

namespace headscope::ui {

LogPane::LogPane(WindowState* state, QWidget* parent)
    : QWidget(parent),
      log_(&state->log),
      view_(new QTableView),
      copy_(new QPushButton(tr("Copy"))),
      clear_(new QPushButton(tr("Clear"))),
      hint_(new QLabel(tr("No messages. Notices and errors are listed here with the time."))) {
  view_->setObjectName(QStringLiteral("logTable"));
  view_->setAccessibleName(tr("Messages"));
  ListRows(view_, log_);
  view_->setSelectionMode(QAbstractItemView::ExtendedSelection);
  view_->setColumnWidth(NoticeLog::kTime, fontMetrics().horizontalAdvance(QStringLiteral("00:00:00")) + 16);
  copy_->setObjectName(QStringLiteral("logCopy"));
  copy_->setToolTip(tr("Copy the selected messages, or all of them (Ctrl+C)"));
  clear_->setObjectName(QStringLiteral("logClear"));
  clear_->setToolTip(tr("Delete all messages"));
  auto* buttons = new QHBoxLayout;
  buttons->addWidget(copy_);
  buttons->addWidget(clear_);
  buttons->addStretch(1);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(6, 6, 6, 6);
  layout->addWidget(view_, 1);
  layout->addLayout(buttons);
  hint_->setObjectName(QStringLiteral("logHint"));
  hint_->setAlignment(Qt::AlignCenter);
  hint_->setWordWrap(true);
  hint_->setForegroundRole(QPalette::PlaceholderText);
  auto* over_rows = new QVBoxLayout(view_->viewport());
  over_rows->addWidget(hint_);
  connect(copy_, &QPushButton::clicked, this, &LogPane::Copy);
  connect(clear_, &QPushButton::clicked, log_, &NoticeLog::Clear);
  connect(new QShortcut(QKeySequence::Copy, view_, nullptr, nullptr, Qt::WidgetShortcut), &QShortcut::activated, this,
          &LogPane::Copy);
  connect(log_, &QAbstractItemModel::rowsInserted, this, [this] {
    Update();
    view_->scrollToBottom();
  });
  connect(log_, &QAbstractItemModel::modelReset, this, &LogPane::Update);
  Update();
}

void LogPane::Copy() const {
  QApplication::clipboard()->setText(log_->AsText(SelectedRows(view_)));
}

void LogPane::Update() {
  hint_->setVisible(log_->rowCount() == 0);
  for (QPushButton* button : {copy_, clear_}) Allow(button, log_->rowCount() > 0, tr("there are no messages"));
}

QWidget* MakeLogPane(WindowState* state) {
  return new LogPane(state);
}

}  // namespace headscope::ui
