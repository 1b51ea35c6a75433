// SPDX-License-Identifier: Apache-2.0
// Per-head statistics in one streaming pass over Q K^T. Definitions: docs/analysis.md.
#pragma once

#include <cstdint>
#include <stop_token>
#include <vector>

#include "analysis/class_rules.h"
#include "analysis/classify.h"
#include "analysis/head_tensors.h"
#include "analysis/types/head_statistics.h"

namespace headscope::analysis {

struct StatisticsOptions {
  int32_t sink_tokens = 4;       // what "sink" means, tokens
  int32_t local_tokens = 128;    // what "local window" means, tokens, diagonal included
  int32_t best_lines = 16;       // columns, diagonals and blocks counted by vertical_mass, slash_mass and block_mass
  int32_t block_size = 64;       // tokens, for block_mass
  int32_t retrieval_tokens = 4;  // far tokens of a row counted by retrieval_mass
  int32_t profile_bins = 256;
  std::vector<int32_t> agreement_r = {8, 16, 32};
  std::vector<int32_t> agreement_k = {32, 128};
  std::vector<double> cra_targets = {0.90, kQuotedCra, 0.99};
  ClassRules classes = {};
  // Statistics use every row when 0, else about this many rows, evenly spaced and including the last (what the matrix's
  // quick first look uses).
  int64_t max_rows = 0;
  int32_t num_threads = 0;
  std::stop_token stop = {};
};

// Throws CancelledError, and BadInputError when the head has no recorded query rows. `evidence`, where it is not null,
// takes what Classify needs to class the head by other rules.
HeadStatistics ComputeStatistics(const HeadTensors& head, const StatisticsOptions& options,
                                 ClassEvidence* evidence = nullptr);

}  // namespace headscope::analysis
