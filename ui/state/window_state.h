// SPDX-License-Identifier: Apache-2.0
// All that the window's canvas and panes know in common. They change it and listen to it, and nobody else to each
// other. No widget, no OpenGL, no display.
#pragma once

#include <QObject>
#include <QStringList>
#include <array>
#include <functional>

#include "class_settings.h"
#include "figure_study.h"
#include "head_configuration.h"
#include "head_history.h"
#include "head_store.h"
#include "head_sweep.h"
#include "method_trial.h"
#include "notice_log.h"
#include "pane_offers.h"
#include "parameter_history.h"
#include "quantise_study.h"
#include "query_focus.h"
#include "run_queue.h"
#include "runs_model.h"
#include "trace_notes.h"

namespace headscope::ui {

class WindowState : public QObject {
  Q_OBJECT

 public:
  // `workbench` outlives the state.
  explicit WindowState(Workbench* workbench, QObject* parent = nullptr);
  ~WindowState() override;

  // Dense decode is among them only under the name that dense prefill has. Null for another name.
  const kernels::MethodSpec* FindMethod(const QString& name) const;
  MethodState PresentMethod() const;
  // An unknown name changes nothing; parameters that do not parse are Failed.
  void SetMethod(const MethodState& state);
  // Reads a file of that kind, of which methods are made (Workbench::method_files), and puts the prefill one under
  // trial: `then` follows, or Failed.
  void ReadMethodFile(const QString& kind, const QString& path, std::function<void(const QString& name)> then);
  // Its head, its method with its parameters, and its numbers in the panel.
  void ShowRun(const analysis::MethodResult& run);
  // A run is measured, of one head or of all: what can wait waits.
  bool IsMeasuring() const { return trial.running() || queue.measuring_all() || sweep.running(); }
  // A person waits for work on the open trace: no other takes its place by itself.
  bool IsWorking() const { return IsMeasuring() || queue.searching() || quantise.working(); }
  // What was found out or set up on the open trace, and is gone when it is read again and has grown; bookmarks and tags
  // are not, for what they are about is there. Empty: nothing is lost.
  QStringList OfThisLength() const;
  // Opens its head, and shows its place.
  void GoToNote(const TraceNote& note);
  // The head `step` places further in the trace.
  void StepHead(int step);
  // Every map's (MethodTrial::RunLiveAgain).
  void RunLiveAgain();

  Workbench* const workbench;
  HeadStore heads;
  ClassSettings classes;
  HeadHistory history;
  MethodTrial trial;
  std::array<MethodTrial, kMapViews.size() - 1> references;  // of the other maps, where there are such
  ParameterHistory parameters;
  RunsModel runs;
  TraceNotes notes;
  NoticeLog log;
  QueryFocus focus;
  PaneOffers offers;
  HeadConfiguration configuration;
  RunQueue queue;       // it listens to the others
  HeadSweep sweep;      // so does this one; of the two, one measures at a time
  FigureStudy figures;  // and this one: what is measured has the machine to itself
  QuantiseStudy quantise;

 Q_SIGNALS:
  void Failed(const QString& sentence);
  // The map shows these rows and keys.
  void PlaceWanted(qint64 row_begin, qint64 row_end, qint64 column_begin, qint64 column_end);
  void BookmarkWanted();                   // of what the map shows
  void NoteEditWanted(const QString& id);  // it is new, and has no text yet
  void Noticed(const QString& sentence);   // worth a word, and no error

 private:
  int64_t method_file_ = 0;  // of the newest file that is read, raised when another method is chosen
};

}  // namespace headscope::ui
