// SPDX-License-Identifier: Apache-2.0
#include "canvas_widget.h"

#include <QContextMenuEvent>
#include <QKeyEvent>
#include <QSurfaceFormat>
#include <algorithm>
#include <cmath>

#include "canvas_widget_impl.h"
#include "map_overlay.h"

namespace headscope::ui {

namespace {

constexpr double kReadablePixelsPerScore = 24;
constexpr double kZoomStep = 1.5;
constexpr int kFramesAfterResize = 3;
const QString kTimesOfLiveRun = QStringLiteral("the times of a live run");
const QString kMethodMember = QStringLiteral("method");
const QString kParametersMember = QStringLiteral("parameters");
const QString kTargetMember = QStringLiteral("mass_target");
const QString kViewMember = QStringLiteral("view");
const QString kRangeFromMember = QStringLiteral("range_log2_min"), kRangeToMember = QStringLiteral("range_log2_max");

QSurfaceFormat MapFormat() {
  QSurfaceFormat format = QSurfaceFormat::defaultFormat();
  format.setVersion(3, 3);
  format.setProfile(QSurfaceFormat::CoreProfile);
  return format;
}

}  // namespace

HeadCanvas::HeadCanvas(QWidget* parent, MethodTrial* trial)
    : GlSurface(parent, MapFormat()), impl_(std::make_unique<Impl>(this, trial)) {
  setFocusPolicy(Qt::StrongFocus);
  setMouseTracking(true);
  setMinimumSize(320, 240);
  impl_->FollowPalette();
}

HeadCanvas::~HeadCanvas() {
  impl_->ReleaseGraphics();
}

void HeadCanvas::SetWorkbench(Workbench* workbench) {
  impl_->model.SetWorkbench(workbench);
  if (workbench != nullptr && !impl_->waiting_method_state.isEmpty()) {
    impl_->ApplyMethodState(impl_->waiting_method_state);
    impl_->waiting_method_state = {};
  }
  impl_->RequestFrame();
}

void HeadCanvas::SetTrace(const TraceSummaryPtr& trace) {
  impl_->model.SetTrace(trace);
  impl_->ForgetFit();
  impl_->LayOut();
  if (!impl_->waiting_trace_state.isEmpty()) {
    impl_->ApplyState(impl_->waiting_trace_state);
    impl_->waiting_trace_state = {};
  }
  impl_->RequestFrame();
}

void HeadCanvas::ShowHead(analysis::HeadId head) {
  impl_->model.ShowHead(head);
  impl_->RequestFrame();
}

bool HeadCanvas::HasHead() const {
  return impl_->model.head().has_value();
}
analysis::HeadId HeadCanvas::head() const {
  return impl_->model.head().value_or(analysis::HeadId{});
}

QStringList HeadCanvas::ColorMapNames() {
  QStringList names;
  for (const analysis::ColorMap& colors : analysis::ColorMaps()) {
    if (FindMapColors(colors.name) != nullptr) names << QString::fromStdString(colors.name);
  }
  return names;
}

void HeadCanvas::SetColorMap(const QString& name) {
  const analysis::ColorMap* const colors = FindMapColors(name.toStdString());
  if (colors == nullptr) return;
  impl_->model.settings().color_map = colors;
  impl_->SettingsChanged();
}
void HeadCanvas::SetScale(ColorScale scale) {
  impl_->model.settings().logarithmic = scale == ColorScale::kLogarithmic;
  impl_->SettingsChanged();
}
void HeadCanvas::SetReduction(analysis::TileReduction reduction) {
  impl_->model.settings().reduction = reduction;
  impl_->SettingsChanged();
}
void HeadCanvas::SetOverlay(bool on) {
  impl_->model.settings().overlay = on;
  impl_->SettingsChanged();
}
void HeadCanvas::SetLost(bool on) {
  impl_->model.settings().lost = on;
  if (on) impl_->model.settings().overlay = true;
  impl_->SettingsChanged();
}
bool HeadCanvas::lost() const {
  return impl_->model.settings().lost;
}
bool HeadCanvas::profiles() const {
  return impl_->model.settings().profiles;
}
analysis::ValueRange HeadCanvas::range() const {
  return impl_->model.settings().range;
}
void HeadCanvas::ShowViewOf(const HeadCanvas& other) {
  const ViewTransform& shown = other.impl_->model.view();
  const double row = impl_->model.RowLike(other.impl_->model, shown.center_row());
  impl_->ChangeView([&](ViewTransform& view) { view.CenterOn(row, shown.center_column(), shown.scores_per_pixel()); });
}
void HeadCanvas::ShowColorsOf(const HeadCanvas& other) {
  const CanvasSettings& shown = other.impl_->model.settings();
  CanvasSettings& settings = impl_->model.settings();
  settings.color_map = shown.color_map;
  settings.logarithmic = shown.logarithmic;
  settings.reduction = shown.reduction;
  settings.lost = shown.lost;
  impl_->FollowScale(/*fit=*/false);
  settings.range = shown.range;
  impl_->SettingsChanged();
}
void HeadCanvas::SetOtherCursor(int64_t row, int64_t column) {
  impl_->model.SetOtherCursor(row < 0 ? std::nullopt : std::optional(MarkedScore{row, column}));
  impl_->RequestFrame();
}
void HeadCanvas::SetCursorOf(const HeadCanvas& other, int64_t row, int64_t column) {
  impl_->model.SetCursorOf(other.impl_->model, {row, column});
  impl_->RequestFrame();
}
void HeadCanvas::CompareWith(HeadCanvas* other) {
  QObject::disconnect(impl_->compared_mask);
  QObject::disconnect(impl_->compared_tiles);
  impl_->model.CompareWith(other == nullptr ? nullptr : &other->impl_->model);
  if (other != nullptr) {
    const auto refresh = [this] {
      impl_->model.MaskChanged();
      impl_->RequestFrame();
    };
    impl_->compared_mask = connect(other, &HeadCanvas::MaskStateChanged, this, refresh);
    impl_->compared_tiles = connect(other, &HeadCanvas::TilesArrived, this, [this] { impl_->RequestFrame(); });
  }
  impl_->RequestFrame();
}
QStringList HeadCanvas::ComparisonLines() const {
  QStringList lines;
  for (const std::string& text : ComparisonTexts(impl_->model)) lines << QString::fromStdString(text);
  return lines;
}
const TraceSummary& HeadCanvas::trace() const {
  return impl_->model.trace();
}
void HeadCanvas::SetNamed(bool named, const QString& trace) {
  impl_->named = named;
  impl_->trace_name = trace.toStdString();
  impl_->RequestFrame();
}
void HeadCanvas::AlignWith(const HeadCanvas* beside) {
  impl_->beside = beside;
  impl_->RequestFrame();
}
HeadCanvas::Part HeadCanvas::VisiblePart() const {
  const ViewTransform& view = impl_->model.view();
  const ScoreRect visible = view.Visible();
  return {static_cast<int64_t>(std::floor(visible.row_begin)), static_cast<int64_t>(std::ceil(visible.row_end)),
          static_cast<int64_t>(std::floor(visible.column_begin)), static_cast<int64_t>(std::ceil(visible.column_end)),
          view.ShowsEverything()};
}
HeadCanvas::Part HeadCanvas::ComparedPart() const {
  Part part = VisiblePart();
  const CanvasModel::ComparedPart compared = impl_->model.Compared();
  if (!compared.is_shorter || part.row_begin >= compared.num_rows || part.column_begin >= compared.num_columns)
    return part;
  part.row_end = std::min(part.row_end, compared.num_rows);
  part.column_end = std::min(part.column_end, compared.num_columns);
  return part;
}
void HeadCanvas::SetPanelVisible(bool visible) {
  impl_->model.settings().panel_visible = visible;
  impl_->SettingsChanged();
}
void HeadCanvas::OpenPanel() {
  if (!panel_visible()) SetPanelVisible(true);
  impl_->panel.Unroll();
  impl_->PanelChanged();
}
void HeadCanvas::ResetPanel() {
  impl_->panel.Reset();
  impl_->model.settings().panel_visible = true;
  impl_->SettingsChanged();
  impl_->PanelChanged();
}
HeadCanvas::PanelPosition HeadCanvas::panel_position() const {
  const LivePanel::Position panel = impl_->panel.position();
  PanelPosition position{panel_visible(), panel.rolled_up, panel.rolled_by_hand, {}};
  if (panel.moved_to) position.moved_to = QPointF(panel.moved_to->x, panel.moved_to->y);
  return position;
}
void HeadCanvas::RestorePanel(const PanelPosition& position) {
  LivePanel::Position panel{.moved_to = {}, .rolled_up = position.rolled_up, .rolled_by_hand = position.rolled_by_hand};
  if (position.moved_to)
    panel.moved_to = ImVec2(static_cast<float>(position.moved_to->x()), static_cast<float>(position.moved_to->y()));
  impl_->panel.Restore(panel);
  impl_->model.settings().panel_visible = position.visible;
  impl_->SettingsChanged();
  impl_->PanelChanged();
}
void HeadCanvas::SetNoticeHeight(int height) {
  impl_->notice_height = height;
}
int HeadCanvas::notice_height() const {
  return impl_->notice_height;
}
void HeadCanvas::FitRange() {
  impl_->FitRange();
}
void HeadCanvas::TellRanges() {
  impl_->TellRanges();
}
QString HeadCanvas::color_map() const {
  return QString::fromStdString(impl_->model.settings().color_map->name);
}
ColorScale HeadCanvas::scale() const {
  return impl_->model.settings().logarithmic ? ColorScale::kLogarithmic : ColorScale::kLinear;
}
analysis::TileReduction HeadCanvas::reduction() const {
  return impl_->model.settings().reduction;
}
bool HeadCanvas::overlay() const {
  return impl_->model.settings().overlay;
}
bool HeadCanvas::panel_visible() const {
  return impl_->model.settings().panel_visible;
}

void HeadCanvas::FitView() {
  impl_->ChangeView([](ViewTransform& view) { view.Fit(); });
}

void HeadCanvas::ZoomIn() {
  impl_->Zoom(kZoomStep);
}
void HeadCanvas::ZoomOut() {
  impl_->Zoom(1 / kZoomStep);
}

void HeadCanvas::GoTo(int64_t row, int64_t column) {
  impl_->ChangeView([&](ViewTransform& view) {
    row = std::clamp<int64_t>(row, 0, std::max<int64_t>(view.num_rows() - 1, 0));
    column = std::clamp<int64_t>(column, 0, std::max<int64_t>(view.num_columns() - 1, 0));
    view.CenterOn(static_cast<double>(row) + 0.5, static_cast<double>(column) + 0.5,
                  std::min(view.scores_per_pixel(), 1 / kReadablePixelsPerScore));
  });
  impl_->model.Mark({row, column});
}

bool HeadCanvas::ClearMark() {
  if (!impl_->model.ClearMark()) return false;
  impl_->RequestFrame();
  return true;
}

void HeadCanvas::MarkScore(int64_t row, int64_t column) {
  if (!impl_->model.HasScore(row, column)) return;
  impl_->model.Mark({row, column});
  impl_->RequestFrame();
  Q_EMIT ScoreMarked(row, column);
}

QString HeadCanvas::ScoreText(int64_t row, int64_t column) const {
  const CanvasModel& model = impl_->model;
  if (!model.head() || model.workbench() == nullptr || !model.HasScore(row, column)) return {};
  const int64_t position = model.rows().Position(row);
  const auto token = [&](int64_t at) { return QString::fromStdString(model.TokenText(at)); };
  const double probability = model.workbench()->ExactScore(*model.head(), row, column).probability;
  if (std::isnan(probability)) return {};  // the head is still being read
  return QStringLiteral("head %1:%2\tquery %3 “%4”\tkey %5 “%6”\tp = %7")
      .arg(QString::number(model.head()->layer), QString::number(model.head()->head), QString::number(position),
           token(position), QString::number(column), token(column),
           QString::fromStdString(FormatProbability(probability)));
}

void HeadCanvas::ZoomTo(int64_t row_begin, int64_t row_end, int64_t column_begin, int64_t column_end) {
  impl_->ChangeView([&](ViewTransform& view) {
    view.ZoomTo({static_cast<double>(row_begin), static_cast<double>(row_end), static_cast<double>(column_begin),
                 static_cast<double>(column_end)});
  });
}

const std::vector<kernels::MethodSpec>& HeadCanvas::methods() const {
  return impl_->model.trial().methods();
}
bool HeadCanvas::SetMethod(const QString& name, const kernels::ParameterValues& values) {
  return impl_->model.trial().SelectMethod(name.toStdString(), values);
}
void HeadCanvas::StepMethod(int step) {
  impl_->model.trial().StepMethod(step);
}
void HeadCanvas::ToggleMethodList() {
  if (methods().empty()) return;
  if (!panel_visible()) SetPanelVisible(true);
  setFocus();
  impl_->panel.ToggleMethodList();
  impl_->PanelChanged();
}
QString HeadCanvas::method() const {
  const kernels::MethodSpec* const spec = impl_->model.trial().method();
  return spec == nullptr ? QString() : QString::fromStdString(spec->name);
}
kernels::ParameterValues HeadCanvas::method_values() const {
  return impl_->model.trial().values();
}

kernels::ParameterValues HeadCanvas::ValuesOf(const kernels::MethodSpec& method) const {
  return impl_->model.trial().ValuesOf(method);
}

double HeadCanvas::mass_target() const {
  return impl_->model.trial().target();
}
const LiveMask* HeadCanvas::mask() const {
  const std::optional<LiveMask>& mask = impl_->model.trial().mask();
  return mask ? &*mask : nullptr;
}
bool HeadCanvas::IsMaskPending() const {
  return impl_->model.trial().mask_pending();
}
const std::string& HeadCanvas::WhyNoMask() const {
  return impl_->model.trial().mask_error();
}
void HeadCanvas::RunMethod() {
  impl_->model.trial().Run(impl_->model.settings().repeats);
}
void HeadCanvas::CancelRun() {
  impl_->model.trial().CancelRun();
}
void HeadCanvas::ShowResult(const analysis::MethodResult& result) {
  impl_->model.trial().ShowResult(result);
  impl_->PanelChanged();
}

QJsonObject HeadCanvas::ViewState() const {
  QJsonObject state = SettingsToJson(impl_->model.settings());
  state[kViewMember] = ViewToJson(impl_->model.view());
  state[kTargetMember] = impl_->model.trial().target();
  if (const kernels::MethodSpec* spec = impl_->model.trial().method()) {
    QJsonObject parameters;
    for (const auto& [name, value] : impl_->model.trial().values().values())
      parameters[QString::fromStdString(name)] = value;
    state[kMethodMember] = QString::fromStdString(spec->name);
    state[kParametersMember] = parameters;
  }
  return state;
}

QJsonObject HeadCanvas::PlaceState() const {
  return {{kViewMember, ViewToJson(impl_->model.view())}};
}

void HeadCanvas::SetNotes(std::vector<MapNote> notes) {
  if (notes == impl_->model.notes()) return;
  impl_->model.SetNotes(std::move(notes));
  impl_->RequestFrame();
}

QRectF HeadCanvas::PinOf(const QString& id) const {
  if (!HasHead()) return {};
  for (const NotePin& one : PinsInView(impl_->model.notes(), head(), impl_->model.view())) {
    if (QString::fromStdString(impl_->model.notes()[one.note].id) == id)
      return {one.pin.x, one.pin.y, one.pin.width, one.pin.height};
  }
  return {};
}

QJsonObject HeadCanvas::DisplayState() const {
  QJsonObject state = SettingsToJson(impl_->model.settings());
  // The range follows scale and head by itself.
  for (const QString& name : {kRangeFromMember, kRangeToMember}) state.remove(name);
  return state;
}

void HeadCanvas::RestoreViewState(const QJsonObject& state) {
  impl_->ApplyState(state);
  if (impl_->model.view().num_rows() == 0) impl_->waiting_trace_state = state;
  if (!impl_->ApplyMethodState(state)) impl_->waiting_method_state = state;
}

QJsonObject HeadCanvas::OfTrace(const QJsonObject& state) {
  QJsonObject part;
  for (const QString& name :
       {kViewMember, kRangeFromMember, kRangeToMember, kMethodMember, kParametersMember, kTargetMember}) {
    if (state.contains(name)) part[name] = state[name];
  }
  return part;
}

QJsonObject HeadCanvas::WithoutTrace(const QJsonObject& state) {
  QJsonObject part = state;
  for (const QString& name : {kViewMember, kRangeFromMember, kRangeToMember}) part.remove(name);
  return part;
}

void HeadCanvas::Impl::ApplyState(const QJsonObject& state) {
  model.settings() = SettingsFromJson(state, model.settings());
  FollowScale(/*fit=*/!state.contains(kRangeToMember));
  model.trial().SetTarget(state.value(kTargetMember).toDouble(model.trial().target()));
  known_range = model.settings().range;  // what is restored is no new choice
  SettingsChanged();
  ChangeView([&](ViewTransform& view) { ApplyViewJson(state.value(kViewMember).toObject(), &view); });
}

bool HeadCanvas::Impl::ApplyMethodState(const QJsonObject& state) {
  if (model.trial().methods().empty()) return false;
  const std::string name = state.value(kMethodMember).toString().toStdString();
  if (!model.trial().SelectMethod(name)) return true;  // a method that this build lacks: the present one stays
  const QJsonObject parameters = state.value(kParametersMember).toObject();
  for (auto parameter = parameters.begin(); parameter != parameters.end(); ++parameter) {
    if (parameter->isDouble()) model.trial().SetValue(parameter.key().toStdString(), parameter->toDouble());
  }
  return true;
}

void HeadCanvas::ExportPng(const QString& path, QSize size, double scale) {
  impl_->StartExport(path, size, scale);
}
void HeadCanvas::MakePicture(QSize size, double scale) {
  impl_->StartExport({}, size, scale);
}
QSize HeadCanvas::PictureSize() const {
  impl_->LayOut();
  return impl_->model.PictureSize();
}

void HeadCanvas::SetPicturesLight(bool light) {
  impl_->model.settings().picture_ground = light ? PictureGround::kLight : PictureGround::kDark;
}
bool HeadCanvas::pictures_light() const {
  return impl_->model.picture_ground() == PictureGround::kLight;
}

void HeadCanvas::SetPictureWidth(int width) {
  impl_->model.settings().picture_width = std::clamp(width, 0, kMostPictureSide);
  impl_->SettingsChanged();
}
int HeadCanvas::picture_width() const {
  return impl_->model.settings().picture_width;
}
Comparison HeadCanvas::comparison() const {
  return impl_->model.comparison();
}

void HeadCanvas::CancelExport() {
  impl_->CancelExport();
}

QRectF HeadCanvas::MapRect() const {
  const PixelRect& map = impl_->model.view().viewport();
  return {map.x, map.y, map.width, map.height};
}
QRectF HeadCanvas::MinimapRect() const {
  const std::optional<PixelRect> rect = impl_->model.MinimapRect();
  return rect ? QRectF(rect->x, rect->y, rect->width, rect->height) : QRectF();
}
double HeadCanvas::ScoresPerPixel() const {
  return impl_->model.view().scores_per_pixel();
}
int HeadCanvas::TileLevel() const {
  return impl_->model.view().Level(devicePixelRatioF());
}
void HeadCanvas::SetTileWatch(std::function<void(double milliseconds)> watch) {
  impl_->model.tiles().SetWatch(std::move(watch));
}

bool HeadCanvas::IsCovered() const {
  return isVisible() && visibleRegion().isEmpty();
}
bool HeadCanvas::IsFrameDue() const {
  return impl_->frame_requested && !IsCovered();
}
bool HeadCanvas::IsTileDue() const {
  return impl_->model.tiles().num_pending() > 0 && !IsCovered();
}
int64_t HeadCanvas::frames_drawn() const {
  return impl_->frames_drawn;
}
bool HeadCanvas::IsSettled() const {
  return Awaited().isEmpty();
}
bool HeadCanvas::ShowsAllFigures() const {
  const QStringList awaited = Awaited();
  return awaited.isEmpty() || awaited == QStringList(kTimesOfLiveRun);
}
QStringList HeadCanvas::Awaited() const {
  const Impl& impl = *impl_;
  const MethodTrial& trial = impl.model.trial();
  QStringList awaited;
  if (!IsCovered()) {
    if (impl.frame_requested) awaited << QStringLiteral("a frame that was asked for");
    if (impl.bridge.frames_due() > 0) awaited << QStringLiteral("%1 frames due").arg(impl.bridge.frames_due());
  }
  if (const int64_t tiles = impl.model.tiles().num_pending(); tiles > 0)
    awaited
        << QStringLiteral("%1 tiles: %2").arg(tiles).arg(QString::fromStdString(impl.model.tiles().DescribePending()));
  if (trial.mask_pending()) awaited << QStringLiteral("a mask");
  if (trial.live_pending()) awaited << (trial.is_live_present() ? kTimesOfLiveRun : QStringLiteral("a live run"));
  return awaited;
}

QRectF HeadCanvas::PanelControl(const QString& name) const {
  if (!panel_visible()) return {};
  const auto& controls = impl_->panel.controls();
  const auto found = controls.find(name.toStdString());
  if (found == controls.end()) return {};
  return {found->second.x, found->second.y, found->second.width, found->second.height};
}

QString HeadCanvas::FocusedControl() const {
  return QString::fromStdString(impl_->panel.focused());
}

QPointF HeadCanvas::PixelOf(int64_t row, int64_t column) const {
  const ViewTransform& view = impl_->model.view();
  return {view.ColumnToX(static_cast<double>(column) + 0.5), view.RowToY(static_cast<double>(row) + 0.5)};
}

void HeadCanvas::initializeGL() {
  impl_->InitGraphics();
}
void HeadCanvas::paintGL() {
  impl_->DrawFrame();
}
void HeadCanvas::resizeGL(int, int) {
  impl_->LayOut();
  // The panel takes its new room in the frame behind the one that lays it out.
  impl_->bridge.RequestFrames(kFramesAfterResize);
  Q_EMIT LaidOut();
}
QColor HeadCanvas::Ground() const {
  const analysis::Rgb paper = impl_->model.Look().ground.paper;
  return {paper.red, paper.green, paper.blue};
}

bool HeadCanvas::event(QEvent* event) {
  Impl& impl = *impl_;
  switch (event->type()) {
    case QEvent::PaletteChange:
      impl.FollowPalette();
      break;
    case QEvent::ShortcutOverride:
      // Shortcuts are the shell's, unless a text field waits for the key, or a list for a letter of its filter.
      if (impl.bridge.WantsText() ||
          (impl.panel.HasOpenList() && !(static_cast<const QKeyEvent*>(event)->modifiers() &
                                         (Qt::ControlModifier | Qt::AltModifier | Qt::MetaModifier)))) {
        event->accept();
        return true;
      }
      break;
    case QEvent::KeyPress:
    case QEvent::KeyRelease: {
      const auto& key = static_cast<const QKeyEvent&>(*event);
      const bool for_text = impl.bridge.WantsText();
      // ImGui would turn a slider into a text field at Tab; outside of text the key is focusNextPrevChild's.
      const bool is_tab = key.key() == Qt::Key_Tab || key.key() == Qt::Key_Backtab;
      if ((for_text || !is_tab) && impl.bridge.HandleEvent(*event)) impl.RequestFrame();
      if (for_text || (event->type() == QEvent::KeyPress && impl.HandleKey(key))) {
        event->accept();
        return true;
      }
      break;  // Tab moves the focus, everything else goes to the parent
    }
    case QEvent::ContextMenu:
      // By the mouse it is the button's release, with nothing dragged.
      if (static_cast<const QContextMenuEvent*>(event)->reason() == QContextMenuEvent::Keyboard) impl.AskForMenuByKey();
      event->accept();
      return true;
    case QEvent::MouseMove:
    case QEvent::MouseButtonPress:
    case QEvent::MouseButtonDblClick:
    case QEvent::MouseButtonRelease:
    case QEvent::Wheel:
      impl.bridge.HandleEvent(*event);
      impl.RequestFrame();
      event->accept();
      return true;
    case QEvent::InputMethod:
      if (!impl.bridge.HandleEvent(*event)) break;
      impl.RequestFrame();
      event->accept();
      return true;
    case QEvent::FocusIn:
      // Coming backwards, the panel's last control is the nearest; coming forwards, the map is.
      if (static_cast<const QFocusEvent*>(event)->reason() == Qt::BacktabFocusReason && panel_visible())
        impl.panel.FocusLast();
      impl.bridge.HandleEvent(*event);
      impl.RequestFrame();
      break;
    case QEvent::FocusOut:
      impl.panel.ClearFocus();
      impl.bridge.HandleEvent(*event);
      impl.RequestFrame();
      break;
    case QEvent::Leave:
      impl.bridge.HandleEvent(*event);
      impl.RequestFrame();
      break;
    default:
      break;
  }
  return GlSurface::event(event);
}

bool HeadCanvas::focusNextPrevChild(bool next) {
  if (impl_->bridge.WantsText()) return false;
  impl_->RequestFrame();
  // From the map through the panel's controls and on to the next pane; from the first control back to the map.
  const bool was_in_panel = !impl_->panel.focused().empty();
  if (panel_visible() && (next || was_in_panel)) {
    if (impl_->panel.MoveFocus(next) || !next) return true;
  }
  return GlSurface::focusNextPrevChild(next);
}

}  // namespace headscope::ui
