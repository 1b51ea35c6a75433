// SPDX-License-Identifier: Apache-2.0
// The window: matrix and tables around the canvas, and every command behind them.
#pragma once

#include <QComboBox>
#include <QDeadlineTimer>
#include <QLabel>
#include <QMainWindow>
#include <QSplitter>
#include <QTimer>
#include <memory>
#include <optional>
#include <vector>

#include "allowed.h"
#include "canvas_widget.h"
#include "capture_dialog.h"
#include "command_palette.h"
#include "commands.h"
#include "find_bar.h"
#include "notice_bar.h"
#include "pane_shares.h"
#include "panes.h"
#include "progress_strip.h"
#include "screen_calm.h"
#include "session.h"
#include "setting_history.h"
#include "settings_dialog.h"
#include "state_writer.h"
#include "theme.h"
#include "trace_keeper.h"
#include "trace_watch.h"
#include "tuning_keeper.h"
#include "welcome_page.h"
#include "window_state.h"

namespace headscope::ui {

class ClassDialog;
class ManualDialog;
class TuneDialog;

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
  // Drops runs and tunings without a question: for a window that nobody sits at.
  void ForgetRuns();

  HeadCanvas* canvas() const { return canvas_; }
  // Null while the map is not split.
  HeadCanvas* second_canvas() const { return others_.empty() ? nullptr : others_.front(); }
  WindowState* state() { return &state_; }
  HeadStore* store() { return &state_.heads; }
  const CommandSet& commands() const { return commands_; }
  // A command, or what goes to a pane; null when there is none of that name.
  QAction* ActionNamed(const QString& name) const;
  Theme* theme() { return &theme_; }

