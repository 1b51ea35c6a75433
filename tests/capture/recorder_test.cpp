// SPDX-License-Identifier: Apache-2.0
// What the recorder is handed is what the trace reader gives back, bit by bit.
#include "recorder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/device.h"
#include "base/errors.h"
#include "base/row_selection.h"
#include "checkpoint_files.h"
#include "data/trace_reader.h"
#include "data/trace_writer.h"
#include "head_choice.h"
#include "model/transformer.h"

namespace headscope::capture {
namespace {

// A copy as of a GPU: nothing is there before somebody waits for it.
class LateCopy : public model::HostCopy {
 public:
  // Where `count` heads of `num_tokens` vectors of `size` bytes will lie, one behind the other.
  const void* Of(const model::LayerHeads::Heads& heads, int32_t count, int64_t num_tokens, int64_t dim, int64_t width) {
    Part& part = parts_.emplace_back();
    for (int32_t head = 0; head < count; ++head) {
      for (int64_t token = 0; token < num_tokens; ++token) {
        part.from.append(
            static_cast<const char*>(heads.data) + (head * heads.head_stride + token * heads.token_stride) * width,
            static_cast<size_t>(dim * width));
      }
    }
    part.to.assign(part.from.size(), '\xee');
    return part.to.data();
  }
  int64_t bytes() const override {
    int64_t all = 0;
    for (const Part& part : parts_) all += std::ssize(part.to);
    return all;
  }
  void Wait() override {
    for (Part& part : parts_) std::ranges::copy(part.from, part.to.begin());
  }
  ~LateCopy() override {
    for (Part& part : parts_) std::ranges::fill(part.to, '\xdd');
  }

 private:
  struct Part {
    std::string from, to;
  };
  std::list<Part> parts_;
};

// The bytes of one vector per (layer, head, token): collected pass by pass from what the model hands over.
class Tee : public model::HeadSink {
 public:
  Tee(const model::ModelConfig& config, Recorder* recorder, bool by_copies)
      : config_(config), recorder_(recorder), by_copies_(by_copies) {}

  bool Wants(int32_t layer) const override { return recorder_->Wants(layer); }
  void Take(const model::LayerHeads& heads) override {
    const int64_t width = SizeOf(heads.type);
    Keep(heads, heads.q, config_.num_qo_heads, width, &q);
    Keep(heads, heads.k, config_.num_kv_heads, width, &k);
    Keep(heads, heads.v, config_.num_kv_heads, width, &v);
    for (int32_t head = 0; head < config_.num_qo_heads; ++head) {
      for (int64_t token = 0; token < heads.num_tokens; ++token)
        lse[{heads.layer, head, heads.first_token + token}] = heads.lse[head * heads.num_tokens + token];
    }
    recorder_->Take(by_copies_ ? Copied(heads, width) : heads);
  }

  struct Place {
    int32_t layer, head;
    int64_t token;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  std::map<Place, std::string> q, k, v;
  std::map<Place, float> lse;

 private:
  model::LayerHeads Copied(const model::LayerHeads& heads, int64_t width) const {
    const auto copy = std::make_shared<LateCopy>();
    model::LayerHeads late = heads;
    const auto place = [&](model::LayerHeads::Heads* of, int32_t count) {
      of->data = copy->Of(*of, count, heads.num_tokens, config_.head_dim, width);
      of->head_stride = heads.num_tokens * config_.head_dim;
      of->token_stride = config_.head_dim;
    };
    place(&late.q, config_.num_qo_heads);
    place(&late.k, config_.num_kv_heads);
    place(&late.v, config_.num_kv_heads);
    const model::LayerHeads::Heads sums{heads.lse, heads.num_tokens, 1};
    late.lse = static_cast<const float*>(copy->Of(sums, config_.num_qo_heads, heads.num_tokens, 1, sizeof(float)));
    late.copy = copy;
    return late;
  }

