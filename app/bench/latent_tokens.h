// SPDX-License-Identifier: Apache-2.0
// Attention over chosen tokens in the latent form of multi-head latent attention: what `headscope bench` times as
// latent/tokens-N. All query heads share keys of 576 components, of which the first 512 are the values; each query has
// a list of N tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "bench/accuracy.h"
#include "bench/bench_device.h"
#include "kernels/cuda_tokens.h"
#include "kernels/seeded_problem.h"

namespace headscope::app::bench {

// Queries of a problem at most: a prompt's last ones, as engines that prefill in chunks have them.
inline constexpr int32_t kMostLatentQueries = 4096;

// Its shape on the problem of `shape`, whose sequence, heads and seed it has.
kernels::SeededProblem LatentShape(const kernels::SeededProblem& shape);

struct LatentWork {
  std::function<void()> attend;
  int64_t kept_pairs = 0, dense_pairs = 0;  // of queries' heads and keys
  RowErrors errors;                         // of some rows, from float64
  std::vector<std::shared_ptr<void>> memory;
};

// shape: LatentShape's. Makes the tensors and lists of `length` tokens on the device, attends once and compares. Throws
// CancelledError, DeviceError, std::bad_alloc; UsageError where the device has no such executor.
LatentWork MakeLatentWork(BenchDevice& device, const kernels::SeededProblem& shape, int32_t length,
                          const kernels::RunOptions& options);

}  // namespace headscope::app::bench
