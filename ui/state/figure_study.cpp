// SPDX-License-Identifier: Apache-2.0
#include "figure_study.h"

#include <algorithm>
#include <utility>

#include "while_alive.h"

namespace headscope::ui {
namespace {

constexpr int kRestMs = 80;

}  // namespace

FigureStudy::FigureStudy(Workbench* workbench, HeadStore* heads, QObject* parent)
    : QObject(parent), workbench_(workbench), heads_(heads), choices_(workbench->figures()), choice_(choices_.size()) {
  rest_.setSingleShot(true);
  rest_.setInterval(kRestMs);
  connect(&rest_, &QTimer::timeout, this, &FigureStudy::Request);
  connect(heads, &HeadStore::TraceChanged, this, [this] { Outdated(/*another_figure=*/true); });
  connect(heads, &HeadStore::MetricChanged, this, [this] {
    if (!heads_->HasTrace() || !picture_) return Outdated(false);
    if (other_made_ != Drawing().other_trace) Outdated(true);
  });
  connect(heads, &HeadStore::SelectionChanged, this, [this] {
    if (heads_chosen_ == Heads::kOpen) Outdated(true);
  });
  connect(heads, &HeadStore::FilterChanged, this, [this] {
    if (heads_chosen_ == Heads::kShown) Outdated(true);
  });
}

FigureStudy::~FigureStudy() {
  blockSignals(true);
  Stop();
}

const FigureChoice* FigureStudy::choice() const {
  return choice_ < choices_.size() ? &choices_[choice_] : nullptr;
}

void FigureStudy::Choose(const QString& name) {
  const auto found = std::find_if(choices_.begin(), choices_.end(),
                                  [&](const FigureChoice& one) { return QString::fromStdString(one.name) == name; });
  const auto chosen = static_cast<size_t>(found - choices_.begin());
  if (chosen == choice_ && !cancelled_) return;
  choice_ = chosen;
  Outdated(true);
}

void FigureStudy::SetHeads(Heads heads) {
  if (heads == heads_chosen_) return;
  heads_chosen_ = heads;
  Outdated(true);
}

void FigureStudy::SetPage(QSize size, double pixels_per_point, bool dark) {
  if (size == size_ && pixels_per_point == pixels_per_point_ && dark == dark_) return;
  // A larger page may have the room that a smaller one lacked.
  if (size.width() > size_.width() || size.height() > size_.height()) error_.clear();
  size_ = size;
  pixels_per_point_ = pixels_per_point;
  dark_ = dark;
  if (!cancelled_ && error_.isEmpty()) Outdated(false);
}

void FigureStudy::SetWanted(bool wanted) {
  if (wanted == wanted_) return;
  wanted_ = wanted;
  if (wanted && outdated_) rest_.start();
  if (!wanted && work_ == Work::kPicture) {
    Stop();
    outdated_ = true;
  }
}

void FigureStudy::SetMeasuring(bool measuring) {
  if (measuring == measuring_) return;
  measuring_ = measuring;
  if (measuring && work_ == Work::kPicture) {
    Stop();
    outdated_ = true;
  }
  waits_ = measuring && outdated_ && wanted_ && WhyNot().isEmpty();
  if (!measuring && outdated_ && wanted_) rest_.start();
  Q_EMIT Changed();
}

void FigureStudy::Outdated(bool another_figure) {
  if (another_figure) {
    if (work_ != Work::kFile) Stop();  // what is being saved was chosen before
    picture_.reset();
    cancelled_ = false;
    error_.clear();
  }
  outdated_ = true;
  if (wanted_) rest_.start();
  if (another_figure) Q_EMIT Changed();
}

void FigureStudy::Cancel() {
  Stop();
  rest_.stop();
  cancelled_ = picture_ == nullptr;
  outdated_ = waits_ = false;
  Q_EMIT Changed();
}

void FigureStudy::Retry() {
  cancelled_ = false;
  error_.clear();
  Outdated(false);
  Q_EMIT Changed();
}

FigureDrawing FigureStudy::Drawing() const {
  FigureDrawing drawing;
  if (choice() != nullptr) drawing.name = choice()->name;
  if (heads_chosen_ == Heads::kOpen) {
    if (heads_->selected()) drawing.heads = {*heads_->selected()};
  } else if (heads_chosen_ == Heads::kShown) {
    for (const analysis::HeadId& head : heads_->trace().heads) {
      if (heads_->Passes(head)) drawing.heads.push_back(head);
    }
    if (drawing.heads.size() == heads_->trace().heads.size()) drawing.heads.clear();
  }
  if (heads_->other()) drawing.other_trace = heads_->other()->path;
  return drawing;
}

QString FigureStudy::WhyNot() const {
  if (choice() == nullptr) return tr("no figure is chosen");
  if (!heads_->HasTrace()) return tr("no trace is open");
  if (choice()->least_traces > 1 && !heads_->HasOther())
    return tr("the figure compares traces: open another one beside this one (Ctrl+Shift+D)");
  if (heads_chosen_ == Heads::kOpen && !heads_->selected()) return tr("no head is open");
  if (heads_chosen_ == Heads::kShown &&
      std::none_of(heads_->trace().heads.begin(), heads_->trace().heads.end(),
                   [this](const analysis::HeadId& head) { return heads_->Passes(head); }))
    return tr("the filter shows no head");
  return {};
}

void FigureStudy::Request() {
  if (!wanted_ || !outdated_ || cancelled_ || size_.isEmpty() || work_ == Work::kFile) return;
  if (!WhyNot().isEmpty()) return Q_EMIT Changed();
  waits_ = measuring_;
  if (measuring_) return Q_EMIT Changed();
  outdated_ = false;
  FigureDrawing drawing = Drawing();
  other_made_ = drawing.other_trace;
  drawing.width = size_.width();
  drawing.height = size_.height();
  drawing.dark = dark_;
  drawing.captions = false;  // the pane says them beside the picture
  Begin(Work::kPicture);
  const auto newest = [this](auto reply) {
    return WhileAlive(this, [this, number = number_, reply = std::move(reply)](const auto& answer) {
      if (number == number_) reply(answer);
    });
  };
  workbench_->RequestFigure(drawing, pixels_per_point_, newest([this](const FigurePicturePtr& picture) {
                              picture_ = picture;
                              error_.clear();
                              End();
                            }),
                            newest([this](const std::string& sentence) {
                              picture_.reset();
                              error_ = QString::fromStdString(sentence);
                              End();
                            }),
                            Tell());
}

void FigureStudy::Save(const QString& path) {
  const QString why_not = WhyNot();
  if (!why_not.isEmpty()) return Q_EMIT Failed(tr("There is no figure to save: %1.").arg(why_not));
  const bool was_painting = work_ == Work::kPicture;
  Stop();
  outdated_ = outdated_ || was_painting;
  Begin(Work::kFile);
  const auto newest = [this](auto reply) {
    return WhileAlive(this, [this, number = number_, reply = std::move(reply)](const auto& answer) {
      if (number == number_) reply(answer);
    });
  };
  workbench_->ExportFigure(Drawing(), path.toStdString(), newest([this](const std::string& written) {
                             End();
                             Q_EMIT Saved(QString::fromStdString(written));
                           }),
                           newest([this](const std::string& sentence) {
                             End();
                             Q_EMIT Failed(QString::fromStdString(sentence));
                           }),
                           Tell());
}

Reply<ProgressReport> FigureStudy::Tell() {
  return WhileAlive(this, [this, number = number_](const ProgressReport& report) {
    if (number != number_) return;
    share_ = report.fraction;
    Q_EMIT Progressed(report);
    Q_EMIT Changed();
  });
}

void FigureStudy::Begin(Work work) {
  ++number_;
  work_ = work;
  share_ = -1;
  Q_EMIT Began();
  Q_EMIT Changed();
}

void FigureStudy::End() {
  ++number_;
  if (std::exchange(work_, Work::kNone) != Work::kNone) Q_EMIT Ended();
  if (outdated_ && wanted_) rest_.start();
  Q_EMIT Changed();
}

void FigureStudy::Stop() {
  if (work_ == Work::kNone) return;
  workbench_->CancelFigure();
  work_ = Work::kNone;
  ++number_;
  Q_EMIT Ended();
}

}  // namespace headscope::ui
