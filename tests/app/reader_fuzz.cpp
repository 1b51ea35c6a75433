// SPDX-License-Identifier: Apache-2.0
#include "reader_fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "analysis/result_files.h"
#include "analysis/types/head_statistics.h"
#include "base/errors.h"
#include "base/row_selection.h"
#include "choices/head_settings.h"
#include "commands/record_plan.h"
#include "commands/tuning_progress.h"
#include "kernels/method.h"
#include "kernels/method_names.h"
#include "statistics_store.h"
#include "support/require.h"

namespace headscope::app {
namespace {

using testing::Require;
using testing::RequireOneSentence;

std::string Text(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// `read` accepts, or refuses with one sentence.
template <typename Read>
int Try(const Read& read) {
  try {
    read();
  } catch (const BadInputError& error) {
    RequireOneSentence(error.what());
    return 1;
  }
  return 0;
}

// A file of those bytes that has no name.
class NamelessFile {
 public:
  NamelessFile(const uint8_t* data, size_t size) : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
    Require(descriptor_ >= 0 && write(descriptor_, data, size) == static_cast<ssize_t>(size), "no memory for a file");
  }
  ~NamelessFile() { close(descriptor_); }
  NamelessFile(const NamelessFile&) = delete;
  NamelessFile& operator=(const NamelessFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

// A trace, and a folder for what is kept of it.
struct TraceFolder {
  explicit TraceFolder(const std::string& kind)
      : path(std::filesystem::temp_directory_path() / ("headscope-" + kind + "-fuzz-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path / "cache");
    std::ofstream(path / "trace.h5") << "a trace";
  }
  ~TraceFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  const std::filesystem::path path;
};

}  // namespace

int FuzzRecordPlan(const uint8_t* data, size_t size) {
  return Try([&] {
    const RecordPlan plan = ParseRecordPlan(Text(data, size), "fuzz");
    Require(!plan.heads || !plan.kv_heads, "both kinds of heads");
    for (const auto* numbers : {&plan.layers, &plan.heads, &plan.kv_heads})
      Require(!*numbers || !(*numbers)->empty(), "an empty list");
    Require(!plan.decode || *plan.decode >= 0, "a negative number of tokens");
    if (!plan.rows) return;
    try {
      RowSelection rows(*plan.rows);
      rows.Draw(100);
      Require(rows.Count(100) >= 0 && rows.Count(100) <= 100, "rows that the prompt has not");
    } catch (const UsageError&) {  // as the option refuses it
    }
  });
}

int FuzzHeadSettings(const uint8_t* data, size_t size) {
  const NamelessFile file(data, size);
  return Try([&] {
    const std::vector<RangeSettings> settings = ReadHeadSettings(file.path());
    Require(!settings.empty(), "no ranges");
    int64_t end = 0;
    for (const RangeSettings& one : settings) {
      Require(one.range.from >= end && one.range.below > one.range.from, "lengths that are none or in two ranges");
      end = one.range.below;
      for (const auto& [head, asked] : one.heads)
        Require(head.layer >= 0 && head.head >= 0 && !asked.name.empty(), "a head that is none");
    }
  });
}

int FuzzHeadBudgets(const uint8_t* data, size_t size) {
  const NamelessFile file(data, size);
  const kernels::MethodSpec& spec = *kernels::FindMethod("expected-attention").spec();
  const LayerHeads layers[] = {{.number = 0, .num_qo_heads = 4, .num_kv_heads = 2},
                               {.number = 2, .num_qo_heads = 4, .num_kv_heads = 2}};
  return Try([&] {
    int64_t fewest = 0;
    const HeadSettings settings =
        ReadHeadBudgets(file.path(), {spec.name, kernels::ParameterValues(spec)}, 50, 3, layers, 1000, &fewest);
    Require(settings.size() == 8 && fewest >= 0 && fewest <= 8, "heads that the trace has not");
    for (const auto& [head, asked] : settings)
      Require(asked.values.Real("budget") >= 1 && asked.values.Real("budget") <= 1000, "a budget that is none");
  });
}

int FuzzRuns(const uint8_t* data, size_t size) {
  const std::string text = Text(data, size);
  return Try([&] {
    const std::vector<analysis::MethodResult> runs = text.starts_with('{') ? analysis::ParseComparisonJson(text, "fuzz")
                                                                           : analysis::ParseComparisonCsv(text, "fuzz");
    for (const analysis::MethodResult& run : runs) Require(!run.method.empty(), "a run without a method");
  });
}

int FuzzTuningProgress(const uint8_t* data, size_t size) {
  static const TraceFolder folder("tuning");
  static const std::string output = (folder.path / "tuning.json").string(), path = output + ".unfinished";
  static const Tuning tuning = [] {
    Tuning one;
    Tuning::Searched searched;
    searched.choice.name = "a-shape";
    searched.choice.spec = kernels::FindMethod(searched.choice.name).spec();
    searched.choice.values = kernels::ParameterValues(*searched.choice.spec);
    one.methods.push_back(searched);
    return one;
  }();
  static const std::string first_line = [] {
    { const TuningProgress fresh(output, tuning); }
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }();
  const std::string text = Text(data, size);
  std::ofstream(path, std::ios::binary | std::ios::trunc) << (text.starts_with('[') ? first_line : "") << text;
  try {
    const TuningProgress progress(output, tuning);
    Require(progress.num_heads() <= size, "heads that nobody wrote");
    for (int32_t layer = 0; layer < 4; ++layer) {
      const std::vector<TunedHead>* unit = progress.Find({layer, 2});
      if (unit == nullptr) continue;
      Require(!unit->empty(), "a unit of no heads");
      for (const TunedHead& head : *unit) Require(head.method < tuning.methods.size(), "a method that there is not");
    }
  } catch (const Error& error) {
    RequireOneSentence(error.what());
    return 1;
  }
  return 0;
}

int FuzzStatistics(const uint8_t* data, size_t size) {
  static const TraceFolder folder("statistics");
  static const StatisticsStore store((folder.path / "cache").string(), (folder.path / "trace.h5").string());
  std::ofstream(store.path(), std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  const std::vector<KnownHead> heads = store.Load();
  for (const auto& [head, evidence] : heads) {
    for (const analysis::HeadClass one : {head.head_class, head.class_alternative})
      Require(analysis::IsHeadClass(static_cast<int>(one)), "a class that there is not");
  }
  return heads.empty() ? 1 : 0;
}

}  // namespace headscope::app

#ifdef HEADSCOPE_FUZZ
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  headscope::app::HEADSCOPE_FUZZ(data, size);
  return 0;
}
#endif
