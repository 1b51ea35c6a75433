// SPDX-License-Identifier: Apache-2.0
// A tuning by the window and by the command line: one search, and so one file for one question.
#include "tuned_heads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <numeric>
#include <random>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "base/errors.h"
#include "data/trace_writer.h"
#include "synthetic_trace.h"

namespace headscope::app {
namespace {

using data::testing::ScratchFolder;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int64_t kNumTokens = 300;

std::string Contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Without when it was written: the window's file and the command's may be a second apart.
std::string TuningOf(const std::string& path) {
  static const std::regex kMoment(R"(("written_at": ")\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")");
  const std::string written = Contents(path);
  EXPECT_TRUE(std::regex_search(written, kMoment)) << written;
  return std::regex_replace(written, kMoment, "$1then\"");
}

// Layers 0 and 2 of 3, 4 query heads over 2 KV heads or 1, random numbers whose log-sum-exp is their own.
std::string WriteTunedTrace(const std::string& path, int32_t num_kv_heads = 2) {
  constexpr int32_t kHeads = 4, kDim = 16;
  data::TraceLayout layout;
  layout.model = {.name = "random",
                  .model_type = "test",
                  .config_json = "{}",
                  .weights_sha256 = std::string(64, '0'),
                  .tokenizer_sha256 = std::string(64, '0'),
                  .num_layers = 3,
                  .num_qo_heads = kHeads,
                  .num_kv_heads = num_kv_heads,
                  .head_dim = kDim};
  layout.layers = {0, 2};
  layout.facts.assign(2, data::UsualFacts(layout.model));
  layout.encoding = ElementType::kFloat32;
  layout.prompt_source = "text";
  layout.max_tokens = kNumTokens;
  data::TraceWriter writer(path, layout, /*overwrite=*/true);
  std::vector<data::TokenRecord> tokens;
  std::vector<int32_t> positions;
  for (int32_t i = 0; i < kNumTokens; ++i) {
    tokens.push_back({.id = i, .phase = data::TokenPhase::kPrompt, .step = 0, .text = " word"});
    positions.push_back(i);
  }
  writer.AppendTokens(tokens);
  writer.AppendRowPositions(positions);
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 1.5f);
  for (int32_t slot = 0; slot < 2; ++slot) {
    std::vector<float> q(static_cast<size_t>(kHeads * kNumTokens * kDim)),
        k(static_cast<size_t>(num_kv_heads * kNumTokens * kDim)), v(k.size()), lse;
    for (std::vector<float>* tensor : {&q, &k, &v}) std::ranges::generate(*tensor, [&] { return normal(random); });
    for (int64_t head = 0; head < kHeads; ++head) {
      for (int64_t row = 0; row < kNumTokens; ++row) {
        const float* const query = q.data() + (head * kNumTokens + row) * kDim;
        double sum = 0;
        for (int64_t token = 0; token <= row; ++token) {
          const float* const key = k.data() + (head / (kHeads / num_kv_heads) * kNumTokens + token) * kDim;
          sum += std::exp(static_cast<double>(std::inner_product(query, query + kDim, key, 0.0f) *
                                              layout.facts.front().softmax_scale));
        }
        lse.push_back(static_cast<float>(std::log(sum)));
      }
    }
    writer.Append({.layer_slot = slot,
                   .first_token = 0,
                   .num_tokens = kNumTokens,
                   .first_row = 0,
                   .num_rows = kNumTokens,
                   .q = q.data(),
                   .k = k.data(),
                   .v = v.data(),
                   .lse = lse.data()});
  }
  writer.Finish();
  return path;
}

ui::TuneSettings::Method MethodOf(const std::string& name, const std::string& parameters = "") {
  const kernels::MethodSpec& spec = *kernels::FindMethod(name).spec();
  ui::TuneSettings::Method method{name, kernels::ParameterValues(spec)};
  EXPECT_EQ(method.values.Parse(spec, parameters), "");
  return method;
}

class TunedHeadsTest : public ::testing::Test {
 protected:
  std::vector<ui::TunedSetting> Tune(const ui::TuneSettings& settings) {
    std::vector<ui::TunedSetting> tuned;
    HeadsCalls<ui::TunedSetting> calls;
    calls.one = [&tuned](const ui::TunedSetting& one) { tuned.push_back(one); };
    calls.failed = [this](const ui::FailedHead& failed) { failures_.push_back(failed.sentence); };
    calls.progress = [](double) {};
    TuneHeads(trace_, trace_.summary.heads, settings, calls, {});
    std::ranges::sort(tuned, {}, &ui::TunedSetting::head);
    return tuned;
  }
  std::string WindowsFile(const ui::TuneSettings& settings) {
    const std::string path = folder_.File("window.json");
    ExportTuning(trace_.reader, settings, Tune(settings), trace_.summary.heads.size(), path, "json");
    return TuningOf(path);
  }
  // What the program says beside its file is in `said_`.
  std::string CommandsFile(const std::string& arguments) {
    const std::string path = folder_.File("command.json"), said = folder_.File("said.txt");
    const std::string command = std::string(HEADSCOPE_PROGRAM) + " tune " + trace_.reader.path() + " " + arguments +
                                " --quiet --force -o " + path + " 2> " + said;
    EXPECT_EQ(std::system(command.c_str()), 0) << command << '\n' << Contents(said);
    said_ = Contents(said);
    return TuningOf(path);
  }

