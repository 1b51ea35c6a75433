// SPDX-License-Identifier: Apache-2.0
// The instrument of the window: one head's attention map with the mask of the current method over it, and the live
// panel of that method's parameters. The shell embeds it, gives it a trace and a head, and listens to its signals.
//
// Rows are *recorded query rows* everywhere, as in analysis/types/tile.h; the canvas shows the token position of a row
// beside it. Frames are drawn on demand only: an idle canvas draws none.
#pragma once

#include <QImage>
#include <QJsonObject>
#include <QPoint>
#include <QPointF>
#include <QRectF>
#include <QSize>
#include <QString>
#include <QStringList>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "canvas_layout.h"
#include "gl_surface.h"
#include "map_comparison.h"
#include "map_notes.h"
#include "ui/workbench.h"

namespace headscope::ui {

enum class ColorScale { kLogarithmic, kLinear };

class MethodTrial;

class HeadCanvas : public GlSurface {
  Q_OBJECT

 public:
  // Shows the mask and the runs of `trial`, which outlives the canvas; null: of one of its own.
  explicit HeadCanvas(QWidget* parent = nullptr, MethodTrial* trial = nullptr);
  ~HeadCanvas() override;

  // The source of tiles, masks and runs; it must outlive the canvas or be replaced by nullptr first. The first method
  // that is not dense is picked.
  void SetWorkbench(Workbench* workbench);
  // Forgets the head, every tile and every result of the trace before.
  void SetTrace(const TraceSummaryPtr& trace);  // not null
  void SetTrace(const TraceSummary& trace) { SetTrace(std::make_shared<const TraceSummary>(trace)); }
  // Shows one recorded head, keeping the view and the method's parameters. A head that the trace does not hold clears
  // the canvas.
  void ShowHead(analysis::HeadId head);
  // The head on show; false when there is none.
  bool HasHead() const;
  analysis::HeadId head() const;

  // --- What is drawn ---
  static QStringList ColorMapNames();
  void SetColorMap(const QString& name);  // an unknown name changes nothing
  void SetScale(ColorScale scale);
  void SetReduction(analysis::TileReduction reduction);  // of the scores that share a texel
  void SetOverlay(bool on);                              // the method's mask over the map
  void SetLost(bool on);                                 // the overlay colours what the method leaves out
  void SetPanelVisible(bool visible);
  void OpenPanel();  // shows it, not rolled up
  QString color_map() const;
  ColorScale scale() const;
  analysis::TileReduction reduction() const;
  bool overlay() const;
  bool lost() const;
  bool profiles() const;  // the curves beside the map are shown
  analysis::ValueRange range() const;
  bool panel_visible() const;
  // Two maps side by side: the same part of it in the same colours; and the score under the other map's pointer, which
  // is marked faintly with its value here. Row -1: none.
  void ShowViewOf(const HeadCanvas& other);
  void ShowColorsOf(const HeadCanvas& other);
  void SetOtherCursor(int64_t row, int64_t column);
  // The same score as that of another map, whose row has another number where the traces differ; none where this map
  // ends before it.
  void SetCursorOf(const HeadCanvas& other, int64_t row, int64_t column);
  // Shows how `other` differs from this map (CanvasModel::CompareWith), or this one alone; null: alone. `other`
  // outlives this, or is replaced first.
  void CompareWith(HeadCanvas* other);
  // A line for each colour of the comparison.
  QStringList ComparisonLines() const;
  // Says on the map which head it is, of which trace where that has a name here, and by which method.
  void SetNamed(bool named, const QString& trace = QString());
  // A map without a panel begins at the height of that one, which may have a panel above it; outlives this one.
  void AlignWith(const HeadCanvas* beside);

  // Bookmarks: those of the head on show are on the map as numbered pins. NotePressed follows a click on one.
  void SetNotes(std::vector<MapNote> notes);
  QRectF PinOf(const QString& id) const;  // in the canvas' pixels; null while it is not in view

  // The scores in view: [row begin, row end, column begin, column end).
  struct Part {
    int64_t row_begin = 0, row_end = 0, column_begin = 0, column_end = 0;
    bool is_whole = true;
  };
  Part VisiblePart() const;
  // What of them a comparison is about, if there is one; all of them where it is about none.
  Part ComparedPart() const;

  // Shows the panel where it is at first.
  void ResetPanel();
  // Whether it is shown, where a user has moved it to, and whether it is rolled up: what ResetPanel takes away.
  struct PanelPosition {
    bool visible = true, rolled_up = false, rolled_by_hand = false;
    std::optional<QPointF> moved_to;  // empty: nobody has moved it
  };
  PanelPosition panel_position() const;
  void RestorePanel(const PanelPosition& position);

