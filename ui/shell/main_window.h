// The window: matrix and tables around the canvas, and every command behind them.
#pragma once

#include <QComboBox>
#include <QElapsedTimer>
#include <QLabel>
#include <QMainWindow>
#include <QTimer>
#include <deque>
#include <optional>

#include "canvas_widget.h"
#include "capture_dialog.h"
#include "command_palette.h"
#include "commands.h"
#include "find_bar.h"
#include "head_history.h"
#include "head_matrix.h"
#include "head_store.h"
#include "head_table.h"
#include "mass_pane.h"
#include "notice_bar.h"
#include "parameter_history.h"
#include "progress_strip.h"
#include "runs_table.h"
#include "screen_calm.h"
#include "session.h"
#include "state_writer.h"
#include "theme.h"
#include "trace_info.h"
#include "trace_keeper.h"

namespace headscope::ui {

// A prefill method with a parameter that "Meet target" can search.
bool HasBudget(const kernels::MethodSpec& method);

class MainWindow : public QMainWindow {
  Q_OBJECT

 public:
  // `workbench` outlives the window. The session is read from and kept in `session_path`.
  MainWindow(Workbench* workbench, const QString& session_path);
  ~MainWindow() override;

  // What a start shows: `open_path` when it is not empty, else the last session's trace, else the shipped one.
  void OpenAtStart(const QString& open_path, const QString& shipped_trace);
  // A trace, or a model folder (which opens the capture dialog on it). A trace takes the place of the one on show and
  // of its runs: when those are in no file, the user is asked first.
  void OpenPath(const QString& path);
  // Drops the runs without a question: for a window that nobody sits at.
  void ForgetRuns();

  HeadCanvas* canvas() const { return canvas_; }
  HeadStore* store() { return &store_; }
  const CommandSet& commands() const { return commands_; }
  Theme* theme() { return &theme_; }

