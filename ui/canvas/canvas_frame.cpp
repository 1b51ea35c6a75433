// SPDX-License-Identifier: Apache-2.0
// Frames, keys and graphics resources of HeadCanvas.
#include <QKeyEvent>
#include <QOpenGLContext>
#include <algorithm>
#include <cmath>
#include <utility>

#include "canvas_widget_impl.h"
#include "map_overlay.h"

namespace headscope::ui {

namespace {

constexpr int kCaretBlinkMs = 500;
// The panel fits its height to what it drew the frame before, and the map its width to the panel.
constexpr int kFramesAfterPanelChange = 4;
constexpr int kFramesAfterTooltipChange = 2;  // the one that is being drawn among them
constexpr double kShareInFaintRange = 0.99;   // of the texels; the sink and the diagonal may be beyond its end
constexpr double kPanShare = 0.1;             // of the viewport, per key press; with Shift five times as far

// As any list of a desktop does.
bool OpensList(const QKeyEvent& event) {
  const Qt::KeyboardModifiers modifiers = event.modifiers() & ~Qt::KeypadModifier;
  return (event.key() == Qt::Key_F4 && modifiers == Qt::NoModifier) ||
         (event.key() == Qt::Key_Down && modifiers == Qt::AltModifier);
}

QSize FramebufferSize(QSize size, double device_pixel_ratio) {
  return {static_cast<int>(std::lround(size.width() * device_pixel_ratio)),
          static_cast<int>(std::lround(size.height() * device_pixel_ratio))};
}

}  // namespace

HeadCanvas::Impl::Impl(HeadCanvas* owner, MethodTrial* trial)
    : canvas(owner),
      model(trial),
      panel({.settings_changed = [this] { SettingsChanged(); },
             .run = [this] { AfterFrame([this] { canvas->RunMethod(); }); },
             .cancel_run = [this] { AfterFrame([this] { canvas->CancelRun(); }); },
             .go_to_worst = [this] { AfterFrame([this] { model.trial().FindWorstQuery(); }); },
             .show_steps = [this] { AfterFrame([this] { ShowSteps(); }); },
             .fit_range = [this] { FitRange(); },
             .fit_trace = [this] { AfterFrame([this] { Q_EMIT canvas->FitToTraceRequested(); }); }}) {
  model.SetArrivalHandler([this] {
    if (export_) AdvanceExport();
    RequestFrame();
    Q_EMIT canvas->TilesArrived();
  });
  ConnectTrial();
  model.trial().SetMaskWanted(canvas, model.settings().overlay);
  caret_timer_.setInterval(kCaretBlinkMs);
  QObject::connect(&caret_timer_, &QTimer::timeout, canvas, [this] { RequestFrame(); });
}

void HeadCanvas::Impl::ConnectTrial() {
  const MethodTrial* const trial = &model.trial();
  QObject::connect(trial, &MethodTrial::Changed, canvas, [this] {
    model.MaskChanged();
    RequestFrame();
    AfterFrame([this] { Q_EMIT canvas->MaskStateChanged(); });
  });
  QObject::connect(trial, &MethodTrial::MethodChanged, canvas, [this] {
    AfterFrame([this] {
      Q_EMIT canvas->MethodChanged(canvas->method(),
                                   QString::fromStdString(model.trial().values().ToString(*model.trial().method())));
    });
  });
  QObject::connect(trial, &MethodTrial::MaskReady, canvas, &HeadCanvas::MaskReady);
  QObject::connect(trial, &MethodTrial::WorstQueryFound, canvas,
                   [this](qint64 row, double kept_mass, const std::vector<LostKey>& lost) {
                     canvas->GoTo(row, lost.empty() ? model.rows().Position(row) : lost.front().column);
                     Q_EMIT canvas->WorstQueryShown(row, kept_mass, lost);
                   });
  QObject::connect(trial, &MethodTrial::RunStarted, canvas, [this, trial] {
    bridge.RequestFrames(kFramesAfterPanelChange);
    Q_EMIT canvas->RunRequested(*model.head(), canvas->method(),
                                QString::fromStdString(trial->values().ToString(*trial->method())));
  });
  QObject::connect(trial, &MethodTrial::RunProgressed, canvas, &HeadCanvas::RunProgressed);
  QObject::connect(trial, &MethodTrial::RunFinished, canvas, [this](const analysis::MethodResult& result) {
    bridge.RequestFrames(kFramesAfterPanelChange);
    Q_EMIT canvas->RunFinished(result);
  });
  QObject::connect(trial, &MethodTrial::RunFailed, canvas, [this](const QString& sentence) {
    bridge.RequestFrames(kFramesAfterPanelChange);
    Q_EMIT canvas->RunFailed(sentence);
  });
}

HeadCanvas::Impl::~Impl() {
  QObject::disconnect(&model.trial(), nullptr, canvas, nullptr);
  model.trial().SetMaskWanted(canvas, false);
  model.SetArrivalHandler({});
}

void HeadCanvas::Impl::RequestFrame() {
  frame_requested = true;
  canvas->RequestNewFrame();
}

void HeadCanvas::Impl::PanelChanged() {
  bridge.RequestFrames(kFramesAfterPanelChange);
  RequestFrame();
}

void HeadCanvas::Impl::Zoom(double factor) {
  ChangeView([&](ViewTransform& view) {
    const PixelRect& map = view.viewport();
    view.ZoomAbout(map.x + map.width / 2, map.y + map.height / 2, factor);
  });
}

void HeadCanvas::Impl::ShowSteps() {
  const std::optional<LiveMask>& mask = model.trial().mask();
  if (!mask || !mask->steps) return;
  // A square at the diagonal's end: one scale serves rows and columns.
  const int64_t end = mask->steps->steps.back().position + 1;
  const auto rows = static_cast<int64_t>(mask->steps->steps.size());
  canvas->ZoomTo(mask->steps->first_row, mask->steps->end_row(), std::max<int64_t>(end - rows, 0), end);
}

bool HeadCanvas::Impl::IsFaint() const {
  const CanvasSettings& settings = model.settings();
  return !settings.logarithmic && settings.reduction == analysis::TileReduction::kMean;
}

void HeadCanvas::Impl::FollowScale(bool fit) {
  if (IsFaint() == was_faint_) return;
  was_faint_ = IsFaint();
  if (was_faint_) {
    range_before_ = model.settings().range;
    fit_when_drawn_ = fit;
    return;
  }
  fit_when_drawn_ = false;
  if (fit && range_before_) model.settings().range = *range_before_;
  range_before_.reset();
}

void HeadCanvas::Impl::FitRange() {
  const double ratio = canvas->devicePixelRatioF();
  fit_wanted_.reset();
  // Of tiles that stand in for others it waits, also where nothing is asked for yet: the next frame asks.
  if (model.HasStandIns(ratio)) {
    fit_wanted_ = model.head();
    RequestFrame();
  } else if (model.FitRange(ratio)) {
    SettingsChanged();
  }
}

void HeadCanvas::Impl::SettingsChanged() {
  fit_wanted_.reset();  // another choice since
  // What FollowScale does to the range is nobody's choice.
  TellOfRange();
  FollowScale(/*fit=*/true);
  known_range = model.settings().range;
  model.trial().SetMaskWanted(canvas, model.settings().overlay);
  model.trial().SetLiveWanted(model.settings().live_runs);
  model.trial().SetMeasuresAlone(model.settings().measures_alone);
  RequestFrame();
  AfterFrame([this] { Q_EMIT canvas->DisplayChanged(); });
}

void HeadCanvas::Impl::TellOfRange() {
  const analysis::ValueRange before = std::exchange(known_range, model.settings().range);
  if (before == known_range) return;
  untold_ranges_.emplace_back(before, known_range);
  AfterFrame([this] { TellRanges(); });
}

void HeadCanvas::Impl::TellRanges() {
  for (const auto& [before, after] : std::exchange(untold_ranges_, {}))
    Q_EMIT canvas->RangeSet(RangeToJson(before), RangeToJson(after));
}

void HeadCanvas::Impl::InitGraphics() {
  if (!renderer.Init()) return TellOfGraphics();
  bridge.InitGraphics();
  // Docking and floating give the widget another context; what the old one holds goes with it.
  QObject::disconnect(context_connection_);
  context_connection_ =
      QObject::connect(canvas->context(), &QOpenGLContext::aboutToBeDestroyed, canvas, [this] { ReleaseGraphics(); });
}

void HeadCanvas::Impl::TellOfGraphics() {
  if (renderer.error().isEmpty() || failure_reported_) return;
  failure_reported_ = true;
  AfterFrame([this] { Q_EMIT canvas->GraphicsFailed(renderer.error()); });
}

void HeadCanvas::Impl::ReleaseGraphics() {
  if (!renderer.ready()) return;
  QObject::disconnect(context_connection_);
  if (drawing_) {
    AfterFrame([this, path = drawing_->picture.path] {
      TellOfExport(path, QStringLiteral("The canvas lost its graphics during the export: show it and export again."));
    });
  }
  canvas->makeCurrent();
  drawing_.reset();
  renderer.Release();
  bridge.ReleaseGraphics();
  paper_.ReleaseGraphics();
  bridge.MakeCurrent();
  canvas->doneCurrent();
}

void HeadCanvas::Impl::LayOut() {
  const PanelPlace before = model.panel_place();
  // At once: beside a panel that has no room any more the map would have none, and the view would be lost.
  model.SetPanelPlace(PanelPlace::kNone);
  if (model.settings().panel_visible)
    model.SetPanelPlace(panel.Place(canvas->width(), canvas->height() + notice_height, model.Parts()));
  if (!model.settings().panel_visible && beside != nullptr && beside->impl_->model.settings().panel_visible &&
      beside->impl_->model.panel_place() == PanelPlace::kStrip)
    model.SetPanelPlace(PanelPlace::kStrip);
  model.LayOut(canvas->size());
  if (model.panel_place() != before) AfterFrame([this] { Q_EMIT canvas->PanelPlaced(); });
}

void HeadCanvas::Impl::UpdateCursor() {
  const ImGuiIO& io = ImGui::GetIO();
  const auto x = static_cast<double>(io.MousePos.x), y = static_cast<double>(io.MousePos.y);
  const std::optional<PixelRect> minimap = model.MinimapRect();
  const bool over_map = ImGui::IsMousePosValid() && !io.WantCaptureMouse && !(minimap && minimap->Contains(x, y));
  const bool was_inside = model.cursor().has_value();
  const bool changed = over_map ? model.MoveCursor(x, y, canvas->devicePixelRatioF()) : model.LeaveMap();
  if (!changed) return;
  if (model.cursor()) {
    const CursorScore score = *model.cursor();
    AfterFrame([this, score] { Q_EMIT canvas->CursorMoved(score.row, score.column, score.exact); });
  } else if (was_inside) {
    AfterFrame([this] { Q_EMIT canvas->CursorLeft(); });
  }
}

void HeadCanvas::Impl::TakeProfilePress(double ratio) {
  if (!interaction.pressed_column_x() && !interaction.pressed_row_y()) return;
  const std::optional<MarkedScore> score =
      model.ScoreOnProfile(interaction.pressed_column_x(), interaction.pressed_row_y(), ratio);
  if (!score) return;
  model.Mark(*score);
  AfterFrame([this, score] { Q_EMIT canvas->ScoreMarked(score->row, score->column); });
}

void HeadCanvas::Impl::TakeClick() {
  if (interaction.pressed()) model.ForgetClick();
  if (interaction.double_clicked() && model.TakeBackClick())
    AfterFrame([this] { Q_EMIT canvas->ScoreMarkTakenBack(); });
  if (!interaction.clicked() && !interaction.menu_wanted()) return;
  std::optional<MarkedScore> score;
  if (model.cursor() && model.HasScore(model.cursor()->row, model.cursor()->column))
    score = {model.cursor()->row, model.cursor()->column};
  if (interaction.menu_wanted()) {
    const ImVec2 at = ImGui::GetIO().MousePos;
    AfterFrame(
        [this, score, place = QPoint(static_cast<int>(at.x), static_cast<int>(at.y))] { AskForMenu(place, score); });
  } else if (score && model.ClickScore(*score)) {
    AfterFrame([this, score] { Q_EMIT canvas->ScoreMarked(score->row, score->column); });
  }
}

void HeadCanvas::Impl::AskForMenu(QPoint place, const std::optional<MarkedScore>& score) {
  if (!model.head()) return;
  // The button's own events are over: a menu takes the next ones.
  Q_EMIT canvas->MenuWanted(canvas->mapToGlobal(place), score ? score->row : -1, score ? score->column : -1);
}

void HeadCanvas::Impl::AskForMenuByKey() {
  const ViewTransform& view = model.view();
  QPointF place(view.viewport().x + view.viewport().width / 2, view.viewport().y + view.viewport().height / 2);
  const std::optional<MarkedScore> mark = model.mark();
  if (mark) {
    const QPointF at = canvas->PixelOf(mark->row, mark->column);
    if (view.viewport().Contains(at.x(), at.y())) place = at;
  }
  AskForMenu(place.toPoint(), mark && model.HasScore(mark->row, mark->column) ? mark : std::nullopt);
}

void HeadCanvas::Impl::FollowPalette() {
  const bool light = canvas->palette().color(QPalette::Window).lightness() >= 128;
  model.SetGround(light ? PictureGround::kLight : PictureGround::kDark);
  bridge.SetLight(light);
  RequestFrame();
}

void HeadCanvas::Impl::DrawFrame() {
  frame_requested = false;
  ++frames_drawn;
  const double ratio = canvas->devicePixelRatioF();
  const QSize framebuffer = FramebufferSize(canvas->size(), ratio);
  renderer.Clear(framebuffer, model.Look().ground);
  if (!renderer.ready()) return;

  const double seconds =
      since_last_frame_.isValid() ? static_cast<double>(since_last_frame_.nsecsElapsed()) * 1e-9 : 1.0 / 60;
  since_last_frame_.start();
  known_range = model.settings().range;  // a trace has brought its own
  LayOut();
  bridge.NewFrame(canvas->size(), ratio, seconds);
  MapSurroundings around;
  if (const std::optional<PixelRect> minimap = model.MinimapRect()) around.minimap = *minimap;
  if (model.settings().profiles && model.head()) {
    around.column_profile = model.layout().column_profile;
    around.row_profile = model.layout().row_profile;
  }
  std::vector<NotePin> pins;
  if (model.head()) pins = PinsInView(model.notes(), *model.head(), model.view());
  for (const NotePin& one : pins) around.pins.push_back(one.pin);
  if (interaction.Update(model.view(), around)) AfterFrame([this] { Q_EMIT canvas->ViewChanged(); });
  TakeProfilePress(ratio);
  UpdateCursor();
  TakeClick();

  OverlayOptions options;
  options.view = &model.view();
  options.layout = &model.layout();
  options.profiles = model.settings().profiles ? &model.CachedProfiles(ratio) : nullptr;
  options.device_pixel_ratio = ratio;
  options.ground = model.ground();
  options.selection = interaction.selection();
  options.named = named;
  options.trace_name = trace_name;
  options.focused = canvas->hasFocus() && panel.focused().empty();
  // The panel may change the method or the colours: before the map is drawn with them.
  if (model.settings().panel_visible) {
    panel.Draw(model);
    // Also for what comes by itself, such as the times of a run at rest: its last line was cut until the next input.
    if (!panel.fits()) bridge.RequestFrames(kFramesAfterPanelChange);
  }
  const QRectF panel_rect = canvas->PanelControl(QStringLiteral("panel"));
  if (std::exchange(panel_rect_, panel_rect) != panel_rect) AfterFrame([this] { Q_EMIT canvas->PanelMoved(); });
  if (export_) {
    AfterFrame([this] { AdvanceExport(); });  // of another head nothing has been asked for yet
  } else if (model.head()) {
    model.tiles().Want(model.Demand(model.view(), ratio));
  }
  if (fit_when_drawn_ && model.head() && model.tiles().num_pending() == 0 &&
      model.FitRange(ratio, kShareInFaintRange)) {
    fit_when_drawn_ = false;
    known_range = model.settings().range;
    AfterFrame([this] { Q_EMIT canvas->DisplayChanged(); });
  }
  if (fit_wanted_ && fit_wanted_ != model.head()) fit_wanted_.reset();
  if (fit_wanted_ && !(model.HasStandIns(ratio) && model.tiles().num_pending() > 0)) {
    fit_wanted_.reset();
    if (model.FitRange(ratio)) SettingsChanged();
  }
  renderer.Draw(model.Picture(model.view(), ratio), model.Look(), model.rows(), framebuffer, ratio);
  renderer.Draw(model.MinimapPicture(), model.Look(), model.rows(), framebuffer, ratio);
  TellOfGraphics();
  if (model.cursor() && !interaction.dragging()) options.tooltip = DescribeScore(model, *model.cursor());
  if (interaction.pointed_pin()) {
    options.pointed_note = pins[*interaction.pointed_pin()].note;
    const MapNote& note = model.notes()[*options.pointed_note];
    options.tooltip = DescribeNote(model, note);
    if (interaction.pin_pressed())
      AfterFrame([this, id = QString::fromStdString(note.id)] { Q_EMIT canvas->NotePressed(id); });
  }
  // ImGui fits the tooltip to what it held the frame before: a line that came with a mask would be cut until the next.
  if (options.tooltip != tooltip_) bridge.RequestFrames(kFramesAfterTooltipChange);
  tooltip_ = options.tooltip;
  DescribeItself();
  DrawMapOverlay(model, options);
  const bool wants_text = ImGui::GetIO().WantTextInput;
  bridge.Render();

  if (bridge.frames_due() > 0) RequestFrame();
  if (canvas->testAttribute(Qt::WA_InputMethodEnabled) != wants_text)
    canvas->setAttribute(Qt::WA_InputMethodEnabled, wants_text);
  if (wants_text && !caret_timer_.isActive()) caret_timer_.start();
  if (!wants_text) caret_timer_.stop();
}

void HeadCanvas::Impl::DescribeItself() {
  const analysis::MapCaption caption = CaptionOf(model, model.view());
  const QString name =
      model.head() ? QString::fromStdString(caption.title) : QStringLiteral("Attention map: no head is open");
  std::string text = model.head() ? caption.source : EmptyMapText(model, trace_name);
  for (const std::string& part : {caption.Legend(), tooltip_}) {
    if (!part.empty()) text += "\n" + part;
  }
  const QString description = QString::fromStdString(text);
  if (canvas->accessibleName() != name) canvas->setAccessibleName(name);
  if (canvas->accessibleDescription() != description) canvas->setAccessibleDescription(description);
}

bool HeadCanvas::Impl::HandlePanelKey(const QKeyEvent& event) {
  const auto handle = [this](PanelKey key) {
    if (!panel.HandleKey(key)) return false;
    PanelChanged();
    return true;
  };
  if (panel.HasOpenList()) {
    const bool is_text = !event.text().isEmpty() && event.text().front().isPrint();
    if (event.key() == Qt::Key_Backspace ? panel.EraseText()
                                         : is_text && panel.HandleText(event.text().toStdString())) {
      PanelChanged();
      return true;
    }
  }
  switch (event.key()) {
    case Qt::Key_Left:
      return handle(PanelKey::kLeft);
    case Qt::Key_Right:
      return handle(PanelKey::kRight);
    case Qt::Key_Up:
      return handle(PanelKey::kUp);
    case Qt::Key_Down:
      return handle(PanelKey::kDown);
    case Qt::Key_Home:
      return handle(PanelKey::kHome);
    case Qt::Key_End:
      return handle(PanelKey::kEnd);
    case Qt::Key_Space:
    case Qt::Key_Return:
    case Qt::Key_Enter:
      return handle(PanelKey::kActivate);
    case Qt::Key_Escape:
      return handle(PanelKey::kEscape);
    default:
      return false;
  }
}

bool HeadCanvas::Impl::HandleKey(const QKeyEvent& event) {
  if (OpensList(event)) {
    // In the panel the focused control's list, from the map the methods'.
    if (panel.focused().empty() || !panel.HandleKey(PanelKey::kList)) canvas->ToggleMethodList();
    PanelChanged();
    return true;
  }
  if (event.modifiers() & (Qt::ControlModifier | Qt::AltModifier | Qt::MetaModifier)) return false;
  if (model.settings().panel_visible && HandlePanelKey(event)) return true;
  const PixelRect& map = model.layout().map;
  const double share = kPanShare * (event.modifiers().testFlag(Qt::ShiftModifier) ? 5 : 1);
  const double step_x = map.width * share, step_y = map.height * share;
  const auto pan = [&](double dx, double dy) { ChangeView([&](ViewTransform& view) { view.Pan(dx, dy); }); };
  switch (event.key()) {
    case Qt::Key_W:
    case Qt::Key_Up:
      pan(0, step_y);
      return true;
    case Qt::Key_S:
    case Qt::Key_Down:
      pan(0, -step_y);
      return true;
    case Qt::Key_A:
    case Qt::Key_Left:
      pan(step_x, 0);
      return true;
    case Qt::Key_D:
    case Qt::Key_Right:
      pan(-step_x, 0);
      return true;
    case Qt::Key_Plus:
    case Qt::Key_Equal:
      canvas->ZoomIn();
      return true;
    case Qt::Key_Minus:
      canvas->ZoomOut();
      return true;
    case Qt::Key_F:
      canvas->FitView();
      return true;
    case Qt::Key_Period:
      Q_EMIT canvas->HeadStepRequested(+1);
      return true;
    case Qt::Key_Comma:
      Q_EMIT canvas->HeadStepRequested(-1);
      return true;
    case Qt::Key_Escape:
      if (!interaction.dragging()) return canvas->ClearMark();
      interaction.Cancel();
      RequestFrame();
      return true;
    default:
      return false;
  }
}

}  // namespace headscope::ui
