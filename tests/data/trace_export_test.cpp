// SPDX-License-Identifier: Apache-2.0
// Cutting traces: as a trace, as CSV and as JSON; and tables of results.
#include "data/trace_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/errors.h"
#include "data/results_file.h"
#include "synthetic_trace.h"

namespace headscope::data {
namespace {

// As the text exports are called.
void ExportPlain(const TraceReader& trace, const ExportSelection& selection, const std::string& path,
                 const ExportProgress& progress, const std::stop_token& stop) {
  ExportTrace(trace, selection, {}, path, progress, stop);
}

void ExportTable(const TraceReader& trace, const ExportSelection& selection, const std::string& path,
                 const ExportProgress& progress = {}, const std::stop_token& stop = {}) {
  ExportCsv(trace, selection, {",trace", ",a.h5"}, path, progress, stop);
}

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::PlaceHash;
using testing::ScratchFolder;
using testing::SmallLayout;
using testing::Tensor;
using ::testing::ThrowsMessage;
using testing::ValueBits;
using testing::WriteTrace;

float Expected(Tensor tensor, int64_t layer, int64_t head, int64_t position, int64_t dim) {
  return std::bit_cast<float>(ValueBits(ElementType::kFloat32, PlaceHash(tensor, layer, head, position, dim)));
}

class TraceExport : public ::testing::Test {
 protected:
  TraceExport() {
    WriteTrace(folder_.File("whole.h5"), SmallLayout(ElementType::kFloat32, 4000), 3000, 900);
    whole_ = std::make_unique<TraceReader>(folder_.File("whole.h5"));
  }
  ScratchFolder folder_;
  std::unique_ptr<TraceReader> whole_;
};

TEST_F(TraceExport, CutHoldsTheChosenPartAndNothingElse) {
  ExportTrace(*whole_, {.layers = {4, 0}, .qo_heads = {5, 2}, .first_token = 101, .end_token = 2900}, {},
              folder_.File("cut.h5"));
  const TraceReader cut(folder_.File("cut.h5"));
  EXPECT_TRUE(cut.complete());
  EXPECT_EQ(cut.num_tokens(), 2799);
  EXPECT_THAT(cut.layout().layers, ElementsAre(0, 4));
  EXPECT_THAT(cut.layer(1).qo_heads, ElementsAre(2, 5));
  EXPECT_THAT(cut.layer(1).kv_heads, ElementsAre(1, 2));
  EXPECT_EQ(cut.layer(0).window, 0);
  EXPECT_EQ(cut.layer(1).window, 0);
  EXPECT_EQ(cut.layout().first_token, 101);
  EXPECT_EQ(cut.tokens()[5].id, testing::TokenAt(106, 3000).id);
  EXPECT_EQ(cut.tokens()[5].text, testing::TokenAt(106, 3000).text);
  ASSERT_EQ(cut.num_rows(), 1399);  // 102, 104, .. 2898
  EXPECT_EQ(cut.row_positions().front(), 1);
  EXPECT_EQ(cut.row_positions().back(), 2797);
  std::vector<float> values(2799 * 16);
  cut.ReadQ(1, 1, 0, 1399, values.data());
  for (int64_t row = 0; row < 1399; ++row) {
    ASSERT_EQ(values[static_cast<size_t>(row * 16 + 3)], Expected(Tensor::kQ, 4, 5, 102 + 2 * row, 3));
  }
  cut.ReadV(0, 0, 0, 2799, values.data());
  for (int64_t token = 0; token < 2799; ++token) {
    ASSERT_EQ(values[static_cast<size_t>(token * 16 + 15)], Expected(Tensor::kV, 0, 1, 101 + token, 15));
  }
  cut.ReadLse(0, 0, 0, 1399, values.data());
  EXPECT_EQ(values[7], testing::LseValue(0, 2, 102 + 14));
}

TEST_F(TraceExport, CutOfEverythingEqualsTheWhole) {
  ExportTrace(*whole_, {}, {}, folder_.File("cut.h5"));
  EXPECT_EQ(testing::FirstDifference(TraceReader(folder_.File("cut.h5")), 3000), "");
}

// A part of the tokens would lack what its rows saw.
TEST_F(TraceExport, OfLayersInBothDirectionsAllTokensAreTaken) {
  TraceLayout layout = testing::SmallLayout(ElementType::kFloat32, 30);
  layout.model.layer_kinds.clear();
  for (LayerFacts& facts : layout.facts) facts.window = 0;
  layout.facts[0].bidirectional = true;
  testing::WriteTrace(folder_.File("encoder.h5"), layout, 30, 30);
  const TraceReader whole(folder_.File("encoder.h5"));
  ExportSelection some;
  some.end_token = 20;
  EXPECT_THROW(ExportTrace(whole, some, {}, folder_.File("cut.h5")), UsageError);
  EXPECT_FALSE(std::filesystem::exists(folder_.File("cut.h5")));
  some.layers = {layout.layers[1]};  // causal
  ExportTrace(whole, some, {}, folder_.File("cut.h5"));
  ExportSelection one;
  one.layers = {layout.layers[0]};
  ExportTrace(whole, one, {.storage = TraceStorage::kCompressed}, folder_.File("one.h5"));
  EXPECT_EQ(TraceReader(folder_.File("one.h5")).layout().facts[0], layout.facts[0]);
}

TEST_F(TraceExport, ACompressedTraceReadsAsAPlainOne) {
  ExportTrace(*whole_, {}, {.storage = TraceStorage::kCompressed}, folder_.File("packed.h5"));
  const TraceReader packed(folder_.File("packed.h5"));
  EXPECT_EQ(testing::FirstDifference(packed, 3000), "");
  EXPECT_LT(std::filesystem::file_size(folder_.File("packed.h5")),
            std::filesystem::file_size(folder_.File("whole.h5")) * 9 / 10);
  // Any part of it, across chunks.
  std::vector<float> part(700 * 16), all(3000 * 16);
  packed.ReadK(1, 2, 0, 3000, all.data());
  packed.ReadK(1, 2, 1900, 2600, part.data());
  EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + 1900 * 16));
  // And plain again.
  ExportTrace(packed, {}, {}, folder_.File("plain.h5"));
  EXPECT_EQ(testing::FirstDifference(TraceReader(folder_.File("plain.h5")), 3000), "");
}