 protected:
  void closeEvent(QCloseEvent* event) override;
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;  // what no pane wanted
  void changeEvent(QEvent* event) override;
  void moveEvent(QMoveEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;  // of the docks
  void showEvent(QShowEvent* event) override;

 private:
  // main_window.cpp: what the window is made of.
  void BuildCentre();
  void BuildDocks();
  void BuildToolBars();
  void BuildStatusBar();
  void ResetLayout();
  void SizeDocks();
  void FillRecentMenu();

  // main_window_state.cpp: what is kept from start to start.
  void RestoreSession();
  void KeepState();     // from now on
  void StateChanged();  // it is written soon
  void SaveSession(bool at_the_end = false);
  void FinishWriting();
  void RestoreTrace(const TraceKeeper::Kept& kept, const QString& path, bool is_first);
  std::optional<analysis::HeadId> HeadToShow(const TraceKeeper::Kept& kept, const QString& path) const;
  void AddRun(const analysis::MethodResult& run);
  void ClearRuns();
  void LoadRuns();

  // main_window_commands.cpp: what commands, widgets and the canvas set going.
  void BindCommands();
  void BuildCanvasActions();  // what the canvas offers beyond the menus: only the palette has it
  void ConnectCanvas();
  void SyncViewCommands();
  void SyncMetric();
  void ShowHead(analysis::HeadId head);
  void Step(int step);
  void ShowCursor(qint64 row, qint64 column, const Exact& exact);
  void SayWhatIsLost(qint64 row, double kept_mass, const std::vector<LostKey>& lost);
  void SetMethodState(const MethodState& state);
  MethodState PresentMethodState() const;
  const kernels::MethodSpec* PanelMethod(const QString& name) const;  // of either phase; null when there is none
  void OpenPalette();
  void ShowKeys();
  void ShowAbout();
  void UpdateCommands();

  // main_window_work.cpp: work in the background.
  void OpenTrace(const QString& path);
  void TraceOpened(const TraceSummary& trace);
  void RequestStatistics();
  void OpenCapture(const QString& model_dir);
  void ConnectCapture();
  void TraceCaptured(const CapturedTrace& trace);
  bool MayDropRuns(const QString& consequence);
  void ExportCanvas();
  // False when the user thought better of it or the file could not be written, which is then said.
  bool ExportTable(const QString& title, const QString& name,
                   const std::function<std::string(const std::string&)>& write);
  bool ExportRuns();
  // Of which trace, and then what: so that files of several traces and heads lie side by side.
  QString ExportName(const QString& what) const;

  // main_window_runs.cpp: measured runs, and searches for what to measure.
  void BeginCanvasRun();
  void RunAllMethods();   // with the panel's parameters of each
  void RunAllAtTarget();  // prefill methods, each with the cheapest parameters that keep the target's mass
  void BeginRuns();       // of pending_runs_
  void RunNextMethod();
  void StopRunAll();
  void MeetTarget();
  void BeginSearch();
  void SearchNextMethod();
  // `place` is added to what its progress says.
  void Search(const std::string& method, const kernels::ParameterValues& values, const QString& place,
              Reply<kernels::ParameterValues> done, ErrorReply failed);
  void StopSearch();
  void ShowRun(const analysis::MethodResult& run);  // its head, its method and its parameters

  Workbench* const workbench_;
  const QString session_path_;
  Session session_;
  Session session_at_start_;  // before a trace was opened
  Session written_;           // what the file was told last
  QString said_of_session_;   // why it could not be
  StateWriter writer_;
  TraceKeeper keeper_;
  QTimer save_timer_;
  Theme theme_;
  HeadStore store_;
  HeadHistory history_;
  ParameterHistory parameters_;
  CommandSet commands_;

  HeadCanvas* canvas_ = nullptr;
  HeadMatrix* matrix_ = nullptr;
  HeadTable* table_ = nullptr;
  RunsTable* runs_ = nullptr;
  MassPane* mass_ = nullptr;
  NoticeBar* notice_ = nullptr;
  FindBar* find_bar_ = nullptr;
  ProgressStrip* progress_ = nullptr;
  ScreenCalm* calm_ = nullptr;
  CommandPalette* palette_ = nullptr;
  CaptureDialog* capture_ = nullptr;
  QComboBox *metric_box_ = nullptr, *color_box_ = nullptr;
  QLabel *cursor_label_ = nullptr, *head_label_ = nullptr;
  QDockWidget *matrix_dock_ = nullptr, *table_dock_ = nullptr, *info_dock_ = nullptr, *runs_dock_ = nullptr,
              *mass_dock_ = nullptr;
  QMenu* recent_menu_ = nullptr;
  QList<QAction*> metric_actions_, color_actions_, canvas_actions_;
  QTimer run_watch_;  // only while the canvas measures: its panel's cancel button tells nobody

  struct PendingRun {
    analysis::HeadId head;
    std::string method;
    kernels::ParameterValues values;
  };
  std::deque<PendingRun> pending_runs_;
  std::deque<kernels::MethodSpec> pending_searches_;
  std::deque<PendingRun> found_runs_;  // of the searches so far
  QStringList unreached_;              // why the other searches found nothing
  QString said_at_start_;              // stays over the trace that a start shows
  bool has_layout_ = false;            // the session's, or the first one at its final size
  bool searching_ = false;
  size_t num_runs_ = 0, num_searches_ = 0;
  QElapsedTimer since_runs_began_;

  // Names of work in the progress strip.
  inline static const QString kOpenWork = QStringLiteral("open"), kStatisticsWork = QStringLiteral("statistics"),
                              kRunWork = QStringLiteral("run"), kRunAllWork = QStringLiteral("run-all"),
                              kSearchWork = QStringLiteral("search"), kExportWork = QStringLiteral("export"),
                              kCaptureWork = QStringLiteral("capture");
};

}  // namespace headscope::ui
