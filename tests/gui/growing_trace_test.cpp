// SPDX-License-Identifier: Apache-2.0
// A trace that is still being written, by this test in the place of another program's capture.
#include <QDialog>
#include <QTableView>
#include <QUndoStack>
#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "data/trace_writer.h"
#include "set_repeats.h"
#include "shell_fixture.h"
#include "trace_watch.h"

namespace headscope::gui_test {
namespace {

constexpr int32_t kGrowingHeadDim = 16, kHeads = 2;
constexpr int64_t kAllTokens = 900;

// One layer of two query heads over one KV head; all its numbers are made at first, and written piece by piece.
class GrowingTrace {
 public:
  explicit GrowingTrace(const std::string& path) {
    data::TraceLayout layout;
    layout.model = {.name = "growing",
                    .model_type = "llama",
                    .config_json = "{}",
                    .weights_sha256 = std::string(64, '0'),
                    .tokenizer_sha256 = std::string(64, '0'),
                    .num_layers = 1,
                    .num_qo_heads = kHeads,
                    .num_kv_heads = 1,
                    .head_dim = kGrowingHeadDim};
    layout.layers = {0};
    layout.facts.assign(1, data::UsualFacts(layout.model));
    layout.encoding = ElementType::kFloat32;
    layout.prompt_source = "text";
    layout.max_tokens = kAllTokens;
    scale_ = static_cast<double>(layout.facts[0].softmax_scale);
    writer_ = std::make_unique<data::TraceWriter>(path, layout, /*overwrite=*/false);
    std::mt19937 random(11);
    std::normal_distribution<float> normal;
    for (std::vector<float>* tensor : {&q_, &k_, &v_}) {
      tensor->resize((tensor == &q_ ? kHeads : 1) * kAllTokens * kGrowingHeadDim);
      for (float& value : *tensor) value = normal(random);
    }
  }

  void Write(int64_t tokens) {
    std::vector<data::TokenRecord> records;
    std::vector<int32_t> positions;
    for (int64_t i = written_; i < written_ + tokens; ++i) {
      records.push_back({.id = static_cast<int32_t>(i),
                         .phase = data::TokenPhase::kPrompt,
                         .step = 0,
                         .text = " word" + std::to_string(i)});
      positions.push_back(static_cast<int32_t>(i));
    }
    writer_->AppendTokens(records);
    writer_->AppendRowPositions(positions);
    std::vector<float> q, lse;
    for (int64_t head = 0; head < kHeads; ++head) {
      for (int64_t row = written_; row < written_ + tokens; ++row) {
        const float* const query = q_.data() + (head * kAllTokens + row) * kGrowingHeadDim;
        q.insert(q.end(), query, query + kGrowingHeadDim);
        lse.push_back(LseOf(query, row));
      }
    }
    writer_->Append({.layer_slot = 0,
                     .first_token = written_,
                     .num_tokens = tokens,
                     .first_row = written_,
                     .num_rows = tokens,
                     .q = q.data(),
                     .k = k_.data() + written_ * kGrowingHeadDim,
                     .v = v_.data() + written_ * kGrowingHeadDim,
                     .lse = lse.data()});
    written_ += tokens;
    writer_->Flush();
  }
  void Finish() { writer_->Finish(); }

 private:
  float LseOf(const float* query, int64_t row) const {
    double sum = 0;
    for (int64_t column = 0; column <= row; ++column) {
      double score = 0;
      for (int i = 0; i < kGrowingHeadDim; ++i)
        score +=
            static_cast<double>(query[i]) * static_cast<double>(k_[static_cast<size_t>(column * kGrowingHeadDim + i)]);
      sum += std::exp(score * scale_);
    }
    return static_cast<float>(std::log(sum));
  }