 protected:
  void closeEvent(QCloseEvent* event) override;
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;  // what no pane wanted
  void changeEvent(QEvent* event) override;
  void childEvent(QChildEvent* event) override;
  void moveEvent(QMoveEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  bool event(QEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;  // of the docks and their bars of tabs
  void showEvent(QShowEvent* event) override;

 private:
  // main_window.cpp: what the window is made of.
  void BuildCentre();
  void BuildDocks();
  void BuildToolBars();
  void BuildStatusBar();
  void FillRecentMenu();
  void AddPaneActions(QMenu* menu);
  static bool FocusPane(QDockWidget* dock);  // false: nothing in it takes keys
  void WalkPanes(bool forward);              // among the map and the panes in sight

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
  void RestoreRuns(const std::vector<analysis::MethodResult>& runs);  // those that have not been measured since
  void LoadRuns();

  // main_window_commands.cpp: what commands, widgets and the canvas set going.
  void BindCommands();
  void BuildCanvasActions();  // what the canvas offers beyond the menus: only the palette has it
  void ConnectCanvas();
  void ConnectQueue();
  void SyncViewCommands();
  void SyncMetric();
  void ShowHead(analysis::HeadId head);
  void ShowCursor(const TraceSummary& trace, qint64 row, qint64 column, const Exact& exact);
  void SayWhatIsLost(qint64 row, double kept_mass, const std::vector<LostKey>& lost);
  void OpenPalette();
  void ShowKeys();
  void ShowAbout();
  void ShowSettings();
  void OpenClasses();
  ManualDialog* OpenManual();
  void CopyCaptureCommand(CaptureSettings settings);
  void CopyTuneCommand(const TuneSettings& settings);
  void UpdateCommands();

  // main_window_split.cpp: two or four maps side by side.
  void BindSplit();
  void Split(size_t num_others);
  void NameMaps();  // by their heads, and traces where these differ
  void AddMap();
  void LinkMap(HeadCanvas* map);
  void StepHead(HeadCanvas* map, int step);  // of that map alone
  QList<HeadCanvas*> Maps() const;           // the first one first
  HeadCanvas* MapWithFocus() const;          // the first one where none has it
  void ShowReference(HeadCanvas* map, analysis::HeadId head);
  void UpdateComparison();
  void ExchangeMaps();
  bool ExchangeWith(size_t number);  // among the others; false: they cannot be swapped
  void ShareNotice();                // what it takes of the first map's height
  void ShowTheSamePart();
  void FollowHead();  // the other maps, if they are to
  void OpenOtherTrace(const QString& path);
  void ComparisonOpened(const TraceSummary& trace);
  void StopOpeningOther();
  // What the second map shows: its head, method and values; empty: there is none.
  QJsonObject SecondMap() const;
  void RestoreSecondMap(const QJsonObject& shown);
  void LetWaitForScreen(Workbench* workbench);  // what it measures, for what the window draws
  void OtherTraceOpened(const TraceSummary& trace);
  QString OtherTracePath() const;  // absolute; empty: none is open
  void RequestOtherStatistics();
  void CloseOtherTrace();

  // main_window_map_menu.cpp: what is done with a score where it stands; row -1: there is none.
  void ShowMapMenu(HeadCanvas* map, QPoint global, int64_t row, int64_t column);
  bool IsOfOpenTrace(const HeadCanvas* map) const;

  // main_window_heads.cpp: what is done with heads where they stand.
  void ShowHeadsMenu(const std::vector<analysis::HeadId>& heads, QPoint global, const QList<QAction*>& more);
  void ShowBeside(analysis::HeadId head);  // in the second map, which is made if there is none
  void AskForTag(const std::vector<analysis::HeadId>& heads);

  // main_window_notes.cpp: bookmarks, tags and what the window has said.
  void BindNotes();
  void AddBookmark();
  void FillBookmarkMenu();
  void ShowNotesOnMaps();
  void GoToNote(const QString& id);

  // main_window_layouts.cpp: named layouts, and undo of what a person sets in the view.
  void BindLayouts();
  void FillLayoutMenus();
  void SetLayouts(const QJsonObject& layouts);
  void ChangeLayouts(const QString& what, const QJsonObject& after);  // as a step that can be taken back
  void SaveLayout(const QString& name);
  void RestoreLayout(const QString& name);
  void DeleteLayout(const QString& name);
  void ResetPanes();
  // Panes have been put elsewhere: a step that can be taken back. `before`: where they were.
  // `undo` and `redo` come with the step; empty: nothing does.
  void PushPlaces(const QString& what, const QByteArray& before, const std::function<void()>& undo = {},
                  const std::function<void()>& redo = {});
  void PanelIsPlaced();  // as a part of a step
  QJsonObject ViewSettings() const;
  void ApplyViewSettings(const QJsonObject& settings);
  static QString NameOfChange(const QStringList& members);  // of the settings, behind "Undo"
  // All that `change` sets is one step.
  void ChangeView(const QString& what, const std::function<void()>& change);
  void SetTheme(const QString& name);
  void BindUndo();
  void BeginUndo();  // here: nothing before it is taken back
  QJsonObject BrushState() const;

  // main_window_reach.cpp: what reaches beyond one head or out of the window.
  void BindReach();
  void ConnectSweep();
  QString DescribeHeads() const;  // for the status bar
  void UpdateReach();
  bool ExportTuning();  // false: the user thought better of it, or it could not be written
  void ConnectFigures();
  void ConnectQuantise();
  void ExportFigure();
  void FillPictureMenu();  // of the panes that offer one
  void ExportPicture(const PaneOffers::Picture& picture);
  void CopyText(const QString& text);
  std::optional<analysis::MethodResult> RunToCopy() const;     // the selected one, else the last
  std::vector<analysis::MethodResult> RunsOfTradeOff() const;  // without dense attention, which is beside each
  QString TracePath() const;                                   // absolute
  // Of two traces, or of what two methods keep of a head; empty: neither is compared.
  QString DifferenceCommand() const;
  MapDrawing DrawingOfMap() const;  // the part in view, as the first map shows it
  QList<PaletteEntry> PaletteEntries();

  void ShowWelcome();

  // main_window_tuning.cpp: what a tuning has found, beyond its window.
  void ConnectTunings();
  void OpenTuneDialog();
  void ShowSweepsResults();
  void OfferToResume();
  void OfferToExport();
  void OfferTuning(const TraceKeeper::Notes& kept);  // of the trace that is opened
  // May ask, of what a tuning has found and no configuration's file has.
  bool MayDropTuning(const QString& consequence);

  // main_window_configuration.cpp: methods from files, and heads that have a method of their own.
  void BindConfiguration();
  void UpdateConfiguration();
  // What heads have of their own, and what the head on show had then: for a step that can be taken back.
  struct KnownConfiguration {
    QString title, path;
    std::vector<HeadSetting> settings;
    std::optional<analysis::HeadId> head;  // on show
    MethodState method;
  };
  KnownConfiguration PresentConfiguration() const;
  void PushConfiguration();  // it has changed, which is a step unless it is applied or goes with its trace
  void ApplyConfiguration(const KnownConfiguration& configuration);
  void OpenMethodFile();
  void OpenConfiguration();

  // main_window_export.cpp: pictures, masks and pages of the open trace; the examples.
  void BindExport();
  void CopyMap();
  void ExportMask();
  void ExportReport();
  void UpdateExport();
  void OpenExample(const Example& example);
  void MakeExample(const Example& example);
  // Shows what the example is about, whose trace is being opened.
  void OpenExampleTrace(const Example& example);

  // main_window_growth.cpp: a trace that is still written.
  void ConnectGrowth();
  void ReadAgainOrOffer(const QString& path, const QString& sentence);  // which has a place for the file's name
  // Whether the open trace may be read again without a question: nothing goes, nobody waits for work on it or has a
  // dialog open over it, and no other is about to take its place.
  bool MayReadAgain() const;
  void ReadAgain(const QString& path);  // where it is looked at; that and its notes stay when it has grown
  void AskToReadAgain(const QString& path);
  void ShowRecording();                       // in the status bar
  void CaptureReadable(const QString& path);  // by this window's own capture
  bool ShowsOwnCapture() const;               // what that has recorded so far
  void UpdateWriter();                        // whether it is this window

  // main_window_work.cpp: work in the background.
  // `again`: the trace on show, of which there is more by now.
  void OpenTrace(const QString& path, bool again = false);
  void TraceOpened(TraceSummary opened, bool again);
  void RequestStatistics();
  void ChooseFirstHead();
  void OpenCapture(const QString& model_dir);
  void ConnectCapture();
  void TraceCaptured(const CapturedTrace& trace);
  bool MayDropRuns(const QString& consequence);
  void ExportCanvas();
  void ExportDrawing(const QString& path);  // by the workbench
  void ChooseExportWidth();
  double PixelsPerExported() const;  // of a file, to one of the canvas' own
  // False when the user thought better of it or the file could not be written, which is then said.
  bool ExportTable(const QString& title, const QString& name,
                   const std::function<std::string(const std::string&)>& write);
  bool ExportRuns();
  // Of which trace, and then what: so that files of several traces and heads lie side by side.
  QString ExportName(const QString& what) const;

  Workbench* const workbench_;
  const QString session_path_;
  Session session_;
  Session session_at_start_;  // before a trace was opened
  Session written_;           // what the file was told last
  QString said_of_session_;   // why it could not be
  StateWriter writer_;
  TraceKeeper keeper_;
  TraceWatch watch_{this};
  QString recording_path_;  // of this window's capture, as far as it is readable; empty: none
  int readable_offer_ = 0;  // the notice that offers it
  QTimer save_timer_;
  Theme theme_;
  WindowState state_;
  TuningKeeper tunings_{&state_, &keeper_};
  SettingHistory settings_history_;
  QJsonObject known_place_, known_brush_;  // of the first map; empty: undo has not begun
  KnownConfiguration known_configuration_;
  bool configuration_is_no_step_ = false;
  bool changing_view_ = false;  // in several parts that are one step
  CommandSet commands_;

  HeadCanvas* canvas_ = nullptr;
  std::vector<HeadCanvas*> others_;  // beside it: none, one or three
  QSplitter *maps_ = nullptr, *upper_maps_ = nullptr, *lower_maps_ = nullptr;
  std::shared_ptr<Workbench> other_workbench_, opening_other_;  // of another trace in the second map
  // A comparison that undo or redo brings back, while its trace is read: for undo it is there, and what it is shown
  // with is as it was.
  struct ComingComparison {
    QString path;  // absolute
    bool differences = false;
    QJsonObject second_map;  // as SecondMap says
  };
  std::optional<ComingComparison> coming_;
  bool linking_ = false;  // one map follows the other
  NoticeBar* notice_ = nullptr;
  FindBar* find_bar_ = nullptr;
  WelcomePage* welcome_ = nullptr;
  ProgressStrip* progress_ = nullptr;
  ScreenCalm* calm_ = nullptr;
  CommandPalette* palette_ = nullptr;
  CaptureDialog* capture_ = nullptr;
  SettingsDialog* settings_ = nullptr;
  ManualDialog* manual_ = nullptr;
  TuneDialog* tune_ = nullptr;
  ClassDialog* classes_ = nullptr;
  QComboBox *metric_box_ = nullptr, *color_box_ = nullptr;
  QLabel *cursor_label_ = nullptr, *head_label_ = nullptr, *recording_label_ = nullptr;
  QList<QDockWidget*> docks_;  // in the order of pane_list.h
  QMenu *recent_menu_ = nullptr, *bookmark_menu_ = nullptr, *layout_menu_ = nullptr, *delete_layout_menu_ = nullptr,
        *picture_menu_ = nullptr;
  PaneShares* shares_ = nullptr;
  QList<QAction*> metric_actions_, color_actions_, canvas_actions_, pane_actions_, bookmark_actions_, layout_actions_,
      figure_actions_, picture_actions_;
  QString said_at_start_;  // stays over the trace that a start shows
  // At a start, until the statistics are there or a person has chosen one. Of a trace that was named, no longer than a
  // moment: a head that changes under somebody who looks at it is worse than the first one.
  bool chooses_head_ = false;
  bool chooses_method_ = false;             // with the head, at the first start of all
  std::optional<Example> opening_example_;  // whose head is chosen by its metric
  QDeadlineTimer chooses_until_{QDeadlineTimer::Forever};
  bool has_layout_ = false;  // the session's, or the first one at its final size

  // Part of a saved layout: raise it when docks or toolbars change, so that an older one is not applied.
  static constexpr int kLayoutVersion = 5;

  // Names of work in the progress strip.
  inline static const QString kOpenWork = QStringLiteral("open"), kStatisticsWork = QStringLiteral("statistics"),
                              kOtherStatisticsWork = QStringLiteral("other statistics"),
                              kExportWork = QStringLiteral("export"), kCaptureWork = QStringLiteral("capture"),
                              kSweepWork = QStringLiteral("sweep"), kFigureWork = QStringLiteral("figure"),
                              kQuantiseWork = QStringLiteral("quantise"), kExampleWork = QStringLiteral("example");
};

}  // namespace headscope::ui
