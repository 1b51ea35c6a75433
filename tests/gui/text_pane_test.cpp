// SPDX-License-Identifier: Apache-2.0
// The prompt as text: what tints, marks and chooses in it, by mouse and keys.
#include "text_pane.h"

#include <QLabel>
#include <QToolButton>
#include <set>

#include "reach_fixture.h"

namespace headscope::gui_test {
namespace {

class TextPaneTest : public ReachTest {};

TEST_F(TextPaneTest, ShowsTheModelsAnswerAndItsScore) {
  const QString answered = File(QStringLiteral("answered.h5"));
  WriteSmallTrace(answered.toStdString(), 0, {}, /*answered=*/true);
  ASSERT_NO_FATAL_FAILURE(Open());
  Raise("textDock");
  auto* answer = Find<QLabel>("textAnswer");
  EXPECT_FALSE(answer->isVisible()) << "this trace is of no task";
  window_->OpenPath(answered);
  ASSERT_TRUE(WaitFor([&] { return answer->isVisible(); }));
  EXPECT_EQ(answer->text(), QStringLiteral("Expected answer: “99114”. Model's answer: “word%1 word%2” (wrong)")
                                .arg(kTokens - 2)
                                .arg(kTokens - 1));
  const auto* text = Find<ui::TokenView>("tokenView");
  std::set<int64_t> marked;
  for (int64_t token = 0; token < kTokens; ++token) {
    if (text->IsMarked(token)) marked.insert(token);
  }
  EXPECT_EQ(marked, (std::set<int64_t>{301, kTokens - 2, kTokens - 1}));

  // And on the map's axes, where nothing else is orange.
  ASSERT_TRUE(WaitForCanvas());
  const QImage image = canvas_->grabFramebuffer();
  const QRectF map = canvas_->MapRect();
  const auto is_marked = [&](QPointF at) {
    const QColor color = image.pixelColor((at * image.devicePixelRatio()).toPoint());
    return color.red() > 150 && color.red() > color.green() && color.green() > color.blue() + 60;  // on either ground
  };
  const QPointF needle = canvas_->PixelOf(301, 301), other = canvas_->PixelOf(200, 200);
  EXPECT_TRUE(is_marked({needle.x(), map.top() - 2}));
  EXPECT_TRUE(is_marked({map.left() - 2, needle.y()}));
  EXPECT_FALSE(is_marked({other.x(), map.top() - 2}));
  EXPECT_FALSE(is_marked({map.left() - 2, other.y()}));
}

TEST_F(TextPaneTest, IsTintedByTheQuerysAttentionAndAClickChooses) {
  Open({0, 0});  // looks at the first token
  Raise("textDock");
  auto* text = Find<ui::TokenView>("tokenView");
  ASSERT_TRUE(text->isVisible());
  window_->state()->focus.Choose(100);
  ASSERT_TRUE(WaitFor([&] { return text->query() == 100 && text->TintOf(0) > 0; }));
  EXPECT_FLOAT_EQ(text->TintOf(0), 1) << "the strongest key";
  EXPECT_EQ(text->TintOf(101), 0) << "it comes later";
  text->ScrollTo(30);
  QTest::mouseClick(text->viewport(), Qt::LeftButton, {}, text->RectOf(30).center());
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_TRUE(QRectF(canvas_->rect()).contains(canvas_->PixelOf(100, 30))) << "as a key of the query";
  QTest::mouseClick(text->viewport(), Qt::RightButton, {}, text->RectOf(31).center());
  ASSERT_TRUE(WaitFor([&] { return text->query() == 31; })) << "as the query";
  QTest::keyClick(text, Qt::Key_Right);
  ASSERT_TRUE(WaitFor([&] { return text->query() == 32; }));
}

TEST_F(TextPaneTest, ShowsWhatTheQueryReadsTheChosenKeyAndTheAnswer) {
  const QString answered = File(QStringLiteral("answered.h5"));
  WriteSmallTrace(answered.toStdString(), 0, {}, /*answered=*/true);
  ASSERT_NO_FATAL_FAILURE(Open({0, 0}));  // looks at the first token
  window_->OpenPath(answered);
  // The trace before has as many queries, and its last one would do as well.
  ASSERT_TRUE(WaitFor([&] { return !window_->store()->trace().expected_answer.empty(); }));
  Raise("textDock");
  auto* text = Find<ui::TokenView>("tokenView");
  const auto* title = Find<QLabel>("textTitle");
  ASSERT_TRUE(WaitFor([&] { return text->query() == kTokens - 1; }));
  text->setFocus();
  text->ScrollTo(kTokens - 1);
  window_->state()->focus.Choose(400);
  ASSERT_TRUE(WaitFor([&] { return text->query() == 400; }));
  EXPECT_FALSE(text->RectOf(0).isEmpty()) << "the text comes to its strongest key, with the focus in it, too";

  QTest::keyClick(text, Qt::Key_Left, Qt::ShiftModifier);
  ASSERT_TRUE(WaitFor([&] { return text->key() == 399; })) << "from the query itself to the key before it";
  EXPECT_TRUE(WaitFor([&] { return title->text().contains(QStringLiteral("; key 399 “ word399” (")); }));
  EXPECT_FALSE(text->RectOf(399).isEmpty());
  QTest::keyClick(text, Qt::Key_Right, Qt::ShiftModifier);
  QTest::keyClick(text, Qt::Key_Right, Qt::ShiftModifier);
  ASSERT_TRUE(WaitFor([&] { return text->key() == 400; })) << "no further than the query";

  auto* next = Find<QToolButton>("nextAnswer");
  ASSERT_TRUE(next->isVisible());
  next->click();
  ASSERT_TRUE(WaitFor([&] { return text->key() == 301; })) << "the needle, as a key of the query";
  EXPECT_EQ(text->query(), 400);
  EXPECT_FALSE(text->RectOf(301).isEmpty());
  next->click();
  ASSERT_TRUE(WaitFor([&] { return text->query() == kTokens - 2; })) << "the answer comes later: it is the query";
  next->click();
  ASSERT_TRUE(WaitFor([&] { return text->key() == 301; })) << "and round again";
}

}  // namespace
}  // namespace headscope::gui_test
