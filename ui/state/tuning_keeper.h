// SPDX-License-Identifier: Apache-2.0
// Keeps what a tuning over many heads finds with its trace while it is found, for a head can take minutes and a window
// can end at any moment. What is in no configuration's file is offered again when the trace is opened, and goes on
// where it stopped.
//
// Of several windows one at a time is at a tuning: it claims it as a command claims the file that it writes
// (base/output_claim.h), and the claim ends with its process, whatever ends that. The claims of other users are not
// seen.
#pragma once

#include <QJsonObject>
#include <QObject>
#include <QString>
#include <QTimer>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/output_claim.h"
#include "trace_keeper.h"
#include "window_state.h"

namespace headscope::ui {

class TuningKeeper : public QObject {
  Q_OBJECT

 public:
  // Both outlive it.
  TuningKeeper(WindowState* state, TraceKeeper* keeper, QObject* parent = nullptr);

  // What was found since it was written is written at most this much later, and a second for each 256 KB of the tuning.
  static constexpr int kWriteAfterMs = 2000;

  struct Offer {
    QString id;        // empty: there is nothing to offer
    QString sentence;  // what there is
    QString wrong;     // a sentence of what is no tuning of this trace and stays in its file; empty: nothing
    QString wrong_id;  // empty: it may be one of a method that is not here, and is not to be discarded
  };
  // Of the trace that has just been opened: the newest that no window is at.
  Offer FindOffer(const TraceKeeper::Notes& tunings) const;
  // Puts what was offered in the place of what the sweep has. Empty, or one sentence.
  QString TakeUp(const QString& id);
  // Drops what cannot be taken up. Empty, or one sentence: another window is at it, which can.
  QString Discard(const QString& id);

  // Whether the sweep's tuning stays with its trace when another takes its place or the window ends: it does unless a
  // person wants it gone.
  void SetGoes(bool goes) { goes_ = goes; }
  // The sweep's tuning is no longer this window's: it is left with its trace, or dropped. So it is when the sweep is
  // cleared.
  void LetGo();
  // Puts what is new to the trace's file, at once.
  void Write();
  bool IsKept() const { return !id_.isEmpty() && !is_too_large_ && !keeper_->HasUnkeptTuning(); }

 Q_SIGNALS:
  void Failed(const QString& sentence);

 private:
  std::unique_ptr<OutputClaim> Claim(const QString& id) const;  // null: another window is at it
  void Begin();
  void Add(const TunedSetting& setting);
  void Saved();

  WindowState* const state_;
  TraceKeeper* const keeper_;
  QTimer timer_;
  QString id_;  // of the sweep's tuning; empty: it has none
  std::unique_ptr<OutputClaim> claim_;
  bool goes_ = false, has_new_ = false, is_too_large_ = false;
  std::map<std::pair<analysis::HeadId, int64_t>, QJsonObject> found_;  // by the first of its lengths
  int64_t bytes_ = 0;                                                  // of `found_`
  size_t failed_written_ = 0;
};

}  // namespace headscope::ui
