// SPDX-License-Identifier: Apache-2.0
#include "window_state.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "kernels/phase_prefix.h"
#include "while_alive.h"

namespace headscope::ui {

WindowState::WindowState(Workbench* bench, QObject* parent)
    : QObject(parent),
      workbench(bench),
      classes(bench, &heads),
      references{MethodTrial{nullptr, MapView::kSecond}, MethodTrial{nullptr, MapView::kThird},
                 MethodTrial{nullptr, MapView::kFourth}},
      parameters([this](const MethodState& state) { SetMethod(state); }),
      notes(parameters.stack()),
      configuration(bench, &trial, &heads),
      queue(bench, &trial, &heads),
      sweep(bench, &trial, &heads),
      figures(bench, &heads),
      quantise(bench, &heads) {
  trial.SetWorkbench(workbench);
  connect(&heads, &HeadStore::TraceChanged, this, [this] {
    trial.SetHead(std::nullopt);
    focus.Clear();
  });
  connect(&queue, &RunQueue::Began, &sweep, &HeadSweep::Stop);
  connect(&sweep, &HeadSweep::Began, this, [this] {
    if (trial.running()) trial.CancelRun();
    queue.StopAll();
  });
  connect(&classes, &ClassSettings::Changed, this, [this] {
    const auto& usual = classes.defaults();
    const bool changed = !std::equal(usual.begin(), usual.end(), classes.values().begin(), classes.values().end(),
                                     [](const ClassThreshold& one, double value) { return one.value == value; });
    figures.SetClassThresholds(changed ? classes.values() : std::vector<double>());
  });
  figures.SetRunsSource([this] { return runs.runs(); });
  connect(&runs, &QAbstractItemModel::modelReset, &figures, &FigureStudy::RunsChanged);
  const auto measuring_changed = [this] {
    figures.SetMeasuring(IsMeasuring());
    quantise.SetMeasuring(IsMeasuring());
    trial.SetMeasuring(IsMeasuring());
    for (MethodTrial& reference : references) reference.SetMeasuring(IsMeasuring());
  };
  connect(&queue, &RunQueue::Began, this, measuring_changed);
  connect(&queue, &RunQueue::Ended, this, measuring_changed);
  connect(&sweep, &HeadSweep::Began, this, measuring_changed);
  connect(&sweep, &HeadSweep::Ended, this, measuring_changed);
  connect(&figures, &FigureStudy::Failed, this, &WindowState::Failed);
  connect(&figures, &FigureStudy::Saved, this,
          [this](const QString& path) { Q_EMIT Noticed(tr("Figure saved to %1").arg(path)); });
  connect(&heads, &HeadStore::SelectionChanged, this, [this](analysis::HeadId head) {
    queue.StopSearch();  // it was for the head before
    history.Visit(head);
    if (trial.head() != head) trial.SetHead(head);
  });
  connect(&trial, &MethodTrial::MethodChanged, this, [this] { ++method_file_; });
  // Queued as what it is about, and so just before it.
  connect(
      &queue, &RunQueue::AimFollowed, this, [this] { parameters.ContinueStep(); }, Qt::QueuedConnection);
  // Later: a change may come from within a frame.
  connect(
      &trial, &MethodTrial::MethodChanged, this,
      [this] {
        queue.StopSearch();  // it was for the method and the target before
        parameters.Record(PresentMethod());
      },
      Qt::QueuedConnection);
  connect(&queue, &RunQueue::Failed, this, &WindowState::Failed);
  connect(&notes, &TraceNotes::TagsChanged, this,
          [this](analysis::HeadId head) { heads.SetTags(head, notes.TagsOf(head)); });
  // Who goes to a head has set nothing.
  connect(&configuration, &HeadConfiguration::HeadFollowed, this, [this] { parameters.Begin(PresentMethod()); });
  connect(&configuration, &HeadConfiguration::Failed, this, &WindowState::Failed);
  connect(&queue, &RunQueue::LeftOut, this, &WindowState::Noticed);
}

WindowState::~WindowState() {
  parameters.stack()->disconnect();  // at its end it forgets its steps, and would say so
  queue.disconnect();
  sweep.disconnect();
  figures.disconnect();
  quantise.disconnect();
}

const kernels::MethodSpec* WindowState::FindMethod(const QString& name) const {
  const auto& methods = trial.methods();
  const auto found = std::find_if(methods.begin(), methods.end(),
                                  [&](const auto& spec) { return QString::fromStdString(spec.name) == name; });
  return found != methods.end() ? &*found : nullptr;
}

MethodState WindowState::PresentMethod() const {
  const kernels::MethodSpec* const spec = trial.method();
  if (spec == nullptr) return {};
  return {QString::fromStdString(spec->name), QString::fromStdString(trial.values().ToString(*spec)), trial.target()};
}

QStringList WindowState::OfThisLength() const {
  QStringList names;
  // The dense baseline comes with every run.
  const auto measured = std::ranges::count_if(runs.runs(), std::not_fn(IsDenseRun));
  if (!runs.runs().empty()) names.append(measured == 1 ? tr("1 run") : tr("%1 runs").arg(measured));
  if (sweep.num_done() > 0)
    names.append(sweep.kind() == HeadSweep::Kind::kTune ? tr("what was tuned on its heads")
                                                        : tr("what was measured on its heads"));
  if (configuration.in_use()) names.append(tr("the configuration in use"));
  if (!quantise.outputs().empty()) names.append(tr("the quantised head"));
  return names;
}

void WindowState::SetMethod(const MethodState& state) {
  ++method_file_;
  const kernels::MethodSpec* const spec = FindMethod(state.method);
  if (spec == nullptr) {
    // A method of a file that an earlier window read: it is read again.
    const qsizetype bracket = state.method.indexOf(u'[');
    if (bracket < 0 || !state.method.endsWith(u']')) return;
    const QString kind = state.method.left(bracket);
    const QString path = state.method.sliced(bracket + 1, state.method.size() - bracket - 2);
    return ReadMethodFile(kind, path, [this, state](const QString&) {
      if (FindMethod(state.method) != nullptr) SetMethod(state);
    });
  }
  kernels::ParameterValues values(*spec);
  const std::string error = values.Parse(*spec, state.parameters.toStdString());
  if (!error.empty()) {
    Q_EMIT Failed(QString::fromStdString(error));
    return;
  }
  trial.SetTarget(state.mass_target);
  trial.SelectMethod(spec->name, values);
}

void WindowState::ReadMethodFile(const QString& kind, const QString& path,
                                 std::function<void(const QString& name)> then) {
  const auto kinds = workbench->method_files();
  const std::string given = kind.toStdString(), plain(kernels::WithoutPhase(given));
  if (std::none_of(kinds.begin(), kinds.end(), [&](const MethodFile& one) { return one.name == plain; })) return;
  const int64_t number = ++method_file_;
  workbench->ReadMethodFile(plain, path.toStdString(),
                            WhileAlive(this,
                                       [this, number, then = std::move(then)](const std::string& name) {
                                         // It is in the list from now on, and under trial unless another one has been
                                         // chosen meanwhile.
                                         trial.ReloadMethods();
                                         for (MethodTrial& reference : references) reference.ReloadMethods();
                                         if (number == method_file_) then(QString::fromStdString(name));
                                       }),
                            WhileAlive(this, [this, number](const std::string& sentence) {
                              if (number == method_file_) Q_EMIT Failed(QString::fromStdString(sentence));
                            }));
}

void WindowState::ShowRun(const analysis::MethodResult& run) {
  heads.Select(run.head);
  // Dense decode is no choice of the panel: it is what decode methods are measured beside.
  if (FindMethod(QString::fromStdString(run.method)) == nullptr) return;
  SetMethod({QString::fromStdString(run.method), QString::fromStdString(run.parameters), trial.target()});
  trial.ShowResult(run);
}

void WindowState::GoToNote(const TraceNote& note) {
  heads.Select(note.head);
  if (note.kind == TraceNote::Kind::kPlace)
    Q_EMIT PlaceWanted(note.row_begin, note.row_end, note.column_begin, note.column_end);
}

void WindowState::RunLiveAgain() {
  trial.RunLiveAgain();
  for (MethodTrial& reference : references) reference.RunLiveAgain();
}

void WindowState::StepHead(int step) {
  if (!heads.selected()) return;
  if (const auto head = heads.Neighbour(*heads.selected(), step)) heads.Select(*head);
}

}  // namespace headscope::ui
