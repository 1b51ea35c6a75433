// SPDX-License-Identifier: Apache-2.0
// From Qt's events to ImGui's frames, without a display: nothing lost, nothing stuck.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <QApplication>
#include <QInputMethodEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QWheelEvent>
#include <cfloat>
#include <memory>

#include "imgui_bridge.h"
#include "input_queue.h"

namespace headscope::ui {
namespace {

TEST(InputQueueTest, PressAndReleaseAreInFramesOfTheirOwnAfterTheMove) {
  InputQueue queue;
  queue.Move(10, 20);
  queue.Button(0, true);
  queue.Button(0, false);
  const FrameInput move = queue.TakeFrame();
  EXPECT_EQ(move.position, (PointerPosition{10, 20}));
  EXPECT_FALSE(move.button);
  EXPECT_EQ(queue.TakeFrame().button, (std::pair<int, bool>{0, true}));
  EXPECT_EQ(queue.TakeFrame().button, (std::pair<int, bool>{0, false}));
  EXPECT_TRUE(queue.empty());
}

TEST(InputQueueTest, MovesCoalesceAndWheelsAtRestAddUp) {
  InputQueue queue;
  for (int step = 0; step < 50; ++step) queue.Move(static_cast<float>(step), 0);
  EXPECT_EQ(queue.TakeFrame().position, (PointerPosition{49, 0}));
  for (int step = 0; step < 10; ++step) {
    queue.Move(49, 0);
    queue.Wheel(0, 0.5f);
  }
  EXPECT_FLOAT_EQ(queue.TakeFrame().wheel_y, 5);
  EXPECT_TRUE(queue.empty());
}

TEST(InputQueueTest, LeavingWhileDraggingWaitsForTheRelease) {
  InputQueue queue;
  queue.Move(1, 1);
  queue.Button(0, true);
  queue.Leave();
  queue.TakeFrame();
  EXPECT_TRUE(queue.TakeFrame().button->second);
  EXPECT_TRUE(queue.empty()) << "the drag goes on";
  queue.Button(0, false);
  EXPECT_FALSE(queue.TakeFrame().button->second);
  EXPECT_TRUE(queue.TakeFrame().pointer_left);
}

TEST(InputQueueTest, LosingTheFocusReleasesEverythingHeld) {
  InputQueue queue;
  queue.Key(InputKey::kLeft, true);
  queue.Key(InputKey::kControl, true);
  queue.Button(2, true);
  queue.Focus(false);
  EXPECT_FALSE(queue.AnyButtonHeld());
  std::vector<InputKey> released;
  bool button_released = false, focus_lost = false;
  while (!queue.empty()) {
    const FrameInput frame = queue.TakeFrame();
    for (const auto& [key, down] : frame.keys) {
      if (!down) released.push_back(key);
    }
    button_released = button_released || (frame.button && !frame.button->second);
    focus_lost = focus_lost || frame.focus == false;
  }
  EXPECT_THAT(released, ::testing::UnorderedElementsAre(InputKey::kLeft, InputKey::kControl));
  EXPECT_TRUE(button_released);
  EXPECT_TRUE(focus_lost);
}

TEST(InputQueueTest, OneTransitionPerKeyAndFrame) {
  InputQueue queue;
  queue.Key(InputKey::kA, true);
  queue.Key(InputKey::kC, true);
  queue.Key(InputKey::kA, true);  // a repeat
  queue.Key(InputKey::kA, false);
  EXPECT_EQ(queue.TakeFrame().keys.size(), 2u);
  EXPECT_EQ(queue.TakeFrame().keys.size(), 1u);
  EXPECT_TRUE(queue.empty());
}

class QtEnvironment : public ::testing::Environment {
 public:
  void SetUp() override { application_ = std::make_unique<QApplication>(argument_count_, arguments_); }
  void TearDown() override { application_.reset(); }

 private:
  int argument_count_ = 1;
  char name_[18] = "canvas_input_test";
  char* arguments_[2] = {name_, nullptr};
  std::unique_ptr<QApplication> application_;
};
const auto* const kEnvironment = ::testing::AddGlobalTestEnvironment(new QtEnvironment);

// A window with a button, a text field and nothing else, drawn into the void.
class ImGuiBridgeTest : public ::testing::Test {
 protected:
  ImGuiBridgeTest() { Frames(2); }

