// SPDX-License-Identifier: Apache-2.0
// Methods inside the running model: everything kept gives the dense model's logits and trace, less gives others, and
// what cannot run is named.
#include "sparse_model/method_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "attention_calls.h"
#include "base/device.h"
#include "base/errors.h"
#include "capture/capture.h"
#include "checkpoint_files.h"
#include "data/trace_reader.h"
#include "model/transformer.h"

namespace headscope::sparse_model {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr int64_t kPrompt = 150, kChunk = 64, kDecode = 4;

std::vector<int32_t> Tokens() {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < kPrompt + kDecode; ++i) tokens.push_back(i * 37 % 4096);
  return tokens;
}

// Logits of every token: a prompt in chunks, then steps of one token.
std::vector<float> Logits(model::Transformer* model) {
  model->Rewind(0);
  const std::vector<int32_t> tokens = Tokens();
  std::vector<float> logits;
  for (int64_t done = 0; done < kPrompt + kDecode;) {
    const int64_t count = done < kPrompt ? std::min(kChunk, kPrompt - done) : 1;
    const std::vector<float> some = model->Forward(
        std::span(tokens).subspan(static_cast<size_t>(done), static_cast<size_t>(count)), model::LogitsOf::kAllTokens);
    logits.insert(logits.end(), some.begin(), some.end());
    done += count;
  }
  return logits;
}

// Largest difference, as a share of the largest logit.
double Difference(const std::vector<float>& a, const std::vector<float>& b) {
  double worst = 0, largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    largest = std::max(largest, std::fabs(static_cast<double>(b[i])));
  }
  return worst / largest;
}

TEST(MethodAttention, EverythingKeptGivesTheDenseLogits) {
  const auto model = model::OpenTransformer(ReferenceModel(), {ElementType::kFloat32, kCpu, kChunk, 2}, {});
  const std::vector<float> dense = Logits(model.get());
  ASSERT_EQ(dense.size() % static_cast<size_t>(kPrompt + kDecode), 0U);
  const auto baseline = AttendByMethods({});
  model->UseAttention(baseline.get());
  EXPECT_LE(Difference(Logits(model.get()), dense), 1e-5);
  EXPECT_EQ(baseline->Pairs().kept, baseline->Pairs().seen);
  const int64_t tokens = kPrompt + kDecode;
  EXPECT_EQ(baseline->Pairs().seen,
            model->config().num_layers * model->config().num_qo_heads * tokens * (tokens + 1) / 2);
  // A window as long as all of it, and as many tokens of SparQ as there are.
  const auto whole = AttendByMethods(Choose("a-shape", "n_local=4096", "sparq", "k=4096"));
  model->UseAttention(whole.get());
  EXPECT_LE(Difference(Logits(model.get()), dense), 1e-5);
  model->UseAttention(nullptr);
  EXPECT_EQ(Logits(model.get()), dense) << "the default is back, to the bit";
}

// The shipped weights as a model whose layers see 40 tokens.
std::string WithWindow(const TemporaryFolder& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(ReferenceModel())) {
    if (entry.path().filename() != "config.json")
      std::filesystem::create_symlink(std::filesystem::absolute(entry.path()),
                                      folder.File(entry.path().filename().string()));
  }
  nlohmann::json config = nlohmann::json::parse(ReadWholeFile(ReferenceModel() + "/config.json"));
  config["model_type"] = "mistral";
  config["sliding_window"] = 40;
  folder.Write("config.json", config.dump());
  return folder.path();
}

// SparQ's mean value is that of the keys in the window; once, a layer with one was refused.
TEST(MethodAttention, ADecodeMethodIsShownTheWindowOfItsLayer) {
  const TemporaryFolder folder;
  const auto model = model::OpenTransformer(WithWindow(folder), {ElementType::kFloat32, kCpu, kChunk, 2}, {});
  const std::vector<float> dense = Logits(model.get());
  const auto whole = AttendByMethods(Choose("dense", "", "sparq", "k=4096"));
  model->UseAttention(whole.get());
  EXPECT_LE(Difference(Logits(model.get()), dense), 1e-5);
  EXPECT_EQ(whole->Pairs().kept, whole->Pairs().seen);
  const auto few = AttendByMethods(Choose("dense", "", "sparq", "k=8,r=64,reallocate=1"));
  model->UseAttention(few.get());
  const double with_mean = Difference(Logits(model.get()), dense);
  EXPECT_GT(with_mean, 1e-4);
  const auto without_mean = AttendByMethods(Choose("dense", "", "sparq", "k=8,r=64,reallocate=0"));
  model->UseAttention(without_mean.get());
  EXPECT_LT(with_mean, Difference(Logits(model.get()), dense)) << "the mean value stands for what is left out";
}

TEST(MethodAttention, WhatIsLeftOutIsMissing) {
  const auto model = model::OpenTransformer(ReferenceModel(), {ElementType::kFloat32, kCpu, kChunk, 2}, {});
  const std::vector<float> dense = Logits(model.get());
  const auto narrow = AttendByMethods(Choose("a-shape", "n_local=16,n_sink=2", "sparq", "k=16"));
  model->UseAttention(narrow.get());
  EXPECT_GT(Difference(Logits(model.get()), dense), 1e-3);
  EXPECT_LT(narrow->Pairs().kept, narrow->Pairs().seen);
  EXPECT_GT(narrow->Pairs().kept, 0);
}