  // The vectors as a trace stores them: numbers that bf16 holds exactly by the upper half of their bits.
  void Keep(const model::LayerHeads& pass, const model::LayerHeads::Heads& heads, int32_t num_heads, int64_t width,
            std::map<Place, std::string>* kept) const {
    for (int32_t head = 0; head < num_heads; ++head) {
      for (int64_t token = 0; token < pass.num_tokens; ++token) {
        const char* from =
            static_cast<const char*>(heads.data) + (head * heads.head_stride + token * heads.token_stride) * width;
        std::string bytes(from, static_cast<size_t>(config_.head_dim * width));
        if (pass.captured != pass.type) {
          std::string upper;
          for (size_t i = 0; i < bytes.size(); i += 4) {
            EXPECT_EQ(bytes.substr(i, 2), std::string(2, '\0')) << "a number that bf16 does not hold";
            upper += bytes.substr(i + 2, 2);
          }
          bytes = std::move(upper);
        }
        (*kept)[{pass.layer, head, pass.first_token + token}] = std::move(bytes);
      }
    }
  }

  const model::ModelConfig& config_;
  Recorder* recorder_;
  bool by_copies_;
};

struct RecorderCase {
  std::optional<ElementType> dtype;
  const char* rows;
  std::vector<int32_t> layers, heads;
  bool by_copies = false;
  int32_t num_files = 1;
};

class RecorderRoundTrip : public ::testing::TestWithParam<RecorderCase> {};

constexpr int64_t kPromptTokens = 50, kDecodeTokens = 3, kChunk = 16;

data::TraceLayout LayoutOf(const RecorderCase& given, const model::Transformer& model) {
  const model::ModelConfig& config = model.config();
  data::TraceLayout layout;
  layout.model = {"tee",
                  config.model_type,
                  "{}",
                  std::string(64, '0'),
                  std::string(64, '0'),
                  config.num_layers,
                  config.num_qo_heads,
                  config.num_kv_heads,
                  config.head_dim,
                  {}};
  layout.layers = ChooseNumbers(given.layers, config.num_layers, "layer");
  data::LayerFacts facts = data::UsualFacts(layout.model);
  facts.qo_heads = ChooseNumbers(given.heads, config.num_qo_heads, "head");
  facts.kv_heads = KvHeadsOf(facts.qo_heads, config.num_qo_heads, config.num_kv_heads);
  layout.facts.assign(layout.layers.size(), facts);
  layout.encoding = model.captured_type();
  layout.row_selection = given.rows;
  layout.max_tokens = kPromptTokens + kDecodeTokens;
  return layout;
}

TEST_P(RecorderRoundTrip, ReaderGivesTheBytesThatTheModelHandedOver) {
  const TemporaryFolder folder;
  const std::string path = folder.File("trace.h5");
  const auto model = model::OpenTransformer(ReferenceModel(), {GetParam().dtype, kCpu, kChunk, 2}, {});
  const data::TraceLayout layout = LayoutOf(GetParam(), *model);
  const RowSelection rows(GetParam().rows);
  data::TraceFilesWriter writer(path, layout, GetParam().num_files, false);
  Recorder recorder(&writer, layout, rows, kPromptTokens, /*from_gpu=*/false);
  Tee tee(model->config(), &recorder, GetParam().by_copies);
  std::vector<int32_t> tokens(kPromptTokens + kDecodeTokens);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 37 % 4096);
  for (int64_t done = 0; done < kPromptTokens + kDecodeTokens;) {
    const int64_t count = done < kPromptTokens ? std::min(kChunk, kPromptTokens - done) : 1;
    recorder.BeginPass(std::vector<data::TokenRecord>(static_cast<size_t>(count)));
    model->Forward(std::span(tokens).subspan(static_cast<size_t>(done), static_cast<size_t>(count)),
                   model::LogitsOf::kNone, &tee);
    recorder.EndPass();
    done += count;
  }
  recorder.Drain();
  writer.Finish();

