// SPDX-License-Identifier: Apache-2.0
// The capture dialog over a workbench of the test's own, for models and devices that this machine lacks.
#include "capture_dialog.h"

#include <gtest/gtest.h>

#include <QApplication>
#include <QComboBox>
#include <QDir>
#include <QLabel>
#include <QLineEdit>
#include <QMessageBox>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QSignalSpy>
#include <QSpinBox>
#include <QTest>
#include <QTimer>
#include <map>

#include "fake_workbench.h"

namespace headscope::ui {
namespace {

class CaptureDialogTest : public ::testing::Test {
 protected:
  CaptureDialogTest() : workbench_(64) {
    workbench_.SetPoster([](std::function<void()> act) { QTimer::singleShot(0, qApp, std::move(act)); });
    ModelDescription model;
    model.model_type = "synthetic";
    model.dtype = "F32";
    model.num_layers = model.num_qo_heads = model.num_kv_heads = 2;
    model.head_dim = 16;
    workbench_.model = model;
  }
  QString TextOf(const CaptureDialog& dialog, const char* label) {
    return dialog.findChild<QLabel*>(QLatin1String(label))->text();
  }

  // Of the synthetic model, into a file that is not there.
  void AskForTokenIds(CaptureDialog* dialog) {
    ASSERT_TRUE(QTest::qWaitFor([&] { return TextOf(*dialog, "captureModelLabel").contains(u"synthetic"); }));
    auto* kind = dialog->findChild<QComboBox*>(QStringLiteral("capturePromptKind"));
    kind->setCurrentIndex(kind->findText(QStringLiteral("Token ids")));
    dialog->findChild<QLineEdit*>(QStringLiteral("captureOutput"))
        ->setText(QDir::temp().filePath(QStringLiteral("headscope-no-such-capture.h5")));
  }