TEST_F(TraceExport, LayersThatDifferAreCompressedToo) {
  const TraceLayout layout = testing::DifferingLayout(ElementType::kFloat16, 100);
  WriteTrace(folder_.File("differing.h5"), layout, 60, 7);
  const TraceReader differing(folder_.File("differing.h5"));
  ExportTrace(differing, {}, {.storage = TraceStorage::kCompressed}, folder_.File("packed.h5"));
  EXPECT_EQ(testing::FirstDifference(TraceReader(folder_.File("packed.h5")), 60), "");
}

// Chosen so that each encoding holds the numbers: those of bf16 in fp32 and fp16, and back.
TEST_F(TraceExport, AnotherEncodingHoldsTheSameNumbersWhereItCan) {
  WriteTrace(folder_.File("bf16.h5"), SmallLayout(ElementType::kBFloat16, 400), 300, 90);
  const TraceReader source(folder_.File("bf16.h5"));
  for (const ElementType encoding : {ElementType::kFloat32, ElementType::kFloat16}) {
    const std::string name = encoding == ElementType::kFloat32 ? "fp32.h5" : "fp16.h5";
    ExportTrace(source, {}, {.encoding = encoding}, folder_.File(name));
    const TraceReader other(folder_.File(name));
    EXPECT_EQ(other.layout().encoding, encoding);
    std::vector<uint16_t> raw(300 * 16);
    std::vector<float> expected(raw.size()), found(raw.size());
    source.ReadV(2, 1, 0, 300, raw.data());
    DecodeToFloat(raw.data(), ElementType::kBFloat16, std::ssize(raw), expected.data());
    std::vector<char> stored(raw.size() * 4);
    other.ReadV(2, 1, 0, 300, stored.data());
    DecodeToFloat(stored.data(), encoding, std::ssize(raw), found.data());
    EXPECT_EQ(found, expected);
    ExportTrace(other, {}, {.encoding = ElementType::kBFloat16}, folder_.File("again-" + name));
    EXPECT_EQ(testing::FirstDifference(TraceReader(folder_.File("again-" + name)), 300), "");
  }
}

