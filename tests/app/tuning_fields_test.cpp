// SPDX-License-Identifier: Apache-2.0
// What files say of a tuned head: one list for the writers and the readers.
#include "choices/tuning_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/errors.h"
#include "choices/head_settings.h"
#include "choices/tuning_files.h"
#include "commands/tuning_progress.h"
#include "kernels/method_names.h"

namespace headscope::app {
namespace {

class TuningFieldsTest : public ::testing::Test {
 protected:
  TuningFieldsTest() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    MethodChoice choice;
    choice.name = "a-shape";
    choice.spec = kernels::FindMethod("a-shape").spec();
    choice.values = kernels::ParameterValues(*choice.spec);
    tuning_.methods.push_back({choice, {}});
    tuning_.checks.emplace_back().path = "other.h5";
    tuning_.num_heads_chosen = 1;
    TunedHead& head = tuning_.heads.emplace_back();
    head.id = {1, 2};
    head.device = {CudaDevice(1), "NVIDIA H200"};
    head.outside_mass = 0.03125;
    head.found.values = choice.values;
    double number = 0;
    const auto next = [&number](const char*, const char*, double& of_quality) { of_quality = number += 0.0625; };
    VisitQuality(head.found, next);
    head.found.reached = true;
    head.checked = head.found;
    VisitQuality(*head.checked, next);
    head.checked->reached = false;
  }
  ~TuningFieldsTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

  const std::filesystem::path folder_ = std::filesystem::path(::testing::TempDir()) / "headscope-tuning-fields";
  Tuning tuning_;
};

// A column that the reader took for a parameter would be refused: the method has none of that name.
TEST_F(TuningFieldsTest, EveryColumnThatIsWrittenIsAParameterOrAResultToTheReader) {
  const std::string csv = TuningFile(tuning_, TuningFormat::kCsv);
  std::ofstream(Path("t.csv")) << csv;
  const std::vector<RangeSettings> read = ReadHeadSettings(Path("t.csv"));
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read.front().heads.at({1, 2}).values, tuning_.heads.front().found.values);
  std::istringstream header(csv.substr(0, csv.find('\n')));
  int results = 0;
  for (std::string column; std::getline(header, column, ',');) results += IsTuningResult(column) ? 1 : 0;
  EXPECT_EQ(results, 2 * 8 + 4 + 4) << "of both qualities, beside outside_mass, device, device_id, complete and where "
                                       "the table is from";
  EXPECT_FALSE(IsTuningResult("n_sink"));
}

// A path may hold what ends a cell.
TEST_F(TuningFieldsTest, TheReaderTakesATraceOfAnyName) {
  tuning_.traces = {{.path = "/traces/a, \"b\".h5", .prompt = "", .num_tokens = 9, .num_rows = 9, .first_token = 0},
                    {.path = "/traces/c.h5", .prompt = "", .num_tokens = 9, .num_rows = 9, .first_token = 0}};
  const std::string csv = TuningFile(tuning_, TuningFormat::kCsv);
  EXPECT_NE(csv.find(",\"/traces/a, \"\"b\"\".h5; /traces/c.h5\","), std::string::npos) << csv;
  std::ofstream(Path("t.csv")) << csv;
  EXPECT_EQ(ReadHeadSettings(Path("t.csv")).front().heads.at({1, 2}).values, tuning_.heads.front().found.values);
}

