// SPDX-License-Identifier: Apache-2.0
// Statistics and runs as tables and JSON: one list of fields, in every file.
#include "analysis/result_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "analysis/result_files.h"
#include "analysis/statistics.h"
#include "analysis/types/number_text.h"
#include "base/errors.h"
#include "csv_files.h"
#include "synthetic_heads.h"

namespace headscope::analysis {
namespace {

MethodResult Measured() {
  MethodResult result;
  result.head = {3, 5};
  result.method = "a-shape";
  result.parameters = "n_sink=4, n_local=\"64\"";
  result.phase = kernels::Phase::kDecode;
  result.device = {CudaDevice(1), "NVIDIA H200 (cuda:1)"};
  result.select_device = {CudaDevice(2), "NVIDIA H200 (cuda:2)"};
  result.num_threads = 3;
  result.note = "a-shape selects on the CPU: \"dtype\" is fp32";
  result.measured = {Measure::kLayer, 8, 2, 8};
  result.chosen_per = kernels::ChosenPer::kPlace;
  result.baseline = "headscope";
  result.num_rows = 16;
  result.bytes_allow = 6.4;
  result.dense_of_reading = 0.8;
  result.kept_fraction = 0.1;
  result.cra_min = 1.0 / 3;
  result.select = {1.5, 0.25, 7};
  result.attend = {2.5, 0.125, 7};
  result.dense_attend = {64, 1, 6};
  result.asked_repeats = 5;
  result.speedup = 16;
  result.cra_p5 = 0.5;
  result.cra_mean = 0.75;
  result.cra_p1 = 0.375;
  result.cra_p25 = 0.625;
  result.cra_p50 = 0.6875;
  result.outside_mass = 0.125;
  result.relative_error = 1.0 / 7;
  result.max_error = 1e-3;
  result.cosine = 0.99;
  result.kernel_error = 3e-7;
  result.origin = {"/traces/a, \"b\".h5", "reference", "2026-05-31T12:00:00Z", "0.1.0"};
  return result;
}

TEST(NumberText, WhatRoundsToZeroHasNoSign) {
  EXPECT_EQ(FormatNumber("%.4f", -0.00003), "0.0000");
  EXPECT_EQ(FormatNumber("%.4f", -0.0), "0.0000");
  EXPECT_EQ(FormatNumber("%.4f", -0.00007), "-0.0001");
  EXPECT_EQ(FormatNumber("%.1e", -1e-12), "-1.0e-12");
  EXPECT_EQ(FormatNumber("%.2f", -std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_EQ(ShortestNumber(-0.0), "0");
  EXPECT_EQ(ShortestNumber(-0.5), "-0.5");
  MethodResult result;
  result.cosine = -0.0;
  for (const ResultField& field : ComparisonFields(result)) {
    if (const auto* number = std::get_if<double>(&field.value)) {
      EXPECT_FALSE(std::signbit(*number)) << field.name;
    }
  }
}

HeadStatistics Analysed() {
  return ComputeStatistics(*testing::RandomHead({.num_tokens = 300}, 3), {});
}

// Every member of the entry whose pointer the fields name, and no scalar besides.
void ExpectJsonHoldsTheFields(const nlohmann::json& entry, const std::vector<ResultField>& fields) {
  std::set<std::string> named;
  for (const ResultField& field : fields) {
    if (field.json.empty()) continue;
    const nlohmann::json& member = entry.at(nlohmann::json::json_pointer(field.json));
    std::visit([&](const auto& value) { EXPECT_EQ(member, nlohmann::json(value)) << field.name; }, field.value);
    named.insert(field.json);
  }
  const nlohmann::json flat = entry.flatten();  // outlives its items
  for (const auto& [pointer, value] : flat.items()) {
    const bool in_list = pointer.find_first_of("0123456789") != std::string::npos;
    EXPECT_TRUE(in_list || named.contains(pointer)) << pointer << " is not in the list of fields";
  }
}

std::vector<std::vector<std::string>> ParseCsv(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> row(1);
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') {
      if (quoted && i + 1 < text.size() && text[i + 1] == '"')
        row.back() += text[i++];
      else
        quoted = !quoted;
    } else if (!quoted && text[i] == ',') {
      row.emplace_back();
    } else if (!quoted && text[i] == '\n') {
      rows.push_back(std::move(row));
      row.assign(1, "");
    } else {
      row.back() += text[i];
    }
  }
  return rows;
}

void ExpectCsvHoldsTheFields(const std::string& csv, const std::vector<ResultField>& fields) {
  const auto rows = ParseCsv(csv);
  ASSERT_EQ(rows.size(), 2u);
  ASSERT_EQ(rows[0].size(), fields.size());
  ASSERT_EQ(rows[1].size(), fields.size());
  for (size_t i = 0; i < fields.size(); ++i) {
    EXPECT_EQ(rows[0][i], fields[i].name);
    if (const auto* number = std::get_if<double>(&fields[i].value)) {
      EXPECT_EQ(std::stod(rows[1][i]), *number) << fields[i].name;
    } else if (const auto* whole = std::get_if<int64_t>(&fields[i].value)) {
      EXPECT_EQ(std::stoll(rows[1][i]), *whole) << fields[i].name;
    } else {
      EXPECT_EQ(rows[1][i], std::get<std::string>(fields[i].value));
    }
  }
}

void ExpectNamesOnce(const std::vector<ResultField>& fields) {
  std::set<std::string> names;
  for (const ResultField& field : fields) EXPECT_TRUE(names.insert(field.name).second) << field.name << " twice";
}

TEST(ResultFields, StatisticsAreTheSameInJsonAndCsv) {
  const HeadStatistics statistics = Analysed();
  const RunOrigin origin{"/traces/a.h5", "a model", "2026-05-31T12:00:00Z", "1.2.3"};
  const std::vector<ResultField> fields = StatisticsFields(statistics, origin);
  ExpectNamesOnce(fields);
  const auto head = nlohmann::json::parse(StatisticsJson({statistics}, origin))["heads"][0];
  ExpectJsonHoldsTheFields(head, fields);
  ExpectCsvHoldsTheFields(StatisticsCsv({statistics}, origin), fields);
  EXPECT_EQ(head["trace"], "/traces/a.h5");
  EXPECT_EQ(head["model"], "a model");
  EXPECT_EQ(head["written_at"], "2026-05-31T12:00:00Z");
  EXPECT_EQ(head["version"], "1.2.3");
}

TEST(ResultFields, RunsAreTheSameInJsonAndCsv) {
  const std::vector<ResultField> fields = ComparisonFields(Measured());
  ExpectNamesOnce(fields);
  const auto document = nlohmann::json::parse(ComparisonJson({Measured()}));
  EXPECT_EQ(document["schema"], "headscope-comparison-2");
  const auto& entry = document["results"][0];
  EXPECT_EQ(entry["measured"], "layer 3: 8 heads");
  EXPECT_EQ(entry["num_rows"], 16);
  EXPECT_EQ(entry["select"]["median_ms"], 1.5);
  EXPECT_EQ(entry["dense_attend"]["repeats"], 6);
  ExpectJsonHoldsTheFields(entry, fields);
  ExpectCsvHoldsTheFields(ComparisonCsv({Measured()}), fields);
}

// Every field comes back, whatever its type: a field that is written and not read would come back as its default.
TEST(ResultFields, RunsAreReadBackAsTheyWere) {
  const std::vector<ResultField> written = ComparisonFields(Measured()), plain = ComparisonFields({});
  for (size_t i = 0; i < written.size(); ++i) {
    if (written[i].name == "press_name") continue;  // made of the others
    EXPECT_NE(written[i].value, plain[i].value) << written[i].name << " is not tested: Measured() has the default";
  }
  for (const auto& read : {ParseComparisonJson(ComparisonJson({Measured(), Measured()}), "runs.json"),
                           ParseComparisonCsv(ComparisonCsv({Measured(), Measured()}), "runs.csv")}) {
    ASSERT_EQ(read.size(), 2u);
    const std::vector<ResultField> fields = ComparisonFields(read[1]);
    for (size_t i = 0; i < fields.size(); ++i) EXPECT_EQ(fields[i].value, written[i].value) << fields[i].name;
  }
  EXPECT_TRUE(ParseComparisonJson(ComparisonJson({}), "runs.json").empty());
}

// What the window keeps beside a trace, so that a figure of its runs is drawn in a terminal without exporting them.
TEST(ResultFields, RunsThatTheWindowKeepsAreRead) {
  const nlohmann::json run = nlohmann::json::parse(ComparisonJson({Measured()}))["results"][0];
  const nlohmann::json kept{{"schema", "headscope-trace-state-1"},
                            {"runs", {{{"id", "a"}, {"contents", "c"}, {"run", run}}}}};
  const std::vector<MethodResult> read = ParseComparisonJson(kept.dump(), "t.h5.headscope.json");
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(ComparisonJson(read), ComparisonJson({Measured()}));
  for (const char* broken :
       {R"({"schema": "headscope-trace-state-1"})", R"({"schema": "headscope-trace-state-1", "runs": [7]})",
        R"({"schema": "headscope-trace-state-1", "runs": [{"run": 7}]})"})
    EXPECT_THROW(ParseComparisonJson(broken, "t.h5.headscope.json"), BadInputError) << broken;
}

TEST(ResultFields, HaveTheColumnsOfKvpress) {
  const auto columns = [](const MethodResult& result) {
    std::string press;
    double ratio = 0;
    for (const ResultField& field : ComparisonFields(result)) {
      if (field.name == "press_name") press = std::get<std::string>(field.value);
      if (field.name == "compression_ratio") ratio = std::get<double>(field.value);
    }
    return std::pair(press, ratio);
  };
  MethodResult run = Measured();
  EXPECT_EQ(columns(run), std::pair(std::string(), 1 - 1 / 6.4));
  run.method = "snap-kv";
  run.parameters = "compression_ratio=0.75,critical=1,allocation=kvpress";
  EXPECT_EQ(columns(run), std::pair(std::string("critical_adakv_snapkv"), 0.75)) << "as it was asked for";
  run.parameters = "compression_ratio=0.75,critical=1,allocation=ada";
  EXPECT_EQ(columns(run), std::pair(std::string(), 0.75)) << "the library has another AdaKV";
  run.parameters = "budget=40";
  EXPECT_EQ(columns(run), std::pair(std::string("snapkv"), 1 - 1 / 6.4)) << "what a step does not read";
  run.bytes_allow = 0.9;
  EXPECT_EQ(columns(run).second, 0) << "more is read than dense attention reads";
  run.method = "decode/dense";
  run.parameters = "";
  EXPECT_EQ(columns(run), std::pair(std::string("no_press"), 0.0));
}

// Which runs are of the baseline itself is no field of the files: it follows from the method.
TEST(ResultFields, ReadRunsKnowTheBaseline) {
  for (const auto& [method, is_baseline] :
       {std::pair{"dense", true}, std::pair{"decode/dense", true}, std::pair{"a-shape", false},
        std::pair{"sparq", false}, std::pair{"of another day", false}}) {
    MethodResult run = Measured();
    run.method = method;
    EXPECT_EQ(ParseComparisonJson(ComparisonJson({run}), "runs.json")[0].is_baseline, is_baseline) << method;
    EXPECT_EQ(ParseComparisonCsv(ComparisonCsv({run}), "runs.csv")[0].is_baseline, is_baseline) << method;
  }
}

TEST(ResultFields, WhatIsNoTableOfRunsIsOneSentence) {
  const auto refusal = [](const auto& parse, const std::string& text) -> std::string {
    try {
      parse(text, "mine.txt");
    } catch (const BadInputError& refused) {
      return refused.what();
    }
    return "";
  };
  for (const char* text : {"", "{", "[]", "null", R"({"schema": 7})", R"({"schema": "headscope-comparison-1"})",
                           R"({"schema": "headscope-comparison-1", "results": [[]]})",
                           R"({"schema": "headscope-comparison-1", "results": [{"method": 5, "select": []}]})"})
    EXPECT_EQ(refusal(&ParseComparisonJson, text).find("mine.txt: "), 0u) << text;
  EXPECT_THAT(refusal(&ParseComparisonJson, R"({"schema": "headscope-comparison-1", "results": [], "results": [{}]})"),
              ::testing::HasSubstr("mine.txt: \"results\" appears twice in one object; "));
  for (const char* text : {"", "\"", "layer,head\n1,2\n", "layer,head,method,phase\n1,2\n"})
    EXPECT_EQ(refusal(&ParseComparisonCsv, text).find("mine.txt: "), 0u) << text;
  // Values of a wrong type keep their defaults.
  const MethodResult read = ParseComparisonJson(
      R"({"schema": "headscope-comparison-1", "results": [{"method": "dense", "layer": "x", "speedup": []}]})", "")[0];
  EXPECT_EQ(read.head.layer, MethodResult{}.head.layer);
  EXPECT_EQ(read.speedup, 1);
}

TEST(ResultFields, TheExtensionChoosesTheForm) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "headscope_result_files_test";
  std::filesystem::create_directories(folder);
  const auto contents = [](const std::filesystem::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  };
  WriteComparison({Measured()}, (folder / "runs.json").string());
  WriteComparison({Measured()}, (folder / "runs.CSV").string());
  WriteComparison({Measured()}, (folder / "runs.h5").string());
  EXPECT_EQ(contents(folder / "runs.json"), ComparisonJson({Measured()}));
  EXPECT_EQ(contents(folder / "runs.CSV"), ComparisonCsv({Measured()}));
  EXPECT_EQ(contents(folder / "runs.h5").substr(1, 3), "HDF");
  WriteStatistics({Analysed()}, {}, (folder / "heads.csv").string());
  EXPECT_EQ(contents(folder / "heads.csv"), StatisticsCsv({Analysed()}));
  EXPECT_EQ(ReadComparison((folder / "runs.CSV").string()).size(), 1u);
  EXPECT_EQ(ReadComparison((folder / "runs.json").string()).size(), 1u);
  EXPECT_THROW(ReadComparison((folder / "runs.h5").string()), BadInputError);
  EXPECT_THROW(ReadComparison((folder / "missing.csv").string()), BadInputError);
  EXPECT_THROW(WriteComparison({Measured()}, (folder / "runs.txt").string()), UsageError);
  EXPECT_THROW(WriteStatistics({}, {}, (folder / "missing" / "heads.csv").string()), FailedError);
  for (const char* name : {"a.json", "b.Csv", "c/d.h5"}) EXPECT_NO_THROW(FormatOfOutput(name, kResultFormats)) << name;
  for (const char* name : {"a.json.txt", "csv", ".h5/a", "a.png"})
    EXPECT_THROW(FormatOfOutput(name, kResultFormats), UsageError) << name;
  std::filesystem::remove_all(folder);
}

// Files of older versions lack what came later: it is not known, and is not made up.
TEST(ResultFields, WhatAFileLacksIsNotKnown) {
  nlohmann::json whole = nlohmann::json::parse(ComparisonJson({Measured()}));
  for (const char* later : {"num_threads", "outside_mass"}) ASSERT_EQ(whole["results"][0].erase(later), 1u);
  const MethodResult read = ParseComparisonJson(whole.dump(), "").at(0);
  EXPECT_EQ(read.num_threads, 0);
  EXPECT_TRUE(std::isnan(read.outside_mass));
  EXPECT_EQ(read.cra_mean, Measured().cra_mean);
}

TEST(ResultFields, WhatWasMeasuredIsReadFromTheSentenceOfOlderFiles) {
  const nlohmann::json now = nlohmann::json::parse(ComparisonJson({Measured()}));
  const auto read = [&](const char* sentence) {
    nlohmann::json older = now;
    nlohmann::json& run = older["results"][0];
    for (const char* later : {"measure", "heads_of_layer"}) EXPECT_EQ(run.erase(later), 1u);
    run["measured"] = sentence;
    return ParseComparisonJson(older.dump(), "runs.json").at(0).measured;
  };
  EXPECT_EQ(read("layer 3: 8 heads"), Measured().measured);
  EXPECT_EQ(read("layer 3: 4 of 8 heads"), (MeasuredScope{Measure::kLayer, 4, 2, 8}));
  EXPECT_EQ(read("head 3:5 alone").measure, Measure::kHead);
  EXPECT_EQ(read("").measure, std::nullopt) << "a file of the first schema";
  EXPECT_THROW(read("a few heads"), BadInputError);
}

// A device's name says which GPU only to people: a run that is read back is still of the one that it was measured on.
TEST(ResultFields, ReadRunsKnowTheirDevice) {
  for (const auto& read : {ParseComparisonJson(ComparisonJson({Measured()}), "")[0],
                           ParseComparisonCsv(ComparisonCsv({Measured()}), "")[0]}) {
    EXPECT_EQ(read.device, Measured().device);
    EXPECT_EQ(read.select_device, Measured().select_device);
  }
  nlohmann::json older = nlohmann::json::parse(ComparisonJson({Measured()}));
  for (const char* later : {"device_id", "select_device_id"}) ASSERT_EQ(older["results"][0].erase(later), 1u);
  older["results"][0]["select_device"] = "cpu";
  const MethodResult read = ParseComparisonJson(older.dump(), "")[0];
  EXPECT_EQ(read.device.device, CudaDevice(0));
  EXPECT_EQ(read.device.name, Measured().device.name);
  EXPECT_EQ(read.select_device, NamedCpu());
}

TEST(ResultFields, WhatNamesNoValueIsRefusedByItsField) {
  for (const char* field : {"phase", "chosen_per", "device_id", "select_device_id"}) {
    nlohmann::json wrong = nlohmann::json::parse(ComparisonJson({Measured()}));
    wrong["results"][0][field] = "moon";
    try {
      ParseComparisonJson(wrong.dump(), "mine.json");
      ADD_FAILURE() << field;
    } catch (const BadInputError& refused) {
      EXPECT_EQ(std::string(refused.what()).find(std::string("mine.json: ") + field + " \"moon\""), 0u)
          << refused.what();
    }
  }
}

// A prefill run was written with 0 bytes that were never counted, and one repeat with a spread of 0.
TEST(ResultFields, WhatWasNotMeasuredIsNoNumber) {
  MethodResult run = Measured();
  run.bytes_allow = run.dense_of_reading = std::numeric_limits<double>::quiet_NaN();
  run.select.repeats = 1;
  run.select.mad_ms = 0;
  const nlohmann::json entry = nlohmann::json::parse(ComparisonJson({run}))["results"][0];
  EXPECT_TRUE(entry["bytes_allow"].is_null());
  EXPECT_TRUE(entry["dense_of_reading"].is_null());
  EXPECT_TRUE(entry["select"]["mad_ms"].is_null());
  EXPECT_EQ(entry["attend"]["mad_ms"], run.attend.mad_ms);
  const auto rows = ParseCsv(ComparisonCsv({run}));
  for (size_t i = 0; i < rows[0].size(); ++i) {
    // The last two are made of the others: A-shape is no press, and what a step does not read is not known.
    const bool empty = rows[0][i] == "bytes_allow" || rows[0][i] == "dense_of_reading" ||
                       rows[0][i] == "select_mad_ms" || rows[0][i] == "press_name" || rows[0][i] == "compression_ratio";
    EXPECT_EQ(rows[1][i].empty(), empty) << rows[0][i];
  }
  for (const MethodResult& read :
       {ParseComparisonJson(ComparisonJson({run}), "").at(0), ParseComparisonCsv(ComparisonCsv({run}), "").at(0)}) {
    EXPECT_TRUE(std::isnan(read.bytes_allow));
    EXPECT_EQ(read.select.mad_ms, 0);
    EXPECT_EQ(read.attend.mad_ms, run.attend.mad_ms);
  }
}

TEST(ResultFields, EmptyTablesHaveTheirHeader) {
  EXPECT_EQ(ParseCsv(StatisticsCsv({})).at(0).at(0), "layer");
  EXPECT_EQ(ParseCsv(ComparisonCsv({})).at(0).at(2), "method");
}

}  // namespace
}  // namespace headscope::analysis
