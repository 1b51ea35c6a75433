// SPDX-License-Identifier: Apache-2.0
#include "imgui_bridge.h"

#include <QClipboard>
#include <QFile>
#include <QGuiApplication>
#include <QInputMethodEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QWheelEvent>
#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <optional>

#include "backends/imgui_impl_opengl3.h"

namespace headscope::ui {

namespace {

constexpr float kFontPixels = 15;
// A press needs a frame for the hover before it, itself, its release and the frame in which what it changed is drawn.
constexpr int kFramesAfterInput = 3;
constexpr float kNotch = 120;          // QWheelEvent::angleDelta of one notch
constexpr float kPixelsPerNotch = 40;  // of touchpads that report pixels only

std::optional<InputKey> InputKeyOf(int qt_key) {
  switch (qt_key) {
    case Qt::Key_Tab:
      return InputKey::kTab;
    case Qt::Key_Backtab:
      return InputKey::kTab;
    case Qt::Key_Left:
      return InputKey::kLeft;
    case Qt::Key_Right:
      return InputKey::kRight;
    case Qt::Key_Up:
      return InputKey::kUp;
    case Qt::Key_Down:
      return InputKey::kDown;
    case Qt::Key_PageUp:
      return InputKey::kPageUp;
    case Qt::Key_PageDown:
      return InputKey::kPageDown;
    case Qt::Key_Home:
      return InputKey::kHome;
    case Qt::Key_End:
      return InputKey::kEnd;
    case Qt::Key_Insert:
      return InputKey::kInsert;
    case Qt::Key_Delete:
      return InputKey::kDelete;
    case Qt::Key_Backspace:
      return InputKey::kBackspace;
    case Qt::Key_Space:
      return InputKey::kSpace;
    case Qt::Key_Return:
      return InputKey::kReturn;
    case Qt::Key_Enter:
      return InputKey::kEnter;
    case Qt::Key_Escape:
      return InputKey::kEscape;
    case Qt::Key_A:
      return InputKey::kA;
    case Qt::Key_C:
      return InputKey::kC;
    case Qt::Key_V:
      return InputKey::kV;
    case Qt::Key_X:
      return InputKey::kX;
    case Qt::Key_Y:
      return InputKey::kY;
    case Qt::Key_Z:
      return InputKey::kZ;
    case Qt::Key_Control:
      return InputKey::kControl;
    case Qt::Key_Shift:
      return InputKey::kShift;
    case Qt::Key_Alt:
      return InputKey::kAlt;
    case Qt::Key_Meta:
      return InputKey::kSuper;
    default:
      return std::nullopt;
  }
}

// 1.86 looks up keys by names that it maps to an array of ours; 1.87 and newer take events. Both tables are in the
// order of InputKey.
#if IMGUI_VERSION_NUM >= 18700
constexpr std::array<ImGuiKey, kNumInputKeys> kImGuiKeys = {
    ImGuiKey_Tab,      ImGuiKey_LeftArrow, ImGuiKey_RightArrow, ImGuiKey_UpArrow,   ImGuiKey_DownArrow,
    ImGuiKey_PageUp,   ImGuiKey_PageDown,  ImGuiKey_Home,       ImGuiKey_End,       ImGuiKey_Insert,
    ImGuiKey_Delete,   ImGuiKey_Backspace, ImGuiKey_Space,      ImGuiKey_Enter,     ImGuiKey_KeypadEnter,
    ImGuiKey_Escape,   ImGuiKey_A,         ImGuiKey_C,          ImGuiKey_V,         ImGuiKey_X,
    ImGuiKey_Y,        ImGuiKey_Z,         ImGuiKey_LeftCtrl,   ImGuiKey_LeftShift, ImGuiKey_LeftAlt,
    ImGuiKey_LeftSuper};
#else
constexpr int kFirstModifier = static_cast<int>(InputKey::kControl);
constexpr std::array<ImGuiKey_, kFirstModifier> kImGuiKeys = {
    ImGuiKey_Tab,    ImGuiKey_LeftArrow, ImGuiKey_RightArrow, ImGuiKey_UpArrow, ImGuiKey_DownArrow,
    ImGuiKey_PageUp, ImGuiKey_PageDown,  ImGuiKey_Home,       ImGuiKey_End,     ImGuiKey_Insert,
    ImGuiKey_Delete, ImGuiKey_Backspace, ImGuiKey_Space,      ImGuiKey_Enter,   ImGuiKey_KeyPadEnter,
    ImGuiKey_Escape, ImGuiKey_A,         ImGuiKey_C,          ImGuiKey_V,       ImGuiKey_X,
    ImGuiKey_Y,      ImGuiKey_Z};
#endif

const char* ClipboardText() {
  static QByteArray text;  // ImGui wants a pointer that outlives the call
  text = QGuiApplication::clipboard()->text().toUtf8();
  return text.constData();
}

void SetUpVersion(ImGuiIO& io) {
#if IMGUI_VERSION_NUM >= 19110
  ImGuiPlatformIO& platform = ImGui::GetPlatformIO();
  platform.Platform_GetClipboardTextFn = [](ImGuiContext*) { return ClipboardText(); };
  platform.Platform_SetClipboardTextFn = [](ImGuiContext*, const char* text) {
    QGuiApplication::clipboard()->setText(QString::fromUtf8(text));
  };
#else
  io.GetClipboardTextFn = [](void*) { return ClipboardText(); };
  io.SetClipboardTextFn = [](void*, const char* text) {
    QGuiApplication::clipboard()->setText(QString::fromUtf8(text));
  };
#endif
#if IMGUI_VERSION_NUM < 18700
  for (size_t key = 0; key < kImGuiKeys.size(); ++key) io.KeyMap[kImGuiKeys[key]] = static_cast<int>(key);
#else
  (void)io;
#endif
}

void SetKey(ImGuiIO& io, InputKey key, bool down) {
#if IMGUI_VERSION_NUM >= 18700
  io.AddKeyEvent(kImGuiKeys[static_cast<size_t>(key)], down);
  switch (key) {
    case InputKey::kControl:
      io.AddKeyEvent(ImGuiMod_Ctrl, down);
      break;
    case InputKey::kShift:
      io.AddKeyEvent(ImGuiMod_Shift, down);
      break;
    case InputKey::kAlt:
      io.AddKeyEvent(ImGuiMod_Alt, down);
      break;
    case InputKey::kSuper:
      io.AddKeyEvent(ImGuiMod_Super, down);
      break;
    default:
      break;
  }
#else
  switch (key) {
    case InputKey::kControl:
      io.KeyCtrl = down;
      break;
    case InputKey::kShift:
      io.KeyShift = down;
      break;
    case InputKey::kAlt:
      io.KeyAlt = down;
      break;
    case InputKey::kSuper:
      io.KeySuper = down;
      break;
    default:
      io.KeysDown[static_cast<size_t>(key)] = down;
      break;
  }
#endif
}

// Characters that token texts and labels are made of; the font's other glyphs show as '?'. Versions with dynamic fonts
// ignore the list.
const ImWchar* GlyphRanges() {
  static const ImWchar ranges[] = {
      0x0020, 0x024f,  // Latin, also the letters that byte-level vocabularies use for bytes
      0x0370, 0x052f,  // Greek, Cyrillic
      0x2010, 0x205e,  // punctuation
      0x20a0, 0x20bf,  // currency
      0x2190, 0x21ff,  // arrows
      0x2200, 0x22ff,  // mathematics
      0x2420, 0x2426, 0x2580, 0x259f, 0x25a0, 0x25ff, 0xfffd, 0xfffd, 0};
  return ranges;
}

}  // namespace

ImGuiBridge::ImGuiBridge() {
  ImGuiContext* const previous = ImGui::GetCurrentContext();
  context_ = ImGui::CreateContext();
  ImGui::SetCurrentContext(context_);
  ImGuiIO& io = ImGui::GetIO();
  io.IniFilename = nullptr;  // where windows lie is part of the session file
  io.LogFilename = nullptr;
  io.BackendPlatformName = "headscope_qt";
  SetUpVersion(io);
  ImGuiStyle& style = ImGui::GetStyle();
  style.WindowRounding = 4;
  style.FrameRounding = 3;
  style.GrabRounding = 3;
  style.WindowBorderSize = 1;
  SetLight(false);
  if (previous != nullptr) ImGui::SetCurrentContext(previous);
}

void ImGuiBridge::SetLight(bool light) {
  ImGuiContext* const previous = ImGui::GetCurrentContext();
  ImGui::SetCurrentContext(context_);
  if (light) {
    ImGui::StyleColorsLight();
  } else {
    ImGui::StyleColorsDark();
  }
  // ImGui's own faint text has less contrast than small letters need.
  const float faint = light ? 0.38f : 0.58f;
  ImGui::GetStyle().Colors[ImGuiCol_TextDisabled] = {faint, faint, faint, 1};
  // A box that is not ticked is white on nearly white.
  ImGui::GetStyle().FrameBorderSize = light ? 1 : 0;
  if (previous != nullptr) ImGui::SetCurrentContext(previous);
}

ImGuiBridge::~ImGuiBridge() {
  ImGui::DestroyContext(context_);
}

void ImGuiBridge::MakeCurrent() {
  ImGui::SetCurrentContext(context_);
}

bool ImGuiBridge::WantsText() {
  MakeCurrent();
  return ImGui::GetIO().WantTextInput;
}

void ImGuiBridge::SyncModifiers(Qt::KeyboardModifiers modifiers) {
  queue_.Key(InputKey::kControl, modifiers.testFlag(Qt::ControlModifier));
  queue_.Key(InputKey::kShift, modifiers.testFlag(Qt::ShiftModifier));
  queue_.Key(InputKey::kAlt, modifiers.testFlag(Qt::AltModifier));
  queue_.Key(InputKey::kSuper, modifiers.testFlag(Qt::MetaModifier));
}

bool ImGuiBridge::HandleEvent(const QEvent& event) {
  const auto button_of = [](const QMouseEvent& mouse) {
    switch (mouse.button()) {
      case Qt::LeftButton:
        return 0;
      case Qt::RightButton:
        return 1;
      case Qt::MiddleButton:
        return 2;
      default:
        return -1;
    }
  };
  switch (event.type()) {
    case QEvent::MouseMove:
    case QEvent::MouseButtonPress:
    case QEvent::MouseButtonDblClick:  // Qt's name for the second press
    case QEvent::MouseButtonRelease: {
      const auto& mouse = static_cast<const QMouseEvent&>(event);
      SyncModifiers(mouse.modifiers());
      queue_.Move(static_cast<float>(mouse.position().x()), static_cast<float>(mouse.position().y()));
      if (event.type() != QEvent::MouseMove)
        queue_.Button(button_of(mouse), event.type() != QEvent::MouseButtonRelease,
                      event.type() == QEvent::MouseButtonDblClick);
      break;
    }
    case QEvent::Wheel: {
      const auto& wheel = static_cast<const QWheelEvent&>(event);
      SyncModifiers(wheel.modifiers());
      queue_.Move(static_cast<float>(wheel.position().x()), static_cast<float>(wheel.position().y()));
      const QPoint angle = wheel.angleDelta();
      const QPoint pixels = wheel.pixelDelta();
      if (!angle.isNull()) {
        queue_.Wheel(static_cast<float>(angle.x()) / kNotch, static_cast<float>(angle.y()) / kNotch);
      } else {
        queue_.Wheel(static_cast<float>(pixels.x()) / kPixelsPerNotch,
                     static_cast<float>(pixels.y()) / kPixelsPerNotch);
      }
      break;
    }
    case QEvent::Leave:
      queue_.Leave();
      break;
    case QEvent::FocusIn:
      queue_.Focus(true);
      break;
    case QEvent::FocusOut:
      queue_.Focus(false);
      break;
    case QEvent::KeyPress:
    case QEvent::KeyRelease:
      if (!HandleKey(static_cast<const QKeyEvent&>(event), event.type() == QEvent::KeyPress)) return false;
      break;
    case QEvent::InputMethod:
      if (!HandleInputMethod(static_cast<const QInputMethodEvent&>(event))) return false;
      break;
    default:
      return false;
  }
  RequestFrames(kFramesAfterInput);
  return true;
}

bool ImGuiBridge::HandleKey(const QKeyEvent& event, bool down) {
  bool queued = false;
  if (const std::optional<InputKey> key = InputKeyOf(event.key())) {
    // A modifier's own event still carries the state before it.
    if (*key < InputKey::kControl) SyncModifiers(event.modifiers());
    if (!(event.isAutoRepeat() && !down)) queue_.Key(*key, down);
    queued = true;
  }
  const bool shortcut = event.modifiers().testFlag(Qt::ControlModifier) && !event.modifiers().testFlag(Qt::AltModifier);
  if (down && !shortcut && WantsText()) {
    QString text;
    for (const QChar character : event.text()) {
      if (character.isPrint() || character.isSurrogate()) text += character;
    }
    queue_.Text(text.toStdString());
    queued = queued || !text.isEmpty();
  }
  return queued;
}

bool ImGuiBridge::HandleInputMethod(const QInputMethodEvent& event) {
  if (event.commitString().isEmpty() || !WantsText()) return false;
  queue_.Text(event.commitString().toStdString());
  return true;
}

void ImGuiBridge::Apply(const FrameInput& input) {
  ImGuiIO& io = ImGui::GetIO();
  // ImGui judges double clicks by the time between frames, which a busy machine stretches; the window system knew
  // better.
  io.MouseDoubleClickTime = input.double_press ? FLT_MAX : 0.0f;  // Qt alone says what a double click is
#if IMGUI_VERSION_NUM >= 18700
  if (input.focus) io.AddFocusEvent(*input.focus);
  if (input.position) io.AddMousePosEvent(input.position->x, input.position->y);
  if (input.pointer_left) io.AddMousePosEvent(-FLT_MAX, -FLT_MAX);
  if (input.button) io.AddMouseButtonEvent(input.button->first, input.button->second);
  if (input.wheel_x != 0 || input.wheel_y != 0) io.AddMouseWheelEvent(input.wheel_x, input.wheel_y);
#else
  if (input.focus) io.AddFocusEvent(*input.focus);
  if (input.position) io.MousePos = {input.position->x, input.position->y};
  if (input.pointer_left) io.MousePos = {-FLT_MAX, -FLT_MAX};
  if (input.button) io.MouseDown[input.button->first] = input.button->second;
  io.MouseWheel += input.wheel_y;
  io.MouseWheelH += input.wheel_x;
#endif
  for (const auto& [key, down] : input.keys) SetKey(io, key, down);
  // UTF-8 keeps a character above U+FFFF in one piece; where ImWchar has 16 bits it becomes one replacement character,
  // not two broken ones.
  if (!input.text.empty()) io.AddInputCharactersUTF8(input.text.c_str());
}

void ImGuiBridge::DrawLetters(double device_pixel_ratio) {
  if (letters_ratio_ == device_pixel_ratio) return;
  ImGuiIO& io = ImGui::GetIO();
  QFile file(QStringLiteral(":/headscope/fonts/DejaVuSans.ttf"));
  ImFontConfig config;
  config.OversampleH = config.OversampleV = 1;
  config.PixelSnapH = true;
  io.Fonts->Clear();
  const auto ratio = static_cast<float>(device_pixel_ratio);
  // The atlas is made in device pixels and drawn smaller, or text would blur at ratios above 1.
  const float pixels = std::round(kFontPixels * ratio);
  if (file.open(QIODevice::ReadOnly)) {
    const QByteArray bytes = file.readAll();
    void* copy = IM_ALLOC(static_cast<size_t>(bytes.size()));  // the atlas frees it
    std::memcpy(copy, bytes.constData(), static_cast<size_t>(bytes.size()));
    io.Fonts->AddFontFromMemoryTTF(copy, static_cast<int>(bytes.size()), pixels, &config, GlyphRanges());
  } else {
    config.SizePixels = pixels;
    io.Fonts->AddFontDefault(&config);
  }
#if IMGUI_VERSION_NUM >= 19200
  ImGui::GetStyle().FontScaleMain = 1 / ratio;
#else
  io.FontGlobalScale = 1 / ratio;
  // Without graphics ImGui still measures text, which needs a built atlas.
  unsigned char* ignored = nullptr;
  int width = 0, height = 0;
  io.Fonts->GetTexDataAsAlpha8(&ignored, &width, &height);
#endif
  letters_ratio_ = device_pixel_ratio;
  font_ratio_ = 0;
}

void ImGuiBridge::BuildFonts(double device_pixel_ratio) {
  if (font_ratio_ == device_pixel_ratio && letters_ratio_ == device_pixel_ratio) return;
  DrawLetters(device_pixel_ratio);
#if IMGUI_VERSION_NUM < 19200
  if (has_graphics_) {
    ImGui_ImplOpenGL3_DestroyFontsTexture();
    ImGui_ImplOpenGL3_CreateFontsTexture();
  }
#endif
  font_ratio_ = device_pixel_ratio;
}

bool ImGuiBridge::InitGraphics() {
  MakeCurrent();
  if (has_graphics_) return true;
  has_graphics_ = ImGui_ImplOpenGL3_Init("#version 330 core");
  font_ratio_ = 0;  // the new OpenGL context has no font texture yet
  return has_graphics_;
}

void ImGuiBridge::ReleaseGraphics() {
  if (!has_graphics_) return;
  MakeCurrent();
  ImGui_ImplOpenGL3_Shutdown();
  has_graphics_ = false;
  font_ratio_ = 0;
}

void ImGuiBridge::NewFrame(QSize size, double device_pixel_ratio, double seconds_since_last) {
  MakeCurrent();
  BuildFonts(device_pixel_ratio);
  ImGuiIO& io = ImGui::GetIO();
  io.DisplaySize = {static_cast<float>(size.width()), static_cast<float>(size.height())};
  io.DisplayFramebufferScale = {static_cast<float>(device_pixel_ratio), static_cast<float>(device_pixel_ratio)};
  // A canvas that slept does not owe ImGui's timers the time it slept: a held key or a double click would be misjudged
  // by more than a second.
  io.DeltaTime = std::clamp(static_cast<float>(seconds_since_last), 1e-4f, 1.0f);
  Apply(queue_.TakeFrame());
  if (frames_due_ > 0) --frames_due_;
  if (!queue_.empty()) RequestFrames(kFramesAfterInput);
  if (has_graphics_) ImGui_ImplOpenGL3_NewFrame();
  ImGui::NewFrame();
}

void ImGuiBridge::PrepareLetters(double device_pixel_ratio) {
  MakeCurrent();
  DrawLetters(device_pixel_ratio);
}

void ImGuiBridge::PrepareFonts(double device_pixel_ratio) {
  MakeCurrent();
  BuildFonts(device_pixel_ratio);
}

void ImGuiBridge::Render() {
  EndFrame();
  DrawFrame();
}

void ImGuiBridge::EndFrame() {
  MakeCurrent();
  ImGui::Render();
}

void ImGuiBridge::DrawFrame() {
  MakeCurrent();
  if (has_graphics_) ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
}

}  // namespace headscope::ui