  void Frame() {
    bridge_.NewFrame({400, 300}, ratio_, 1.0 / 60);
    ImGui::SetNextWindowPos({0, 0});
    ImGui::SetNextWindowSize({300, 200});
    ImGui::Begin("test");
    if (ImGui::Button("press", {100, 40})) ++num_clicks_;
    button_ = Center();
    if (ImGui::IsItemHovered() && ImGui::IsMouseDoubleClicked(0)) ++num_double_clicks_;
    if (ImGui::InputText("text", text_, sizeof(text_), ImGuiInputTextFlags_EnterReturnsTrue)) ++num_returns_;
    field_ = Center();
    ImGui::End();
    wheel_ += ImGui::GetIO().MouseWheel;
    bridge_.Render();
  }
  void Frames(int count) {
    for (int frame = 0; frame < count; ++frame) Frame();
  }
  // Draws as many frames as the bridge asks for.
  void Settle() {
    for (int frame = 0; bridge_.frames_due() > 0 || bridge_.HasQueuedInput(); ++frame) {
      ASSERT_LT(frame, 100) << "the bridge asks for frames for ever";
      Frame();
    }
  }
  static QPointF Center() {
    const ImVec2 min = ImGui::GetItemRectMin(), max = ImGui::GetItemRectMax();
    return {static_cast<double>(min.x + max.x) / 2, static_cast<double>(min.y + max.y) / 2};
  }
  void Mouse(QEvent::Type type, QPointF at, Qt::MouseButton button = Qt::LeftButton) {
    const Qt::MouseButtons held =
        type == QEvent::MouseButtonRelease || type == QEvent::MouseMove ? Qt::NoButton : button;
    bridge_.HandleEvent(
        QMouseEvent(type, at, at, type == QEvent::MouseMove ? Qt::NoButton : button, held, Qt::NoModifier));
  }
  void Key(QEvent::Type type, int key, const QString& text = {}, Qt::KeyboardModifiers modifiers = {}) {
    bridge_.HandleEvent(QKeyEvent(type, key, modifiers, text));
  }
  void FocusField() {
    Mouse(QEvent::MouseButtonPress, field_);
    Mouse(QEvent::MouseButtonRelease, field_);
    Settle();
    ASSERT_TRUE(bridge_.WantsText());
  }

