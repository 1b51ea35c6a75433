// SPDX-License-Identifier: Apache-2.0
// A tuned configuration in files: our own, which compare reads again, and those of serving engines.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file_format.h"
#include "choices/tuning.h"

namespace headscope::app {

enum class TuningFormat {
  kJson,          // schema headscope-tuning-2 or, of several ranges of lengths, -3 (docs/analysis.md, "A tuned
                  // configuration")
  kCsv,           // one line a head with the same names
  kMInference,    // MInference's best patterns: for each layer {"head": [name, a, b, score]}
  kDuoAttention,  // DuoAttention's full_attention_heads.tsv: a line for each layer, a share for each KV head
  kLuKv,          // LU-KV's budget curve, .npy [99 ratios, layers, KV heads]: the share of tokens to evict, from fronts
};

// What the command line and the window say of a format: an entry for each, in their order.
struct TuningFormatInfo {
  TuningFormat format;
  const char* name;   // as it is typed
  FileFormat file;    // whose extension the file has; of two with one extension the first is meant unless named
  const char* title;  // what a file dialog calls it
  const char* help;   // what is in the file
};
std::span<const TuningFormatInfo> TuningFormats();

// By a format's name, or by the file's extension where that is empty. Throws UsageError.
TuningFormat ChooseTuningFormat(const std::string& name, const std::string& path);
// How many settings of a trade-off LU-KV's file is made of, unless somebody says.
constexpr int32_t kLuKvPoints = 33;
// Whether the methods can be tuned for LU-KV's file, which has a trade-off for each head.
bool SharesOutBudgets(const std::vector<const kernels::MethodSpec*>& methods, TunedUnit unit);
// Refuses (UsageError), before any work is done for it, methods that the format has no word for and, where it has a
// place for every head of the model, heads that are not all of them.
void CheckTuningFormat(TuningFormat format, const Tuning& tuning, const std::vector<analysis::HeadId>& heads);

// The whole file, of a complete tuning that CheckTuningFormat took.
std::string TuningFile(const Tuning& tuning, TuningFormat format);
// The same of tunings that differ in their traces and ranges of lengths alone. Only JSON and CSV say what is for which
// length (CheckRangeFormat).
std::string TuningFile(std::span<const Tuning> by_range, TuningFormat format);
// What the format's own library reads from a file beside one of that name, where it is not there yet: of DuoAttention's
// full_attention_heads.tsv the config.json with the sizes of sinks and window. Refuses (UsageError) a config.json that
// is something else's.
struct FileBeside {
  std::string path, text;
};
std::optional<FileBeside> FileBesideTuning(TuningFormat format, const std::string& path);
// Refuses (UsageError) a format without lengths.
void CheckRangeFormat(TuningFormat format);

}  // namespace headscope::app
