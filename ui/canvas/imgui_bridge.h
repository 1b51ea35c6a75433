// SPDX-License-Identifier: Apache-2.0
// Qt's events in, Dear ImGui's frames out: one ImGui context with its fonts and input, owned by one canvas. All that
// depends on ImGui's version (keys and text before and after 1.87, textures before and after 1.92) is in the .cpp file.
//
// OpenGL: InitGraphics and ReleaseGraphics, and everything that draws, need the canvas' OpenGL 3.3 context current. The
// rest does not; input is tested without a display.
#pragma once

#include <QPoint>
#include <QSize>

#include "imgui.h"
#include "input_queue.h"

class QEvent;
class QInputMethodEvent;
class QKeyEvent;

namespace headscope::ui {

class ImGuiBridge {
 public:
  ImGuiBridge();
  ~ImGuiBridge();  // ReleaseGraphics must have run if InitGraphics did
  ImGuiBridge(const ImGuiBridge&) = delete;
  ImGuiBridge& operator=(const ImGuiBridge&) = delete;

  // Widgets for a light window, or for a dark one.
  void SetLight(bool light);

  // Makes this bridge's context ImGui's current one. First thing in every handler: several canvases share the process.
  void MakeCurrent();

  // True when the event is one that ImGui may want: it is then queued, and a frame is due. Mouse positions are the
  // event's own. Text input that ImGui waits for (WantsText) is queued; other characters are not, so that the canvas'
  // single-letter keys never turn up in a field later.
  bool HandleEvent(const QEvent& event);

  // ImGui holds a text field: keys belong to it, not to shortcuts.
  bool WantsText();
  bool HasQueuedInput() const { return !queue_.empty(); }

  bool InitGraphics();
  void ReleaseGraphics();

  // Starts a frame of this size in logical pixels, fed with one frame's worth of queued input. Between NewFrame and
  // Render, ImGui calls draw.
  void NewFrame(QSize size, double device_pixel_ratio, double seconds_since_last);
  // Ends the frame; with graphics, draws it to the bound framebuffer.
  void Render();
  // The two parts of Render, the second of which may come later, before the next NewFrame.
  void EndFrame();
  void DrawFrame();
  // What the first NewFrame of this ratio would do for tens of milliseconds, in two steps: draws the letters, and hands
  // them to OpenGL.
  void PrepareLetters(double device_pixel_ratio);
  void PrepareFonts(double device_pixel_ratio);

  // After input ImGui needs frames that nothing else asks for: to show hovering, and to end a click. Counts down to 0
  // as frames are drawn.
  int frames_due() const { return frames_due_; }
  void RequestFrames(int frames) { frames_due_ = std::max(frames_due_, frames); }

 private:
  void DrawLetters(double device_pixel_ratio);
  void BuildFonts(double device_pixel_ratio);
  void Apply(const FrameInput& input);
  bool HandleKey(const QKeyEvent& event, bool down);
  bool HandleInputMethod(const QInputMethodEvent& event);
  void SyncModifiers(Qt::KeyboardModifiers modifiers);

  ImGuiContext* context_ = nullptr;
  InputQueue queue_;
  double letters_ratio_ = 0, font_ratio_ = 0;  // of the letters in memory, and in OpenGL; 0: none
  int frames_due_ = 0;
  bool has_graphics_ = false;
};

}  // namespace headscope::ui
