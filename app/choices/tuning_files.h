// SPDX-License-Identifier: Apache-2.0
// A tuned configuration in files: our own, which compare reads again, and those of serving engines.
#pragma once

#include <span>
#include <string>

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

// By the text of --format, or by the file's extension where that is empty. Throws UsageError.
TuningFormat ChooseTuningFormat(const std::string& format, const std::string& path);
// Refuses (UsageError), before any work is done for it, methods that the format has no word for and, where it has a
// place for every head of the model, heads that are not all of them.
void CheckTuningFormat(TuningFormat format, const Tuning& tuning, const std::vector<analysis::HeadId>& heads);

// The whole file, of a complete tuning that CheckTuningFormat took.
std::string TuningFile(const Tuning& tuning, TuningFormat format);
// The same of tunings that differ in their traces and ranges of lengths alone. Only JSON and CSV say what is for which
// length (CheckRangeFormat).
std::string TuningFile(std::span<const Tuning> by_range, TuningFormat format);
// Refuses (UsageError) a format without lengths.
void CheckRangeFormat(TuningFormat format);

}  // namespace headscope::app
