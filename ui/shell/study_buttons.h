// SPDX-License-Identifier: Apache-2.0
// The two buttons that every pane of a study has: one begins it, and cancels it while it is under way; one copies the
// command that does the same in a terminal.
#pragma once

#include <QPushButton>

#include "study.h"

namespace headscope::ui {

class StudyButtons : public QObject {
  Q_OBJECT

 public:
  struct Words {
    QString start;            // on the first button while nothing is under way
    QString start_help = {};  // its tool tip
    QString copy_help;        // the other's
  };
  // Named `name`Start and `name`Command. The buttons belong to whatever layout they are put in; `study` outlives this.
  StudyButtons(Study* study, const QString& name, Words words, QObject* parent);

  QPushButton* start() const { return start_; }
  QPushButton* copy() const { return copy_; }

 private:
  void Refresh();

  Study* const study_;
  const Words words_;
  QPushButton *const start_, *const copy_;
};

}  // namespace headscope::ui