  // What a notice above the map takes of its height for a while. Whether the panel has room beside the map is asked of
  // the height without it: a lower map leaves more room, and the panel opened and closed with every notice.
  void SetNoticeHeight(int height);
  int notice_height() const;

  // Spreads the colours over the probabilities in view; nothing changes while none of them is known.
  void FitRange();
  // Emits RangeSet at once for what waits for the end of a frame.
  void TellRanges();

  // --- Where the view is ---
  void FitView();
  // One notch about the middle of the map.
  void ZoomIn();
  void ZoomOut();
  // Centres one score, zoomed in at least until its tokens are readable, and marks its row and column on the map until
  // ClearMark, Esc on the canvas or another trace. Values outside the map are clamped.
  void GoTo(int64_t row, int64_t column);
  bool ClearMark();                             // false: nothing was marked
  void MarkScore(int64_t row, int64_t column);  // as a click there does, whatever is marked; the view stays
  // One line, separated by tabs: head, query and key with their tokens, and the probability of a score of this head.
  // Empty while that is not known, and where the query does not see the key.
  QString ScoreText(int64_t row, int64_t column) const;
  // Shows rows [row_begin, row_end) and columns [column_begin, column_end) as large as they fit.
  void ZoomTo(int64_t row_begin, int64_t row_end, int64_t column_begin, int64_t column_end);

  // --- The method under trial ---
  // What the panel offers: prefill methods, then decode methods, each name once. Empty without a workbench.
  const std::vector<kernels::MethodSpec>& methods() const;
  const TraceSummary& trace() const;
  // False, and nothing changes, when the panel has no such method or a value is outside its range.
  bool SetMethod(const QString& name, const kernels::ParameterValues& values);
  // The method `step` places further in the panel's list, with the parameters it had last; from its end on at its
  // beginning. Does nothing without a workbench.
  void StepMethod(int step);
  // Shows the panel and opens its list of methods with the keyboard on it, or closes the list.
  void ToggleMethodList();
  QString method() const;
  kernels::ParameterValues method_values() const;
  // Of any method of the panel: the present values, those that it had last, or its defaults.
  kernels::ParameterValues ValuesOf(const kernels::MethodSpec& method) const;
  // As the panel's button: measures dense and the method on the head; RunFinished or RunFailed follows.
  void RunMethod();
  void CancelRun();
  // Puts a run that was measured before into the panel, as if it had just ended; one of another head changes nothing.
  void ShowResult(const analysis::MethodResult& result);

  // What the kept mass of the rows should reach. MethodChanged follows a change of it.
  double mass_target() const;
  // The mask of the present parameters, or the last one while that is on its way; null when there is none.
  const LiveMask* mask() const;
  bool IsMaskPending() const;
  // Why there is none for the present parameters: one sentence, or empty.
  const std::string& WhyNoMask() const;

  // View, colours, method, parameters and target, for the session file. Restore takes what it understands and ignores
  // what is missing or out of range: session files are untrusted. It may come before or after SetWorkbench, SetTrace
  // and ShowHead.
  QJsonObject ViewState() const;
  // Of it where the view is, alone.
  QJsonObject PlaceState() const;
  // Of it what a person sets of the display, without the range of the colours, which also moves by itself.
  QJsonObject DisplayState() const;
  void RestoreViewState(const QJsonObject& state);
  // The parts of a view state: where one trace is looked at, with what range of colours and which method; and the rest
  // with the method, which serves any trace.
  static QJsonObject OfTrace(const QJsonObject& state);
  static QJsonObject WithoutTrace(const QJsonObject& state);

  // Draws the present view, with a title, axes, colour bar and a caption that says what it shows, without the panel,
  // into a PNG file of this many pixels; `scale` of them are as wide as one of the canvas' own, so that text and lines
  // grow with it. Waits for the tiles of that size in the background, then emits PngExported. A second call replaces
  // one that still waits; CancelExport gives one up, and no signal follows.
  void ExportPng(const QString& path, QSize size, double scale = 1);
  // The same without a file; PictureMade follows. One picture is made at a time, of either kind.
  void MakePicture(QSize size, double scale = 1);
  // Pictures in files on white, as for paper, or on a dark ground; the map's own colours are the same. Until one is
  // chosen, as the window is. Part of the view state.
  void SetPicturesLight(bool light);
  bool pictures_light() const;
  // Pixels across of pictures in files; 0: twice the canvas' own. Part of the view state.
  void SetPictureWidth(int width);
  int picture_width() const;
  Comparison comparison() const;  // what CompareWith shows
  // The canvas' size, in its own pixels, with title and caption and without the room that the present view leaves
  // blank.
  QSize PictureSize() const;
  // Where the parts of a picture of this size lie.
  CanvasLayout PictureLayout(QSize size) const;
  static constexpr int kMostPictureSide = 6144;  // pixels
  void CancelExport();

