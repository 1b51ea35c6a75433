// SPDX-License-Identifier: Apache-2.0
// Work in the background that answers a question about what is on show: begun, told of as it goes on, given up when the
// question is another one or something is measured. What differs from study to study is what is asked.
#pragma once

#include <QObject>
#include <QString>
#include <utility>

#include "head_store.h"
#include "ui/workbench.h"
#include "while_alive.h"

namespace headscope::ui {

class Study : public QObject {
  Q_OBJECT

 public:
  // Why it cannot begin, as a part of a sentence; empty: it can.
  virtual QString WhyNot() const = 0;
  // What a person asks for by a button: begins, or begins again; gives up what is under way.
  virtual void Start() = 0;
  virtual void Cancel() = 0;
  // Why the buttons of a pane say nothing, likewise: to begin, to copy the command line.
  virtual QString WhyNotStart() const { return WhyNot(); }
  virtual QString WhyNotCopy() const { return WhyNot(); }
  // Something is measured, and has the machine to itself.
  void SetMeasuring(bool measuring);

  bool working() const { return working_; }
  double share() const { return share_; }  // of the work under way; below 0: not known
  const QString& error() const { return error_; }

 Q_SIGNALS:
  void Changed();
  void Began();
  void Progressed(const headscope::ui::ProgressReport& report);
  void Ended();
  void CommandWanted();  // a pane's button: the command line is copied

 protected:
  // Both outlive it. Whoever derives from it calls Abandon in the destructor.
  Study(Workbench* workbench, HeadStore* heads, QObject* parent);

  virtual void CancelWork() = 0;  // of the workbench
  virtual void MeasuringChanged() = 0;

  void Begin();
  // Its answer is there.
  void End();
  // Gives it up: no answer of it comes any more. False: there was none.
  bool Stop();
  void Abandon();  // the same without a word

  // An answer of the work that Begin began, dropped when that is over.
  template <typename Function>
  auto Newest(Function function) {
    return WhileAlive(this, [this, number = number_, function = std::move(function)](const auto& answer) {
      if (number == number_) function(answer);
    });
  }
  // What Begin began has failed.
  ErrorReply Fails() {
    return Newest([this](const std::string& sentence) {
      error_ = QString::fromStdString(sentence);
      End();
    });
  }
  Reply<ProgressReport> Tells();

  bool measuring() const { return measuring_; }
  Workbench* workbench() const { return workbench_; }
  HeadStore* store() const { return heads_; }
  void SetError(const QString& sentence) { error_ = sentence; }
  void ClearError() { error_.clear(); }

 private:
  Workbench* const workbench_;
  HeadStore* const heads_;
  bool working_ = false, measuring_ = false;
  int64_t number_ = 0;  // of the newest work
  double share_ = -1;
  QString error_;
};

}  // namespace headscope::ui