TEST_F(TraceExport, ANumberThatDoesNotFitIsNamedAndNothingStays) {
  TraceLayout layout = SmallLayout(ElementType::kFloat32, 4);
  layout.layers = {0};
  layout.facts.resize(1);
  layout.facts[0].qo_heads = {0};
  layout.facts[0].kv_heads = {0};
  testing::SetHeadDim(&layout, 2);
  const std::vector<float> q = {1, 2}, k = {3, 1e6F}, v = {5, 6}, lse = {0};
  {
    TraceWriter writer(folder_.File("large.h5"), layout, /*overwrite=*/false);
    writer.AppendTokens(std::vector<TokenRecord>{{.id = 1, .text = "a"}});
    writer.AppendRowPositions(std::vector<int32_t>{0});
    LayerBlock block{.num_tokens = 1, .num_rows = 1, .q = q.data(), .k = k.data(), .v = v.data(), .lse = lse.data()};
    writer.Append(block);
    writer.Finish();
  }
  const TraceReader large(folder_.File("large.h5"));
  EXPECT_THAT(
      [&] { ExportTrace(large, {}, {.encoding = ElementType::kFloat16}, folder_.File("half.h5")); },
      ThrowsMessage<FailedError>(::testing::AllOf(HasSubstr("k: layer 0 holds 1000000"), HasSubstr("float16"))));
  EXPECT_FALSE(std::filesystem::exists(folder_.File("half.h5")));
  ExportTrace(large, {}, {.encoding = ElementType::kBFloat16}, folder_.File("wide.h5"));
}

TEST_F(TraceExport, CsvReadsBackExactly) {
  ExportTable(*whole_, {.layers = {2}, .qo_heads = {3}, .first_token = 10, .end_token = 1500}, folder_.File("cut.csv"));
  std::ifstream file(folder_.File("cut.csv"));
  std::string line;
  std::getline(file, line);
  EXPECT_THAT(line, ::testing::StartsWith("tensor,layer,head,token,position,lse,lse_keys,d0,d1,"));
  EXPECT_THAT(line, ::testing::EndsWith(",d15,trace"));
  int64_t lines = 0;
  while (std::getline(file, line)) {
    ++lines;
    std::vector<std::string> cells;
    std::stringstream parts(line);
    for (std::string cell; std::getline(parts, cell, ',');) {
      cells.push_back(cell);
    }
    ASSERT_EQ(cells.size(), 24u);
    ASSERT_EQ(cells[23], "a.h5");
    ASSERT_EQ(cells[1], "2");
    const int64_t token = std::stoll(cells[3]) + 10;
    const Tensor tensor = cells[0] == "q" ? Tensor::kQ : cells[0] == "k" ? Tensor::kK : Tensor::kV;
    ASSERT_EQ(cells[2], tensor == Tensor::kQ ? "3" : "1");
    ASSERT_EQ(std::stoll(cells[4]), token) << "the position in the whole prompt";
    ASSERT_EQ(cells[5].empty(), tensor != Tensor::kQ);
    ASSERT_EQ(cells[6].empty(), tensor != Tensor::kQ);
    if (tensor == Tensor::kQ) {
      ASSERT_EQ(std::stof(cells[5]), testing::LseValue(2, 3, token));
      ASSERT_EQ(std::stoll(cells[6]), std::min<int64_t>(token + 1, 64)) << "layer 2 has a window of 64 tokens";
    }
    ASSERT_EQ(std::stof(cells[22]), Expected(tensor, 2, std::stoll(cells[2]), token, 15));
  }
  EXPECT_EQ(lines, 745 + 2 * 1490);
}

