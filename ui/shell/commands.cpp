// SPDX-License-Identifier: Apache-2.0
#include "commands.h"

#include <QActionGroup>
#include <QKeySequence>
#include <QMenu>

namespace headscope::ui {
namespace {

constexpr CommandSpec kTable[] = {
    {Command::kOpen, "open", CommandMenu::kFile, "&Open trace…", "Ctrl+O", "Open a captured trace (.h5)", false, false,
     "Open"},
    {Command::kCapture, "capture", CommandMenu::kFile, "&Capture…", "Ctrl+N",
     "Run a model on a prompt and record its heads to a trace", false, false, "Capture"},
    {Command::kExportCanvas, "export-canvas", CommandMenu::kFile, "Export &map…", "Ctrl+Shift+E",
     "Save the map as .png, .svg or .pdf", false, true},
    {Command::kExportWidth, "export-width", CommandMenu::kFile, "&Width of exported pictures…", "",
     "Width in pixels of the map, and of a pane's picture, as .png"},
    {Command::kExportHeads, "export-heads", CommandMenu::kFile, "Export &heads table…", "",
     "Save every head's statistics as .csv, .json or .h5"},
    {Command::kExportRuns, "export-runs", CommandMenu::kFile, "Export &runs table…", "Ctrl+E",
     "Save the measured runs as .csv, .json or .h5"},
    {Command::kExportTuning, "export-tuning", CommandMenu::kFile, "Export conf&iguration…", "",
     "Save the parameters found by Tune all heads, for this window and the command line (.json or .csv)"},
    {Command::kExportMask, "export-mask", CommandMenu::kFile, "Export mas&k…", "",
     "Save which keys the method keeps on this head as .h5, which runs as a method on another trace, or .json"},
    {Command::kExportReport, "export-report", CommandMenu::kFile, "Export re&port…", "",
     "Save the heads, their statistics and the runs as one page (.html) with pictures"},
    {Command::kExportFigure, "export-figure", CommandMenu::kFile, "Export fi&gure…", "",
     "Save the figure in the Figures pane as .svg, .pdf or .png, or its numbers as .json or .csv"},
    {Command::kLoadRuns, "load-runs", CommandMenu::kFile, "&Load runs…", "",
     "Add runs from a .json or .csv file written by Export runs or on the command line"},
    {Command::kQuit, "quit", CommandMenu::kFile, "&Quit", "Ctrl+Q", "Quit headscope; the window reopens as you left it",
     false, true},
    {Command::kUndo, "undo", CommandMenu::kEdit, "&Undo", "Ctrl+Z", "Undo the last change to a setting or a note"},
    {Command::kRedo, "redo", CommandMenu::kEdit, "&Redo", "Ctrl+Shift+Z", "Redo the change that was undone last"},
    {Command::kCopyHeadsCommand, "copy-heads-command", CommandMenu::kEdit, "Copy &heads as command line", "",
     "Copy the command that computes the heads' statistics and classes in a terminal", false, true},
    {Command::kCopyDifferenceCommand, "copy-difference-command", CommandMenu::kEdit, "Copy &difference as command line",
     "", "Copy the command that compares the two traces, or what the two maps' methods keep, in a terminal"},
    {Command::kCopyMap, "copy-map", CommandMenu::kEdit, "Copy &map as picture", "Ctrl+Alt+P",
     "Copy the map to the clipboard, as Export map draws it"},
    {Command::kCopyRuns, "copy-runs", CommandMenu::kEdit, "&Copy runs", "Ctrl+Shift+C",
     "Copy the selected runs, or all of them, as tab-separated text"},
    {Command::kCopyRunCommand, "copy-run-command", CommandMenu::kEdit, "Copy run as command &line", "",
     "Copy the command that measures the selected run, or the last one, in a terminal"},
    {Command::kCopyViewCommand, "copy-view-command", CommandMenu::kEdit, "Copy &view as command line", "Ctrl+Alt+C",
     "Copy the command that draws this part of the map in a terminal"},
    {Command::kCopyMassCommand, "copy-mass-command", CommandMenu::kEdit, "Copy &kept mass as command line", "",
     "Copy the command that writes the mass that each query of the open head keeps, as Kept mass counts them"},
    {Command::kCopyTradeOffCommand, "copy-trade-off-command", CommandMenu::kEdit, "Copy tr&ade-off as command line", "",
     "Copy the command that measures all runs of the open head, as Trade-off shows them, in a terminal"},
    {Command::kCopyTuneCommand, "copy-tune-command", CommandMenu::kEdit, "Copy &tuning as command line", "",
     "Copy the command that tunes the method at the target on every head"},
    {Command::kCopyConfigurationCommand, "copy-configuration-command", CommandMenu::kEdit,
     "Copy c&onfiguration as command line", "",
     "Copy the command that measures each head with its own method from the configuration in a terminal"},
    {Command::kCopyFigureCommand, "copy-figure-command", CommandMenu::kEdit, "Copy &figure as command line", "",
     "Copy the command that draws the figure in the Figures pane in a terminal"},
    {Command::kCopyQuantiseCommand, "copy-quantise-command", CommandMenu::kEdit, "Copy &quantisation as command line",
     "", "Copy the command that quantises the open head as the Quantisation pane does in a terminal"},
    {Command::kClearRuns, "clear-runs", CommandMenu::kEdit, "Cl&ear runs", "",
     "Delete this trace's runs, also from its file"},
    {Command::kPalette, "palette", CommandMenu::kEdit, "Command &palette…", "Ctrl+Shift+P",
     "Find any command by a few letters of its name", false, true},
    {Command::kSettings, "settings", CommandMenu::kEdit, "&Settings…", "Ctrl+,", "How much memory the caches take"},
    {Command::kBack, "back", CommandMenu::kGo, "&Back", "Alt+Left", "Go back to the previously viewed head", false,
     false, "←"},
    {Command::kForward, "forward", CommandMenu::kGo, "&Forward", "Alt+Right", "Go forward to the head viewed next",
     false, false, "→"},
    {Command::kPreviousHead, "previous-head", CommandMenu::kGo, "&Previous head", ",",
     "The head before this one, by layer and number", false, true},
    {Command::kNextHead, "next-head", CommandMenu::kGo, "&Next head", ".",
     "The head after this one, by layer and number"},
    {Command::kLikeHeads, "like-heads", CommandMenu::kGo, "Heads &like this one", "Ctrl+Shift+K",
     "Show only the heads whose columns and slashes resemble the open head's"},
    {Command::kGoTo, "go-to", CommandMenu::kGo, "&Go to row, column…", "Ctrl+G", "Go to a score by query and key",
     false, true},
    {Command::kFindToken, "find-token", CommandMenu::kGo, "Find &token text…", "Ctrl+F", "Find text in the prompt"},
    {Command::kBookmark, "bookmark", CommandMenu::kGo, "Bookmar&k this view", "Ctrl+B",
     "Bookmark the visible part of the map, with a note; Ctrl+1 to Ctrl+9 go to the first nine", false, true},
    {Command::kFit, "fit", CommandMenu::kView, "&Fit the whole map", "F", "Show every row and column", false, false,
     "Fit"},
    {Command::kZoomIn, "zoom-in", CommandMenu::kView, "Zoom &in",
     "Ctrl++; Ctrl+=", "Zoom in around the centre of the map"},
    {Command::kZoomOut, "zoom-out", CommandMenu::kView, "Zoom &out", "Ctrl+-", "Zoom out around the centre of the map"},
    {Command::kLogScale, "log-scale", CommandMenu::kView, "&Logarithmic scale", "Ctrl+L",
     "Colour by log2 of the probability instead of the probability itself", true, true, "Log"},
    {Command::kMeanReduction, "mean", CommandMenu::kView, "&Mean of a pixel's scores", "Ctrl+M",
     "Show the mean of the scores under a pixel instead of their maximum", true, false, "Mean per pixel"},
    {Command::kOverlay, "overlay", CommandMenu::kView, "Method's mas&k overlay", "Ctrl+Shift+O",
     "Draw what the method keeps over the map", true, false, "Mask"},
    {Command::kLost, "lost-mass", CommandMenu::kView, "Colour w&hat is left out", "Ctrl+Shift+L",
     "Colour the attention that the method loses; what it keeps is grey", true, false, "Lost"},
    {Command::kSplit, "split", CommandMenu::kView, "&Split the map", "Ctrl+\\",
     "Show a second map beside the first, with its own method; zoom, colours and cursor are linked", true, false,
     "Split"},
    {Command::kSplitFour, "split-four", CommandMenu::kView, "Split the map in four", "Ctrl+Alt+4",
     "Four maps, each with a head and a method of its own; zoom, colours and cursor are linked", true},
    {Command::kSplitFollows, "split-follows", CommandMenu::kView, "Other maps follow the head", "Ctrl+Shift+\\",
     "Every map shows the selected head, each with its own method; otherwise the others keep their heads", true},
    {Command::kExchangeMaps, "exchange-maps", CommandMenu::kView, "S&wap the maps", "Ctrl+Alt+\\",
     "Swap head and method of the first map with those of the focused one, or of the second"},
    {Command::kMapDifference, "map-difference", CommandMenu::kView, "Diff&erence of the maps", "Ctrl+D",
     "Show in the first map how the second differs: for two methods on one head, which of them keeps what; otherwise, "
     "the difference in probability",
     true, false, "Difference"},
    {Command::kCompareTrace, "compare-trace", CommandMenu::kView, "Compare with another &trace…", "Ctrl+Shift+D",
     "Show another trace in the second map, head by head; the matrix shows how its heads differ", true},
    {Command::kHeadDifferences, "head-differences", CommandMenu::kView, "Colour heads by the difference", "",
     "Show in the matrix how a metric differs: the other trace minus this one", true},
    {Command::kClasses, "classes", CommandMenu::kView, "Classes and &alarms…", "Ctrl+Shift+A",
     "Set the thresholds that give heads their class, and the largest logit above which a head raises an alarm"},
    {Command::kPanel, "panel", CommandMenu::kView, "Method &panel", "Ctrl+P",
     "Show the panel of methods and parameters on the map", true, false, "Panel"},
    {Command::kThemeSystem, "theme-system", CommandMenu::kView, "System colo&urs", "",
     "Follow the desktop's light or dark setting", true, true},
    {Command::kThemeLight, "theme-light", CommandMenu::kView, "Li&ght colours", "", "Dark text on a light background",
     true},
    {Command::kThemeDark, "theme-dark", CommandMenu::kView, "&Dark colours", "", "Light text on a dark background",
     true},
    {Command::kFullScreen, "full-screen", CommandMenu::kView, "Full screen", "F11", "Enter or leave full screen", true,
     true},
    {Command::kResetLayout, "reset-layout", CommandMenu::kView, "&Reset panes", "", "Restore the default layout"},
    {Command::kSaveLayout, "save-layout", CommandMenu::kView, "Sa&ve layout…", "",
     "Keep where the panes are under a name; Restore layout puts them back"},
    {Command::kRun, "run", CommandMenu::kMethods, "&Run method", "Ctrl+R; F5",
     "Measure the method on this head beside dense attention", false, false, "Run"},
    {Command::kRunAll, "run-all", CommandMenu::kMethods, "Run &all methods", "Ctrl+Shift+R",
     "Measure every method on this head, each with its parameters from the panel", false, false, "Run all"},
    {Command::kRunAllAtTarget, "run-all-at-target", CommandMenu::kMethods, "Run all at the &target", "Ctrl+Shift+T",
     "For each method of the panel's phase, find the cheapest parameters that keep the target mass, then measure it",
     false, false, "Run all at target"},
    {Command::kMeetTarget, "meet-target", CommandMenu::kMethods, "&Meet target", "Ctrl+T",
     "Find the method's cheapest parameters that keep the target mass for all but 5 % of the queries"},
    {Command::kSweepMeasure, "measure-all-heads", CommandMenu::kMethods, "Measure on all &heads", "",
     "Measure the panel's method, or the configuration's for each, on every head that the filter shows, and colour the "
     "matrix by the result",
     false, true},
    {Command::kSweepTune, "tune-all-heads", CommandMenu::kMethods, "Tune a&ll heads at the target", "",
     "Find the method's cheapest parameters at the target on every head that the filter shows"},
    {Command::kTuneDialog, "tune-heads", CommandMenu::kMethods, "T&une heads…", "Ctrl+Alt+T",
     "Choose methods and target, and whether each head, each layer or the whole model gets its own setting"},
    {Command::kSweepResume, "resume-all-heads", CommandMenu::kMethods, "R&esume all heads", "",
     "Continue with the remaining heads"},
    {Command::kMethodFile, "method-file", CommandMenu::kMethods, "Method from a &file…", "",
     "Add a method that a file describes: a mask, or the numbers by which DuoAttention's heads stream", false, true},
    {Command::kConfiguration, "configuration", CommandMenu::kMethods, "Use a confi&guration…", "",
     "Give each head its own method and parameters, from a file of tuned heads or MInference's best patterns; again: "
     "all heads have the panel's",
     true},
    {Command::kUseTuned, "use-tuned", CommandMenu::kMethods, "Use what was tune&d", "",
     "Give each head the method and parameters that the last tuning found for it"},
    {Command::kCancelWork, "cancel", CommandMenu::kMethods, "&Cancel work", "Ctrl+.",
     "Stop the background work shown in the status bar"},
    {Command::kChooseMethod, "choose-method", CommandMenu::kMethods, "Choose meth&od", "Ctrl+Shift+M",
     "Open the panel's list of methods; choose with the arrow keys and Enter", false, true},
    {Command::kPreviousMethod, "previous-method", CommandMenu::kMethods, "&Previous method", "[",
     "The previous method in the list"},
    {Command::kNextMethod, "next-method", CommandMenu::kMethods, "&Next method", "]", "The next method in the list"},
    {Command::kWelcome, "welcome", CommandMenu::kHelp, "&Welcome and tour", "F1",
     "Recent traces, heads worth a look, and a five-step tour"},
    {Command::kManual, "manual", CommandMenu::kHelp, "&Manual", "Shift+F1",
     "User guide, methods, analysis and file format, with a search over all pages"},
    {Command::kMethodHelp, "method-help", CommandMenu::kHelp, "About the m&ethod", "Ctrl+F1",
     "Read what the panel's method does, its parameters and its source"},
    {Command::kKeys, "keys", CommandMenu::kHelp, "&Keys and mouse", "?", "List every key and mouse gesture"},
    {Command::kAbout, "about", CommandMenu::kHelp, "&About headscope", "", "Version and licence"},
};
static_assert(std::size(kTable) == kNumCommands);

constexpr const char* kMenuTitles[] = {"&File", "&Edit", "&Go", "&View", "&Methods", "&Help"};

}  // namespace

std::span<const CommandSpec> CommandTable() {
  return kTable;
}

QString ShortcutText(const QAction& action) {
  QStringList texts;
  for (const QKeySequence& keys : action.shortcuts()) texts.append(keys.toString(QKeySequence::NativeText));
  return texts.join(QObject::tr(" or "));
}

QString MenuName(CommandMenu menu) {
  return QString::fromUtf8(kMenuTitles[static_cast<size_t>(menu)]).remove(u'&').toLower();
}

CommandSet::CommandSet(QWidget* window) : QObject(window) {
  for (const CommandSpec& spec : kTable) {
    auto* action = new QAction(QString::fromUtf8(spec.text), window);
    action->setObjectName(QLatin1String(spec.id));
    action->setCheckable(spec.checkable);
    const QString help = QString::fromUtf8(spec.help);
    action->setStatusTip(help);
    if (*spec.shortcut != '\0') action->setShortcuts(QKeySequence::listFromString(QLatin1String(spec.shortcut)));
    const QString keys = ShortcutText(*action);
    action->setToolTip(keys.isEmpty() ? help : QStringLiteral("%1 (%2)").arg(help, keys));
    if (*spec.toolbar != '\0') action->setIconText(QString::fromUtf8(spec.toolbar));
    window->addAction(action);  // so that its shortcut works wherever the focus is
    actions_[static_cast<size_t>(spec.command)] = action;
  }
  auto* themes = new QActionGroup(this);
  for (const Command theme : {Command::kThemeSystem, Command::kThemeLight, Command::kThemeDark})
    themes->addAction((*this)[theme]);
}

void CommandSet::Bind(Command command, std::function<void(bool)> run) {
  connect((*this)[command], &QAction::triggered, this, std::move(run));
}

void CommandSet::FillMenuBar(QMenuBar* bar) {
  for (size_t i = 0; i < menus_.size(); ++i) menus_[i] = bar->addMenu(QString::fromUtf8(kMenuTitles[i]));
  for (const CommandSpec& spec : kTable) {
    QMenu* target = menu(spec.menu);
    if (spec.begins_section) target->addSeparator();
    target->addAction((*this)[spec.command]);
  }
}

void CommandSet::FillToolBar(QToolBar* bar, CommandMenu menu) {
  for (const CommandSpec& spec : kTable) {
    if (spec.menu == menu && *spec.toolbar != '\0') bar->addAction((*this)[spec.command]);
  }
}

}  // namespace headscope::ui
