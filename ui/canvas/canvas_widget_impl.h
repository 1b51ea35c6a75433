// SPDX-License-Identifier: Apache-2.0
// The inside of HeadCanvas: one frame, the keys, the export.
#pragma once

#include <QElapsedTimer>
#include <QImage>
#include <QOpenGLFramebufferObject>
#include <QTimer>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "canvas_model.h"
#include "canvas_widget.h"
#include "imgui_bridge.h"
#include "live_panel.h"
#include "map_interaction.h"

namespace headscope::ui {

class HeadCanvas::Impl {
 public:
  Impl(HeadCanvas* canvas, MethodTrial* trial);
  ~Impl();

  void InitGraphics();
  void TellOfGraphics();  // when something of it does not work, once
  void ReleaseGraphics();
  void DrawFrame();
  void DescribeItself();                   // for screen readers: what the map shows, and the score under the pointer
  void LayOut();                           // for the canvas' size
  bool HandleKey(const QKeyEvent& event);  // true when the canvas took it
  bool HandlePanelKey(const QKeyEvent& event);
  void AskForMenuByKey();
  void ShowSteps();
  void RequestFrame();
  void PanelChanged();  // by keys: draws until it has settled

  // Runs `change` on the view and tells everybody.
  template <typename Change>
  void ChangeView(const Change& change) {
    LayOut();
    const ViewTransform before = model.view();
    change(model.view());
    if (model.view() != before) Q_EMIT canvas->ViewChanged();
    RequestFrame();
  }
  void Zoom(double factor);  // about the middle of the map
  void SettingsChanged();
  // To what is in view, as soon as its tiles are there: what stands in for them has other values.
  void FitRange();
  // What was to be fitted is another trace's.
  void ForgetFit() { fit_wanted_.reset(); }
  // Means on a linear scale are a thousandth of the largest score: the range follows them, and comes back afterwards.
  // `fit`: what has been restored has its own.
  void FollowScale(bool fit);
  void TellOfRange();  // when it is not what it was
  void TellRanges();
  void ApplyState(const QJsonObject& state);
  bool ApplyMethodState(const QJsonObject& state);

  void StartExport(const QString& path, QSize size, double scale);  // no path: for PictureMade
  void CancelExport();
  // Map and panel on light or dark ground, as the window is.
  void FollowPalette();
  // Requests what the picture lacks; when nothing is, draws it step by step.
  void AdvanceExport();

  HeadCanvas* const canvas;
  CanvasModel model;
  ImGuiBridge bridge;
  CanvasRenderer renderer;
  MapInteraction interaction;
  LivePanel panel;
  int64_t frames_drawn = 0;
  bool frame_requested = false;
  bool named = false;
  std::string trace_name;  // that the map is named with; may be empty
  const HeadCanvas* beside = nullptr;
  analysis::ValueRange known_range;
  int notice_height = 0;  // see HeadCanvas::SetNoticeHeight
  QMetaObject::Connection compared_mask, compared_tiles;
  QJsonObject waiting_trace_state, waiting_method_state;  // restored before there was a trace or a workbench

 private:
  void ConnectTrial();
  struct Export {
    QString path;
    QSize size;  // in pixels of the file
    double scale = 1;
    QSize canvas;  // size / scale
    CanvasLayout layout;
    ViewTransform view;
    PictureGround ground = PictureGround::kDark;
  };
  // A picture whose tiles are all there.
  struct Drawing {
    Export picture;
    int64_t number = 0;  // of the step that comes next
    // As it is when the first step is done, whatever happens to the model then.
    MapPicture map;
    MapLook look;
    CausalRows rows;
    std::unique_ptr<QOpenGLFramebufferObject> framebuffer;
    bool cleared = false, hatching_drawn = false;
    size_t quads_drawn = 0;
    QImage read;  // upside down
    int rows_read = 0;
  };
  // Calls it with the canvas' OpenGL context, in an event of its own, unless the drawing has been dropped by then.
  void NextStep(bool (Impl::*step)());
  void DropDrawing();
  // The steps; false where it was the last one.
  bool PreparePaper();
  bool PrepareLetters();
  bool PrepareFonts();
  bool PrepareFramebuffer();
  bool GatherPicture();
  bool DrawPicture();
  bool DrawLetters();
  bool ReadPicture();
  void TellOfExport(const QString& path, const QString& error, const QImage& picture = {});
  bool IsFaint() const;
  void UpdateCursor();
  void TakeProfilePress(double ratio);
  void TakeClick();
  void AskForMenu(QPoint place, const std::optional<MarkedScore>& score);  // in the canvas' pixels
  // From within a frame: a slot may open a dialog, which must not happen while drawing.
  template <typename Function>
  void AfterFrame(Function function) {
    QMetaObject::invokeMethod(canvas, function, Qt::QueuedConnection);
  }

  QElapsedTimer since_last_frame_;
  QTimer caret_timer_;
  std::optional<Export> export_;  // waits for tiles
  std::unique_ptr<Drawing> drawing_;
  int64_t last_drawing_ = 0;
  ImGuiBridge paper_;
  QMetaObject::Connection context_connection_;
  bool failure_reported_ = false;
  bool was_faint_ = false, fit_when_drawn_ = false;
  std::optional<analysis::HeadId> fit_wanted_;        // by a person, of this head
  std::optional<analysis::ValueRange> range_before_;  // the faint scale
  // That a person has chosen since the last RangeSet: what each took the place of, and the range itself.
  std::vector<std::pair<analysis::ValueRange, analysis::ValueRange>> untold_ranges_;
  std::string tooltip_;  // of the frame before
  QRectF panel_rect_;    // the same
};

}  // namespace headscope::ui
