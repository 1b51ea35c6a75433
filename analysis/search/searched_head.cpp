// SPDX-License-Identifier: Apache-2.0
#include "search/searched_head.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "analysis/types/timing.h"
#include "base/check_status.h"
#include "base/errors.h"
#include "compare/model_window.h"
#include "compare/output_error.h"
#include "compare/probability_pass.h"
#include "kernels/contiguous.h"
#include "kernels/cpu_executor.h"
#include "kernels/stop_status.h"
#include "search/kernel_work.h"

namespace headscope::analysis {

using kernels::Status;

namespace {

// Of rows of `width` values, those that count.
void KeepJudged(const std::vector<uint8_t>& judged, int64_t width, std::vector<float>* rows) {
  if (judged.empty()) return;
  auto end = rows->begin();
  for (size_t row = 0; row < judged.size(); ++row) {
    if (judged[row] != 0) end = std::copy_n(rows->begin() + static_cast<int64_t>(row) * width, width, end);
  }
  rows->erase(end, rows->end());
}

}  // namespace

SearchedHead::SearchedHead(std::vector<Recording> recordings, const BudgetSearchOptions& options)
    : recordings_(std::move(recordings)), options_(options) {
  for (Recording& recording : recordings_) {
    num_pairs_ += AttendedPairs(*recording.head);
    if (options.judged_rows) recording.judged = options.judged_rows(*recording.head);
  }
}

int64_t SearchedHead::LongestRecording() const {
  int64_t longest = 0;
  for (const Recording& recording : recordings_) longest = std::max(longest, recording.head->num_tokens);
  return longest;
}

Status SearchedHead::Pass(size_t place, const VisitProbabilities& visit) try {
  Recording& recording = recordings_[place];
  if (recording.mass != nullptr) {
    PassProbabilities(*recording.head, options_.num_threads, options_.stop, /*sums=*/nullptr, visit);
    return {};
  }
  recording.owned_mass = HeadMass::Compute(recording.owned_head, options_.num_threads, options_.stop, visit);
  recording.mass = recording.owned_mass.get();
  return {};
} catch (const CancelledError& stopped) {
  return StatusOf<Status>(stopped);
}

Status SearchedHead::Try(const kernels::PrefillMethod& method, const kernels::ParameterValues& values, Mask* mask) {
  std::vector<float> rows;
  int64_t kept = 0;
  for (size_t i = 0; i < recordings_.size(); ++i) {
    if (recordings_[i].mass == nullptr) {
      if (Status status = Pass(i, {}); !status.ok()) return status;
    }
    if (options_.stop.stop_requested()) return kernels::Stopped();
    MaskPreview preview;
    if (Status status =
            PreviewMask(*recordings_[i].mass, method, values, options_.num_threads, options_.stop, &preview);
        !status.ok())
      return status;
    KeepJudged(recordings_[i].judged, 1, &preview.kept_mass);
    rows.insert(rows.end(), preview.kept_mass.begin(), preview.kept_mass.end());
    kept += kernels::CountPairs(preview.index->View()).kept;
  }
  *mask = {kept, DistributeMass(rows)};
  return {};
}

Status SearchedHead::OutputError(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                                 double* error) {
  double of_difference = 0, of_dense = 0;  // squared norms
  std::vector<float> o;
  for (Recording& recording : recordings_) {
    const HeadTensors& head = *recording.head;
    if (recording.dense.empty()) {
      const kernels::PrefillMethod& dense = kernels::PrefillBaseline();
      if (Status status = Attend(head, dense, kernels::ParameterValues(dense.spec()), &recording.dense); !status.ok())
        return status;
      KeepJudged(recording.judged, head.ValueDim(), &recording.dense);
    }
    if (Status status = Attend(head, method, values, &o); !status.ok()) return status;
    KeepJudged(recording.judged, head.ValueDim(), &o);
    const auto num_rows = static_cast<int64_t>(o.size()) / head.ValueDim();
    double norm = 0;
    for (const float value : recording.dense) norm += static_cast<double>(value) * static_cast<double>(value);
    const double relative = MeasureError(o.data(), recording.dense.data(), num_rows, head.ValueDim()).relative;
    of_difference += relative * relative * norm;
    of_dense += norm;
  }
  *error = of_dense > 0 ? std::sqrt(of_difference / of_dense) : std::sqrt(of_difference);
  return {};
}

Status SearchedHead::Work(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                          int64_t* pairs) const {
  *pairs = 0;
  for (const Recording& recording : recordings_) {
    kernels::SparseIndex index;
    if (Status status = SelectOnHead(*recording.head, method, values, {options_.num_threads, options_.stop}, &index);
        !status.ok())
      return status;
    *pairs += PairsInKernel(index.View());
  }
  return {};
}

Status SearchedHead::MeasureTime(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                                 double* own_ms, double* dense_ms) {
  constexpr int kRounds = 3;
  const kernels::PrefillMethod& dense = kernels::PrefillBaseline();
  const kernels::ParameterValues of_dense(dense.spec());
  std::vector<float> o;
  for (const Recording& recording : recordings_) {
    double least_own = std::numeric_limits<double>::infinity(), least_dense = least_own;
    for (int round = 0; round < kRounds; ++round) {
      double milliseconds = 0;
      if (Status status = Attend(*recording.head, dense, of_dense, &o, &milliseconds); !status.ok()) return status;
      least_dense = std::min(least_dense, milliseconds);
      if (Status status = Attend(*recording.head, method, values, &o, &milliseconds); !status.ok()) return status;
      least_own = std::min(least_own, milliseconds);
    }
    *own_ms += least_own;
    *dense_ms += least_dense;
  }
  return {};
}

Status SearchedHead::Attend(const HeadTensors& head, const kernels::PrefillMethod& method,
                            const kernels::ParameterValues& values, std::vector<float>* o, double* milliseconds) const {
  o->resize(static_cast<size_t>(head.num_rows * head.ValueDim()));
  const Stopwatch watch;
  kernels::SparseIndex index;
  if (Status status = SelectOnHead(head, method, values, {options_.num_threads, options_.stop}, &index); !status.ok())
    return status;
  kernels::AttentionOutput output;
  output.o = kernels::ContiguousTensor<void>(o->data(), 1, head.num_rows, head.ValueDim());
  Status status = kernels::AttendCpu(head.Problem(), index.View(), output, {options_.num_threads, options_.stop});
  if (milliseconds != nullptr) *milliseconds = watch.Milliseconds();
  return status;
}

}  // namespace headscope::analysis