TEST_F(TraceExport, JsonReadsBackExactly) {
  ExportJson(*whole_, {.layers = {0, 2}, .qo_heads = {1}, .first_token = 4, .end_token = 1400},
             folder_.File("cut.json"));
  const nlohmann::json json = nlohmann::json::parse(std::ifstream(folder_.File("cut.json")));
  EXPECT_EQ(json["format"], "headscope-export");
  EXPECT_EQ(json["encoding"], "float32");
  const ModelInfo& model = whole_->layout().model;
  EXPECT_EQ(json["model"], (nlohmann::json{{"name", model.name},
                                           {"model_type", model.model_type},
                                           {"num_layers", model.num_layers},
                                           {"num_qo_heads", model.num_qo_heads},
                                           {"num_kv_heads", model.num_kv_heads},
                                           {"head_dim", model.head_dim},
                                           {"weights_sha256", model.weights_sha256},
                                           {"tokenizer_sha256", model.tokenizer_sha256}}));
  EXPECT_EQ(json["tokens"].size(), 1396u);
  EXPECT_EQ(json["tokens"][1]["text"],
            testing::TokenAt(5, 3000).text.substr(0, 3) + "\xef\xbf\xbd");  // a lone lead byte
  ASSERT_EQ(json["heads"].size(), 6u);
  const nlohmann::json& q = json["heads"][3];
  EXPECT_EQ(q["tensor"], "q");
  EXPECT_EQ(q["layer"], 2);
  ASSERT_EQ(q["values"].size(), 698u);
  ASSERT_EQ(q["lse"].size(), 698u);
  EXPECT_EQ(q["tokens"][600], 1200);
  EXPECT_EQ(q["lse_keys"][600], 64) << "the layer's window";
  EXPECT_EQ(json["heads"][0]["lse_keys"][600], 4 + 1200 + 1) << "no window: everything since position 0";
  EXPECT_EQ(q["values"][600][9].get<float>(), Expected(Tensor::kQ, 2, 1, 1204, 9));
  EXPECT_EQ(json["heads"][5]["values"][1395][0].get<float>(), Expected(Tensor::kV, 2, 0, 1399, 0));
  EXPECT_FALSE(json["heads"][5].contains("lse"));
  EXPECT_FALSE(json["heads"][5].contains("lse_keys"));
}

TEST_F(TraceExport, RangeWithoutRecordedRowsExportsKeysAndValuesOnly) {
  const ExportSelection odd{.first_token = 11, .end_token = 12};
  ExportTrace(*whole_, odd, {}, folder_.File("cut.h5"));
  EXPECT_EQ(TraceReader(folder_.File("cut.h5")).num_rows(), 0);
  ExportJson(*whole_, odd, folder_.File("cut.json"));
  EXPECT_EQ(nlohmann::json::parse(std::ifstream(folder_.File("cut.json")))["heads"][0]["values"].size(), 0u);
}

TEST_F(TraceExport, WhatTheTraceLacksIsNamedAndNothingIsWritten) {
  const auto expect = [&](const ExportSelection& selection, const std::string& text) {
    EXPECT_THAT([&] { ExportTrace(*whole_, selection, {}, folder_.File("cut.h5")); },
                ThrowsMessage<UsageError>(HasSubstr(text)));
    EXPECT_FALSE(std::filesystem::exists(folder_.File("cut.h5")));
  };
  expect({.layers = {1}}, "layers 1: the trace holds no layer 1, only ");
  expect({.qo_heads = {7}}, "heads 7: the trace holds no head 7, only ");
  expect({.first_token = 5, .end_token = 5}, "tokens 5:5");
  expect({.first_token = 0, .end_token = 3001}, "tokens 0:3001");
}

