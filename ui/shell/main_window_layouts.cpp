// SPDX-License-Identifier: Apache-2.0
// Named layouts of the panes, and undo of what a person sets in the view.
#include <QInputDialog>
#include <QJsonArray>
#include <QLineEdit>
#include <QMenu>
#include <algorithm>
#include <array>
#include <utility>

#include "action_step.h"
#include "main_window.h"
#include "shown_text.h"

namespace headscope::ui {
namespace {

constexpr int kLongestName = 60;
// Members of the settings that can be taken back, beside those of the canvas.
const QString kMetric = QStringLiteral("metric"), kPanes = QStringLiteral("panes"), kTheme = QStringLiteral("theme"),
              kCanvas = QStringLiteral("canvas.");
const QString kClasses = QStringLiteral("classes"), kNumMaps = QStringLiteral("maps"),
              kFollows = QStringLiteral("maps_follow"), kDifference = QStringLiteral("map_difference"),
              kHeadDifferences = QStringLiteral("head_differences"), kOtherTrace = QStringLiteral("other_trace"),
              kBrush = QStringLiteral("brush"), kSecondMap = QStringLiteral("second_map");

// Members of the canvas as those of the settings.
QJsonObject OfCanvas(const QJsonObject& canvas) {
  QJsonObject settings;
  for (auto member = canvas.begin(); member != canvas.end(); ++member)
    settings[kCanvas + member.key()] = member.value();
  return settings;
}

}  // namespace

void MainWindow::BindLayouts() {
  commands_.Bind(Command::kSaveLayout, [this](bool) {
    bool accepted = false;
    const QString name =
        QInputDialog::getText(this, tr("Save layout"), tr("Name of the layout:"), QLineEdit::Normal, {}, &accepted)
            .trimmed()
            .left(kLongestName);
    if (accepted && !name.isEmpty()) SaveLayout(name);
  });
  QMenu* view = commands_.menu(CommandMenu::kView);
  layout_menu_ = view->addMenu(tr("Restore la&yout"));
  delete_layout_menu_ = view->addMenu(tr("Delete layout"));
  FillLayoutMenus();
}

void MainWindow::SetLayouts(const QJsonObject& layouts) {
  session_.layouts = layouts;
  FillLayoutMenus();
  StateChanged();
}

void MainWindow::FillLayoutMenus() {
  layout_menu_->clear();
  delete_layout_menu_->clear();
  qDeleteAll(std::exchange(layout_actions_, {}));
  for (const QString& name : session_.layouts.keys()) {
    const QString shown = ShownInMenu(name);
    auto* restore = new QAction(tr("Restore layout %1").arg(shown), this);
    restore->setStatusTip(tr("Put the panes where they were when this layout was saved"));
    connect(restore, &QAction::triggered, this, [this, name] { RestoreLayout(name); });
    auto* remove = new QAction(tr("Delete layout %1").arg(shown), this);
    remove->setStatusTip(tr("Forget this layout; Ctrl+Z brings it back"));
    connect(remove, &QAction::triggered, this, [this, name] { DeleteLayout(name); });
    layout_menu_->addAction(restore);
    delete_layout_menu_->addAction(remove);
    layout_actions_ += {restore, remove};
  }
  layout_menu_->setEnabled(!session_.layouts.isEmpty());
  delete_layout_menu_->setEnabled(!session_.layouts.isEmpty());
}

void MainWindow::ChangeLayouts(const QString& what, const QJsonObject& after) {
  StateChanged();  // what was set before is a step of its own
  state_.parameters.stack()->push(new ActionStep(
      what, [this, before = session_.layouts] { SetLayouts(before); }, [this, after] { SetLayouts(after); }));
}

void MainWindow::SaveLayout(const QString& name) {
  QJsonObject layouts = session_.layouts;
  layouts[name] = QString::fromLatin1(saveState(kLayoutVersion).toBase64());
  ChangeLayouts(tr("save layout %1").arg(name), layouts);
  notice_->ShowMessage(tr("Layout %1 saved").arg(name));
}

void MainWindow::DeleteLayout(const QString& name) {
  QJsonObject layouts = session_.layouts;
  layouts.remove(name);
  ChangeLayouts(tr("delete layout %1").arg(name), layouts);
}

void MainWindow::RestoreLayout(const QString& name) {
  const QByteArray layout = QByteArray::fromBase64(session_.layouts[name].toString().toLatin1());
  const QByteArray before = saveState(kLayoutVersion);
  if (!restoreState(layout, kLayoutVersion)) {
    notice_->ShowError(tr("Layout %1 was saved by another version of headscope; save it again.").arg(name));
    return;
  }
  PushPlaces(tr("layout %1").arg(name), before);
}

void MainWindow::ResetPanes() {
  const QByteArray before = saveState(kLayoutVersion);
  StateChanged();  // what was set before is a step of its own
  const HeadCanvas::PanelPosition panel = canvas_->panel_position();
  PlacePanes(this, docks_);
  const auto reset = [this] {
    canvas_->ResetPanel();
    PanelIsPlaced();
  };
  reset();
  PushPlaces(
      tr("reset panes"), before,
      [this, panel] {
        canvas_->RestorePanel(panel);
        PanelIsPlaced();
      },
      reset);
}

void MainWindow::PanelIsPlaced() {
  if (!known_place_.isEmpty())
    settings_history_.Begin(ViewSettings());  // that the panel is shown is no step of its own
}

void MainWindow::PushPlaces(const QString& what, const QByteArray& before, const std::function<void()>& undo,
                            const std::function<void()>& redo) {
  const auto apply = [this](const QByteArray& state, const std::function<void()>& also) {
    restoreState(state, kLayoutVersion);
    if (also) also();
    QTimer::singleShot(0, this, [this] { shares_->Remember(); });
    StateChanged();
  };
  QTimer::singleShot(0, this, [this] { shares_->Remember(); });
  StateChanged();
  state_.parameters.stack()->push(new ActionStep(
      what, [apply, before, undo] { apply(before, undo); },
      [apply, after = saveState(kLayoutVersion), redo] { apply(after, redo); }, ActionStep::kDone));
}

QJsonObject MainWindow::ViewSettings() const {
  QJsonObject settings{
      {kMetric, QString::fromStdString(state_.heads.metric())},
      {kPanes, state_.offers.ViewStates()},
      {kClasses, state_.classes.ToJson()},
      {kTheme, theme_.name()},
      {kNumMaps, static_cast<int>(others_.size()) + 1},
      {kFollows, commands_[Command::kSplitFollows]->isChecked()},
      {kDifference, commands_[Command::kMapDifference]->isChecked()},
      {kHeadDifferences, coming_ ? coming_->differences : commands_[Command::kHeadDifferences]->isChecked()},
      {kOtherTrace, coming_ ? coming_->path : OtherTracePath()}};
  const QJsonObject canvas = OfCanvas(canvas_->DisplayState());
  for (auto member = canvas.begin(); member != canvas.end(); ++member) settings[member.key()] = member.value();
  return settings;
}

QString MainWindow::NameOfChange(const QStringList& members) {
  const std::array names = {std::pair{kMetric, tr("colour of the heads")},
                            std::pair{kPanes, tr("setting of a pane")},
                            std::pair{kClasses, tr("classes and alarms")},
                            std::pair{kTheme, tr("colours of the window")},
                            std::pair{kNumMaps, tr("split of the map")},
                            std::pair{kFollows, tr("maps that follow the head")},
                            std::pair{kDifference, tr("difference of the maps")},
                            std::pair{kHeadDifferences, tr("colour of the heads")},
                            std::pair{kCanvas + QStringLiteral("color_map"), tr("colours of the map")},
                            std::pair{kCanvas + QStringLiteral("scale"), tr("scale of the map")},
                            std::pair{kCanvas + QStringLiteral("reduction"), tr("mean of a pixel")},
                            std::pair{kCanvas + QStringLiteral("overlay"), tr("mask overlay")},
                            std::pair{kCanvas + QStringLiteral("lost"), tr("colour of what is left out")},
                            std::pair{kCanvas + QStringLiteral("panel"), tr("method panel")},
                            std::pair{kCanvas + QStringLiteral("profiles"), tr("profiles of the map")},
                            std::pair{kCanvas + QStringLiteral("minimap"), tr("minimap")},
                            std::pair{kCanvas + QStringLiteral("live_runs"), tr("live runs")},
                            std::pair{kCanvas + QStringLiteral("repeats"), tr("repeats of a run")},
                            std::pair{kCanvas + QStringLiteral("measures_alone"), tr("runs of one head alone")},
                            std::pair{kCanvas + QStringLiteral("picture_width"), tr("width of pictures")},
                            std::pair{kCanvas + QStringLiteral("picture_ground"), tr("background of pictures")}};
  QStringList found;
  for (const QString& member : members) {
    const auto name = std::ranges::find(names, member, &std::pair<QString, QString>::first);
    const QString text = name == names.end() ? tr("change of the view") : name->second;
    if (!found.contains(text)) found.append(text);
  }
  return found.size() == 1 ? found.front() : tr("change of the view");
}

void MainWindow::ChangeView(const QString& what, const std::function<void()>& change) {
  StateChanged();  // what was set before is a step of its own
  const QJsonObject before = ViewSettings(), map_before = SecondMap();
  const bool was_changing = std::exchange(changing_view_, true);
  change();
  changing_view_ = was_changing;
  const QJsonObject after = ViewSettings();
  QJsonObject from, to;
  for (auto member = after.begin(); member != after.end(); ++member) {
    if (before[member.key()] == member.value()) continue;
    from[member.key()] = before[member.key()];
    to[member.key()] = member.value();
  }
  if (const QJsonObject map = SecondMap(); map != map_before) {
    from[kSecondMap] = map_before;
    to[kSecondMap] = map;
  }
  settings_history_.RecordStep(what, from, to);
  StateChanged();
}

void MainWindow::BindUndo() {
  connect(canvas_, &HeadCanvas::RangeSet, this, [this](const QJsonObject& before, const QJsonObject& after) {
    settings_history_.RecordChange(tr("colour range"), OfCanvas(before), OfCanvas(after));
  });
  connect(canvas_, &HeadCanvas::ViewChanged, this, [this] {
    if (known_place_.isEmpty()) return;
    const QJsonObject before = std::exchange(known_place_, canvas_->PlaceState());
    settings_history_.RecordChange(tr("zoom"), OfCanvas(before), OfCanvas(known_place_));
  });
  connect(&state_.trial, &MethodTrial::Changed, this, [this] {
    if (known_brush_.isEmpty()) return;
    const QJsonObject before = std::exchange(known_brush_, BrushState());
    settings_history_.RecordChange(tr("marked queries"), before, known_brush_);
  });
}

void MainWindow::BeginUndo() {
  known_place_ = canvas_->PlaceState();
  known_brush_ = BrushState();
  settings_history_.Begin(ViewSettings());
}

QJsonObject MainWindow::BrushState() const {
  const MethodTrial::Brush& brush = state_.trial.brush();
  return {{kBrush, brush ? QJsonValue(QJsonArray{brush->first, brush->second}) : QJsonValue(QJsonValue::Null)}};
}

void MainWindow::ApplyViewSettings(const QJsonObject& settings) {
  QJsonObject canvas;
  for (auto member = settings.begin(); member != settings.end(); ++member) {
    if (member.key().startsWith(kCanvas)) canvas[member.key().mid(kCanvas.size())] = member.value();
  }
  if (!canvas.isEmpty()) {
    canvas_->RestoreViewState(canvas);
    SyncViewCommands();
  }
  if (settings.contains(kMetric)) state_.heads.SetMetric(settings[kMetric].toString().toStdString());
  if (settings.contains(kPanes)) state_.offers.RestoreViews(settings[kPanes].toObject());
  if (settings.contains(kClasses)) state_.classes.FromJson(settings[kClasses].toObject());
  if (settings.contains(kBrush)) {
    const QJsonArray brush = settings[kBrush].toArray();
    state_.trial.SetBrush(brush.size() == 2 ? MethodTrial::Brush({brush[0].toDouble(), brush[1].toDouble()})
                                            : std::nullopt);
  }
  const bool has_other = settings.contains(kOtherTrace);
  if (has_other) StopOpeningOther();  // which an earlier step has asked for
  if (has_other && settings[kOtherTrace].toString() != OtherTracePath()) CloseOtherTrace();
  if (settings.contains(kNumMaps)) Split(static_cast<size_t>(std::max(0, settings[kNumMaps].toInt(1) - 1)));
  if (settings.contains(kFollows)) {
    commands_[Command::kSplitFollows]->setChecked(settings[kFollows].toBool());
    FollowHead();
  }
  if (settings.contains(kDifference)) {
    commands_[Command::kMapDifference]->setChecked(settings[kDifference].toBool());
    UpdateComparison();
  }
  if (settings.contains(kHeadDifferences) && coming_) coming_->differences = settings[kHeadDifferences].toBool();
  if (settings.contains(kHeadDifferences) && state_.heads.HasOther()) {
    commands_[Command::kHeadDifferences]->setChecked(settings[kHeadDifferences].toBool());
    state_.heads.ShowDifferences(settings[kHeadDifferences].toBool());
  }
  if (settings.contains(kTheme)) SetTheme(settings[kTheme].toString());
  // It comes later.
  const QString other = has_other ? settings[kOtherTrace].toString() : QString();
  if (!other.isEmpty() && other != OtherTracePath()) {
    coming_ = {.path = other,
               .differences = settings.contains(kHeadDifferences) ? settings[kHeadDifferences].toBool()
                                                                  : commands_[Command::kHeadDifferences]->isChecked(),
               .second_map = settings[kSecondMap].toObject()};
    OpenOtherTrace(other);
  } else if (settings.contains(kSecondMap)) {
    RestoreSecondMap(settings[kSecondMap].toObject());
  }
  StateChanged();
}

void MainWindow::SetTheme(const QString& name) {
  theme_.Set(name);
  commands_[theme_.name() == u"dark"    ? Command::kThemeDark
            : theme_.name() == u"light" ? Command::kThemeLight
                                        : Command::kThemeSystem]
      ->setChecked(true);
}

}  // namespace headscope::ui
