// SPDX-License-Identifier: Apache-2.0
// Runs a decode method's policy over a generation, and sees to it that what is evicted stays away: a selection that
// names an evicted token is refused, and the K and V that the policy is shown hold NaN in its place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/decode_method.h"
#include "kernels/decode_policy.h"

namespace headscope::kernels {

class DecodeDriver {
 public:
  // `method` outlives the driver.
  DecodeDriver(const DecodeMethod& method, const ParameterValues& values);
  ~DecodeDriver();
  DecodeDriver(const DecodeDriver&) = delete;
  DecodeDriver& operator=(const DecodeDriver&) = delete;

  // Begins a generation, also after another one. The caches of `prompt` and of the steps outlive it. Errors: the
  // policy's, kOutOfMemory, kCancelled.
  Status Begin(const DecodePrompt& prompt, const RunOptions& options);
  // Whether steps may come in any order and again: what the method keeps only spares it work. Otherwise they go
  // forward, and Begin() goes back.
  bool AnyOrder() const { return !method_.NeedsHistory(values_); }

  // The cache's upkeep before a step, which is no part of its selection: what was evicted goes, the policy moves on.
  // kInvalidArgument: a step back.
  Status Append(const DecodeStep& step, const RunOptions& options);
  // The selection of a step that Append() has been called for, in tokens of step.problem. kInvalidArgument: it names a
  // token that was evicted.
  Status Step(const DecodeStep& step, const RunOptions& options, DecodeSelection* selection);
  // Whether Attended() is to be called after a step, with its output and lse on the host.
  bool WantsOutput() const { return !dense_ && method_.spec().reads_output; }
  Status Attended(const DecodeStep& step, const DecodeSelection& selection, const AttentionOutput& output,
                  const RunOptions& options);
  void End();

 private:
  class ShownCache;
  // The step as the policy may see it.
  DecodeStep Shown(const DecodeStep& step) const;
  Status CheckEvictions(const DecodeEvictions& evictions, int32_t end);
  Status CheckSelection(const DecodeStep& step, const DecodeSelection& selection) const;

  const DecodeMethod& method_;
  const ParameterValues values_;
  std::unique_ptr<DecodePolicy> policy_;
  bool dense_ = false;  // the generation is of a layer that the method leaves dense
  int32_t capacity_ = 0;
  int32_t end_ = 0;                         // tokens of the sequence so far
  std::vector<std::vector<bool>> evicted_;  // [list][token]; as long as it has to be
  DecodeEvictions leaving_;                 // evicted, but still in the shown cache
  std::unique_ptr<ShownCache> shown_;       // null as long as nothing is evicted
};

}  // namespace headscope::kernels