  const ScratchFolder folder_;
  OpenedTrace trace_{WriteTunedTrace(folder_.File("tuned.h5")), std::make_shared<ui::MemoryBudget>(int64_t{1} << 30)};
  std::vector<std::string> failures_;
  std::string said_;
};

TEST_F(TunedHeadsTest, PrefillMethodsGetTheFileOfTheCommand) {
  ui::TuneSettings settings;
  settings.methods = {MethodOf("vertical-slash"), MethodOf("block-sparse")};
  settings.target = {"kept", 0.3};
  settings.check_rows = "every:4";
  const std::string written = WindowsFile(settings);
  EXPECT_THAT(written, HasSubstr("\"checked\""));
  EXPECT_EQ(written,
            CommandsFile("--method vertical-slash --method block-sparse --target kept=0.3 --check-rows every:4"));
  settings.unit = ui::TuneSettings::Unit::kLayer;
  settings.target = {"cra-mean", 0.8};
  settings.check_rows.clear();
  EXPECT_EQ(WindowsFile(settings),
            CommandsFile("--method vertical-slash --method block-sparse --target cra-mean=0.8 --per layer"));
}

// As many steps as the window takes, and in the group that shares a selection: other numbers than those of heads by
// themselves, and the command gives them, too.
TEST_F(TunedHeadsTest, DecodeMethodsGetTheFileOfTheCommand) {
  ui::TuneSettings settings;
  settings.methods = {MethodOf("exact-top-k")};
  settings.target = {"cra-p5", 0.7};
  settings.decode_rows = 40;
  settings.in_group = true;
  const std::string arguments = "--method exact-top-k --target cra-p5=0.7", in_group = WindowsFile(settings);
  EXPECT_EQ(in_group, CommandsFile(arguments + " --decode-rows 40 --group"));
  settings.in_group = false;
  const std::string alone = WindowsFile(settings);
  EXPECT_EQ(alone, CommandsFile(arguments + " --decode-rows 40"));
  EXPECT_NE(in_group.substr(in_group.find("\"heads\"")), alone.substr(alone.find("\"heads\"")));
  EXPECT_NE(alone, CommandsFile(arguments)) << "of the last 16 rows";
}

// A layer's budget that its KV heads share is not what one of them, or its group, is searched with.
TEST_F(TunedHeadsTest, BudgetsThatALayerSharesAreSaidToBeSearchedEvenly) {
  ui::TuneSettings settings;
  settings.target = {"cra-mean", 0.6};
  for (const bool in_group : {false, true}) {
    settings.in_group = in_group;
    for (const char* const allocation : {"ada", "kvpress", "uniform"}) {
      const std::string values = std::string("window=8,allocation=") + allocation;
      settings.methods = {MethodOf("snap-kv", values)};
      const std::string sentence = in_group ? "the group of a head was searched with an even share of it"
                                            : "a head by itself was searched with an even share of it";
      const bool is_shared = std::string(allocation) != "uniform";
      const std::vector<ui::TunedSetting> tuned = Tune(settings);
      EXPECT_THAT(tuned, SizeIs(8));
      for (const ui::TunedSetting& setting : tuned)
        EXPECT_EQ(setting.note.find(sentence) != std::string::npos, is_shared) << setting.note;
      CommandsFile("--method snap-kv:" + values + " --target cra-mean=0.6" + (in_group ? " --group" : ""));
      EXPECT_EQ(said_.find(sentence) != std::string::npos, is_shared) << said_;
    }
  }
}

