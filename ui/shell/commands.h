// SPDX-License-Identifier: Apache-2.0
// Everything that the window can do, as one table: menus, toolbar, shortcuts, command palette and key list are all made
// from it.
#pragma once

#include <QAction>
#include <QList>
#include <QMenuBar>
#include <QObject>
#include <QToolBar>
#include <array>
#include <functional>
#include <span>

namespace headscope::ui {

enum class Command {
  kOpen,
  kCapture,
  kExportCanvas,
  kExportWidth,
  kExportHeads,
  kExportRuns,
  kExportTuning,
  kExportMask,
  kExportReport,
  kExportFigure,
  kLoadRuns,
  kQuit,
  kUndo,
  kRedo,
  kCopyHeadsCommand,
  kCopyDifferenceCommand,
  kCopyMap,
  kCopyRuns,
  kCopyRunCommand,
  kCopyViewCommand,
  kCopyMassCommand,
  kCopyTradeOffCommand,
  kCopyTuneCommand,
  kCopyConfigurationCommand,
  kCopyFigureCommand,
  kCopyQuantiseCommand,
  kClearRuns,
  kPalette,
  kSettings,
  kBack,
  kForward,
  kPreviousHead,
  kNextHead,
  kLikeHeads,
  kGoTo,
  kFindToken,
  kBookmark,
  kFit,
  kZoomIn,
  kZoomOut,
  kLogScale,
  kMeanReduction,
  kOverlay,
  kLost,
  kSplit,
  kSplitFour,
  kSplitFollows,
  kExchangeMaps,
  kMapDifference,
  kCompareTrace,
  kHeadDifferences,
  kClasses,
  kPanel,
  kThemeSystem,
  kThemeLight,
  kThemeDark,
  kFullScreen,
  kResetLayout,
  kSaveLayout,
  kRun,
  kRunAll,
  kRunAllAtTarget,
  kMeetTarget,
  kSweepMeasure,
  kSweepTune,
  kTuneDialog,
  kSweepResume,
  kMethodFile,
  kConfiguration,
  kUseTuned,
  kCancelWork,
  kChooseMethod,
  kPreviousMethod,
  kNextMethod,
  kWelcome,
  kManual,
  kMethodHelp,
  kKeys,
  kAbout,
};
inline constexpr size_t kNumCommands = static_cast<size_t>(Command::kAbout) + 1;

enum class CommandMenu { kFile, kEdit, kGo, kView, kMethods, kHelp };

struct CommandSpec {
  Command command;
  const char* id;  // stable name, for tests and settings
  CommandMenu menu;
  const char* text;
  const char* shortcut;  // as QKeySequence reads it, several apart by "; "; empty: none
  const char* help;      // one line: status tip, tooltip, palette
  bool checkable = false;
  bool begins_section = false;  // a separator before it
  const char* toolbar = "";     // short text on the toolbar; empty: not there
};
std::span<const CommandSpec> CommandTable();

// "Ctrl+R or F5"; empty without one.
QString ShortcutText(const QAction& action);

// "file", "view"
QString MenuName(CommandMenu menu);

class CommandSet : public QObject {
  Q_OBJECT

 public:
  explicit CommandSet(QWidget* window);

  QAction* operator[](Command command) const { return actions_[static_cast<size_t>(command)]; }
  // Calls `run` when the command is chosen; checkable ones pass their new state.
  void Bind(Command command, std::function<void(bool)> run);
  QMenu* menu(CommandMenu menu) const { return menus_[static_cast<size_t>(menu)]; }
  void FillMenuBar(QMenuBar* bar);
  // The commands of one menu that have a toolbar text, in the table's order.
  void FillToolBar(QToolBar* bar, CommandMenu menu);
  QList<QAction*> all() const { return QList<QAction*>(actions_.begin(), actions_.end()); }

 private:
  std::array<QAction*, kNumCommands> actions_{};
  std::array<QMenu*, 6> menus_{};
};

}  // namespace headscope::ui
