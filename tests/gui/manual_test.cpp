// SPDX-License-Identifier: Apache-2.0
// The manual inside the window: pages, search over all of them, links, and the method on show.
#include <QLineEdit>
#include <QListWidget>
#include <QTextBlock>
#include <QTextBrowser>

#include "manual_dialog.h"
#include "reach_fixture.h"

namespace headscope::gui_test {
namespace {

using ui::Command;

class ManualTest : public ReachTest {
 protected:
  void OpenManual() {
    Open();
    window_->commands()[Command::kManual]->trigger();
    manual_ = Find<ui::ManualDialog>("manualDialog");
    ASSERT_TRUE(WaitFor([&] { return manual_->isVisible(); }));
    text_ = Find<QTextBrowser>("manualText");
    sections_ = Find<QListWidget>("manualSections");
  }
  QString Heading() const { return text_->document()->firstBlock().text(); }

  ui::ManualDialog* manual_ = nullptr;
  QTextBrowser* text_ = nullptr;
  QListWidget* sections_ = nullptr;
};

TEST(ManualSections, BeginAtHeadingsOutsideCodeAndHoldEverythingButPictures) {
  const auto sections =
      ui::SectionsOf(QStringLiteral("# A\none\n![p](p.png)\n```\n# no heading\n```\n## B c\ntwo\n#### d\nthree\n"));
  ASSERT_EQ(sections.size(), 2U);
  EXPECT_EQ(sections[0].markdown, QStringLiteral("# A\none\n```\n# no heading\n```\n"));
  EXPECT_EQ(sections[1].heading, QStringLiteral("B c"));
  EXPECT_EQ(sections[1].level, 2);
  EXPECT_TRUE(sections[1].markdown.contains(QStringLiteral("three")));
  EXPECT_EQ(ui::HeadingAnchor(QStringLiteral("Kept mass, and CRA")), QStringLiteral("kept-mass-and-cra"));
}

TEST(ManualSections, ARowOfATableIsAnEntryOfAList) {
  EXPECT_EQ(ui::TablesAsLists(QStringLiteral("a\n\n| name | unit |\n| --- | --- |\n| x | ms |\n| y \\| z | |\n\nb")),
            QStringLiteral("a\n\n- x; unit: ms\n- y \\| z\n\nb"));
}

TEST_F(ManualTest, EveryPageIsThereAndLinksLeadFromOneToAnother) {
  OpenManual();
  for (const char* page :
       {"user_guide.md", "methods.md", "analysis.md", "figures.md", "capture.md", "trace_format.md"}) {
    EXPECT_TRUE(manual_->Show(QLatin1String(page))) << page;
    EXPECT_GT(text_->toPlainText().size(), 100) << page;
  }
  EXPECT_TRUE(manual_->Show(QStringLiteral("user_guide.md"), QStringLiteral("try-a-method")));
  EXPECT_TRUE(text_->toPlainText().contains(QStringLiteral("Meet target")));
  Q_EMIT text_->anchorClicked(QUrl(QStringLiteral("analysis.md#class-of-a-head")));
  EXPECT_EQ(Heading(), QStringLiteral("Class of a head"));
  Q_EMIT text_->anchorClicked(QUrl(QStringLiteral("#quantisation")));
  EXPECT_EQ(Heading(), QStringLiteral("Quantisation"));
  EXPECT_FALSE(manual_->Show(QStringLiteral("no-such-page.md")));
  EXPECT_EQ(Heading(), QStringLiteral("Quantisation"));
}

// The longest took 160 ms of the window's thread, which the watchdog sees of a key.
TEST_F(ManualTest, EverySectionIsShownByAKeyAndAtOnce) {
  OpenManual();
  sections_->setFocus();
  for (int row = 1; row < sections_->count(); ++row) {
    QTest::keyClick(sections_, Qt::Key_Down);
    ASSERT_EQ(sections_->currentRow(), row);
    QApplication::processEvents();
    EXPECT_EQ(Heading(), sections_->item(row)->toolTip().remove(u'`'));
  }
}

TEST_F(ManualTest, SearchGoesThroughAllPages) {
  OpenManual();
  auto* search = Find<QLineEdit>("manualSearch");
  search->setText(QStringLiteral("duoattention"));  // of two pages, in another spelling there
  EXPECT_TRUE(Find<QLabel>("manualHits")->text().endsWith(QStringLiteral("hits")));
  QTest::keyClick(search, Qt::Key_Return);
  EXPECT_EQ(Heading(), QStringLiteral("Over all heads"));
  const QString section = sections_->currentItem()->text();  // with its number of hits, which the pages' words decide
  EXPECT_TRUE(section.endsWith(QStringLiteral(") Over all heads"))) << section.toStdString();
  const int hits = section.mid(1).section(QLatin1Char(')'), 0, 0).toInt();
  EXPECT_GE(hits, 1);
  EXPECT_EQ(text_->textCursor().selectedText().toLower(), QStringLiteral("duoattention"));
  const int first = sections_->currentRow();
  for (int hit = 0; hit < hits; ++hit) {
    EXPECT_EQ(sections_->currentRow(), first) << "hit " << hit;
    QTest::keyClick(search, Qt::Key_Return);
  }
  EXPECT_GT(sections_->currentRow(), first) << "the next one";
  EXPECT_TRUE(Heading().startsWith(QStringLiteral("Methods read from a file"))) << Heading().toStdString();
  EXPECT_EQ(text_->textCursor().selectedText().toLower(), QStringLiteral("duoattention"));
  search->setText(QStringLiteral("no such word is there"));
  EXPECT_EQ(Find<QLabel>("manualHits")->text(), QStringLiteral("0 hits"));
}

// Whichever method the panel shows has its section.
TEST_F(ManualTest, EveryMethodIsFound) {
  OpenManual();
  for (const kernels::MethodSpec& method : canvas_->methods()) {
    SCOPED_TRACE(method.name);
    manual_->Show(QStringLiteral("user_guide.md"));
    manual_->ShowMethod(QString::fromStdString(method.name));
    EXPECT_TRUE(text_->toPlainText().contains(QString::fromStdString(method.name))) << Heading().toStdString();
  }
}

}  // namespace
}  // namespace headscope::gui_test