// A layer with one KV head shares its budget out to nobody.
TEST_F(TunedHeadsTest, ABudgetOfALayerWithOneKvHeadIsNotSaidToBeShared) {
  OpenedTrace one(WriteTunedTrace(folder_.File("one.h5"), 1), std::make_shared<ui::MemoryBudget>(int64_t{1} << 30));
  ui::TuneSettings settings;
  settings.target = {"cra-mean", 0.6};
  settings.methods = {MethodOf("snap-kv", "window=8,allocation=ada")};
  std::vector<std::string> notes;
  HeadsCalls<ui::TunedSetting> calls;
  calls.one = [&notes](const ui::TunedSetting& found) { notes.push_back(found.note); };
  calls.failed = [](const ui::FailedHead& failed) { ADD_FAILURE() << failed.sentence; };
  calls.progress = [](double) {};
  TuneHeads(one, one.summary.heads, settings, calls, {});
  EXPECT_THAT(notes, SizeIs(8));
  for (const std::string& note : notes) EXPECT_EQ(note, "");
  const std::string said = folder_.File("said.txt");
  const std::string command = std::string(HEADSCOPE_PROGRAM) + " tune " + one.reader.path() +
                              " --method snap-kv:window=8,allocation=ada --target cra-mean=0.6 --quiet --force -o " +
                              folder_.File("one.json") + " 2> " + said;
  EXPECT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(Contents(said).find("even share"), std::string::npos) << Contents(said);
}

// Nor is a choice that all heads of a layer make together.
TEST_F(TunedHeadsTest, AChoiceOfALayerIsSaidToBeOneOfAHead) {
  ui::TuneSettings settings;
  settings.target = {"cra-mean", 0.6};
  settings.methods = {MethodOf("tova")};
  for (const bool in_group : {false, true}) {
    settings.in_group = in_group;
    const std::string sentence = std::string("tova makes one choice for all heads of a layer, and ") +
                                 (in_group ? "the group of a head" : "a head by itself") + " was searched with its own";
    const std::vector<ui::TunedSetting> tuned = Tune(settings);
    EXPECT_THAT(tuned, SizeIs(8));
    for (const ui::TunedSetting& setting : tuned) EXPECT_EQ(setting.note, sentence);
    CommandsFile(std::string("--method tova --target cra-mean=0.6") + (in_group ? " --group" : ""));
    EXPECT_THAT(said_, HasSubstr(sentence));
  }
}

// The layers above take TidalDecode's tokens of layer 1, which is not recorded: the other method is theirs.
TEST_F(TunedHeadsTest, AMethodThatRefusesAHeadIsPassedOverAlike) {
  ui::TuneSettings settings;
  settings.methods = {MethodOf("tidal-decode", "first_layer=1,reselect_layer=0"), MethodOf("sliding-window")};
  settings.target = {"cra-p5", 0.7};
  settings.in_group = true;
  size_t passed_over = 0;
  for (const ui::TunedSetting& setting : Tune(settings)) {
    EXPECT_THAT(setting.passed_over, SizeIs(setting.head.layer > 1 ? 1 : 0)) << setting.head.layer;
    passed_over += setting.passed_over.size();
  }
  EXPECT_EQ(passed_over, 4U);
  EXPECT_EQ(WindowsFile(settings), CommandsFile("--method tidal-decode:first_layer=1,reselect_layer=0 --method "
                                                "sliding-window --target cra-p5=0.7 --group"));
  EXPECT_THAT(said_, HasSubstr("4 heads had to do without one of the methods; head 2:0: tidal-decode: "));
  EXPECT_TRUE(failures_.empty());
}

// Where no method runs, a head has failed.
TEST_F(TunedHeadsTest, AHeadThatEveryMethodRefusesFails) {
  ui::TuneSettings settings;
  settings.methods = {MethodOf("tidal-decode", "first_layer=1,reselect_layer=0")};
  settings.target = {"cra-p5", 0.7};
  EXPECT_THAT(Tune(settings), SizeIs(4));
  ASSERT_THAT(failures_, SizeIs(4));
  EXPECT_THAT(failures_.front(), HasSubstr("tidal-decode"));
}

TEST_F(TunedHeadsTest, AMethodWithoutABudgetIsRefused) {
  ui::TuneSettings settings;
  settings.methods = {MethodOf("block-sparse"), MethodOf("hash-sparse")};
  settings.target = {"cra-p5", 0.7};
  EXPECT_THROW(Tune(settings), Error);
}

TEST_F(TunedHeadsTest, WhatIsNotJudgedInAGroupIsRefused) {
  ui::TuneSettings settings;
  settings.in_group = true;
  settings.methods = {MethodOf("exact-top-k")};
  settings.target = {"cra-p5", 0.7};
  EXPECT_NO_THROW(Tune(settings));
  ui::TuneSettings other = settings;
  other.unit = ui::TuneSettings::Unit::kLayer;
  EXPECT_THROW(Tune(other), UsageError);
  other = settings;
  other.target = {"kept", 0.3};
  EXPECT_THROW(Tune(other), UsageError);
  other = settings;
  other.methods = {MethodOf("vertical-slash")};
  EXPECT_THROW(Tune(other), UsageError);
}

}  // namespace
}  // namespace headscope::app