TEST(MethodAttention, ACaptureRecordsWhatTheModelThenComputes) {
  const TemporaryFolder folder;
  capture::CaptureRequest request;
  request.model_dir = ReferenceModel();
  request.text = "The pass key is 99405. Remember it. 99405 is the pass key. What is the pass key?";
  request.decode_tokens = 3;
  request.dtype = ElementType::kFloat32;
  request.chunk_tokens = 8;
  request.num_threads = 2;
  request.output_path = folder.File("dense.h5");
  const capture::CaptureResult dense = capture::Capture(request, {}, {});
  const auto baseline = AttendByMethods({});
  request.attention = baseline.get();
  request.output_path = folder.File("methods.h5");
  const capture::CaptureResult by_methods = capture::Capture(request, {}, {});
  EXPECT_EQ(by_methods.generated_text, dense.generated_text);
  const data::TraceReader one(folder.File("dense.h5")), other(folder.File("methods.h5"));
  EXPECT_EQ(other.layout().facts, one.layout().facts);
  EXPECT_EQ(one.layer(0).softmax_scale, 0.125f);
  EXPECT_GT(one.layer(0).rope.theta, 0);
  ASSERT_EQ(other.num_rows(), one.num_rows());
  std::vector<float> expected(static_cast<size_t>(one.num_rows())), found(expected.size());
  const auto last = static_cast<int32_t>(one.layout().layers.size()) - 1;
  one.ReadLse(last, 1, 0, one.num_rows(), expected.data());
  other.ReadLse(last, 1, 0, one.num_rows(), found.data());
  EXPECT_LE(Difference(found, expected), 1e-5);
}

// Each head has what a run of its own setting gives it, whichever heads it runs together with.
TEST(MethodAttention, HeadsHaveMethodsOfTheirOwn) {
  model::AttentionLayer layer = LayerOf(64);
  layer.sinks = {0.5f, -1, 2, 0};
  struct Case {
    const char *name, *values;
  };
  // S2-Attention's shards go by the head's number; an A-shape's edges by an element rule.
  constexpr Case kSettings[] = {{"a-shape", "n_local=20,n_sink=3"},
                                {"s2-attention", "local_blocks=1,vertical_stride=4,dense_layers=0"},
                                {"vertical-slash", "n_vertical=5,n_slash=3,last_q=16"},
                                {"dense", ""}};
  for (const bool bf16 : {false, true}) {
    const SequenceData data(layer, 300, bf16, 21);
    std::vector<PrefillSetting> settings;
    std::vector<PassOutput> alone;
    std::vector<int64_t> kept;
    for (const Case& one : kSettings) {
      const MethodChoice choice = Choose(one.name, one.values, "dense", "");
      settings.push_back({choice.prefill, choice.prefill_values});
      const auto backend = AttendByMethods(choice);
      alone.push_back(AttendOnHost(*backend, data, 0, 300, /*of_prompt=*/true));
      kept.push_back(backend->Pairs().kept);
    }
    for (const std::vector<size_t>& of_heads :
         {std::vector<size_t>{0, 0, 0, 0}, {1, 1, 1, 1}, {0, 0, 1, 1}, {0, 1, 1, 1}, {3, 2, 1, 0}, {1, 1, 1, 2}}) {
      MethodChoice choice = Choose("dense", "", "dense", "");
      choice.prefill = nullptr;
      std::vector<int64_t> asked;
      choice.prefill_of_head = [&](int32_t, int32_t head, int64_t tokens) -> const PrefillSetting& {
        asked.push_back(tokens);
        return settings[of_heads[static_cast<size_t>(head)]];
      };
      const auto mixed = AttendByMethods(choice);
      const PassOutput output = AttendOnHost(*mixed, data, 0, 300, /*of_prompt=*/true);
      EXPECT_THAT(asked, testing::Each(300));
      for (size_t head = 0; head < 4; ++head) {
        const PassOutput& own = alone[of_heads[head]];
        const size_t rows = 300, values = rows * 64;
        for (size_t i = head * values; i < (head + 1) * values; ++i) ASSERT_EQ(output.o[i], own.o[i]) << head;
        for (size_t i = head * rows; i < (head + 1) * rows; ++i) ASSERT_EQ(output.lse[i], own.lse[i]) << head;
      }
      EXPECT_GT(mixed->Pairs().kept, 0);
      if (of_heads == std::vector<size_t>(4, of_heads[0])) {
        EXPECT_EQ(mixed->Pairs().kept, kept[of_heads[0]]);
      }
    }
  }
}

