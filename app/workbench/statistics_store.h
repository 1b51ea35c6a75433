// SPDX-License-Identifier: Apache-2.0
// Statistics of a trace's heads, kept in the user's cache folder so that a second start shows them at once.
//
// One JSON file a trace, named by a hash of the trace's path, size and time of change: a trace that was written anew
// finds nothing. The file is untrusted; one that does not parse or is of another version counts as absent.
#pragma once

#include <string>
#include <vector>

#include "analysis/types/class_evidence.h"
#include "analysis/types/head_statistics.h"

namespace headscope::app {

// A head's statistics, and what classes it anew by other rules.
struct KnownHead {
  analysis::HeadStatistics statistics;
  analysis::ClassEvidence evidence;
};

class StatisticsStore {
 public:
  // `cache_dir` empty: Load finds nothing and Save does nothing.
  StatisticsStore(const std::string& cache_dir, const std::string& trace_path);

  std::vector<KnownHead> Load() const;
  // Written to a temporary name and renamed. Returns an empty string or one sentence.
  std::string Save(const std::vector<KnownHead>& heads) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// $XDG_CACHE_HOME/headscope/results, else ~/.cache/headscope/results; empty when neither variable is set.
std::string DefaultResultsDir();

}  // namespace headscope::app
