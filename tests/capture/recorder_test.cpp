// SPDX-License-Identifier: Apache-2.0
// What the recorder is handed is what the trace reader gives back, bit by bit.
#include "recorder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/device.h"
#include "base/row_selection.h"
#include "checkpoint_files.h"
#include "data/trace_reader.h"
#include "data/trace_writer.h"
#include "head_choice.h"
#include "model/transformer.h"

namespace headscope::capture {
namespace {

// The bytes of one vector per (layer, head, token): collected pass by pass from what the model hands over.
class Tee : public model::HeadSink {
 public:
  Tee(const model::ModelConfig& config, Recorder* recorder) : config_(config), recorder_(recorder) {}

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
    recorder_->Take(heads);
  }

  struct Place {
    int32_t layer, head;
    int64_t token;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  std::map<Place, std::string> q, k, v;
  std::map<Place, float> lse;

 private:
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
};

struct RecorderCase {
  std::optional<ElementType> dtype;
  const char* rows;
  std::vector<int32_t> layers, heads;
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
  data::TraceWriter writer(path, layout, false);
  Recorder recorder(&writer, layout, rows, kPromptTokens);
  Tee tee(model->config(), &recorder);
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

INSTANTIATE_TEST_SUITE_P(Selections, RecorderRoundTrip,
                         ::testing::Values(RecorderCase{ElementType::kFloat32, "all", {}, {}},
                                           RecorderCase{{}, "every:7", {1, 3, 9}, {0, 3, 7}},
                                           RecorderCase{ElementType::kBFloat16, "last:5", {4}, {2}}),
                         [](const auto& tested) { return std::string(ComputeTypeName(tested.param.dtype)); });

}  // namespace
}  // namespace headscope::capture
