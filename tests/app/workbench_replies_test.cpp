// SPDX-License-Identifier: Apache-2.0
// Whatever a map asks the workbench for is answered: a map that waits for a tile that never comes is never at rest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

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
    data::TraceLayout layout = data::testing::SmallLayout(ElementType::kFloat32, kSquareTokens);
    layout.row_selection = "all";
    Open("square.h5", layout);
  }

  void Open(const std::string& name, const data::TraceLayout& layout) {
    const std::string path = folder_.File(name);
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

// Of a model with one layer more than that of the other tests.
class OtherModelsFilesTest : public WorkbenchRepliesTest {
 protected:
  void OpenLargerModel() {
    data::TraceLayout layout = data::testing::SmallLayout(ElementType::kFloat32, kSquareTokens);
    layout.row_selection = "all";
    ++layout.model.num_layers;
    Open("larger.h5", layout);
  }

  std::string Written(const std::string& name, const std::string& text) const {
    const std::string path = folder_.File(name);
    std::ofstream(path) << text;
    return path;
  }

  // What was answered: "done", or the sentence.
  template <typename T, typename Ask>
  std::string AnswerTo(Ask ask) {
    std::optional<std::string> answer;
    ask([&](const T&) { answer = "done"; }, [&](const std::string& sentence) { answer = sentence; });
    EXPECT_TRUE(Until([&] { return answer.has_value(); }));
    return answer.value_or("");
  }
  std::string AnswerToMask(const kernels::MethodSpec& method) {
    return AnswerTo<ui::LiveMask>([&](auto done, auto failed) {
      bench_->RequestMask(ui::MapView::kFirst, head_, method.name, kernels::ParameterValues(method), done, failed);
    });
  }
  // Of work over one head.
  template <typename T, typename Ask>
  std::string AnswerOfHead(Ask ask) {
    std::string answer;
    bool finished = false;
    ui::HeadsReplies<T> replies;
    replies.one = [&](const T&) { answer = "done"; };
    replies.failed = [&](const ui::FailedHead& failed) { answer = failed.sentence; };
    replies.finished = [&] { finished = true; };
    replies.progress = [](const ui::ProgressReport&) {};
    ask(replies);
    EXPECT_TRUE(Until([&] { return finished; }));
    return answer;
  }
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

// The window's traces share what was read from files.
TEST_F(OtherModelsFilesTest, AMethodOfAFileRunsOnTracesOfItsModelAlone) {
  std::string shares;
  for (int layer = 0; layer < 5; ++layer) shares += "1\t0\t1\t0\n";
  const std::string path = Written("shares.tsv", shares);
  std::string name;
  const std::string read = AnswerTo<std::string>([&](auto done, auto failed) {
    bench_->ReadMethodFile(
        "duo-attention", path,
        [&name, done](const std::string& own) {
          name = own;
          done(own);
        },
        failed);
  });
  ASSERT_EQ(read, "done");
  const auto spec_of = [&](const std::string& wanted) {
    const auto found = std::ranges::find(bench_->methods(), wanted, &kernels::MethodSpec::name);
    EXPECT_NE(found, bench_->methods().end()) << wanted;
    return found == bench_->methods().end() ? kernels::MethodSpec() : *found;
  };
  const kernels::MethodSpec prefill = spec_of(name), decode = spec_of("decode/" + name);
  const kernels::ParameterValues values(prefill);
  EXPECT_EQ(AnswerToMask(prefill), "done");
  EXPECT_EQ(AnswerToMask(decode), "done");

  OpenLargerModel();
  const auto refused =
      HasSubstr("it has 5 lines of 4 numbers, and the model of " + folder_.File("larger.h5") + " has 6 layers");
  EXPECT_THAT(AnswerToMask(prefill), refused);
  EXPECT_THAT(AnswerToMask(decode), refused);

  const kernels::MethodSpec steps = spec_of("tova");
  std::optional<int64_t> mask;
  bench_->RequestMask(
      ui::MapView::kFirst, head_, steps.name, kernels::ParameterValues(steps),
      [&](const ui::LiveMask& made) { mask = made.mask_id; }, [&](const std::string& said) { FAIL() << said; });
  ASSERT_TRUE(Until([&] { return mask.has_value(); }));
  EXPECT_THAT(AnswerTo<analysis::LiveRun>([&](auto done, auto failed) {
                bench_->RequestLiveRun(ui::MapView::kFirst, head_, decode.name, kernels::ParameterValues(decode), *mask,
                                       done, failed);
              }),
              refused);

  const auto no_progress = [](const ui::ProgressReport&) {};
  const auto sentence_of = [](auto failed) { return [failed](const ui::Refusal& said) { failed(said.sentence); }; };
  EXPECT_THAT(AnswerTo<analysis::MethodResult>([&](auto done, auto failed) {
                bench_->RunMethod(head_, name, values, 1, done, sentence_of(failed), no_progress);
              }),
              refused);
  EXPECT_THAT(AnswerTo<kernels::ParameterValues>([&](auto done, auto failed) {
                bench_->MeetTarget(head_, name, values, 0.9, done, sentence_of(failed), no_progress);
              }),
              refused);
  EXPECT_THAT(AnswerTo<std::string>([&](auto done, auto failed) {
                bench_->ExportMask(head_, name, values, folder_.File("mask.h5"), done, failed);
              }),
              refused);
  EXPECT_THAT(AnswerTo<std::string>([&](auto done, auto failed) {
                ui::MapDrawing drawing;
                drawing.head = head_;
                drawing.method = name;
                bench_->ExportMap(drawing, folder_.File("map.png"), done, failed, no_progress);
              }),
              refused);
  EXPECT_THAT(AnswerOfHead<analysis::MethodResult>(
                  [&](const auto& replies) { bench_->MeasureHeads({head_}, name, values, 1, replies); }),
              refused);
  EXPECT_THAT(AnswerOfHead<analysis::MethodResult>([&](const auto& replies) {
                bench_->MeasureSettings({{head_, {name, values}}}, 1, replies);
              }),
              refused);
  EXPECT_THAT(AnswerOfHead<ui::TunedSetting>([&](const auto& replies) {
                ui::TuneSettings settings;
                settings.methods = {{name, values}};
                settings.target = {.name = "cra-p5", .value = 0.9};
                bench_->TuneHeads({head_}, settings, replies);
              }),
              refused);
}

TEST_F(OtherModelsFilesTest, AConfigurationOfMoreLayersIsRefused) {
  const auto of_layers = [&](int layers) {
    std::string text;
    for (int layer = 0; layer < layers; ++layer) {
      text += text.empty() ? "[{" : ", {";
      for (int head = 0; head < 8; ++head)
        text += (head == 0 ? "\"" : ", \"") + std::to_string(head) + "\": [\"stream_llm\", 5, 9, 0]";
      text += "}";
    }
    return Written("patterns.json", text + "]");
  };
  const auto answer = [&](const std::string& path) {
    return AnswerTo<std::vector<ui::HeadSetting>>(
        [&](auto done, auto failed) { bench_->ReadConfiguration(path, done, failed); });
  };
  EXPECT_EQ(answer(of_layers(5)), "done");
  EXPECT_THAT(answer(of_layers(6)), HasSubstr("it has a setting for head 5:0, and the model of " +
                                              folder_.File("square.h5") + " has 5 layers"));
}

}  // namespace
}  // namespace headscope::app