  const data::TraceReader reader(path);
  ASSERT_EQ(reader.num_tokens(), kPromptTokens + kDecodeTokens);
  std::vector<int32_t> expected_rows;
  for (int32_t position = 0; position < reader.num_tokens(); ++position) {
    if (rows.Keeps(position, kPromptTokens)) expected_rows.push_back(position);
  }
  ASSERT_EQ(reader.row_positions(), expected_rows);
  EXPECT_EQ(rows.Count(kPromptTokens) + kDecodeTokens, reader.num_rows());
  std::string bytes(static_cast<size_t>(model->config().head_dim * SizeOf(layout.encoding)), '\0');
  for (int32_t slot = 0; slot < static_cast<int32_t>(layout.layers.size()); ++slot) {
    const int32_t layer = layout.layers[static_cast<size_t>(slot)];
    for (size_t i = 0; i < layout.facts[0].qo_heads.size(); ++i) {
      const auto head_slot = static_cast<int32_t>(i);
      for (int64_t row = 0; row < reader.num_rows(); ++row) {
        const Tee::Place place{layer, layout.facts[0].qo_heads[i], expected_rows[static_cast<size_t>(row)]};
        reader.ReadQ(slot, head_slot, row, row + 1, bytes.data());
        ASSERT_EQ(bytes, tee.q.at(place)) << "q of " << layer << ":" << place.head << " at " << place.token;
        float lse = 0;
        reader.ReadLse(slot, head_slot, row, row + 1, &lse);
        ASSERT_EQ(std::memcmp(&lse, &tee.lse.at(place), sizeof lse), 0) << "lse at " << place.token;
      }
    }
    for (size_t i = 0; i < layout.facts[0].kv_heads.size(); ++i) {
      const auto kv_slot = static_cast<int32_t>(i);
      for (int64_t token = 0; token < reader.num_tokens(); ++token) {
        const Tee::Place place{layer, layout.facts[0].kv_heads[i], token};
        reader.ReadK(slot, kv_slot, token, token + 1, bytes.data());
        ASSERT_EQ(bytes, tee.k.at(place)) << "k of " << layer << ":" << place.head << " at " << token;
        reader.ReadV(slot, kv_slot, token, token + 1, bytes.data());
        ASSERT_EQ(bytes, tee.v.at(place)) << "v of " << layer << ":" << place.head << " at " << token;
      }
    }
  }
}

// A GPU's failure comes out of the recorder as a disk's does, and what was flushed stays.
TEST(Recorder, ACopyThatFailsEndsTheRecording) {
  class FailingCopy : public model::HostCopy {
   public:
    int64_t bytes() const override { return 1; }
    void Wait() override { throw DeviceError("the GPU is gone"); }
  };
  const TemporaryFolder folder;
  const auto model = model::OpenTransformer(ReferenceModel(), {ElementType::kFloat32, kCpu, kChunk, 2}, {});
  const data::TraceLayout layout = LayoutOf({ElementType::kFloat32, "all", {}, {}}, *model);
  data::TraceFilesWriter writer(folder.File("trace.h5"), layout, 1, false);
  Recorder recorder(&writer, layout, RowSelection("all"), kPromptTokens, /*from_gpu=*/false);
  recorder.BeginPass(std::vector<data::TokenRecord>(1));
  model::LayerHeads heads;
  heads.num_tokens = 1;
  heads.copy = std::make_shared<FailingCopy>();
  recorder.Take(heads);
  EXPECT_THROW(recorder.Drain(), DeviceError);
  EXPECT_EQ(recorder.Stop(), 0);
}

// A token counts once it is readable in every file, so a file that failed before its first flush makes it none.
TEST(Recorder, CountsWhatEveryFileHasFlushed) {
  const TemporaryFolder folder;
  const auto model = model::OpenTransformer(ReferenceModel(), {ElementType::kFloat32, kCpu, kChunk, 2}, {});
  const data::TraceLayout layout = LayoutOf({ElementType::kFloat32, "all", {}, {}}, *model);
  const std::string path = folder.File("trace.h5");
  for (const bool spoiled : {true, false}) {
    data::TraceFilesWriter writer(path, layout, 2, /*overwrite=*/true);
    std::atomic<int> told = 0;
    Recorder recorder(&writer, layout, RowSelection("all"), kPromptTokens, /*from_gpu=*/false, [&] { ++told; });
    const std::vector<int32_t> tokens(8, 5);
    recorder.BeginPass(std::vector<data::TokenRecord>(8));
    model->Rewind(0);
    model->BeginPrompt(8);
    model->Forward(tokens, model::LogitsOf::kNone, &recorder);
    // The last file's writer finds out in the next pass, before its flush.
    if (spoiled) std::filesystem::remove(data::TraceFilePath(path, 2, 2));
    if (spoiled) {
      EXPECT_THROW(
          {
            recorder.BeginPass(std::vector<data::TokenRecord>(1));
            recorder.Drain();
          },
          FailedError);
    } else {
      recorder.Drain();
    }
    EXPECT_EQ(recorder.Stop(), spoiled ? 0 : 8);
    EXPECT_EQ(told, spoiled ? 0 : 1);
  }
}

// What one file has of a stopped pass does not count, nor does what is missing in another.
TEST(Recorder, APassThatIsAbandonedCountsInNoFile) {
  class UpToLayer final : public model::HeadSink {
   public:
    UpToLayer(Recorder* recorder, int32_t last) : recorder_(recorder), last_(last) {}
    bool Wants(int32_t layer) const override { return recorder_->Wants(layer); }
    void Take(const model::LayerHeads& heads) override {
      if (heads.layer <= last_) recorder_->Take(heads);
    }

   private:
    Recorder* recorder_;
    int32_t last_;
  };
  const TemporaryFolder folder;
  const auto model = model::OpenTransformer(ReferenceModel(), {ElementType::kFloat32, kCpu, kChunk, 2}, {});
  const data::TraceLayout layout = LayoutOf({ElementType::kFloat32, "all", {}, {}}, *model);
  data::TraceFilesWriter writer(folder.File("trace.h5"), layout, 3, /*overwrite=*/false);
  Recorder recorder(&writer, layout, RowSelection("all"), kPromptTokens, /*from_gpu=*/false);
  const std::vector<int32_t> tokens(8, 5);
  model->BeginPrompt(16);
  for (const bool abandoned : {false, true}) {
    recorder.BeginPass(std::vector<data::TokenRecord>(8));
    UpToLayer sink(&recorder, abandoned ? 0 : model->config().num_layers);
    model->Forward(tokens, model::LogitsOf::kNone, &sink);
    if (abandoned) recorder.AbandonPass();
  }
  EXPECT_EQ(recorder.num_tokens(), 8);
  EXPECT_EQ(recorder.num_rows(), 8);
  recorder.Drain();
  EXPECT_EQ(recorder.Stop(), 8);
  EXPECT_EQ(data::TraceReader(folder.File("trace.h5")).num_tokens(), 8);
}

INSTANTIATE_TEST_SUITE_P(Selections, RecorderRoundTrip,
                         ::testing::Values(RecorderCase{ElementType::kFloat32, "all", {}, {}},
                                           RecorderCase{{}, "every:7", {1, 3, 9}, {0, 3, 7}},
                                           RecorderCase{ElementType::kBFloat16, "last:5", {4}, {2}}),
                         [](const auto& tested) { return std::string(ComputeTypeName(tested.param.dtype)); });
INSTANTIATE_TEST_SUITE_P(Files, RecorderRoundTrip,
                         ::testing::Values(RecorderCase{ElementType::kFloat32, "all", {}, {}, false, 3},
                                           RecorderCase{{}, "every:7", {1, 3, 9}, {0, 3, 7}, true, 2},
                                           RecorderCase{ElementType::kBFloat16, "all", {}, {}, true, 8}));
// Heads and rows that lie in the copy as the trace has them, and others.
INSTANTIATE_TEST_SUITE_P(Copies, RecorderRoundTrip,
                         ::testing::Values(RecorderCase{ElementType::kFloat32, "all", {}, {}, true},
                                           RecorderCase{ElementType::kFloat32, "every:7", {1, 3, 9}, {0, 3, 7}, true},
                                           RecorderCase{{}, "every:7", {1, 3}, {0, 3, 7}, true},
                                           RecorderCase{ElementType::kBFloat16, "all", {2, 4}, {2, 3}, true},
                                           RecorderCase{ElementType::kBFloat16, "last:5", {4}, {2}, true}));

}  // namespace
}  // namespace headscope::capture