// A spreadsheet pads all lines to the widest one that was ever filled.
TEST_F(TuningFieldsTest, TheReaderPassesOverASpreadsheetsEmptyLinesAndColumns) {
  const auto read = [&](const std::string& csv) {
    std::ofstream(Path("t.csv")) << csv;
    return ReadHeadSettings(Path("t.csv")).front().heads;
  };
  const auto refusal = [&](const std::string& csv) -> std::string {
    try {
      read(csv);
    } catch (const BadInputError& error) {
      return error.what();
    }
    return "";
  };
  const HeadSettings plain = read("layer,head,method,n_sink\n1,2,a-shape,3\n");
  ASSERT_EQ(plain.size(), 1U);
  EXPECT_EQ(read(",,,\nlayer,head,method,n_sink\n,,,\n1,2,a-shape,3\n,,,\n"), plain);
  EXPECT_EQ(read("layer,head,method,n_sink,,\n1,2,a-shape,3,,\n,,,,,\n"), plain);
  EXPECT_EQ(refusal("layer,head,method,n_sink,,\n1,2,a-shape,3,,\n1,3,a-shape,3,,7\n"),
            Path("t.csv") +
                ": heads[1]: \"7\" is in column 6, which has no name; name that column in the first line, "
                "or empty the cell");
  EXPECT_THAT(refusal("layer,head,method,n_sink,,\n1,2,a-shape,3\n"),
              ::testing::HasSubstr("it has 4 cells, and the first line 6"));
  EXPECT_THAT(refusal("layer,head,,method,,n_sink\n1,2,,a-shape,,3\n"),
              ::testing::HasSubstr("it has two columns \"\""));
}

TEST_F(TuningFieldsTest, FilesSayWhichGpu) {
  const auto json = nlohmann::json::parse(TuningFile(tuning_, TuningFormat::kJson));
  const auto& head = json.at("heads").at(0);
  EXPECT_EQ(head.at("device"), "NVIDIA H200");
  EXPECT_EQ(head.at("device_id"), "cuda:1");
  EXPECT_EQ(head.at("work_share"), 7 * 0.0625);
  EXPECT_EQ(head.at("checked").at("kept_fraction"), 8 * 0.0625);
  EXPECT_NE(TuningFile(tuning_, TuningFormat::kCsv).find(",NVIDIA H200,cuda:1,1,"), std::string::npos);
}

TEST_F(TuningFieldsTest, AnInterruptedRunKeepsEveryNumber) {
  { TuningProgress(Path("t.json"), tuning_).Add(tuning_.heads); }
  const TuningProgress progress(Path("t.json"), tuning_);
  const std::vector<TunedHead>* const kept = progress.Find({1, 2});
  ASSERT_NE(kept, nullptr);
  Tuning again = tuning_;
  again.heads = *kept;
  EXPECT_EQ(TuningFile(again, TuningFormat::kJson), TuningFile(tuning_, TuningFormat::kJson));
}

// Heads that were judged by other rows, or by themselves, are no part of this run.
TEST_F(TuningFieldsTest, AnInterruptedRunIsOfItsRowsAndGroups) {
  { TuningProgress(Path("t.json"), tuning_).Add(tuning_.heads); }
  Tuning other = tuning_;
  other.decode_rows = 40;
  EXPECT_THROW(TuningProgress(Path("t.json"), other), UsageError);
  other = tuning_;
  other.in_group = true;
  EXPECT_THROW(TuningProgress(Path("t.json"), other), UsageError);
  EXPECT_EQ(TuningProgress(Path("t.json"), tuning_).num_heads(), 1U);
}

TEST_F(TuningFieldsTest, AnOlderInterruptedRunGoesOn) {
  { TuningProgress(Path("t.json"), tuning_).Add(tuning_.heads); }
  const std::string path = Path("t.json.unfinished");
  std::ifstream file(path);
  std::string identity, line;
  ASSERT_TRUE(std::getline(file, identity) && std::getline(file, line));
  file.close();
  auto heads = nlohmann::json::parse(line);
  ASSERT_EQ(heads[0].erase("device_id"), 1U);
  std::ofstream(path) << identity << '\n' << heads.dump() << '\n';
  const TuningProgress progress(Path("t.json"), tuning_);
  const std::vector<TunedHead>* const kept = progress.Find({1, 2});
  ASSERT_NE(kept, nullptr);
  EXPECT_EQ(kept->front().device.name, "NVIDIA H200");
  EXPECT_EQ(kept->front().device.device, CudaDevice(0)) << "which one is not known";
}

}  // namespace
}  // namespace headscope::app
