// SPDX-License-Identifier: Apache-2.0
// Whatever a map asks the workbench for is answered: a map that waits for a tile that never comes is never at rest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "synthetic_trace.h"
#include "workbench/trace_workbench.h"

namespace headscope::app {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSquareTokens = 300;
constexpr std::chrono::seconds kLongest(60);

// The thread of a window without the window: functions that were posted run in Until alone.
class WorkbenchRepliesTest : public ::testing::Test {
 protected:
  WorkbenchRepliesTest() {
    const std::string path = folder_.File("square.h5");
    data::TraceLayout layout = data::testing::SmallLayout(ElementType::kFloat32, kSquareTokens);
    layout.row_selection = "all";
    data::testing::WriteTrace(path, layout, kSquareTokens, kSquareTokens, kSquareTokens);
    bool opened = false;
    bench_->OpenTrace(
        path,
        [&](const ui::TraceSummary& trace) {
          head_ = trace.heads.front();
          opened = true;
        },
        [](const std::string& sentence) { FAIL() << sentence; });
    EXPECT_TRUE(Until([&] { return opened; }));
  }

  bool Until(const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + kLongest;
    while (!done()) {
      std::unique_lock lock(mutex_);
      if (!posted_.wait_until(lock, end, [&] { return !turns_.empty(); })) return false;
      const std::function<void()> turn = std::move(turns_.front());
      turns_.pop_front();
      lock.unlock();
      turn();
    }
    return true;
  }

  int64_t MaskOf(ui::MapView view) {
    const kernels::MethodSpec& method = bench_->methods().front();
    std::optional<int64_t> mask;
    bench_->RequestMask(
        view, head_, method.name, kernels::ParameterValues(method), [&](ui::LiveMask made) { mask = made.mask_id; },
        [&](const std::string& sentence) {
          ADD_FAILURE() << sentence;
          mask = 0;
        });
    EXPECT_TRUE(Until([&] { return mask.has_value(); }));
    return mask.value_or(0);
  }
  analysis::TileKey Whole() const {
    return {head_, analysis::TileReduction::kMax, analysis::MaxLevel(kSquareTokens, kSquareTokens), 0, 0};
  }
  // The answer; nothing: none came.
  std::optional<analysis::MaskTilePtr> MaskTile(ui::MapView view, int64_t mask) {
    std::optional<analysis::MaskTilePtr> answer;
    bench_->RequestMaskTile(view, mask, Whole(), 1, [&](analysis::MaskTilePtr tile) { answer = std::move(tile); });
    Until([&] { return answer.has_value(); });
    return answer;
  }

  const data::testing::ScratchFolder folder_;
  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<std::function<void()>> turns_;
  const std::unique_ptr<ui::Workbench> bench_ = MakeTraceWorkbench({}, [this](std::function<void()> turn) {
    const std::lock_guard lock(mutex_);
    turns_.push_back(std::move(turn));
    posted_.notify_one();
  });
  analysis::HeadId head_;
};

TEST_F(WorkbenchRepliesTest, AMaskStaysHoweverManyTheMapBesideItGoesThrough) {
  const int64_t shown = MaskOf(ui::MapView::kFirst);
  for (int i = 0; i < 40; ++i) MaskOf(ui::MapView::kSecond);
  const auto tile = MaskTile(ui::MapView::kFirst, shown);
  ASSERT_TRUE(tile.has_value()) << "no answer";
  EXPECT_NE(*tile, nullptr) << "the mask on show has left";
}

TEST_F(WorkbenchRepliesTest, AMaskThatIsGoneIsAnsweredWithoutATile) {
  const int64_t forgotten = MaskOf(ui::MapView::kFirst), other = MaskOf(ui::MapView::kSecond);
  bench_->ForgetMask(forgotten);
  const auto tile = MaskTile(ui::MapView::kFirst, forgotten);
  ASSERT_TRUE(tile.has_value()) << "no answer";
  EXPECT_EQ(*tile, nullptr);

  std::optional<analysis::MaskPairTilePtr> pair;
  bench_->RequestMaskPairTile(ui::MapView::kFirst, other, forgotten, Whole(), 1,
                              [&](analysis::MaskPairTilePtr made) { pair = std::move(made); });
  ASSERT_TRUE(Until([&] { return pair.has_value(); })) << "no answer";
  EXPECT_EQ(*pair, nullptr);

  bench_->CloseView(ui::MapView::kSecond);
  const auto closed = MaskTile(ui::MapView::kSecond, other);
  ASSERT_TRUE(closed.has_value()) << "no answer";
  EXPECT_EQ(*closed, nullptr) << "a map that is gone holds no masks";
}

TEST_F(WorkbenchRepliesTest, NoAnswerComesOfAMaskThatIsGoneAfterItsRequestIsCancelled) {
  bool came = false, later = false;
  bench_->RequestMaskTile(ui::MapView::kFirst, 0, Whole(), 1, [&](const analysis::MaskTilePtr&) { came = true; });
  bench_->CancelTiles(ui::MapView::kFirst);
  bench_->RequestMaskTile(ui::MapView::kFirst, 0, Whole(), 1, [&](const analysis::MaskTilePtr&) { later = true; });
  ASSERT_TRUE(Until([&] { return later; }));
  EXPECT_FALSE(came);
}

// A head that the trace does not have, as one that a damaged file no longer gives.
TEST_F(WorkbenchRepliesTest, ATileThatCannotBeMadeIsAnsweredOnceWithoutOne) {
  std::string said;
  bench_->SetBackgroundErrorHandler([&](const std::string& sentence) { said = sentence; });
  analysis::TileKey key = Whole();
  key.head = {head_.layer, 1000};
  std::optional<analysis::TilePtr> tile;
  bench_->RequestTile(ui::MapView::kFirst, key, 1, [&](analysis::TilePtr made) { tile = std::move(made); });
  ASSERT_TRUE(Until([&] { return tile.has_value(); })) << "no answer";
  EXPECT_EQ(*tile, nullptr);
  EXPECT_THAT(said, HasSubstr("1000"));
}

}  // namespace
}  // namespace headscope::app
