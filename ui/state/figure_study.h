// SPDX-License-Identifier: Apache-2.0
// The figure of the analysis that a person looks at: which one, of which heads, whether it is being made, and its
// picture. It is made while somebody shows it and nothing is measured: of what changes meanwhile the newest is made.
#pragma once

#include <QSize>
#include <QString>
#include <QTimer>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "study.h"

namespace headscope::ui {

class FigureStudy : public Study {
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

  // By which figures tell heads apart, in the order of Workbench::class_thresholds; empty: the defaults.
  void SetClassThresholds(const std::vector<double>& values);
  // What was measured, for figures that show it: asked for when one is made, anew after RunsChanged.
  void SetRunsSource(std::function<std::vector<analysis::MethodResult>()> runs) { runs_source_ = std::move(runs); }
  void RunsChanged();

  // Gives up what is under way, until something is chosen or Start(), which is for what was cancelled or has failed:
  // otherwise figures begin by themselves.
  void Cancel() override;
  void Start() override;
  QString WhyNotStart() const override;

  // Of which heads, beside which trace. On white paper, with its captions.
  FigureDrawing Drawing() const;
  QString WhyNot() const override;
  // `path`: .svg, .pdf, .png, .json or .csv. Saved or Failed follows.
  void Save(const QString& path);

  const FigurePicturePtr& picture() const { return picture_; }  // null: none of the present choice
  bool waits() const { return waits_; }                         // until nothing is measured
  bool cancelled() const { return cancelled_; }

 Q_SIGNALS:
  void Saved(const QString& path);
  void Failed(const QString& sentence);  // of a file that was not written
  void SaveWanted();                     // a pane's button: a file is asked for

 private:
  enum class Work { kPicture, kFile };
  void CancelWork() override { workbench()->CancelFigure(); }
  // What is under way waits, and begins again.
  void MeasuringChanged() override;
  void Outdated(bool another_figure);
  void Request();
  bool IsUnderWay(Work work) const { return working() && work_ == work; }
  void BeginWork(Work work);
  void EndWork();

  const std::vector<FigureChoice> choices_;
  size_t choice_;  // choices_.size(): none
  Heads heads_chosen_ = Heads::kAll;
  QSize size_;
  double pixels_per_point_ = 1;
  bool dark_ = false, wanted_ = false, waits_ = false, cancelled_ = false, outdated_ = false;
  Work work_ = Work::kPicture;  // while one is under way
  FigurePicturePtr picture_;
  std::vector<double> class_thresholds_;
  std::function<std::vector<analysis::MethodResult>()> runs_source_;
  mutable std::shared_ptr<const std::vector<analysis::MethodResult>> runs_;  // null: not asked for yet
  std::string other_made_;  // the trace that it is of beside the open one
  QTimer rest_;             // since the last change: a pane that is being resized is painted when it rests
};

}  // namespace headscope::ui
