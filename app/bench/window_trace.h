// SPDX-License-Identifier: Apache-2.0
// A trace of a long prompt and many heads without a model: what `headscope bench --gui --synthetic` opens.
//
// Q and K are one head's of the seeded recipe (kernels/seeded_problem.h) in bf16; every head has these queries, every
// layer reads the first one's keys, and V is K. What is timed depends on sizes, not on what the heads do, so the
// log-sum-exp, which costs a dense attention, is computed once.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

namespace headscope::app::bench {

struct SyntheticTraceShape {
  int32_t num_tokens = 131072;
  int32_t num_heads = 1024;  // of all layers: at most 32, or a multiple of it
  int32_t head_dim = 16;

  static constexpr int32_t kMostHeadsOfLayer = 32;
  int32_t HeadsOfLayer() const { return num_heads < kMostHeadsOfLayer ? num_heads : kMostHeadsOfLayer; }
  int32_t NumLayers() const { return num_heads / HeadsOfLayer(); }
  int64_t Bytes() const;  // of the file, about
};

// "131072x1024": tokens and heads. Throws UsageError.
SyntheticTraceShape ParseSyntheticTrace(const std::string& text);
std::string SyntheticTraceName(const SyntheticTraceShape& shape);  // "synthetic, 131072 tokens x 1024 heads"

// Writes the trace to `path`, which must not exist. Throws FailedError where it cannot be written or has no room,
// CancelledError when stopped. `progress`: share done.
void WriteSyntheticTrace(const std::string& path, const SyntheticTraceShape& shape,
                         const std::function<void(double share)>& progress, const std::stop_token& stop);

}  // namespace headscope::app::bench
