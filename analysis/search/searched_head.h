// SPDX-License-Identifier: Apache-2.0
// One head under a search, in one or more recordings: what a setting keeps of all its rows together.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "analysis/search.h"

namespace headscope::analysis {

class SearchedHead {
 public:
  // One prompt's recording. Without masses so far: they are made when they are first needed.
  struct Recording {
    const HeadTensors* head = nullptr;
    HeadTensorsPtr owned_head = nullptr;
    const HeadMass* mass = nullptr;
    std::shared_ptr<const HeadMass> owned_mass = nullptr;
    std::vector<float> dense = {};  // [judged rows, v_head_dim], dense attention's output; made when it is first needed
    std::vector<uint8_t> judged = {};  // [num_rows]: rows that count; empty: all
  };
  struct Mask {
    int64_t kept = 0;  // pairs
    MassDistribution mass;
  };

  // `options` outlive it.
  SearchedHead(std::vector<Recording> recordings, const BudgetSearchOptions& options);

  int64_t num_pairs() const { return num_pairs_; }  // attended, of all recordings
  int64_t LongestRecording() const;
  std::vector<Recording>& recordings() { return recordings_; }
  const std::vector<Recording>& recordings() const { return recordings_; }

  // Makes a recording's masses, or passes over its probabilities again; `visit`, unless empty, sees each.
  // kCancelled.
  kernels::Status Pass(size_t recording, const VisitProbabilities& visit);
  kernels::Status Try(const kernels::PrefillMethod& method, const kernels::ParameterValues& values, Mask* mask);
  // |O - O_dense| / |O_dense| over the rows of all recordings, on the CPU in fp32. 0 where both are zero.
  kernels::Status OutputError(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                              double* error);
  // Pairs of the tiles that a kernel computes (kernel_work.h), of all recordings.
  kernels::Status Work(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                       int64_t* pairs) const;
  // Selection and attention of all recordings, and dense attention in turn with it, on the CPU: the least of three
  // rounds of each, in milliseconds. Both are added to.
  kernels::Status MeasureTime(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                              double* own_ms, double* dense_ms);

 private:
  // *milliseconds, unless null, is what selection and attention took.
  kernels::Status Attend(const HeadTensors& head, const kernels::PrefillMethod& method,
                         const kernels::ParameterValues& values, std::vector<float>* o,
                         double* milliseconds = nullptr) const;

  std::vector<Recording> recordings_;
  const BudgetSearchOptions& options_;
  int64_t num_pairs_ = 0;
};

}  // namespace headscope::analysis
