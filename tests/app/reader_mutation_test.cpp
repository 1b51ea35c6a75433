// SPDX-License-Identifier: Apache-2.0
// Damaged files of the command line and of the window's caches, the same ones on every run: each is accepted or refused
// with a sentence. tests/corpus holds the files that the fuzzers start from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/errors.h"
#include "commands/tuning_progress.h"
#include "kernels/method.h"
#include "kernels/method_names.h"
#include "reader_fuzz.h"
#include "support/mutate.h"

namespace headscope::app {
namespace {

std::string FileText(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Seeds {
  const char* fuzzer;
  int (*target)(const uint8_t*, size_t);
};

class DamagedFiles : public ::testing::TestWithParam<Seeds> {
 protected:
  static int Run(const std::string& text) {
    return GetParam().target(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  }
};

TEST_P(DamagedFiles, DoNoHarm) {
  int accepted = 0, refused = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(HEADSCOPE_SOURCE_DIR "/tests/corpus/") + GetParam().fuzzer)) {
    const std::string seed = FileText(entry.path());
    accepted += Run(seed) == 0 ? 1 : 0;
    Random random(13);
    for (int i = 0; i < 1000; ++i) {
      const std::string damaged = Mutate(seed, &random);
      ASSERT_NO_THROW(refused += Run(damaged)) << damaged.substr(0, 500);
    }
  }
  EXPECT_GT(accepted, 0);
  EXPECT_GT(refused, 100);
}

// Values were copied level by level until the stack was used up.
TEST_P(DamagedFiles, NoDepthIsTooGreat) {
  const std::string deep = std::string(1 << 20, '[') + std::string(1 << 20, ']');
  for (const char* key : {"schema", "format", "results", "heads", "layers"})
    ASSERT_NO_THROW(Run(std::string("{\"") + key + "\":" + deep + "}")) << key;
}

INSTANTIATE_TEST_SUITE_P(Readers, DamagedFiles,
                         ::testing::Values(Seeds{"app_record_plan", &FuzzRecordPlan},
                                           Seeds{"app_head_settings", &FuzzHeadSettings},
                                           Seeds{"app_head_budgets", &FuzzHeadBudgets}, Seeds{"app_runs", &FuzzRuns},
                                           Seeds{"app_statistics", &FuzzStatistics},
                                           Seeds{"app_tuning_progress", &FuzzTuningProgress}),
                         [](const auto& seeds) { return std::string(seeds.param.fuzzer); });

// What is no int was made one somehow.
TEST(KeptStatistics, AreRefusedWhereAnIntegerIsNone) {
  const std::string whole = FileText(HEADSCOPE_SOURCE_DIR "/tests/corpus/app_statistics/head.json");
  for (const char* name : {"k", "r", "layer", "head", "kv_head", "num_rows", "head_class"}) {
    const size_t at = whole.find("\"" + std::string(name) + "\":");
    ASSERT_NE(at, std::string::npos) << name;
    const size_t begin = whole.find(':', at) + 1, end = whole.find_first_of(",}", begin);
    for (const char* number : {"3.3e60", "0.5", "9223372036854775808", "-9223372036854775808", "null"}) {
      const std::string other = whole.substr(0, begin) + number + whole.substr(end);
      EXPECT_EQ(FuzzStatistics(reinterpret_cast<const uint8_t*>(other.data()), other.size()), 1) << name << number;
    }
  }
}

// A tuning that was stopped goes on with its file, or refuses it.
TEST(TuningProgressFile, DamagedOnesAreRefusedInASentence) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "headscope-tuning-mutations";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const std::string output = (folder / "t.json").string(), path = output + ".unfinished";
  Tuning tuning;
  const kernels::NamedMethod method = kernels::FindMethod("a-shape");
  ASSERT_NE(method.spec(), nullptr);
  Tuning::Searched searched;
  searched.choice.name = "a-shape";
  searched.choice.spec = method.spec();
  searched.choice.values = kernels::ParameterValues(*method.spec());
  tuning.methods.push_back(searched);
  {
    TuningProgress progress(output, tuning);
    TunedHead head;
    head.id = {1, 2};
    head.device = NamedCpu();
    head.found.values = searched.choice.values;
    head.checked = head.found;
    progress.Add({head});
    head.id = {1, 3};
    progress.Add({head});
  }
  const std::string whole = FileText(path);
  const auto refusal = [&](const std::string& text) -> std::string {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
    try {
      const TuningProgress progress(output, tuning);
      EXPECT_LE(progress.num_heads(), 64U);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  ASSERT_EQ(refusal(whole), "");
  Random random(3);
  int refused = 0;
  for (int i = 0; i < 400; ++i) {
    const std::string damaged = Mutate(whole, &random);
    std::string said;
    ASSERT_NO_THROW(said = refusal(damaged)) << damaged.substr(0, 500);
    EXPECT_EQ(said.find('\n'), std::string::npos);
    refused += said.empty() ? 0 : 1;
  }
  EXPECT_GT(refused, 50);
  for (const char* number : {"3.3e60", "-1", "4294967297", "1"}) {
    std::string other = whole;
    other.replace(other.find("\"method\":0") + 9, 1, number);
    EXPECT_NE(refusal(other), "") << number;
  }
  // It ended the program.
  EXPECT_THAT(refusal("{\"schema\": 1}\n"), ::testing::HasSubstr("it is not the file of an interrupted tuning"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace headscope::app
