// SPDX-License-Identifier: Apache-2.0
// A trace that is still being written, by this test in the place of another program's capture.
#include <QTableView>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "data/trace_writer.h"
#include "set_repeats.h"
#include "shell_fixture.h"

namespace headscope::gui_test {
namespace {

constexpr int32_t kHeadDim = 16, kHeads = 2;
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
                    .head_dim = kHeadDim};
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
      tensor->resize((tensor == &q_ ? kHeads : 1) * kAllTokens * kHeadDim);
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
        const float* const query = q_.data() + (head * kAllTokens + row) * kHeadDim;
        q.insert(q.end(), query, query + kHeadDim);
        lse.push_back(LseOf(query, row));
      }
    }
    writer_->Append({.layer_slot = 0,
                     .first_token = written_,
                     .num_tokens = tokens,
                     .first_row = written_,
                     .num_rows = tokens,
                     .q = q.data(),
                     .k = k_.data() + written_ * kHeadDim,
                     .v = v_.data() + written_ * kHeadDim,
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
      for (int i = 0; i < kHeadDim; ++i)
        score += static_cast<double>(query[i]) * static_cast<double>(k_[static_cast<size_t>(column * kHeadDim + i)]);
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
  ASSERT_TRUE(WaitFor([&] { return Tokens() == 900 && window_->store()->trace().complete; })) << Said().toStdString();
  EXPECT_FALSE(IsSaid());
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_TRUE(window_->canvas()->VisiblePart().is_whole);
  EXPECT_EQ(window_->canvas()->VisiblePart().row_end, 900);
  ASSERT_TRUE(WaitForStatistics());
}

TEST_F(GrowingTraceTest, RunsAreNotDroppedByNews) {
  OpenWindow(path_);
  ASSERT_TRUE(WaitForCanvas());
  ASSERT_TRUE(WaitForStatistics());
  SetRepeats(window_->canvas(), 1);
  window_->commands()[ui::Command::kRun]->trigger();
  auto* const runs = Find<QTableView>("runsTable");
  ASSERT_TRUE(WaitFor([&] { return runs->model()->rowCount() == 2; }));
  trace_.Write(300);
  auto* const show = Find<QPushButton>("noticeAction");
  ASSERT_TRUE(WaitFor([&] { return show->isVisible(); }));
  EXPECT_TRUE(Find<QLabel>("noticeText")->text().startsWith(QStringLiteral("More of growing.h5")));
  EXPECT_EQ(Tokens(), 300);
  EXPECT_EQ(runs->model()->rowCount(), 2);
  QTest::mouseClick(show, Qt::LeftButton);
  ASSERT_TRUE(WaitFor([&] { return Tokens() == 600; }));
  EXPECT_EQ(runs->model()->rowCount(), 0) << "they were of 300 tokens";
}

}  // namespace
}  // namespace headscope::gui_test
