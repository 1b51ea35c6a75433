// SPDX-License-Identifier: Apache-2.0
// Pictures of the map, made while the window goes on: the watchdog fails a case in which a step of one takes too long.
#include <QImage>
#include <QSignalSpy>
#include <cmath>

#include "canvas_widget.h"
#include "shell_fixture.h"
#include "watchdog.h"

namespace headscope::gui_test {
namespace {

class MapPictureTest : public ShellTest {
 protected:
  void Open() {
    OpenWindow(ShippedTrace());
    ASSERT_TRUE(WaitFor([this] { return window_->store()->HasTrace(); }));
    window_->store()->Select({.layer = 4, .head = 1});
    ASSERT_TRUE(WaitForCanvas());
  }
};

TEST_F(MapPictureTest, LargePicturesAreMadeInShortSteps) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ui::HeadCanvas* const canvas = window_->canvas();
  QSignalSpy exported(canvas, &ui::HeadCanvas::PngExported), made(canvas, &ui::HeadCanvas::PictureMade);
  // The first one makes the letters, the second finds them, the third needs larger ones; 4,000 pixels wide and more.
  for (const auto& [number, scale] : {std::pair{1, 3.0}, {2, 3.0}, {3, 3.5}}) {
    canvas->ExportPng(File(QStringLiteral("map%1.png").arg(number)), canvas->PictureSize() * scale, scale);
    ASSERT_TRUE(WaitFor([&] { return exported.size() == number; }, 60000));
    EXPECT_EQ(exported.back()[1].toString(), QString());
  }
  const QImage first(File(QStringLiteral("map1.png"))), again(File(QStringLiteral("map2.png")));
  ASSERT_FALSE(first.isNull());
  EXPECT_EQ(first.size(), canvas->PictureSize() * 3.0);
  EXPECT_EQ(first, again) << "kept letters are the same letters";

  // Without a file it is the same picture.
  canvas->MakePicture(canvas->PictureSize() * 3.0, 3);
  ASSERT_TRUE(WaitFor([&] { return made.size() == 1; }, 60000));
  EXPECT_EQ(made[0][1].toString(), QString());
  EXPECT_EQ(made[0][0].value<QImage>(), first);
  EXPECT_EQ(exported.size(), 3);
}

// What was on show when it was asked for and its tiles were there is in the picture, whatever comes then.
TEST_F(MapPictureTest, APictureIsOfOneHeadAlone) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ui::HeadCanvas* const canvas = window_->canvas();
  QSignalSpy made(canvas, &ui::HeadCanvas::PictureMade);
  const QSize size = canvas->PictureSize() * 2.0;
  canvas->MakePicture(size, 2);
  ASSERT_TRUE(WaitFor([&] { return made.size() == 1; }, 60000));
  const QImage alone = made[0][0].value<QImage>();
  const std::optional<analysis::HeadId> first = window_->store()->selected();
  ASSERT_TRUE(first);
  canvas->MakePicture(size, 2);
  // Its tiles are there from the first one, so its steps have begun: another head comes in between two of them.
  for (int step = 0; step < 4; ++step) QCoreApplication::sendPostedEvents(canvas, QEvent::MetaCall);
  window_->store()->Select({.layer = 7, .head = 3});
  ASSERT_TRUE(WaitFor([&] { return made.size() == 2; }, 60000));
  EXPECT_EQ(made[1][0].value<QImage>(), alone);

  // One that comes earlier is the picture's, and nothing of it is missing.
  const analysis::HeadId other{.layer = 7, .head = 3};
  canvas->MakePicture(size, 2);
  ASSERT_TRUE(WaitFor([&] { return made.size() == 3; }, 60000));
  const QImage of_other = made[2][0].value<QImage>();
  ASSERT_NE(of_other, alone);
  for (int steps = 0; steps < 4; ++steps) {
    SCOPED_TRACE(steps);
    window_->store()->Select(*first);
    ASSERT_TRUE(WaitForCanvas());
    canvas->MakePicture(size, 2);
    for (int step = 0; step < steps; ++step) QCoreApplication::sendPostedEvents(canvas, QEvent::MetaCall);
    window_->store()->Select(other);
    ASSERT_TRUE(WaitFor([&] { return made.size() == 4 + steps; }, 60000));
    EXPECT_EQ(made.back()[1].toString(), QString());
    const QImage picture = made.back()[0].value<QImage>();
    EXPECT_TRUE(picture == of_other || (steps > 0 && picture == alone));
  }

  // One that is given up tells nothing.
  canvas->MakePicture(size, 2);
  canvas->CancelExport();
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_EQ(made.size(), 7);
}

}  // namespace
}  // namespace headscope::gui_test
