// SPDX-License-Identifier: Apache-2.0
// A capture into several files: the same numbers as in one, and the same care for what is there already.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <thread>

#include "base/errors.h"
#include "base/progress.h"
#include "capture/capture.h"
#include "checkpoint_files.h"
#include "data/trace_files.h"
#include "data/trace_reader.h"
#include "support/stopped.h"

namespace headscope::capture {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

CaptureRequest FilesRequest(const TemporaryFolder& folder, int32_t num_files) {
  CaptureRequest request;
  request.model_dir = ReferenceModel();
  request.text = "The quick brown fox jumps over the lazy dog. The quick brown fox jumps over the lazy dog.";
  request.output_path = folder.File("out.h5");
  request.chunk_tokens = 16;
  request.num_files = num_files;
  return request;
}

std::vector<std::string> Names(const TemporaryFolder& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    names.insert(entry.path().filename().string());
  return {names.begin(), names.end()};
}

// Requests a stop at the first report of a stage.
ProgressFunction StopAtFirst(const std::string& stage, std::stop_source* stop) {
  return [=](const Progress& progress) {
    if (progress.stage == stage) stop->request_stop();
  };
}

void ExpectEqual(const data::TraceReader& one, const data::TraceReader& other) {
  const data::TraceLayout &layout = one.layout(), &found = other.layout();
  ASSERT_EQ(layout.layers, found.layers);
  ASSERT_EQ(layout.facts, found.facts);
  ASSERT_EQ(one.num_tokens(), other.num_tokens());
  EXPECT_EQ(one.tokens(), other.tokens());
  EXPECT_EQ(one.row_positions(), other.row_positions());
  EXPECT_EQ(layout.model.weights_sha256, found.model.weights_sha256);
  int compared = 0;
  for (int32_t slot = 0; slot < std::ssize(layout.layers); ++slot) {
    const data::LayerFacts& facts = layout.facts[static_cast<size_t>(slot)];
    for (int number = 0; number < data::kNumTraceTensors; ++number) {
      const auto tensor = static_cast<data::TraceTensor>(number);
      ASSERT_EQ(one.Has(slot, tensor), other.Has(slot, tensor));
      if (!one.Has(slot, tensor)) continue;
      using data::TraceTensor;
      const bool of_rows = tensor == TraceTensor::kQ || tensor == TraceTensor::kLse ||
                           tensor == TraceTensor::kQPreRope || tensor == TraceTensor::kQProjection ||
                           tensor == TraceTensor::kHeadOutput;
      const bool of_kv = tensor == TraceTensor::kK || tensor == TraceTensor::kV || tensor == TraceTensor::kKPreRope ||
                         tensor == TraceTensor::kKProjection || tensor == TraceTensor::kCacheK ||
                         tensor == TraceTensor::kCacheV;
      const bool single = tensor == TraceTensor::kResidual || tensor == TraceTensor::kHiddenNorms;
      const size_t heads = single ? 1 : of_kv ? facts.kv_heads.size() : facts.qo_heads.size();
      const int64_t items = of_rows ? one.num_rows() : one.num_tokens();
      const auto width = static_cast<size_t>(std::max(facts.head_dim, facts.hidden_size));
      for (size_t head = 0; head < heads; ++head) {
        std::vector<char> expected(static_cast<size_t>(items) * width * 4), read(expected);
        one.Read(tensor, slot, static_cast<int32_t>(head), 0, items, expected.data());
        other.Read(tensor, slot, static_cast<int32_t>(head), 0, items, read.data());
        ASSERT_EQ(expected, read) << "tensor " << number << " of slot " << slot << ", head " << head;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 0);
}

TEST(CaptureFiles, HoldWhatOneFileHoldsAtEveryPoint) {
  const TemporaryFolder folder;
  CaptureRequest request = FilesRequest(folder, 1);
  request.rows = "every:3";
  request.decode_tokens = 3;
  for (const model::CapturePointInfo& info : model::kCapturePoints) request.record.push_back(info.point);
  for (const std::optional<ElementType> dtype : {std::optional(ElementType::kBFloat16), std::optional<ElementType>()}) {
    request.dtype = dtype;
    request.num_files = 1;
    request.overwrite = true;
    request.output_path = folder.File("one.h5");
    const CaptureResult one = Capture(request, {}, {});
    for (const int32_t count : {2, 3, 8}) {
      SCOPED_TRACE(count);
      request.num_files = count;
      request.output_path = folder.File("out.h5");
      const CapturePlan plan = PlanCapture(request);
      EXPECT_EQ(plan.num_files, count);
      const CaptureResult several = Capture(request, {}, {});
      EXPECT_EQ(several.path, data::TraceFilePath(request.output_path, 1, count));
      EXPECT_EQ(several.generated_text, one.generated_text);
      EXPECT_GT(several.bytes, plan.bytes);
      const data::TraceReader trace(request.output_path);
      EXPECT_TRUE(trace.complete());
      EXPECT_EQ(std::ssize(trace.files()), count);
      ExpectEqual(data::TraceReader(one.path), trace);
    }
  }
}

TEST(CaptureFiles, AJudgedAnswerIsInEveryFile) {
  const TemporaryFolder folder;
  CaptureRequest request = FilesRequest(folder, 2);
  request.text.reset();
  request.prose_path = HEADSCOPE_SOURCE_DIR "/data/prompts/prose.txt";
  request.task = "passkey";
  request.task_length = 512;
  request.decode_tokens = 12;
  const CaptureResult result = Capture(request, {}, {});
  ASSERT_TRUE(result.answer_score);
  EXPECT_EQ(data::TraceReader(request.output_path).layout().answer_score, *result.answer_score);
  for (int32_t number = 1; number <= 2; ++number) {
    const std::string alone = folder.File("alone.h5");
    std::filesystem::copy_file(data::TraceFilePath(request.output_path, number, 2), alone,
                               std::filesystem::copy_options::overwrite_existing);
    EXPECT_EQ(data::TraceReader(alone).layout().answer_score, *result.answer_score);
  }
}

TEST(CaptureFiles, NoFileOfTheTraceBeforeStays) {
  const TemporaryFolder folder;
  CaptureRequest request = FilesRequest(folder, 1);
  Capture(request, {}, {});
  const auto refused = [&](const std::string& named) {
    EXPECT_THAT([&] { Capture(request, {}, {}); },
                ::testing::ThrowsMessage<UsageError>(::testing::AllOf(HasSubstr(named), HasSubstr("exists already"))));
  };
  const auto replaced_by = [&](int32_t num_files) {
    request.num_files = num_files;
    request.overwrite = true;
    const CaptureResult result = Capture(request, {}, {});
    EXPECT_EQ(data::TraceReader(request.output_path).num_tokens(), result.num_tokens);
    request.overwrite = false;
  };
  request.num_files = 3;
  refused("out.h5");
  replaced_by(3);
  EXPECT_THAT(Names(folder), ElementsAre("out-00001-of-00003.h5", "out-00002-of-00003.h5", "out-00003-of-00003.h5"));
  refused("out-00001-of-00003.h5");
  replaced_by(3);
  EXPECT_EQ(Names(folder).size(), 3u);
  replaced_by(2);
  EXPECT_THAT(Names(folder), ElementsAre("out-00001-of-00002.h5", "out-00002-of-00002.h5"));
  request.num_files = 1;
  refused("out-00001-of-00002.h5");
  replaced_by(1);
  EXPECT_THAT(Names(folder), ElementsAre("out.h5"));
}

TEST(CaptureFiles, ReplaceATraceByACompleteOneOnly) {
  const TemporaryFolder folder;
  CaptureRequest request = FilesRequest(folder, 3);
  const CaptureResult before = Capture(request, {}, {});
  const std::string precious = ReadWholeFile(before.path);
  request.overwrite = true;
  request.num_files = 2;
  std::stop_source stop;
  const CaptureResult part = Capture(request, StopAtFirst("prefill", &stop), stop.get_token());
  EXPECT_TRUE(part.interrupted);
  EXPECT_EQ(part.path, folder.File("out.partial-00001-of-00002.h5"));
  EXPECT_GT(part.num_tokens, 0);
  EXPECT_GT(part.bytes, 0);
  for (const std::string& name : {part.path, folder.File("out.partial.h5")}) {
    const data::TraceReader trace(name);
    EXPECT_EQ(trace.num_tokens(), part.num_tokens);
    EXPECT_FALSE(trace.complete());
  }
  EXPECT_EQ(ReadWholeFile(before.path), precious);
  EXPECT_EQ(data::TraceReader(request.output_path).files().size(), 3u);
  stop = {};
  const CaptureResult again = Capture(request, StopAtFirst("prefill", &stop), stop.get_token());
  EXPECT_EQ(again.path, folder.File("out.partial-2-00001-of-00002.h5")) << "what an earlier run left stays";
}

TEST(CaptureFiles, ARunThatRecordsNothingLeavesNone) {
  const TemporaryFolder folder;
  EXPECT_EQ(Capture(FilesRequest(folder, 4), {}, StoppedToken()).path, "");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// Where a disk is full, or a file in the way, the others go as well.
TEST(CaptureFiles, WhatFailsInOneEndsAll) {
  const TemporaryFolder folder;
  CaptureRequest request = FilesRequest(folder, 3);
  class Intruder final : public model::AttentionBackend {
   public:
    explicit Intruder(std::string path) : path_(std::move(path)) {}
    void Attend(const model::AttentionCall& call) override {
      const auto values = static_cast<size_t>(call.num_rows * call.facts->num_qo_heads * call.facts->v_head_dim);
      std::fill_n(static_cast<float*>(call.o), values, 0.0f);
      std::fill_n(call.lse, call.num_rows * call.facts->num_qo_heads, 0.0f);
      std::error_code ignored;
      std::filesystem::remove(path_, ignored);  // the writer of this file finds out
    }

   private:
    std::string path_;
  };
  Intruder intruder(data::TraceFilePath(request.output_path, 2, 3));
  request.attention = &intruder;
  request.dtype = ElementType::kFloat32;
  EXPECT_THAT([&] { Capture(request, {}, {}); },
              ::testing::ThrowsMessage<FailedError>(::testing::AllOf(HasSubstr("out-00002-of-00003.h5"),
                                                                     HasSubstr("vanished while it was being written"),
                                                                     HasSubstr("no token was recorded"))));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "files of a trace without tokens";
}

// Its first pass lasts until a flush is due; the second fails once tokens can be read in every file.
class FailsAfterAFlush final : public model::AttentionBackend {
 public:
  explicit FailsAfterAFlush(std::string path) : path_(std::move(path)) {}
  void Attend(const model::AttentionCall& call) override {
    const auto values = static_cast<size_t>(call.num_rows * call.facts->num_qo_heads * call.facts->v_head_dim);
    std::fill_n(static_cast<float*>(call.o), values, 0.0f);
    std::fill_n(call.lse, call.num_rows * call.facts->num_qo_heads, 0.0f);
    const bool first_pass = call.num_tokens == call.num_rows;
    if (first_pass && call.layer == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    if (first_pass || call.layer != 1) return;
    for (int waited = 0; waited < 300 && data::TraceReader(path_).num_tokens() == 0; ++waited)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    throw std::runtime_error("broken");
  }

 private:
  std::string path_;
};

// The flush ends while the next pass is under way, so nobody sees it between passes.
TEST(CaptureFiles, WhatWasFlushedStaysWhenTheNextPassFails) {
  for (const int32_t count : {1, 3}) {
    SCOPED_TRACE(count);
    const TemporaryFolder folder;
    CaptureRequest request = FilesRequest(folder, count);
    request.dtype = ElementType::kFloat32;
    FailsAfterAFlush failing(request.output_path);
    request.attention = &failing;
    EXPECT_THAT([&] { Capture(request, {}, {}); },
                ::testing::ThrowsMessage<FailedError>(::testing::AllOf(
                    HasSubstr("recording: broken"),
                    HasSubstr("the first 16 tokens are in " + data::TraceFilePath(request.output_path, 1, count)))));
    ASSERT_EQ(std::ssize(Names(folder)), count) << "files that the message says are there";
    const data::TraceReader trace(request.output_path);
    EXPECT_EQ(trace.num_tokens(), 16);
    EXPECT_FALSE(trace.complete());
  }
}

// Something else takes a name between the check before the model is read and the making of the files.
TEST(CaptureFiles, WhatAppearsWhileTheModelIsReadStays) {
  for (const int32_t count : {1, 3}) {
    SCOPED_TRACE(count);
    const TemporaryFolder folder;
    const CaptureRequest request = FilesRequest(folder, count);
    const std::string name = std::filesystem::path(data::TraceFilePath(request.output_path, count, count)).filename();
    const ProgressFunction put_there = [&](const Progress&) { folder.Write(name, "precious"); };
    EXPECT_THAT([&] { Capture(request, put_there, {}); },
                ::testing::ThrowsMessage<FailedError>(::testing::AllOf(HasSubstr(name), HasSubstr("exists already"))));
    EXPECT_THAT(Names(folder), ElementsAre(name));
    EXPECT_EQ(ReadWholeFile(folder.File(name)), "precious");
  }
}

TEST(CaptureFiles, MoreFilesThanLayersAreRefusedBeforeAWeightIsRead) {
  const TemporaryFolder folder;
  CaptureRequest request = FilesRequest(folder, 4);
  request.layers = {1, 2, 6};
  for (const auto& run : {std::function<void()>([&] { PlanCapture(request); }),
                          std::function<void()>([&] { Capture(request, {}, {}); })}) {
    EXPECT_THAT(run, ::testing::ThrowsMessage<UsageError>(::testing::AllOf(HasSubstr("files"), HasSubstr("1 to 3"))));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(CaptureFiles, NeverReplaceWhatTheCaptureReads) {
  const TemporaryFolder folder;
  CaptureRequest request = FilesRequest(folder, 2);
  request.text.reset();
  folder.Write("out-00002-of-00002.h5", "a prompt under that name");
  request.prompt_file = folder.File("out-00002-of-00002.h5");
  request.overwrite = true;
  EXPECT_THAT([&] { Capture(request, {}, {}); },
              ::testing::ThrowsMessage<UsageError>(HasSubstr("is the same file as")));
  EXPECT_EQ(ReadWholeFile(*request.prompt_file), "a prompt under that name");
}

}  // namespace
}  // namespace headscope::capture
