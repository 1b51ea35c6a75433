// SPDX-License-Identifier: Apache-2.0
// What the tests of the canvas share: a shown canvas over a synthetic head, and a hand for it.
#pragma once

#include <gtest/gtest.h>

#include <QApplication>
#include <QDir>
#include <QImage>
#include <QJsonObject>
#include <QMouseEvent>
#include <QTest>
#include <QTimer>
#include <QWheelEvent>
#include <memory>

#include "canvas_widget.h"
#include "fake_workbench.h"

namespace headscope::ui {

class HeadCanvasTest : public ::testing::Test {
 protected:
  static constexpr int64_t kTokens = 600;

  HeadCanvasTest() : workbench_(kTokens) {
    workbench_.SetPoster([](std::function<void()> act) { QTimer::singleShot(0, qApp, std::move(act)); });
  }

  // Wide enough for the panel beside the map.
  void Show(QSize size = {1240, 700}) {
    canvas_ = std::make_unique<HeadCanvas>();
    canvas_->setPalette(QPalette(QColor(50, 53, 60), QColor(37, 39, 45)));  // a dark window's, whatever the display has
    QObject::connect(canvas_.get(), &HeadCanvas::GraphicsFailed,
                     [](const QString& message) { FAIL() << message.toStdString(); });
    canvas_->resize(size);
    canvas_->SetWorkbench(&workbench_);
    canvas_->SetTrace(workbench_.Summary());
    canvas_->show();
    ASSERT_TRUE(QTest::qWaitForWindowExposed(canvas_.get()));
    canvas_->activateWindow();
    canvas_->setFocus();
    canvas_->ShowHead({.layer = 0, .head = 0});
    Settle();
  }

  void Settle() {
    ASSERT_TRUE(QTest::qWaitFor([&] { return canvas_->IsSettled(); }, 10000))
        << "the canvas never came to rest; visible: " << canvas_->isVisible()
        << ", frames: " << canvas_->frames_drawn();
    QTest::qWait(30);  // the last signals of the last frame
  }

  // QTest::mouseMove warps the display's pointer, whose event comes some time later; this one comes now.
  void MoveTo(QPointF at, Qt::MouseButtons held = Qt::NoButton) {
    QMouseEvent event(QEvent::MouseMove, at, canvas_->mapToGlobal(at), Qt::NoButton, held, Qt::NoModifier);
    QApplication::sendEvent(canvas_.get(), &event);
  }
  // As a hand does it: there, press, release.
  void Click(QPointF at, Qt::MouseButton button = Qt::LeftButton, Qt::KeyboardModifiers modifiers = {}) {
    MoveTo(at);
    QTest::mousePress(canvas_.get(), button, modifiers, at.toPoint());
    QTest::mouseRelease(canvas_.get(), button, modifiers, at.toPoint());
    Settle();
  }
  void ClickControl(const QString& name) {
    const QRectF control = canvas_->PanelControl(name);
    ASSERT_FALSE(control.isNull()) << name.toStdString() << " is not on the panel";
    Click(control.center());
  }
  void Wheel(QPointF at, int notches) {
    QWheelEvent event(at, canvas_->mapToGlobal(at), {}, {0, 120 * notches}, Qt::NoButton, Qt::NoModifier,
                      Qt::NoScrollPhase, false);
    QApplication::sendEvent(canvas_.get(), &event);
  }
  // The colour at a logical pixel, at any device pixel ratio.
  static QColor ColorAt(const QImage& image, QPointF at) {
    return image.pixelColor((at * image.devicePixelRatio()).toPoint());
  }
  // Leaves a picture for people to look at; nothing is compared with it.
  void KeepPicture(const QString& name) const {
    const QDir folder(QStringLiteral(HEADSCOPE_BINARY_DIR "/artifacts"));
    folder.mkpath(".");
    canvas_->grabFramebuffer().save(folder.filePath(name + ".png"));
  }
  double ScoresPerPixel() const { return canvas_->ViewState()["view"].toObject()["scores_per_pixel"].toDouble(); }
  double CenterColumn() const { return canvas_->ViewState()["view"].toObject()["center_column"].toDouble(); }

  testing::FakeWorkbench workbench_;
  std::unique_ptr<HeadCanvas> canvas_;
};

}  // namespace headscope::ui