  std::unique_ptr<data::TraceWriter> writer_;
  std::vector<float> q_, k_, v_;
  double scale_ = 0;
  int64_t written_ = 0;
};

class GrowingTraceTest : public ShellTest {
 protected:
  GrowingTraceTest() { trace_.Write(300); }
  int64_t Tokens() { return window_->store()->trace().num_tokens; }
  QString Said() { return Find<QLabel>("recordingLabel")->text(); }
  // The watch waits as long again as the writer took, which here would be for nothing.
  void LetTheWriterRest() {
    auto* const watch = window_->findChild<ui::TraceWatch*>();
    watch->PassTime(0);  // what was written is seen now
    EXPECT_TRUE(watch->is_written());
    watch->PassTime(2 * ui::TraceWatch::kMostRestMs);
  }
  bool IsSaid() { return Find<QLabel>("recordingLabel")->isVisible(); }

  const QString path_ = File(QStringLiteral("growing.h5"));
  GrowingTrace trace_{path_.toStdString()};
};

TEST_F(GrowingTraceTest, WhatIsRecordedIsShownAndFollowsUntilItIsWhole) {
  OpenWindow(path_);
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_EQ(Tokens(), 300);
  ASSERT_TRUE(IsSaid());
  EXPECT_EQ(Said(), QStringLiteral("Incomplete: 300 of 900 tokens"));
  window_->store()->Select({0, 1});
  window_->canvas()->ZoomTo(100, 200, 100, 200);
  ASSERT_TRUE(WaitForCanvas());
  const ui::HeadCanvas::Part before = window_->canvas()->VisiblePart();

  // So short a file has room for all of it from the start: it is read again when the writer rests.
  trace_.Write(300);
  ASSERT_TRUE(WaitFor([&] { return Said() == QStringLiteral("Recording: 300 of 900 tokens"); }))
      << Said().toStdString();
  LetTheWriterRest();
  ASSERT_TRUE(WaitFor([&] { return Tokens() == 600; })) << Said().toStdString();
  EXPECT_EQ(Said(), QStringLiteral("Incomplete: 600 of 900 tokens"));
  EXPECT_EQ(window_->store()->selected(), (analysis::HeadId{0, 1})) << "what is looked at stays";
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_EQ(window_->canvas()->VisiblePart().row_begin, before.row_begin);
  EXPECT_EQ(window_->canvas()->VisiblePart().column_end, before.column_end);

  // The whole map stays the whole map.
  window_->canvas()->FitView();
  trace_.Write(300);
  trace_.Finish();
  LetTheWriterRest();
  ASSERT_TRUE(WaitFor([&] { return Tokens() == 900 && window_->store()->trace().complete; })) << Said().toStdString();
  EXPECT_FALSE(IsSaid());
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_TRUE(window_->canvas()->VisiblePart().is_whole);
  EXPECT_EQ(window_->canvas()->VisiblePart().row_end, 900);
  ASSERT_TRUE(WaitForStatistics());
}

TEST_F(GrowingTraceTest, RunsAreNotDroppedWithoutAQuestionAndNotesStay) {
  OpenWindow(path_);
  ASSERT_TRUE(WaitForCanvas());
  ASSERT_TRUE(WaitForStatistics());
  window_->state()->notes.AddTag({0, 1}, QStringLiteral("mine"));
  SetRepeats(window_->canvas(), 1);
  window_->commands()[ui::Command::kRun]->trigger();
  auto* const runs = Find<QTableView>("runsTable");
  ASSERT_TRUE(WaitFor([&] { return runs->model()->rowCount() == 2; }));
  trace_.Write(300);
  LetTheWriterRest();
  auto* const show = Find<QPushButton>("noticeAction");
  ASSERT_TRUE(WaitFor([&] { return show->isVisible(); }));
  EXPECT_TRUE(Find<QLabel>("noticeText")->text().startsWith(QStringLiteral("More of growing.h5")));
  EXPECT_EQ(Tokens(), 300);
  EXPECT_EQ(runs->model()->rowCount(), 2);
  AnswerQuestion(QStringLiteral("Cancel"));
  QTest::mouseClick(show, Qt::LeftButton);
  ASSERT_EQ(questions_.size(), 1U);
  EXPECT_EQ(questions_[0].default_button, QStringLiteral("Cancel"));
  EXPECT_TRUE(questions_[0].text.contains(QStringLiteral("only to its first 300 tokens: 1 run.")))
      << questions_[0].text.toStdString();
  QTest::qWait(200);
  EXPECT_EQ(Tokens(), 300);
  EXPECT_EQ(runs->model()->rowCount(), 2);
  // The next piece is another occasion only where that was opened: it is asked for by opening it.
  window_->ForgetRuns();
  window_->OpenPath(path_);
  ASSERT_TRUE(WaitFor([&] { return Tokens() == 600; }));
}

// To clear them once more deletes what is there by then, and to take that back brings just those.
TEST_F(GrowingTraceTest, RunsThatAreClearedAgainWhenTheTraceHasGrownComeBack) {
  OpenWindow(path_);
  ASSERT_TRUE(WaitForCanvas());
  ASSERT_TRUE(WaitForStatistics());
  SetRepeats(window_->canvas(), 1);
  auto* const runs = Find<QTableView>("runsTable");
  const auto measure = [&] {
    window_->commands()[ui::Command::kRun]->trigger();
    return WaitFor([&] { return runs->model()->rowCount() == 2; });
  };
  ASSERT_TRUE(measure());
  window_->commands()[ui::Command::kClearRuns]->trigger();
  ASSERT_EQ(runs->model()->rowCount(), 0);
  trace_.Write(300);
  LetTheWriterRest();
  ASSERT_TRUE(WaitFor([&] { return Tokens() == 600; }));
  ASSERT_TRUE(WaitForStatistics());
  ASSERT_TRUE(measure());
  window_->commands()[ui::Command::kUndo]->trigger();
  EXPECT_TRUE(Find<QLabel>("noticeText")->text().contains(QStringLiteral("the trace has grown")));
  EXPECT_EQ(runs->model()->rowCount(), 2);
  window_->commands()[ui::Command::kRedo]->trigger();
  ASSERT_EQ(runs->model()->rowCount(), 0);
  window_->commands()[ui::Command::kUndo]->trigger();
  EXPECT_EQ(runs->model()->rowCount(), 2) << Find<QLabel>("noticeText")->text().toStdString();
}

// A configuration goes with the length that it was for, and nobody has set that: what was taken back can be set again.
TEST_F(GrowingTraceTest, AConfigurationThatGoesIsNoStep) {
  OpenWindow(path_);
  ASSERT_TRUE(WaitForCanvas());
  ASSERT_TRUE(WaitForStatistics());
  ui::WindowState* const state = window_->state();
  const auto& methods = window_->canvas()->methods();
  const auto spec = std::find_if(methods.begin(), methods.end(), [](const auto& one) { return one.name == "a-shape"; });
  ASSERT_NE(spec, methods.end());
  state->configuration.Use(QStringLiteral("one head"), {}, {{{0, 1}, {spec->name, kernels::ParameterValues(*spec)}}});
  window_->commands()[ui::Command::kLogScale]->trigger();
  ASSERT_TRUE(WaitForCanvas());
  QUndoStack* const steps = state->parameters.stack();
  ASSERT_EQ(steps->count(), 2);
  window_->commands()[ui::Command::kUndo]->trigger();
  ASSERT_TRUE(WaitForCanvas());
  ASSERT_TRUE(steps->canRedo());
  trace_.Write(300);
  LetTheWriterRest();
  auto* const show = Find<QPushButton>("noticeAction");
  ASSERT_TRUE(WaitFor([&] { return show->isVisible(); }));
  AnswerQuestion(QStringLiteral("Discard"));
  QTest::mouseClick(show, Qt::LeftButton);
  ASSERT_TRUE(WaitFor([&] { return Tokens() == 600; }));
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_FALSE(state->configuration.in_use());
  EXPECT_EQ(steps->count(), 2) << steps->undoText().toStdString();
  EXPECT_EQ(steps->index(), 1);
  EXPECT_TRUE(steps->canRedo());
}

// As a capture that overwrites does it.
TEST_F(GrowingTraceTest, ATraceThatIsRenamedWhenItIsWholeIsReadByItsNewName) {
  const QString partial = File(QStringLiteral("whole.partial.h5")), whole = File(QStringLiteral("whole.h5"));
  GrowingTrace trace(partial.toStdString());
  trace.Write(300);
  OpenWindow(partial);
  ASSERT_TRUE(WaitForCanvas());
  window_->state()->notes.AddTag({0, 1}, QStringLiteral("mine"));
  trace.Write(600);
  trace.Finish();
  ASSERT_TRUE(QFile::rename(partial, whole));
  ASSERT_TRUE(WaitFor([&] { return Tokens() == 900; })) << Said().toStdString();
  EXPECT_EQ(window_->store()->trace().path, whole.toStdString());
  EXPECT_FALSE(IsSaid());
  EXPECT_EQ(window_->state()->notes.TagsOf({0, 1}), QStringList{QStringLiteral("mine")});
  // A trace that is removed says so.
  const QString removed = File(QStringLiteral("removed.partial.h5"));
  GrowingTrace other(removed.toStdString());
  other.Write(300);
  window_->OpenPath(removed);
  ASSERT_TRUE(WaitFor([&] { return Tokens() == 300 && IsSaid(); }));
  ASSERT_TRUE(QFile::remove(removed));
  EXPECT_TRUE(WaitFor([&] { return Find<QLabel>("recordingLabel")->toolTip().contains(QStringLiteral("deleted")); }));
}

TEST_F(GrowingTraceTest, NotesAndTheQueryLookedAtStay) {
  OpenWindow(path_);
  ASSERT_TRUE(WaitForCanvas());
  ASSERT_TRUE(WaitForStatistics());
  window_->state()->notes.AddTag({0, 1}, QStringLiteral("mine"));
  window_->state()->focus.Choose(123);
  trace_.Write(300);
  LetTheWriterRest();
  ASSERT_TRUE(WaitFor([&] { return Tokens() == 600; })) << Said().toStdString();
  EXPECT_EQ(window_->state()->focus.row(), 123);
  ASSERT_EQ(window_->state()->notes.notes().size(), 1U);
  EXPECT_EQ(window_->state()->heads.trace().num_tokens, 600);
  EXPECT_EQ(window_->state()->notes.TagsOf({0, 1}), QStringList{QStringLiteral("mine")});
  // They are those of the grown trace by now.
  CloseWindow();
  OpenWindow(path_);
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_EQ(window_->state()->notes.TagsOf({0, 1}), QStringList{QStringLiteral("mine")});
  // And so they are when no window was there to see it grow.
  CloseWindow();
  trace_.Write(200);
  OpenWindow(path_);
  ASSERT_TRUE(WaitForCanvas());
  ASSERT_EQ(Tokens(), 800);
  EXPECT_EQ(window_->state()->notes.TagsOf({0, 1}), QStringList{QStringLiteral("mine")});
}

TEST_F(GrowingTraceTest, ADialogIsNotReadUnderAndATraceThatDoesNotOpenLeavesThisOneFollowed) {
  OpenWindow(path_);
  ASSERT_TRUE(WaitForCanvas());
  ASSERT_TRUE(WaitForStatistics());
  QDialog dialog(window_.get());
  dialog.setModal(true);
  dialog.show();
  trace_.Write(300);
  LetTheWriterRest();
  ASSERT_TRUE(WaitFor([&] { return Find<QPushButton>("noticeAction")->isVisible(); }));
  EXPECT_EQ(Tokens(), 300);
  dialog.close();
  window_->OpenPath(File(QStringLiteral("missing.h5")));
  ASSERT_TRUE(WaitFor([&] { return Find<QLabel>("noticeText")->text().contains(QStringLiteral("missing.h5")); }));
  trace_.Write(200);
  EXPECT_TRUE(WaitFor([&] { return Said() == QStringLiteral("Recording: 300 of 900 tokens"); }))
      << Said().toStdString();
  LetTheWriterRest();
  EXPECT_TRUE(WaitFor([&] { return Said() == QStringLiteral("Incomplete: 300 of 900 tokens"); }))
      << Said().toStdString();
  EXPECT_TRUE(
      Find<QLabel>("recordingLabel")->toolTip().contains(QStringLiteral("Nothing has been written to the trace")));
}

}  // namespace
}  // namespace headscope::gui_test
