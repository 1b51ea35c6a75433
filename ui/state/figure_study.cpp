// SPDX-License-Identifier: Apache-2.0
#include "figure_study.h"

#include <algorithm>

namespace headscope::ui {
namespace {

constexpr int kRestMs = 80;

}  // namespace

FigureStudy::FigureStudy(Workbench* workbench, HeadStore* heads, QObject* parent)
    : Study(workbench, heads, parent), choices_(workbench->figures()), choice_(choices_.size()) {
  rest_.setSingleShot(true);
  rest_.setInterval(kRestMs);
  connect(&rest_, &QTimer::timeout, this, &FigureStudy::Request);
  connect(heads, &HeadStore::TraceChanged, this, [this] { Outdated(/*another_figure=*/true); });
  connect(heads, &HeadStore::MetricChanged, this, [this] {
    if (!store()->HasTrace() || !picture_) return Outdated(false);
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
  Abandon();
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

void FigureStudy::SetClassThresholds(const std::vector<double>& values) {
  if (values == class_thresholds_) return;
  class_thresholds_ = values;
  if (choice() != nullptr && choice()->by_class) Outdated(true);
}

void FigureStudy::RunsChanged() {
  runs_.reset();
  if (choice() != nullptr && choice()->of_runs) Outdated(true);
}

void FigureStudy::SetPage(QSize size, double pixels_per_point, bool dark) {
  if (size == size_ && pixels_per_point == pixels_per_point_ && dark == dark_) return;
  // A larger page may have the room that a smaller one lacked.
  if (size.width() > size_.width() || size.height() > size_.height()) ClearError();
  size_ = size;
  pixels_per_point_ = pixels_per_point;
  dark_ = dark;
  if (!cancelled_ && error().isEmpty()) Outdated(false);
}

void FigureStudy::SetWanted(bool wanted) {
  if (wanted == wanted_) return;
  wanted_ = wanted;
  if (wanted && outdated_) rest_.start();
  if (!wanted && IsUnderWay(Work::kPicture)) {
    Stop();
    outdated_ = true;
  }
}

void FigureStudy::MeasuringChanged() {
  if (measuring() && IsUnderWay(Work::kPicture)) {
    Stop();
    outdated_ = true;
  }
  waits_ = measuring() && outdated_ && wanted_ && WhyNot().isEmpty();
  if (!measuring() && outdated_ && wanted_) rest_.start();
}

void FigureStudy::Outdated(bool another_figure) {
  if (another_figure) {
    if (!IsUnderWay(Work::kFile)) Stop();  // what is being saved was chosen before
    picture_.reset();
    cancelled_ = false;
    ClearError();
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

QString FigureStudy::WhyNotStart() const {
  return cancelled_ || !error().isEmpty() ? QString() : tr("nothing was cancelled");
}

void FigureStudy::Start() {
  cancelled_ = false;
  ClearError();
  Outdated(false);
  Q_EMIT Changed();
}

FigureDrawing FigureStudy::Drawing() const {
  FigureDrawing drawing;
  drawing.height = 0;
  if (choice() != nullptr) drawing.name = choice()->name;
  if (heads_chosen_ == Heads::kOpen) {
    if (store()->selected()) drawing.heads = {*store()->selected()};
  } else if (heads_chosen_ == Heads::kShown) {
    for (const analysis::HeadId& head : store()->trace().heads) {
      if (store()->Passes(head)) drawing.heads.push_back(head);
    }
    if (drawing.heads.size() == store()->trace().heads.size()) drawing.heads.clear();
  }
  if (choice() != nullptr && choice()->by_class) drawing.class_thresholds = class_thresholds_;
  if (choice() != nullptr && choice()->of_runs && runs_source_) {
    if (runs_ == nullptr) runs_ = std::make_shared<const std::vector<analysis::MethodResult>>(runs_source_());
    drawing.runs = runs_;
  }
  if (store()->other()) drawing.other_trace = store()->other()->path;
  return drawing;
}

QString FigureStudy::WhyNot() const {
  if (choice() == nullptr) return tr("no figure is chosen");
  if (!store()->HasTrace()) return tr("no trace is open");
  if (choice()->least_traces > 1 && !store()->HasOther())
    return tr("the figure compares traces: open another one beside this one (Ctrl+Shift+D)");
  if (heads_chosen_ == Heads::kOpen && !store()->selected()) return tr("no head is open");
  if (heads_chosen_ == Heads::kShown &&
      std::none_of(store()->trace().heads.begin(), store()->trace().heads.end(),
                   [this](const analysis::HeadId& head) { return store()->Passes(head); }))
    return tr("the filter shows no head");
  return {};
}

void FigureStudy::Request() {
  if (!wanted_ || !outdated_ || cancelled_ || size_.isEmpty() || IsUnderWay(Work::kFile)) return;
  if (!WhyNot().isEmpty()) return Q_EMIT Changed();
  waits_ = measuring();
  if (measuring()) return Q_EMIT Changed();
  outdated_ = false;
  FigureDrawing drawing = Drawing();
  other_made_ = drawing.other_trace;
  drawing.width = size_.width();
  drawing.height = size_.height();
  drawing.dark = dark_;
  drawing.captions = false;  // the pane says them beside the picture
  BeginWork(Work::kPicture);
  workbench()->RequestFigure(drawing, pixels_per_point_, Newest([this](const FigurePicturePtr& picture) {
                               picture_ = picture;
                               ClearError();
                               EndWork();
                             }),
                             Newest([this](const std::string& sentence) {
                               picture_.reset();
                               SetError(QString::fromStdString(sentence));
                               EndWork();
                             }),
                             Tells());
}

void FigureStudy::Save(const QString& path) {
  const QString why_not = WhyNot();
  if (!why_not.isEmpty()) return Q_EMIT Failed(tr("There is no figure to save: %1.").arg(why_not));
  const bool was_painting = IsUnderWay(Work::kPicture);
  Stop();
  outdated_ = outdated_ || was_painting;
  BeginWork(Work::kFile);
  workbench()->ExportFigure(Drawing(), path.toStdString(), Newest([this](const std::string& written) {
                              EndWork();
                              Q_EMIT Saved(QString::fromStdString(written));
                            }),
                            Newest([this](const std::string& sentence) {
                              EndWork();
                              Q_EMIT Failed(QString::fromStdString(sentence));
                            }),
                            Tells());
}

void FigureStudy::BeginWork(Work work) {
  work_ = work;
  Begin();
}

void FigureStudy::EndWork() {
  if (outdated_ && wanted_) rest_.start();
  End();
}

}  // namespace headscope::ui