  // Where a control of the panel was drawn last ("method", a parameter's name, "overlay", "run", "cancel", ..), and
  // where a score's centre lies, in the canvas' pixels; a null rectangle for a control that is not on show. For tests
  // and guided tours.
  QRectF PanelControl(const QString& name) const;
  QPointF PixelOf(int64_t row, int64_t column) const;
  // The panel's control that the keyboard is on; empty while it is on the map or elsewhere.
  QString FocusedControl() const;

  // The map's own part of the canvas, its scale, and the level of the tiles that it shows.
  QRectF MapRect() const;
  QRectF MinimapRect() const;  // null while there is none
  double ScoresPerPixel() const;
  int TileLevel() const;
  // Told how long each tile took from its request to its arrival; for measurements.
  void SetTileWatch(std::function<void(double milliseconds)> watch);

  // Frames drawn since construction: the measure of idleness.
  int64_t frames_drawn() const;
  // A frame is asked for and not drawn yet. Qt draws none of a map that something opaque, such as a page or the palette
  // over a small one, covers whole; it is drawn when that goes, and is not due until then.
  bool IsFrameDue() const;
  // A tile that will ask for one is on its way, to a map that is not covered.
  bool IsTileDue() const;
  // True when no tile, mask or live run of the present view is on its way and no frame is due.
  bool IsSettled() const;
  // The same but for the times of the live run, which are taken when all else is on the screen.
  bool ShowsAllFigures() const;
  // What it is not settled for, in words for whoever looks for a fault; empty: it is.
  QStringList Awaited() const;

 Q_SIGNALS:
  void CursorMoved(qint64 row, qint64 column, const headscope::ui::Exact& exact);
  void CursorLeft();
  void LaidOut();      // in a new size
  void PanelPlaced();  // beside the map, above it or over it, where it was not before
  void PanelMoved();   // PanelControl("panel") is another rectangle
  void ViewChanged();
  void DisplayChanged();  // colours, scale, reduction, overlay or panel
  // A person has set the range of the colours: members of the view state. By itself it moves in silence.
  void RangeSet(const QJsonObject& before, const QJsonObject& after);
  void NotePressed(const QString& id);
  // Also when only a parameter or the target for the kept mass changed.
  void MethodChanged(const QString& method, const QString& parameters);
  void TilesArrived();
  // A curve beside the map was pressed: the key there, at the query in the view's middle, or the query with the key
  // that it gives most of in view. It is marked as by GoTo, and the view stays.
  // So is a score that was clicked; clicked again, it is marked no longer.
  void ScoreMarked(qint64 row, qint64 column);
  // The click that ScoreMarked told of was the first one of a double click: marked is what was marked before it.
  void ScoreMarkTakenBack();
  // The right button on the map, or the menu key: what can be done with the score there; row -1: there is none.
  void MenuWanted(QPoint global, qint64 row, qint64 column);
  void MaskStateChanged();  // a mask came, was asked for or is gone, or the target moved
  void MaskReady(const headscope::ui::LiveMask& mask);
  // MethodTrial::WorstQueryFound is on show, marked as by GoTo at the key that it loses most of.
  void WorstQueryShown(qint64 row, double kept_mass, const std::vector<headscope::ui::LostKey>& lost);
  void RunRequested(headscope::analysis::HeadId head, const QString& method, const QString& parameters);
  void RunProgressed(const headscope::ui::ProgressReport& report);
  void RunFinished(const headscope::analysis::MethodResult& result);
  void RunFailed(const QString& message);
  void FitToTraceRequested();        // the panel: its parameters keep everything at this length
  void HeadStepRequested(int step);  // -1: ',' was pressed, the previous head; +1: '.', the next
  void PngExported(const QString& path, const QString& error);    // an empty error: the file is there
  void PictureMade(const QImage& picture, const QString& error);  // an empty error: there is one

 protected:
  void initializeGL() override;
  void paintGL() override;
  void resizeGL(int width, int height) override;
  QColor Ground() const override;
  bool event(QEvent* event) override;
  bool focusNextPrevChild(bool next) override;

 private:
  class Impl;
  bool IsCovered() const;  // visible, and nothing of it is in sight
  std::unique_ptr<Impl> impl_;
};

}  // namespace headscope::ui