  testing::FakeWorkbench workbench_;
};

// A task's line stood in the middle of the room that typed text has.
TEST_F(CaptureDialogTest, WhatAPromptIsMadeOfFollowsItsKindWithoutAGap) {
  CaptureDialog dialog(&workbench_);
  dialog.show();
  ASSERT_TRUE(QTest::qWaitForWindowExposed(&dialog));
  auto* kind = dialog.findChild<QComboBox*>(QStringLiteral("capturePromptKind"));
  const std::map<QString, const char*> of_kind = {{QStringLiteral("Typed text"), "captureText"},
                                                  {QStringLiteral("Text file"), "capturePromptFile"},
                                                  {QStringLiteral("Task with a known answer"), "captureTask"},
                                                  {QStringLiteral("Token ids"), "captureIds"}};
  ASSERT_EQ(kind->count(), static_cast<int>(of_kind.size()));
  for (const auto& [text, name] : of_kind) {
    kind->setCurrentIndex(kind->findText(text));
    auto* const first = dialog.findChild<QWidget*>(QLatin1String(name));
    ASSERT_TRUE(QTest::qWaitFor([&] { return first->isVisible(); }));
    const auto gap = [&] {
      return first->mapTo(&dialog, QPoint()).y() - kind->mapTo(&dialog, QPoint(0, kind->height())).y();
    };
    EXPECT_TRUE(QTest::qWaitFor([&] { return gap() >= 0 && gap() <= 12; })) << text.toStdString() << ": " << gap();
  }
  EXPECT_EQ(dialog.findChild<QSpinBox*>(QStringLiteral("captureLength"))->text(), QStringLiteral("4,096 tokens"));
}

TEST_F(CaptureDialogTest, SaysOfAnEncoderThatTheWindowCannotOpenItsTraces) {
  for (const char* why : {"", "The window cannot open it."}) {
    workbench_.model->why_not_shown = why;
    CaptureDialog dialog(&workbench_);
    ASSERT_TRUE(QTest::qWaitFor([&] { return TextOf(dialog, "captureModelLabel").contains(u"synthetic"); }));
    EXPECT_EQ(TextOf(dialog, "captureModelLabel").contains(u"cannot open"), *why != 0);
    // Nor is what was captured offered for opening.
    dialog.show();
    dialog.findChild<QPlainTextEdit*>(QStringLiteral("captureText"))->setPlainText(QStringLiteral("a prompt"));
    dialog.findChild<QLineEdit*>(QStringLiteral("captureOutput"))
        ->setText(QDir::temp().filePath(QStringLiteral("headscope-no-such-capture.h5")));
    auto* start = dialog.findChild<QPushButton*>(QStringLiteral("captureStart"));
    ASSERT_TRUE(QTest::qWaitFor([&] { return start->isEnabled(); }));
    const QSignalSpy captured(&dialog, &CaptureDialog::Captured);
    start->click();
    ASSERT_TRUE(QTest::qWaitFor([&] { return captured.count() == 1 && !dialog.IsCapturing(); }));
    EXPECT_EQ(dialog.CanBeShown(), *why == 0);
    EXPECT_EQ(dialog.findChild<QPushButton*>(QStringLiteral("captureOpen"))->isVisible(), *why == 0);
  }
}

TEST_F(CaptureDialogTest, SaysWhoseMemoryACaptureTakes) {
  workbench_.devices = {kCpu, CudaDevice(0)};
  workbench_.capture_estimate = CaptureEstimate{100, 2, 1 << 20, int64_t{3} << 30};
  CaptureDialog dialog(&workbench_);
  const auto text = [&] { return TextOf(dialog, "captureEstimate"); };
  ASSERT_TRUE(QTest::qWaitFor([&] { return text().contains(QStringLiteral("3.0 GiB of memory")); }))
      << text().toStdString();
  workbench_.capture_estimate->on_gpu = true;
  dialog.findChild<QComboBox*>(QStringLiteral("captureDevice"))->setCurrentIndex(1);
  EXPECT_TRUE(QTest::qWaitFor([&] { return text().contains(QStringLiteral("3.0 GiB of GPU memory")); }))
      << text().toStdString();
}

// Once, the window knew single devices alone.
TEST_F(CaptureDialogTest, PlacesLayersByMemoryAndSaysWhereAndWhatIsPassedOver) {
  const std::string placed = "layers 0-1 on cuda:0; cuda:1 is not used: it computes nothing";
  workbench_.devices = {kCpu, CudaDevice(0), CudaDevice(1)};
  workbench_.capture_estimate = CaptureEstimate{100, 2, 1 << 20, int64_t{3} << 30};
  CaptureDialog dialog(&workbench_);
  auto* device = dialog.findChild<QComboBox*>(QStringLiteral("captureDevice"));
  EXPECT_FALSE(dialog.Settings().place_by_memory) << "one device is the default, as on the command line";
  for (int index = 0; index < 3; ++index) {
    device->setCurrentIndex(index);
    EXPECT_FALSE(dialog.Settings().place_by_memory);
    EXPECT_EQ(dialog.Settings().device, workbench_.devices[static_cast<size_t>(index)]);
  }
  workbench_.capture_estimate->placement = placed;
  workbench_.capture_estimate->on_gpu = true;
  device->setCurrentIndex(device->findText(QStringLiteral("auto")));
  EXPECT_TRUE(dialog.Settings().place_by_memory);
  const auto text = [&] { return TextOf(dialog, "captureEstimate"); };
  EXPECT_TRUE(QTest::qWaitFor([&] { return text().contains(QString::fromStdString(placed)); })) << text().toStdString();
  EXPECT_TRUE(text().contains(QStringLiteral("of GPU memory"))) << text().toStdString();
}

TEST_F(CaptureDialogTest, TakesTokenIdsAsTheyAre) {
  CaptureDialog dialog(&workbench_);
  ASSERT_NO_FATAL_FAILURE(AskForTokenIds(&dialog));
  auto* ids = dialog.findChild<QLineEdit*>(QStringLiteral("captureIds"));
  auto* start = dialog.findChild<QPushButton*>(QStringLiteral("captureStart"));
  for (const char* bad : {"", " , ", "a", "1,-2", "1.5", "99999999999"}) {
    ids->setText(QString::fromLatin1(bad));
    EXPECT_FALSE(start->isEnabled()) << bad;
    EXPECT_TRUE(dialog.Settings().prompt_ids.empty()) << bad;
  }
  ids->setText(QStringLiteral("5, 17 3,,200"));
  EXPECT_TRUE(start->isEnabled());
  EXPECT_EQ(dialog.Settings().prompt_ids, (std::vector<int32_t>{5, 17, 3, 200}));
  EXPECT_TRUE(dialog.Settings().task.empty() && dialog.Settings().prompt_text.empty());
}

TEST_F(CaptureDialogTest, SpreadsTheTraceOverFiles) {
  CaptureDialog dialog(&workbench_);
  EXPECT_EQ(dialog.Settings().num_files, 1);
  auto* files = dialog.findChild<QSpinBox*>(QStringLiteral("captureFiles"));
  ASSERT_NE(files, nullptr);
  files->setValue(4);
  EXPECT_EQ(dialog.Settings().num_files, 4);
  files->setValue(kMostTraceFiles + 1);
  EXPECT_EQ(dialog.Settings().num_files, kMostTraceFiles);
}

// The copied command was refused where the dialog's own capture went through.
TEST_F(CaptureDialogTest, TakesTheNamesThatTheCommandTakes) {
  CaptureDialog dialog(&workbench_);
  ASSERT_NO_FATAL_FAILURE(AskForTokenIds(&dialog));
  dialog.findChild<QLineEdit*>(QStringLiteral("captureIds"))->setText(QStringLiteral("5,6"));
  const auto* start = dialog.findChild<QPushButton*>(QStringLiteral("captureStart"));
  for (const auto& [name, taken] :
       {std::pair{"cap.h5", true}, {"cap", false}, {"cap.json", false}, {"cap.hdf5", true}}) {
    dialog.findChild<QLineEdit*>(QStringLiteral("captureOutput"))->setText(QDir::temp().filePath(QLatin1String(name)));
    EXPECT_EQ(start->isEnabled(), taken) << name;
    EXPECT_EQ(TextOf(dialog, "captureProblem").contains(QStringLiteral("must end in .h5 or .hdf5")), !taken) << name;
  }
}

// Which files those are, the workbench says.
TEST_F(CaptureDialogTest, AsksBeforeFilesOfATraceOfThatNameAreReplaced) {
  CaptureDialog dialog(&workbench_);
  ASSERT_NO_FATAL_FAILURE(AskForTokenIds(&dialog));
  dialog.findChild<QLineEdit*>(QStringLiteral("captureIds"))->setText(QStringLiteral("5,6"));
  const std::string output = dialog.Settings().output_path;
  // A trace on show that is gone is none of the files that are not there.
  dialog.SetTraceOnShow(QDir::temp().filePath(QStringLiteral("headscope-no-such-trace.h5")));
  QStringList asked;
  const auto answer_no = [&] {
    QTimer::singleShot(0, qApp, [&] {
      auto* box = qobject_cast<QMessageBox*>(QApplication::activeModalWidget());
      if (box == nullptr) return;
      asked << box->text();
      box->button(QMessageBox::No)->click();
    });
    dialog.findChild<QPushButton*>(QStringLiteral("captureStart"))->click();
  };
  workbench_.files_named = {output + "-of-several"};
  answer_no();
  ASSERT_EQ(asked.size(), 1);
  EXPECT_TRUE(asked[0].contains(u"exists. Replace it?")) << asked[0].toStdString();
  EXPECT_EQ(workbench_.asked_files, output);
  EXPECT_FALSE(dialog.IsCapturing());
  workbench_.files_named.clear();
  answer_no();
  QTest::qWait(1);
  EXPECT_EQ(asked.size(), 1) << "nothing is in the way";
}

// A prompt that fits was called too long when it was what it generates that did not fit beside it.
TEST_F(CaptureDialogTest, TellsALongPromptFromTooManyTokensToGenerate) {
  workbench_.model->max_positions = 4;
  CaptureDialog dialog(&workbench_);
  ASSERT_NO_FATAL_FAILURE(AskForTokenIds(&dialog));
  auto* ids = dialog.findChild<QLineEdit*>(QStringLiteral("captureIds"));
  auto* decode = dialog.findChild<QSpinBox*>(QStringLiteral("captureDecode"));
  auto* start = dialog.findChild<QPushButton*>(QStringLiteral("captureStart"));
  ids->setText(QStringLiteral("1,2,3"));
  EXPECT_TRUE(start->isEnabled());
  decode->setValue(2);
  EXPECT_FALSE(start->isEnabled());
  EXPECT_EQ(TextOf(dialog, "captureProblem"),
            QStringLiteral("Prompt and generated tokens (3 + 2) exceed the model's 4 positions."));
  decode->setValue(0);
  ids->setText(QStringLiteral("1,2,3,4,5"));
  EXPECT_EQ(TextOf(dialog, "captureProblem"), QStringLiteral("The prompt is longer than the model's 4 positions."));
}

}  // namespace
}  // namespace headscope::ui
