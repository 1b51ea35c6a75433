// SPDX-License-Identifier: Apache-2.0
// A trace of 4,096 heads and 131,072 tokens in the real window, over a workbench that answers at once: whatever is done
// there, no event keeps the window's thread for longer than the watchdog allows.
#include <QAction>
#include <QDockWidget>
#include <QLineEdit>
#include <QTableView>
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>

#include "fake_workbench.h"
#include "head_table.h"
#include "shell_fixture.h"

namespace headscope::gui_test {
namespace {

using analysis::HeadId;
using ui::Command;

constexpr int32_t kManyLayers = 64, kHeadsOfLayer = 64;
constexpr int64_t kManyTokens = 131072, kRows = 4096;

class BigWorkbench : public ui::testing::FakeWorkbench {
 public:
  using Poster = std::function<void(std::function<void()>)>;
  explicit BigWorkbench(Poster post) : FakeWorkbench(64), post_(post) { SetPoster(post); }

  static analysis::HeadStatistics StatisticsOf(int32_t i) {
    analysis::HeadStatistics statistics;
    statistics.id = {i / kHeadsOfLayer, i % kHeadsOfLayer};
    statistics.num_rows = kRows;
    statistics.num_tokens = kManyTokens;
    statistics.entropy = (i * 37) % 101;
    statistics.max_probability = 0.01 * ((i * 53) % 97);
    statistics.sink_mass = 0.01 * ((i * 11) % 89);
    statistics.column_profile.assign(256, 0.001f * static_cast<float>(i % 7));
    statistics.diagonal_profile.assign(256, 0.001f * static_cast<float>(i % 5));
    statistics.head_class = i % 3 == 0 ? analysis::HeadClass::kSink : analysis::HeadClass::kLocal;
    return statistics;
  }
  void OpenTrace(const std::string& path, ui::Reply<ui::TraceSummary> done, ui::ErrorReply) override {
    auto summary = std::make_shared<ui::TraceSummary>();
    summary->path = path;
    summary->model_name = "synthetic";
    summary->num_tokens = kManyTokens;
    summary->num_rows = kRows;
    summary->num_layers = kManyLayers;
    summary->num_qo_heads = kHeadsOfLayer;
    summary->num_kv_heads = kHeadsOfLayer / 8;
    summary->head_dim = 128;
    summary->complete = true;
    for (int32_t layer = 0; layer < kManyLayers; ++layer) {
      for (int32_t head = 0; head < kHeadsOfLayer; ++head) {
        summary->heads.push_back({layer, head});
        summary->kv_head_of_head.push_back(head / 8);
      }
    }
    for (int64_t token = 0; token < kManyTokens; ++token)
      summary->token_text.push_back(token % 23 == 0 ? "\n" : " word" + std::to_string(token));
    for (int64_t row = 0; row < kRows; ++row)
      summary->row_positions.push_back(static_cast<int32_t>(kManyTokens - kRows + row));
    post_([summary, done] { done(std::move(*summary)); });
  }
  void RequestStatistics(ui::Reply<analysis::HeadStatistics> one, std::function<void()> finished,
                         ui::Reply<ui::ProgressReport>) override {
    // Made in the events that bring them: what this takes would count as the window's.
    for (int32_t i = 0; i < kManyLayers * kHeadsOfLayer; ++i) post_([i, one] { one(StatisticsOf(i)); });
    post_(finished);
  }
  void RequestTile(ui::MapView, const analysis::TileKey& key, int32_t, ui::Reply<analysis::TilePtr> done) override {
    auto tile = std::make_shared<analysis::TileData>();
    tile->key = key;
    tile->log2_p.assign(size_t{analysis::kTileSize} * analysis::kTileSize, -12);
    post_([tile, done] { done(tile); });
  }
  void RequestMaskTile(ui::MapView, int64_t, const analysis::TileKey& key, int32_t,
                       ui::Reply<analysis::MaskTilePtr> done) override {
    auto tile = std::make_shared<analysis::MaskTile>();
    tile->key = key;
    tile->kept.assign(size_t{analysis::kTileSize} * analysis::kTileSize, 128);
    post_([tile, done] { done(tile); });
  }
  void RequestMask(ui::MapView, HeadId head, const std::string& method, const kernels::ParameterValues&,
                   ui::Reply<ui::LiveMask> done, ui::ErrorReply) override {
    ui::LiveMask mask;
    mask.mask_id = ++masks_;
    mask.summary.head = head;
    mask.summary.method = method;
    mask.summary.kept_fraction = 0.5;
    mask.kept_mass.resize(kRows);
    for (size_t row = 0; row < mask.kept_mass.size(); ++row)
      mask.kept_mass[row] = 0.5f + 0.5f * static_cast<float>(row % 100) / 100;
    mask.distribution = analysis::DistributeMass(mask.kept_mass);
    post_([mask, done] { done(mask); });
  }
  void RequestLostKeys(HeadId, int64_t, int64_t, ui::Reply<std::vector<ui::LostKey>> done) override {
    post_([done] { done({}); });
  }
  void RequestMaskOverlap(int64_t, int64_t, ui::Reply<analysis::MaskOverlap> done) override {
    post_([done] { done({}); });
  }
  void RequestRow(HeadId, int64_t, ui::Reply<std::vector<float>> done) override {
    post_([done] { done(std::vector<float>(kManyTokens, 1.0f / kManyTokens)); });
  }
  void RequestThumbnail(HeadId, ui::Reply<ui::ThumbnailPtr> done, ui::ErrorReply) override {
    auto thumbnail = std::make_shared<ui::Thumbnail>();
    thumbnail->log2_p.assign(size_t{ui::Thumbnail::kSide} * ui::Thumbnail::kSide, -6);
    post_([thumbnail, done] { done(thumbnail); });
  }
  ui::Exact ExactScore(HeadId, int64_t, int64_t) override {
    return {.probability = 0.5, .score = 1, .causal = true, .in_window = true};
  }