  ImGuiBridge bridge_;
  double ratio_ = 1;
  QPointF button_, field_;
  char text_[64] = "";
  int num_clicks_ = 0, num_double_clicks_ = 0, num_returns_ = 0;
  float wheel_ = 0;
};

TEST_F(ImGuiBridgeTest, PressAndReleaseBetweenTwoFramesIsAClick) {
  Mouse(QEvent::MouseButtonPress, button_);
  Mouse(QEvent::MouseButtonRelease, button_);
  Settle();
  EXPECT_EQ(num_clicks_, 1);
  EXPECT_TRUE(ImGui::GetIO().WantCaptureMouse);
}

TEST_F(ImGuiBridgeTest, DoubleClickIsTwoClicksAndADoubleClick) {
  Mouse(QEvent::MouseButtonPress, button_);
  Mouse(QEvent::MouseButtonRelease, button_);
  Mouse(QEvent::MouseButtonDblClick, button_);
  Mouse(QEvent::MouseButtonRelease, button_);
  Settle();
  EXPECT_EQ(num_clicks_, 2);
  EXPECT_EQ(num_double_clicks_, 1);
}

TEST_F(ImGuiBridgeTest, LeavingWhileDraggingKeepsTheButton) {
  Mouse(QEvent::MouseButtonPress, button_);
  bridge_.HandleEvent(QEvent(QEvent::Leave));
  Settle();
  bridge_.MakeCurrent();
  EXPECT_TRUE(ImGui::GetIO().MouseDown[0]);
  Mouse(QEvent::MouseButtonRelease, {-50, -50});
  Settle();
  EXPECT_FALSE(ImGui::GetIO().MouseDown[0]);
  EXPECT_EQ(num_clicks_, 0) << "released outside";
  bridge_.HandleEvent(QEvent(QEvent::Leave));
  Settle();
  EXPECT_FALSE(ImGui::IsMousePosValid());
}

TEST_F(ImGuiBridgeTest, FocusOutReleasesAHeldKey) {
  Key(QEvent::KeyPress, Qt::Key_Left, {}, Qt::ShiftModifier);
  Settle();
  bridge_.MakeCurrent();
  EXPECT_TRUE(ImGui::IsKeyDown(ImGui::GetKeyIndex(ImGuiKey_LeftArrow)));
  EXPECT_TRUE(ImGui::GetIO().KeyShift);
  bridge_.HandleEvent(QFocusEvent(QEvent::FocusOut));
  Settle();
  EXPECT_FALSE(ImGui::IsKeyDown(ImGui::GetKeyIndex(ImGuiKey_LeftArrow)));
  EXPECT_FALSE(ImGui::GetIO().KeyShift);
}

TEST_F(ImGuiBridgeTest, WheelAwayFromTheUserIsPositive) {
  const auto wheel = [&](QPoint pixels, QPoint angle) {
    bridge_.HandleEvent(
        QWheelEvent(button_, button_, pixels, angle, Qt::NoButton, Qt::NoModifier, Qt::NoScrollPhase, false));
    wheel_ = 0;
    Settle();
  };
  wheel({}, {0, 240});
  EXPECT_FLOAT_EQ(wheel_, 2);
  wheel({}, {0, -120});
  EXPECT_FLOAT_EQ(wheel_, -1);
  wheel({0, 20}, {});
  EXPECT_FLOAT_EQ(wheel_, 0.5f);
}

TEST_F(ImGuiBridgeTest, ReturnAndEnterFinishATextField) {
  for (const int key : {Qt::Key_Return, Qt::Key_Enter}) {
    FocusField();
    Key(QEvent::KeyPress, key, "\r");
    Key(QEvent::KeyRelease, key);
    Settle();
    EXPECT_FALSE(bridge_.WantsText());
  }
  EXPECT_EQ(num_returns_, 2);
  EXPECT_STREQ(text_, "") << "the carriage return is a key, not a character";
}

TEST_F(ImGuiBridgeTest, TextArrivesInOneField) {
  Key(QEvent::KeyPress, Qt::Key_W, "w");  // no field waits: nothing is kept for later
  Settle();
  FocusField();
  Key(QEvent::KeyPress, Qt::Key_A, "a");
  Key(QEvent::KeyRelease, Qt::Key_A, "a");
  QInputMethodEvent composed;
  composed.setCommitString(QStringLiteral("é"));
  bridge_.HandleEvent(composed);
  Key(QEvent::KeyPress, Qt::Key_C, "\x03", Qt::ControlModifier);
  Settle();
  EXPECT_STREQ(text_, "aé");
}

TEST_F(ImGuiBridgeTest, CharacterAboveTheBasicPlaneIsOneCharacter) {
  FocusField();
  Key(QEvent::KeyPress, 0, QString::fromUtf8("\xF0\x9D\x84\x9E"));
  Settle();
  EXPECT_STREQ(text_, sizeof(ImWchar) > 2 ? "\xF0\x9D\x84\x9E" : "\xEF\xBF\xBD")
      << "itself, or one replacement character";
}

TEST_F(ImGuiBridgeTest, TwoBridgesKeepTheirStateApart) {
  ImGuiBridge other;
  Mouse(QEvent::MouseMove, button_);
  Settle();
  other.NewFrame({100, 100}, 2, 0.1);
  EXPECT_FALSE(ImGui::IsMousePosValid());
  EXPECT_FLOAT_EQ(ImGui::GetIO().DisplayFramebufferScale.x, 2);
  EXPECT_NEAR(ImGui::GetFontSize(), 15, 0.5f) << "logical pixels at any ratio";
  other.Render();
  bridge_.MakeCurrent();
  EXPECT_TRUE(ImGui::IsMousePosValid());
}

}  // namespace
}  // namespace headscope::ui
