// SPDX-License-Identifier: Apache-2.0
// Runs that follow a slider: the executor, once, on what a mask keeps, and its output beside dense attention's.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <stop_token>
#include <utility>
#include <vector>

#include "analysis/head_tensors.h"
#include "analysis/measured_heads.h"
#include "analysis/types/live_run.h"
#include "kernels/decode_method.h"
#include "kernels/sparse_index.h"
#include "kernels/status.h"

namespace headscope::analysis {

// A head under a prefill method's slider, on the CPU. Dense attention's output of the checked rows is computed by the
// first run and held: all rows of a head with at most kMostPairs pairs of row and token, else kBlocks blocks of
// kBlockRows rows, evenly spaced, so that the first run, which takes longer by it, does not take as long as dense
// attention does. May be used from several threads: runs of this head wait for each other, those of another head do
// not, and then share the cores on which both are timed.
class LiveHead {
 public:
  static constexpr int64_t kMostPairs = int64_t{8192} * 8192;
  static constexpr int64_t kBlocks = 16, kBlockRows = 64;

  explicit LiveHead(HeadTensorsPtr head) : head_(std::move(head)), checked_(RowsToCheck(*head_)) {}

  const HeadTensorsPtr& head() const { return head_; }
  // `index` lies inside the model's window (SelectOnHead). Errors: a head on which methods do not run; an index of
  // other rows or columns; cancelled, and *run is then unchanged.
  kernels::Status Run(const kernels::SparseIndexView& index, int32_t num_threads, const std::stop_token& stop,
                      LiveRun* run);
  int64_t Bytes() const;  // of the outputs that are held once it has run

 private:
  struct Rows {
    int64_t begin = 0, end = 0;
  };
  static std::vector<Rows> RowsToCheck(const HeadTensors& head);
  kernels::Status AttendDense(int32_t num_threads, const std::stop_token& stop);

  const HeadTensorsPtr head_;
  const std::vector<Rows> checked_;
  std::mutex mutex_;
  std::vector<float> dense_;  // [checked rows, v_head_dim], one block of rows after the other; empty: not known yet
  double dense_ms_ = 0;
};

// The same of a decode method: its last `decode_rows` recorded rows, one generation step each, as PreviewDecode walks
// over them, each beside dense attention of the same step. Selection is not in the times.
kernels::Status RunDecodeLive(const MeasuredHeads& measured, HeadId head, const kernels::DecodeMethod& method,
                              const kernels::ParameterValues& values, int32_t decode_rows, int32_t num_threads,
                              const std::stop_token& stop, LiveRun* run);

}  // namespace headscope::analysis