// A pass that attends to everything has the log-sum-exp that others make beside theirs: with a window and sinks, in
// prompts and in steps, by a method that leaves the layer dense too.
TEST(MethodAttention, ADensePassHasTheLseOfAllKeysAlready) {
  model::AttentionLayer layer = LayerOf(64);
  layer.sinks = {0.5f, -1, 2, 0};
  for (const int32_t window : {0, 70}) {
    layer.window = window;
    const SequenceData data(layer, 200, /*bf16=*/false, 5);
    const auto lse = [&](const char* prefill, const char* prefill_values, const char* decode, const char* values) {
      MethodChoice choice = Choose(prefill, prefill_values, decode, values);
      choice.trace_lse = true;
      const auto backend = AttendByMethods(choice);
      std::vector<float> all = AttendOnHost(*backend, data, 0, 190, /*of_prompt=*/true).lse;
      for (int64_t step = 190; step < 200; ++step) {
        const std::vector<float> of_step = AttendOnHost(*backend, data, step, 1, /*of_prompt=*/false).lse;
        all.insert(all.end(), of_step.begin(), of_step.end());
      }
      return all;
    };
    const std::vector<float> made_beside = lse("a-shape", "n_local=16,n_sink=2", "exact-top-k", "k=4");
    EXPECT_LE(LargestRelativeDifference(lse("dense", "", "dense", ""), made_beside), 2e-6f) << window;
    EXPECT_LE(LargestRelativeDifference(lse("dense", "", "quest", "budget=16,dense_layers=1"), made_beside), 2e-6f);
    EXPECT_LE(LargestRelativeDifference(lse("dense", "", "quest", "budget=16,dense_layers=0"), made_beside), 2e-6f);
  }
}

// What goes by the whole prompt is the same in passes of any length: shares of its tokens, and InfLLM's
// representatives, which later queries choose. A sequence that was taken back has those of its own tokens.
TEST(MethodAttention, APromptInPassesKeepsWhatItKeepsAtOnce) {
  const SequenceData data(LayerOf(64), 700, /*bf16=*/true, 21), other(LayerOf(64), 700, /*bf16=*/true, 22);
  struct Case {
    const char *method, *values;
  };
  for (const Case& one : {Case{"streaming-llm", "local_share=0.1"}, Case{"big-bird", "window_share=0.3,n_random=0"},
                          Case{"infllm-prefill", "block_size=16,n_init=16,n_local=64,top_k=2,n_repr=1,chunk=1"}}) {
    SCOPED_TRACE(one.method);
    const auto pass = [](MethodAttention& backend, const SequenceData& of, int64_t first, int64_t rows) {
      const auto size = static_cast<size_t>(rows * of.layer.num_qo_heads);
      std::vector<std::byte> o(size * static_cast<size_t>(of.layer.v_head_dim) * 2);
      std::vector<float> lse(size);
      model::AttentionCall call = of.Call(first, rows, /*of_prompt=*/true, of.q.data(), of.k.data(), of.v.data());
      call.prompt_tokens = of.num_tokens;
      call.o = o.data();
      call.lse = lse.data();
      backend.Attend(call);
      return lse;  // [num_qo_heads, rows]
    };
    const auto at_once = AttendByMethods(Choose(one.method, one.values, "dense", ""));
    const std::vector<float> expected = pass(*at_once, data, 0, 700);
    const auto in_passes = AttendByMethods(Choose(one.method, one.values, "dense", ""));
    const auto expect_from = [&](int64_t begin) {
      for (int64_t first = begin; first < 700; first += 256) {
        const int64_t rows = std::min<int64_t>(256, 700 - first);
        const std::vector<float> lse = pass(*in_passes, data, first, rows);
        for (int64_t head = 0; head < 4; ++head) {
          for (int64_t row = 0; row < rows; ++row) {
            ASSERT_NEAR(lse[static_cast<size_t>(head * rows + row)],
                        expected[static_cast<size_t>(head * 700 + first + row)], 1e-4)
                << first + row;
          }
        }
      }
    };
    expect_from(0);
    EXPECT_EQ(in_passes->Pairs().kept, at_once->Pairs().kept);
    in_passes->Rewind(256);
    expect_from(256);
    in_passes->Rewind(0);
    for (int64_t first = 0; first < 512; first += 256) pass(*in_passes, other, first, 256);
    in_passes->Rewind(0);
    expect_from(0);
  }
}

TEST(MethodAttention, RefusalsNameMethodAndLayer) {
  const auto model = model::OpenTransformer(ReferenceModel(), {ElementType::kFloat32, kCpu, kChunk, 2}, {});
  model::AttentionLayer layer = model->config().layers.front();
  layer.head_dim = layer.v_head_dim = 12;
  const std::vector<float> values(8 * 12, 1.0f);
  std::vector<float> o(8 * 12), lse(8);
  model::AttentionCall call;
  call.layer = 3;
  call.facts = &layer;
  call.num_rows = call.num_tokens = 1;
  call.q = call.k = call.v = {values.data(), 12, 12};
  call.o = o.data();
  call.lse = lse.data();
  const auto baseline = AttendByMethods({});
  EXPECT_THAT([&] { baseline->Attend(call); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("dense in layer 3"), HasSubstr("head_dim is 12"))));
}

}  // namespace
}  // namespace headscope::sparse_model
