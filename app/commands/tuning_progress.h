// SPDX-License-Identifier: Apache-2.0
// The heads of a tuning that are done, in a file beside its output: what a run that was stopped, or killed, goes on
// from.
//
// A line of JSON says what is tuned; then a line for each unit of heads that share a setting, written when it is found.
// A last line that a kill cut short is dropped.
#pragma once

#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/output_claim.h"
#include "choices/tuning.h"

namespace headscope::app {

class TuningProgress {
 public:
  // Opens OUTPUT.unfinished and reads what is done there, or begins it. `tuning` has everything but heads. Throws
  // UsageError where the file is of another tuning or another process goes on with it, BadInputError where it is no
  // such file, FailedError where it cannot be written.
  TuningProgress(const std::string& output, const Tuning& tuning);

  // The unit that begins with that head, or null.
  const std::vector<TunedHead>* Find(analysis::HeadId first) const;
  size_t num_heads() const;
  // From any thread. Throws FailedError where the disk does not take it.
  void Add(const std::vector<TunedHead>& unit);
  // Of a tuning that is complete: its output has it all.
  void Remove();
  const std::string& path() const { return path_; }

 private:
  const Tuning& tuning_;
  const std::string path_;
  const OutputClaim claim_;
  std::map<analysis::HeadId, std::vector<TunedHead>> done_;
  std::mutex mutex_;
  std::ofstream file_;
};

}  // namespace headscope::app
