// SPDX-License-Identifier: Apache-2.0
// What is to be said of the heads of a run beside their numbers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analysis/head_tensors.h"

namespace headscope::app {

// Sentences for stderr, each once however many heads it holds for:
// - a trace whose recorded log-sum-exp is not that of its queries and keys, which makes every probability wrong;
// - a trace that was cut from a longer one, some of whose mass is therefore not there;
// - heads that were to be on the GPU, and are not, and numbers of heads that are.
class HeadNotes {
 public:
  // Looks at a head of `trace` as it was loaded. Cost: one pass over the head's q and k.
  void Look(const analysis::HeadTensors& head, const data::TraceReader& trace);
  // Of a head that has been looked at: it was to be computed on the GPU, and was not. `why` empty: it was not to be.
  void OnCpu(const std::string& why);
  // Of one that was computed on the GPU but for what `note` says; empty: for nothing.
  void PartOnCpu(const std::string& note);
  // What others that came after these have to say.
  void Append(const HeadNotes& others);
  void Print() const;

 private:
  void AddOnce(const std::string& subject, std::string sentence);

  std::map<std::string, std::string> said_;  // by subject
  std::vector<std::string> in_order_;        // subjects
  std::string first_refusal_;
  int64_t num_refused_ = 0, num_heads_ = 0;
};

}  // namespace headscope::app
