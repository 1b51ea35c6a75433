// SPDX-License-Identifier: Apache-2.0
#include "study_buttons.h"

#include <utility>

#include "allowed.h"

namespace headscope::ui {

StudyButtons::StudyButtons(Study* study, const QString& name, Words words, QObject* parent)
    : QObject(parent),
      study_(study),
      words_(std::move(words)),
      start_(new QPushButton),
      copy_(new QPushButton(tr("Copy command"))) {  // no key of its own: it stands in several panes of a window
  start_->setObjectName(name + QStringLiteral("Start"));
  start_->setToolTip(words_.start_help);
  copy_->setObjectName(name + QStringLiteral("Command"));
  copy_->setToolTip(words_.copy_help);
  connect(start_, &QPushButton::clicked, study_, [study] {
    if (study->working()) {
      study->Cancel();
    } else {
      study->Start();
    }
  });
  connect(copy_, &QPushButton::clicked, study_, &Study::CommandWanted);
  connect(study_, &Study::Changed, this, &StudyButtons::Refresh);
  Refresh();
}

void StudyButtons::Refresh() {
  const bool busy = study_->working();
  start_->setText(busy ? tr("Cancel") : words_.start);
  const QString why_not = study_->WhyNotStart(), why_not_copied = study_->WhyNotCopy();
  Allow(start_, busy || why_not.isEmpty(), why_not);
  Allow(copy_, why_not_copied.isEmpty(), why_not_copied);
}

}  // namespace headscope::ui
