// Measured runs of the window: of the panel's method, of every method, and of every method at equal kept mass.
#include <algorithm>

#include "main_window.h"
#include "while_alive.h"

namespace headscope::ui {
namespace {

constexpr int32_t kRepeatsOfAll = 3;

}  // namespace

bool HasBudget(const kernels::MethodSpec& method) {
  return method.phase == kernels::Phase::kPrefill &&
         std::any_of(method.parameters.begin(), method.parameters.end(),
                     [](const auto& parameter) { return parameter.role != kernels::ParameterRole::kOther; });
}

void MainWindow::BeginCanvasRun() {
  StopRunAll();
  progress_->Begin(kRunWork, [this] {
    canvas_->CancelRun();
    progress_->End(kRunWork);
  });
  ProgressReport report;
  report.stage = tr("Measuring %1").arg(canvas_->method()).toStdString();
  report.fraction = 0;  // known: an unknown one is an animation, whose frames the run would be measured beside
  progress_->Update(kRunWork, report);
  run_watch_.start();
}

void MainWindow::RunAllMethods() {
  if (!store_.selected()) return;
  StopSearch();
  StopRunAll();
  canvas_->CancelRun();
  // The dense baseline comes with every run.
  for (const kernels::MethodSpec& method : canvas_->methods()) {
    if (!method.baseline) pending_runs_.push_back({*store_.selected(), method.name, canvas_->ValuesOf(method)});
  }
  BeginRuns();
}

void MainWindow::BeginRuns() {
  num_runs_ = pending_runs_.size();
  since_runs_began_.start();
  progress_->Begin(kRunAllWork, [this] {
    workbench_->CancelRun();
    StopRunAll();
  });
  RunNextMethod();
}

void MainWindow::RunNextMethod() {
  if (pending_runs_.empty()) {
    progress_->End(kRunAllWork);
    return;
  }
  const PendingRun run = pending_runs_.front();
  pending_runs_.pop_front();
  const size_t done = num_runs_ - pending_runs_.size() - 1;
  workbench_->RunMethod(run.head, run.method, run.values, kRepeatsOfAll,
                        WhileAlive(this,
                                   [this](const analysis::MethodResult& result) {
                                     AddRun(result);
                                     RunNextMethod();
                                   }),
                        WhileAlive(this,
                                   [this](const std::string& sentence) {
                                     notice_->ShowError(QString::fromStdString(sentence));
                                     RunNextMethod();
                                   }),
                        WhileAlive(this, [this, done](ProgressReport report) {
                          const auto all = static_cast<double>(num_runs_), finished = static_cast<double>(done);
                          report.stage += tr(" (%1 of %2)").arg(done + 1).arg(num_runs_).toStdString();
                          report.fraction = finished / all;
                          if (done > 0) {
                            const double seconds = static_cast<double>(since_runs_began_.elapsed()) / 1000;
                            report.rate = finished / seconds;
                            report.unit = tr("methods").toStdString();
                            report.remaining_s = (all - finished) * seconds / finished;
                          }
                          progress_->Update(kRunAllWork, report);
                        }));
}

void MainWindow::StopRunAll() {
  pending_runs_.clear();
  progress_->End(kRunAllWork);
}

void MainWindow::MeetTarget() {
  BeginSearch();
  const QString method = canvas_->method();
  Search(
      method.toStdString(), canvas_->method_values(), {},
      [this, method](const kernels::ParameterValues& values) {
        StopSearch();
        canvas_->SetMethod(method, values);  // one step back undoes it
      },
      [this](const std::string& sentence) {
        StopSearch();
        notice_->ShowError(QString::fromStdString(sentence));
      });
}

void MainWindow::RunAllAtTarget() {
  if (!store_.selected()) return;
  StopRunAll();
  canvas_->CancelRun();
  BeginSearch();
  // All searches come before the first run: what is measured has the machine to itself, and no longer depends on what
  // the window shows.
  for (const kernels::MethodSpec& method : canvas_->methods()) {
    if (HasBudget(method)) pending_searches_.push_back(method);
  }
  num_searches_ = pending_searches_.size();
  SearchNextMethod();
}

void MainWindow::SearchNextMethod() {
  if (pending_searches_.empty()) {
    const QString unreached = unreached_.join(u' ');
    pending_runs_.swap(found_runs_);
    StopSearch();
    if (!unreached.isEmpty()) notice_->ShowError(unreached);
    BeginRuns();
    return;
  }
  const kernels::MethodSpec method = pending_searches_.front();
  pending_searches_.pop_front();
  const QString place = tr(" (%1 of %2)").arg(num_searches_ - pending_searches_.size()).arg(num_searches_);
  Search(
      method.name, canvas_->ValuesOf(method), place,
      [this, head = canvas_->head(), name = method.name](const kernels::ParameterValues& values) {
        found_runs_.push_back({head, name, values});
        SearchNextMethod();
      },
      [this](const std::string& sentence) {
        unreached_.append(QString::fromStdString(sentence));
        SearchNextMethod();
      });
}

void MainWindow::Search(const std::string& method, const kernels::ParameterValues& values, const QString& place,
                        Reply<kernels::ParameterValues> done, ErrorReply failed) {
  workbench_->MeetTarget(canvas_->head(), method, values, canvas_->mass_target(), WhileAlive(this, std::move(done)),
                         WhileAlive(this, std::move(failed)), WhileAlive(this, [this, place](ProgressReport report) {
                           report.stage += place.toStdString();
                           progress_->Update(kSearchWork, report);
                         }));
}

void MainWindow::BeginSearch() {
  StopSearch();
  searching_ = true;
  mass_->SetSearching(true);
  progress_->Begin(kSearchWork, [this] { StopSearch(); });
}

void MainWindow::StopSearch() {
  if (!searching_) return;
  searching_ = false;
  pending_searches_.clear();
  found_runs_.clear();
  unreached_.clear();
  workbench_->CancelSearch();
  mass_->SetSearching(false);
  progress_->End(kSearchWork);
}

void MainWindow::ShowRun(const analysis::MethodResult& run) {
  store_.Select(run.head);
  // Dense decode is no choice of the panel: it is what decode methods are measured beside.
  if (PanelMethod(QString::fromStdString(run.method)) == nullptr) return;
  SetMethodState({QString::fromStdString(run.method), QString::fromStdString(run.parameters), canvas_->mass_target()});
  canvas_->ShowResult(run);
}

}  // namespace headscope::ui