TEST_F(TraceExport, ATraceWithoutTokensIsRefusedAsSuch) {
  WriteTrace(folder_.File("empty.h5"), SmallLayout(ElementType::kFloat32, 10), 0, 10);
  const TraceReader empty(folder_.File("empty.h5"));
  for (const auto write : {ExportPlain, ExportTable, ExportJson}) {
    EXPECT_THAT([&] { write(empty, {}, folder_.File("cut.h5"), {}, {}); },
                ThrowsMessage<BadInputError>(HasSubstr("empty.h5: the trace holds no token")));
    EXPECT_FALSE(std::filesystem::exists(folder_.File("cut.h5")));
  }
}

TEST_F(TraceExport, StoppedExportLeavesNoFile) {
  double last = 0;
  std::stop_source stop;
  const auto stop_half_way = [&](double share) {
    EXPECT_GE(share, last);
    last = share;
    if (share >= 0.5) stop.request_stop();
  };
  using Export = void (*)(const TraceReader&, const ExportSelection&, const std::string&, const ExportProgress&,
                          const std::stop_token&);
  for (const Export function : {&ExportPlain, &ExportTable, &ExportJson}) {
    last = 0;
    stop = {};
    EXPECT_THROW(function(*whole_, {}, folder_.File("cut"), stop_half_way, stop.get_token()), CancelledError);
    EXPECT_LT(last, 0.7);
    EXPECT_FALSE(std::filesystem::exists(folder_.File("cut")));
  }
}

// A link to nowhere is what a check for the name alone does not see, as it does not see a file that another process
// makes right after it.
TEST_F(TraceExport, WhatStandsThereAlreadyIsKept) {
  std::ofstream(folder_.File("cut")) << "precious";
  std::filesystem::create_symlink(folder_.File("nowhere"), folder_.File("link"));
  using Export = void (*)(const TraceReader&, const ExportSelection&, const std::string&, const ExportProgress&,
                          const std::stop_token&);
  for (const Export function : {&ExportPlain, &ExportTable, &ExportJson}) {
    for (const char* name : {"cut", "link"}) {
      EXPECT_THAT([&] { function(*whole_, {}, folder_.File(name), {}, {}); },
                  ThrowsMessage<FailedError>(HasSubstr("exists already")));
    }
    EXPECT_EQ(std::filesystem::file_size(folder_.File("cut")), 8u);
    EXPECT_TRUE(std::filesystem::is_symlink(folder_.File("link")));
  }
}

TEST(ResultsFile, TheSameTableIsTheSameBytes) {
  const ScratchFolder folder;
  std::string contents[2];
  for (std::string& bytes : contents) {
    const std::string path = folder.File(&bytes == contents ? "first.h5" : "second.h5");
    WriteResults(path,
                 {{"head", "", std::vector<std::string>{"0:1", "0:2"}}, {"time", "ms", std::vector<double>{1, 2}}},
                 {{"device", "cpu"}});
    std::ifstream file(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
    // HDF5's time stamps count whole seconds.
    if (&bytes == contents) std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  }
  EXPECT_FALSE(contents[0].empty());
  EXPECT_EQ(contents[0], contents[1]);
}

TEST(ResultsFile, BadTablesAreRefusedByName) {
  const ScratchFolder folder;
  const auto expect = [&](const std::vector<ResultsColumn>& columns, const std::string& text) {
    EXPECT_THAT([&] { WriteResults(folder.File("r.h5"), columns); }, ThrowsMessage<FailedError>(HasSubstr(text)));
    EXPECT_FALSE(std::filesystem::exists(folder.File("r.h5")));
  };
  const std::vector<double> one = {1};
  expect({}, "at least one column");
  expect({{"a/b", "", one}}, "\"a/b\"");
  expect({{"a", "", one}, {"a", "", one}}, "column a appears twice");
  expect({{"a", "", one}, {"b", "", std::vector<std::string>{"x", "y"}}}, "column b has 2 entries");
  std::ofstream(folder.File("kept")) << "precious";
  EXPECT_THROW(WriteResults(folder.File("kept"), {{"a", "", one}}), FailedError);
  EXPECT_EQ(std::filesystem::file_size(folder.File("kept")), 8u);
}

}  // namespace
}  // namespace headscope::data
