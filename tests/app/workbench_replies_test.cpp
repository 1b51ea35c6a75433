// SPDX-License-Identifier: Apache-2.0
// Whatever a map asks the workbench for is answered: a map that waits for a tile that never comes is never at rest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
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
    OpenIn(bench_.get(), path);
  }
  void OpenIn(ui::Workbench* bench, const std::string& path) {
    bool opened = false;
    bench->OpenTrace(
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

  void Post(std::function<void()> turn) {
    const std::lock_guard lock(mutex_);
    turns_.push_back(std::move(turn));
    posted_.notify_one();
  }

  int64_t MaskOf(ui::MapView view) { return MaskOf(bench_.get(), view); }
  int64_t MaskOf(ui::Workbench* bench, ui::MapView view) {
    const kernels::MethodSpec& method = bench->methods().front();
    std::optional<int64_t> mask;
    bench->RequestMask(
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
  const std::unique_ptr<ui::Workbench> bench_ =
      MakeTraceWorkbench({}, [this](std::function<void()> turn) { Post(std::move(turn)); });
  analysis::HeadId head_;
};

// The window's answers are given by the test: when a screen is drawn.
class WorkbenchLiveRunTest : public WorkbenchRepliesTest {
 protected:
  struct Live {
    int errors = 0, times = 0;
  };

  void Record(ui::Workbench* bench) {
    bench->SetWhenDrawn([this](ui::Drawn what, std::function<void()> then) {
      EXPECT_EQ(what, ui::Drawn::kTiles);
      ++num_asked_;
      screens_.push_back(std::move(then));
    });
  }
  void Draw() {
    ASSERT_FALSE(screens_.empty());
    const std::function<void()> then = std::move(screens_.front());
    screens_.pop_front();
    then();
  }
  // Of a mask that was made by `bench`.
  void Run(ui::Workbench* bench, ui::MapView view, int64_t mask, Live* live) {
    const kernels::MethodSpec& method = bench->methods().front();
    bench->RequestLiveRun(
        view, head_, method.name, kernels::ParameterValues(method), mask,
        [live](const analysis::LiveRun& run) { ++(run.is_timed() ? live->times : live->errors); },
        [](const std::string& sentence) { ADD_FAILURE() << sentence; });
  }
  // Turns of the window for a while: what would come, comes.
  void Linger() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(150);
    while (std::chrono::steady_clock::now() < end) {
      bool posted = false;
      std::thread later([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        Post([&] { posted = true; });
      });
      EXPECT_TRUE(Until([&] { return posted; }));
      later.join();
    }
  }

  int num_asked_ = 0;
  std::deque<std::function<void()>> screens_;
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

// A short trace had every statistic twice: of 256 rows, and of all, which take hardly longer.
TEST_F(WorkbenchRepliesTest, StatisticsOfFewRowsComeOnceAndThoseOfManyQuicklyBefore) {
  constexpr int64_t kManyRows = 1100, kLongTokens = 1900;
  const auto rows_of_answers = [&] {
    std::vector<int64_t> rows;
    bool finished = false;
    bench_->RequestStatistics(
        [&](const analysis::HeadStatistics& head) {
          if (head.id == head_) rows.push_back(head.num_rows);
        },
        [&] { finished = true; }, [](const ui::ProgressReport&) {});
    EXPECT_TRUE(Until([&] { return finished; }));
    return rows;
  };
  EXPECT_THAT(rows_of_answers(), ::testing::ElementsAre(kSquareTokens));

  data::TraceLayout layout = data::testing::SmallLayout(ElementType::kFloat32, kLongTokens);
  layout.row_selection = "all";
  layout.layers.resize(1);
  layout.facts.resize(1);
  const std::string path = folder_.File("many.h5");
  data::testing::WriteTrace(path, layout, kManyRows, kManyRows, kManyRows);
  OpenIn(bench_.get(), path);
  EXPECT_THAT(rows_of_answers(), ::testing::ElementsAre(256, kManyRows));

  // Fewer rows, each of which takes longer: of a long prompt the quick look is worth it.
  layout.row_selection = "every:2";
  const std::string long_path = folder_.File("long.h5");
  data::testing::WriteTrace(long_path, layout, kLongTokens, kLongTokens, kLongTokens / 2);
  OpenIn(bench_.get(), long_path);
  EXPECT_THAT(rows_of_answers(), ::testing::ElementsAre(256, kLongTokens / 2));
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

TEST_F(WorkbenchLiveRunTest, TimesComeWhenTheScreenIsDrawnAndNotBefore) {
  Record(bench_.get());
  Live live;
  Run(bench_.get(), ui::MapView::kFirst, MaskOf(ui::MapView::kFirst), &live);
  ASSERT_TRUE(Until([&] { return live.errors > 0; }));
  ASSERT_EQ(num_asked_, 1);
  Linger();
  EXPECT_EQ(live.times, 0);
  Draw();
  ASSERT_TRUE(Until([&] { return live.times > 0; }));
  Linger();
  EXPECT_EQ(live.errors, 1);
  EXPECT_EQ(live.times, 1);
  EXPECT_EQ(num_asked_, 1);
}

// Also where the other map shows another trace, of a workbench of its own.
TEST_F(WorkbenchLiveRunTest, OneMapIsTimedAfterTheOther) {
  const std::unique_ptr<ui::Workbench> another = bench_->Another();
  OpenIn(another.get(), folder_.File("square.h5"));
  Record(bench_.get());
  Record(another.get());
  Live first, second, of_another;
  Run(bench_.get(), ui::MapView::kFirst, MaskOf(ui::MapView::kFirst), &first);
  ASSERT_TRUE(Until([&] { return first.errors > 0; }));
  Run(bench_.get(), ui::MapView::kSecond, MaskOf(ui::MapView::kSecond), &second);
  ASSERT_TRUE(Until([&] { return second.errors > 0; }));
  Run(another.get(), ui::MapView::kFirst, MaskOf(another.get(), ui::MapView::kFirst), &of_another);
  ASSERT_TRUE(Until([&] { return of_another.errors > 0; }));
  Linger();
  EXPECT_EQ(num_asked_, 1) << "the others wait for the first one's end, and then for the screen";
  Draw();
  ASSERT_TRUE(Until([&] { return first.times > 0 && num_asked_ == 2; }));
  EXPECT_EQ(second.times + of_another.times, 0);
  Draw();
  ASSERT_TRUE(Until([&] { return second.times > 0 && num_asked_ == 3; }));
  EXPECT_EQ(of_another.times, 0);
  Draw();
  ASSERT_TRUE(Until([&] { return of_another.times > 0; }));
  EXPECT_EQ(num_asked_, 3);
}

// What is drawn needs the workers: a run that waits for the drawing has none.
TEST_F(WorkbenchLiveRunTest, ATileComesWhileThreeRunsWaitForTheScreen) {
  Record(bench_.get());
  constexpr std::array kViews = {ui::MapView::kFirst, ui::MapView::kSecond, ui::MapView::kThird};
  std::array<Live, kViews.size()> runs;
  std::array<int64_t, kViews.size()> masks = {};
  for (size_t i = 0; i < kViews.size(); ++i) masks[i] = MaskOf(kViews[i]);
  for (size_t i = 0; i < kViews.size(); ++i) Run(bench_.get(), kViews[i], masks[i], &runs[i]);
  ASSERT_TRUE(Until([&] { return std::ranges::all_of(runs, [](const Live& run) { return run.errors > 0; }); }));
  bool tile = false;
  bench_->RequestTile(ui::MapView::kFirst, Whole(), 1, [&](const analysis::TilePtr&) { tile = true; });
  ASSERT_TRUE(Until([&] { return tile; }));
  for (const Live& run : runs) EXPECT_EQ(run.times, 0) << "none has ended its wait to let the tile through";
  EXPECT_EQ(num_asked_, 1);
}

// As the next step of a slider does, whose screen is another one.
TEST_F(WorkbenchLiveRunTest, ARunThatIsCancelledWhileItWaitsHasNoTimes) {
  Record(bench_.get());
  Live cancelled, next;
  const int64_t mask = MaskOf(ui::MapView::kFirst);
  Run(bench_.get(), ui::MapView::kFirst, mask, &cancelled);
  ASSERT_TRUE(Until([&] { return cancelled.errors > 0; }));
  Run(bench_.get(), ui::MapView::kFirst, mask, &next);
  ASSERT_TRUE(Until([&] { return next.errors > 0; }));
  Draw();
  ASSERT_TRUE(Until([&] { return num_asked_ == 2; }));
  EXPECT_EQ(next.times, 0) << "what was asked for since may not be drawn yet";
  Draw();
  ASSERT_TRUE(Until([&] { return next.times > 0; }));
  EXPECT_EQ(cancelled.times, 0);
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

// A mask of rows that methods do not take would be one of other rows: nothing is written.
TEST_F(OtherModelsFilesTest, NoMaskIsExportedInBlocksOrBetweenGaps) {
  const kernels::MethodSpec& method = bench_->methods().front();
  const auto answer = [&](const std::string& name) {
    return AnswerTo<std::string>([&](auto done, auto failed) {
      bench_->ExportMask(head_, method.name, kernels::ParameterValues(method), folder_.File(name), done, failed);
    });
  };
  const auto is_there = [&](const std::string& name) { return std::ifstream(folder_.File(name)).good(); };
  EXPECT_EQ(answer("mask.h5"), "done");
  EXPECT_TRUE(is_there("mask.h5"));

  data::TraceLayout layout = data::testing::SmallLayout(ElementType::kFloat32, kSquareTokens);
  layout.row_selection = "all";
  layout.facts.front().chunk = 64;  // head_'s
  Open("chunked.h5", layout);
  EXPECT_THAT(answer("chunked_mask.h5"), HasSubstr("attends in chunks of 64 tokens, which methods do not support"));
  EXPECT_FALSE(is_there("chunked_mask.h5"));

  layout = data::testing::SmallLayout(ElementType::kFloat32, kSquareTokens);
  layout.row_selection = "every:2";
  Open("gaps.h5", layout);
  EXPECT_THAT(answer("gaps_mask.h5"),
              HasSubstr("was recorded with gaps between its query rows (positions 0 to 298, 150 rows)"));
  EXPECT_FALSE(is_there("gaps_mask.h5"));
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