 private:
  const Poster post_;
  int64_t masks_ = 0;
};

class BigTraceTest : public ShellTest {
 protected:
  BigTraceTest() {
    workbench_ = std::make_unique<BigWorkbench>(
        [this](std::function<void()> function) { ui_thread_.Post(std::move(function)); });
  }
};

TEST_F(BigTraceTest, NothingThatIsDoneThereKeepsTheWindow) {
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForCanvas(60000));
  ASSERT_TRUE(WaitFor([&] { return window_->store()->HasAllStatistics(); }, 60000));
  const auto settle = [&] { ASSERT_TRUE(WaitForCanvas(60000)); };
  auto* filter = Find<QLineEdit>("headFilter");
  auto* table = Find<QTableView>("headTable");
  for (const char* metric : {"entropy", "max_probability", "class"}) {
    window_->store()->SetMetric(metric);
    ASSERT_NO_FATAL_FAILURE(settle());
  }
  for (const char* words : {"4", "4:", "sink", "entropy>50", "nothing like it", ""}) {
    filter->setText(QLatin1String(words));
    ASSERT_NO_FATAL_FAILURE(settle());
  }
  for (int column = 0; column < 7; ++column) {
    table->sortByColumn(column, Qt::DescendingOrder);
    ASSERT_NO_FATAL_FAILURE(settle());
  }
  for (const HeadId head : {HeadId{40, 3}, HeadId{63, 63}, HeadId{0, 0}}) {
    window_->store()->Select(head);
    ASSERT_NO_FATAL_FAILURE(settle());
  }
  for (const Command command : {Command::kLikeHeads, Command::kSplitFour, Command::kSplitFollows, Command::kNextHead,
                                Command::kSplitFour, Command::kUndo, Command::kRedo, Command::kFit, Command::kZoomIn}) {
    if (!window_->commands()[command]->isEnabled()) continue;
    window_->commands()[command]->trigger();
    ASSERT_NO_FATAL_FAILURE(settle());
  }
  filter->clear();
  for (QDockWidget* dock : window_->findChildren<QDockWidget*>()) {
    dock->raise();
    ASSERT_NO_FATAL_FAILURE(settle());
  }
  for (const int64_t row : {int64_t{10}, kRows / 2, kRows - 1}) {
    window_->state()->focus.Choose(row);
    window_->canvas()->GoTo(row, kManyTokens / 2);
    ASSERT_NO_FATAL_FAILURE(settle());
  }
  window_->commands()[Command::kFindToken]->trigger();
  for (const char* words : {"w", "word1", "word131071", "not there"}) {
    Find<QLineEdit>("findInput")->setText(QLatin1String(words));
    ASSERT_NO_FATAL_FAILURE(settle());
  }
  window_->commands()[Command::kClasses]->trigger();
  window_->commands()[Command::kPalette]->trigger();
  ASSERT_NO_FATAL_FAILURE(settle());
  for (const Qt::Key key : {Qt::Key_4, Qt::Key_Escape}) {
    ASSERT_TRUE(WaitFor([] { return QApplication::focusWidget() != nullptr; }));
    QTest::keyClick(QApplication::focusWidget(), key);
  }
  window_->store()->SetTags({3, 3}, {QStringLiteral("tag")});
  window_->commands()[Command::kCopyHeadsCommand]->trigger();
  ASSERT_NO_FATAL_FAILURE(settle());
}

}  // namespace
}  // namespace headscope::gui_test
