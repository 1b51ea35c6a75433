// SPDX-License-Identifier: Apache-2.0
// The figure of the analysis that a person looks at: which one, of which heads, whether it is being made, and its
// picture. It is made while somebody shows it and nothing is measured: of what changes meanwhile the newest is made.
#pragma once

#include <QObject>
#include <QSize>
#include <QString>
#include <QTimer>
#include <string>
#include <vector>

#include "head_store.h"

namespace headscope::ui {

class FigureStudy : public QObject {
  Q_OBJECT

 public:
  enum class Heads { kAll, kShown, kOpen };  // every recorded one, those that the filter shows, the one on show

  // Both outlive it.
  FigureStudy(Workbench* workbench, HeadStore* heads, QObject* parent = nullptr);
  ~FigureStudy() override;

  const std::vector<FigureChoice>& choices() const { return choices_; }
  // Null: none is chosen.
  const FigureChoice* choice() const;
  // Empty, or a name that is not known: none.
  void Choose(const QString& name);
  void SetHeads(Heads heads);
  Heads heads() const { return heads_chosen_; }
  // How it is painted, in logical pixels, and how many device pixels those are.
  void SetPage(QSize size, double pixels_per_point, bool dark);
  void SetWanted(bool wanted);  // its pane is on show

  // Something is measured, and has the machine to itself: what is under way waits, and begins again.
  void SetMeasuring(bool measuring);
  // Gives up what is under way, until something is chosen or Retry().
  void Cancel();
  void Retry();

  // Of which heads, beside which trace. On white paper, with its captions.
  FigureDrawing Drawing() const;
  // Why there is nothing to be made, as a part of a sentence; empty: there is.
  QString WhyNot() const;
  // `path`: .svg, .pdf, .png, .json or .csv. Saved or Failed follows.
  void Save(const QString& path);

  const FigurePicturePtr& picture() const { return picture_; }  // null: none of the present choice
  bool working() const { return work_ != Work::kNone; }
  bool waits() const { return waits_; }  // until nothing is measured
  bool cancelled() const { return cancelled_; }
  double share() const { return share_; }  // of the work under way; below 0: not known
  const QString& error() const { return error_; }

 Q_SIGNALS:
  void Changed();
  void Began();
  void Progressed(const headscope::ui::ProgressReport& report);
  void Ended();
  void Saved(const QString& path);
  void Failed(const QString& sentence);  // of a file that was not written
  // A pane's buttons: a file is asked for, the command line is copied.
  void SaveWanted();
  void CommandWanted();

 private:
  enum class Work { kNone, kPicture, kFile };
  void Outdated(bool another_figure);
  void Request();
  void Begin(Work work);
  void End();
  void Stop();
  Reply<ProgressReport> Tell();

  Workbench* const workbench_;
  HeadStore* const heads_;
  const std::vector<FigureChoice> choices_;
  size_t choice_;  // choices_.size(): none
  Heads heads_chosen_ = Heads::kAll;
  QSize size_;
  double pixels_per_point_ = 1;
  bool dark_ = false, wanted_ = false, measuring_ = false, waits_ = false, cancelled_ = false, outdated_ = false;
  Work work_ = Work::kNone;
  int64_t number_ = 0;  // of the newest work: an older one's answer is dropped
  double share_ = -1;
  QString error_;
  FigurePicturePtr picture_;
  std::string other_made_;  // the trace that it is of beside the open one
  QTimer rest_;             // since the last change: a pane that is being resized is painted when it rests
};

}  // namespace headscope::ui
