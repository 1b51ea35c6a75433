// SPDX-License-Identifier: Apache-2.0
#include "analysis/live_head.h"

#include <algorithm>
#include <string>
#include <utility>

#include "analysis/types/timing.h"
#include "compare/decode_steps.h"
#include "compare/decode_walk.h"
#include "compare/live_gpu.h"
#include "compare/model_window.h"
#include "compare/other_dense.h"
#include "compare/output_error.h"
#include "compare/rounds.h"
#include "compare/selected_preview.h"
#include "head/head_checks.h"
#include "kernels/contiguous.h"
#include "kernels/cpu_executor.h"
#include "kernels/method.h"
#include "kernels/stop_status.h"

namespace headscope::analysis {
namespace {

using kernels::Status;
using kernels::StatusCode;

void SetError(const std::vector<float>& o, const std::vector<float>& dense, int64_t num_rows, int32_t width,
              LiveRun* run) {
  const OutputError error = MeasureError(o.data(), dense.data(), num_rows, width);
  run->relative_error = error.relative;
  run->max_error = error.maximum;
  run->checked_rows = num_rows;
}

// What the GPU does not take, or has no memory for, the CPU does.
bool IsForTheCpu(const Status& status) {
  return status.code() == StatusCode::kUnsupported || status.code() == StatusCode::kOutOfMemory;
}

// The tiles of these rows; `begin` is the first row of one. Of an index of one head.
kernels::SparseIndexView TilesOf(kernels::SparseIndexView index, int64_t begin, int64_t end) {
  const int64_t tile = begin / index.tile_rows;
  index.seq_q = static_cast<int32_t>(end - begin);
  index.first_position += static_cast<int32_t>(begin);
  index.keeps_everything = false;
  index.run_begin += tile;
  index.run_count += tile;
  index.column_begin += tile;
  index.column_count += tile;
  return index;
}

Status AttendOnce(const kernels::AttentionProblem& problem, const kernels::SparseIndexView& index,
                  const kernels::AttentionOutput& output, const kernels::RunOptions& options, double* milliseconds) {
  const Stopwatch watch;
  Status status = kernels::AttendCpu(problem, index, output, options);
  *milliseconds = watch.Milliseconds();
  return status;
}

// Attends, and says what it took. Where that is short it may have met cold caches, or the picture that the slider has
// changed: it is done once more, and the lesser time counts.
Status AttendTimed(const kernels::AttentionProblem& problem, const kernels::SparseIndexView& index,
                   const kernels::AttentionOutput& output, const kernels::RunOptions& options, double* milliseconds) {
  if (Status status = AttendOnce(problem, index, output, options, milliseconds); !status.ok()) return status;
  if (*milliseconds >= LiveHead::kShortMs) return {};
  double again = 0;
  if (Status status = AttendOnce(problem, index, output, options, &again); !status.ok()) return status;
  *milliseconds = std::min(*milliseconds, again);
  return {};
}

}  // namespace

bool DenseTimes::IsDue(Moment now) const {
  if (times_.empty()) return true;
  const std::chrono::duration<double, std::milli> least(4 * MedianMs());
  return now - times_.back().at >= std::max(std::chrono::duration<double, std::milli>(kApart), least);
}

void DenseTimes::Add(double milliseconds, Moment now) {
  std::erase_if(times_, [now](const Time& time) { return now - time.at > kOldest; });
  times_.push_back({milliseconds, now});
  if (times_.size() > kMost) times_.pop_front();
}

double DenseTimes::MedianMs() const {
  std::vector<double> milliseconds;
  for (const Time& time : times_) milliseconds.push_back(time.milliseconds);
  return Median(std::move(milliseconds));
}

double DenseTimes::OldestSeconds(Moment now) const {
  return times_.empty() ? 0 : std::chrono::duration<double>(now - times_.front().at).count();
}

LiveHead::LiveHead(HeadTensorsPtr head) : head_(std::move(head)), checked_(RowsToCheck(*head_)) {}

LiveHead::~LiveHead() = default;

std::vector<LiveHead::Rows> LiveHead::RowsToCheck(const HeadTensors& head) {
  const int64_t num_rows = head.num_rows;
  if (num_rows * head.num_tokens <= kMostPairs) return {{0, num_rows}};
  // The last of them is that of the last row, which may be a ragged one.
  const int64_t tiles = (num_rows + kBlockRows - 1) / kBlockRows, blocks = std::min(tiles, kBlocks);
  std::vector<Rows> checked;
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t tile = blocks == 1 ? 0 : block * (tiles - 1) / (blocks - 1);
    checked.push_back({tile * kBlockRows, std::min((tile + 1) * kBlockRows, num_rows)});
  }
  return checked;
}

int64_t LiveHead::Bytes() const {
  int64_t rows = 0;
  for (const Rows& block : checked_) rows += block.end - block.begin;
  const int64_t outputs = rows * head_->ValueDim() * static_cast<int64_t>(sizeof(float));
  if (head_->gpu == nullptr) return outputs;
  // GpuHeads has them in 16 bits as well.
  return outputs +
         static_cast<int64_t>(sizeof(uint16_t)) * (std::ssize(head_->q) + std::ssize(head_->k) + std::ssize(head_->v));
}

kernels::AttentionProblem LiveHead::ProblemOf(const Rows& rows) const {
  kernels::AttentionProblem problem = head_->Problem();
  problem.seq_q = static_cast<int32_t>(rows.end - rows.begin);
  problem.first_position += static_cast<int32_t>(rows.begin);
  problem.q.data = static_cast<const float*>(problem.q.data) + rows.begin * problem.q.row_stride;
  return problem;
}

Status LiveHead::AttendRows(const Rows& rows, const kernels::SparseIndexView& kept, const kernels::RunOptions& options,
                            std::vector<float>* outputs, double* milliseconds) const {
  const int64_t width = head_->ValueDim();
  const size_t before = outputs->size();
  outputs->resize(before + static_cast<size_t>((rows.end - rows.begin) * width));
  kernels::AttentionOutput output;
  output.o = kernels::ContiguousTensor<void>(outputs->data() + before, 1, rows.end - rows.begin, width);
  if (milliseconds == nullptr) return kernels::AttendCpu(ProblemOf(rows), kept, output, options);
  double own = 0;
  if (Status status = AttendTimed(ProblemOf(rows), kept, output, options, &own); !status.ok()) return status;
  *milliseconds += own;
  return {};
}

Status LiveHead::AttendChecked(const kernels::SparseIndexView& index, const kernels::RunOptions& options,
                               std::vector<float>* outputs, double* milliseconds) const {
  for (const Rows& rows : checked_) {
    const kernels::SparseIndexView kept = ChecksAllRows() ? index : TilesOf(index, rows.begin, rows.end);
    if (Status status = AttendRows(rows, kept, options, outputs, milliseconds); !status.ok()) return status;
  }
  return {};
}

Status LiveHead::SelectDense(const kernels::AttentionProblem& problem, const kernels::RunOptions& options,
                             kernels::SparseIndex* index) const {
  const kernels::PrefillMethod& dense = kernels::PrefillBaseline();
  const kernels::ParameterValues values(dense.spec());
  return SelectInside(*head_, problem, dense, values, options, index);
}

Status LiveHead::AttendInTurn(const kernels::SparseIndexView& index, const kernels::RunOptions& options,
                              std::vector<float>* outputs, LiveRun* run) {
  const kernels::AttentionProblem problem = head_->Problem();
  kernels::SparseIndex dense;
  if (Status status = SelectDense(problem, options, &dense); !status.ok()) return status;
  const auto entry = [&](const kernels::SparseIndexView& kept, std::vector<float>* o) {
    return RoundEntry{{},
                      [this, &problem, kept, o, &options](double*, double* attend_ms) {
                        kernels::AttentionOutput output;
                        output.o = kernels::ContiguousTensor<void>(o->data(), 1, head_->num_rows, head_->ValueDim());
                        return AttendOnce(problem, kept, output, options, attend_ms);
                      },
                      {},
                      {}};
  };
  std::vector<float> dense_outputs(outputs->size());
  std::vector<RoundEntry> entries = {entry(dense.View(), &dense_outputs), entry(index, outputs)};
  // No run warms up: of three, the median is not the one that met cold caches.
  CompareOptions rounds;
  rounds.repeats = kLeastRounds;
  rounds.least_ms = kRoundsMs;
  rounds.stop = options.stop;
  if (Status status = RunRounds(rounds, kernels::Phase::kPrefill, &entries); !status.ok()) return status;
  dense_ = std::move(dense_outputs);
  run->dense_attend_ms = entries[0].Attend().median_ms;
  run->attend_ms = entries[1].Attend().median_ms;
  run->rounds = entries[1].Attend().repeats;
  return {};
}

Status LiveHead::AttendDense(const kernels::RunOptions& options, std::vector<float>* outputs,
                             double* milliseconds) const {
  std::vector<float> all;
  for (const Rows& rows : checked_) {
    kernels::SparseIndex index;
    if (Status status = SelectDense(ProblemOf(rows), options, &index); !status.ok()) return status;
    if (Status status = AttendRows(rows, index.View(), options, &all, milliseconds); !status.ok()) return status;
  }
  *outputs = std::move(all);
  return {};
}

Status LiveHead::TimeDense(int32_t num_threads, const std::stop_token& stop, std::vector<float>* outputs) {
  double milliseconds = 0;
  if (Status status = AttendDense({ChecksAllRows() ? num_threads : 1, stop}, outputs, &milliseconds); !status.ok())
    return status;
  dense_times_.Add(milliseconds, std::chrono::steady_clock::now());
  return {};
}

Status LiveHead::AttendApart(const kernels::SparseIndexView& index, const kernels::RunOptions& options,
                             std::vector<float>* outputs, LiveRun* run) {
  kernels::AttentionOutput output;
  output.o = kernels::ContiguousTensor<void>(outputs->data(), 1, head_->num_rows, head_->ValueDim());
  if (Status status = AttendTimed(head_->Problem(), index, output, options, &run->attend_ms); !status.ok())
    return status;
  if (dense_.empty()) {
    if (Status status = TimeDense(options.num_threads, options.stop, &dense_); !status.ok()) return status;
  } else if (dense_times_.IsDue(std::chrono::steady_clock::now())) {
    std::vector<float> again;
    if (Status status = TimeDense(options.num_threads, options.stop, &again); !status.ok()) return status;
  }
  if (!ChecksAllRows()) {
    outputs->clear();
    if (Status status = AttendChecked(index, {1, options.stop}, outputs, &run->checked_attend_ms); !status.ok())
      return status;
  }
  run->dense_attend_ms = dense_times_.MedianMs();
  run->dense_times = dense_times_.count();
  run->dense_age_s = dense_times_.OldestSeconds(std::chrono::steady_clock::now());
  return {};
}

void LiveHead::SetErrorOf(const std::vector<float>& outputs, const std::vector<float>& dense, LiveRun* run) const {
  SetError(outputs, dense, static_cast<int64_t>(dense.size()) / head_->ValueDim(), head_->ValueDim(), run);
}

LiveRun LiveHead::Begun() const {
  LiveRun run;
  run.num_rows = head_->num_rows;
  run.device = NamedCpu();
  return run;
}

LiveGpu* LiveHead::Gpu(std::string* why_not) {
  const std::lock_guard lock(gpu_mutex_);
  if (!asked_for_gpu_ && head_->gpu != nullptr) {
    const Status status = MakeLiveGpu(head_, &gpu_);
    why_not_gpu_ = status.ok() ? std::string() : status.message();
    asked_for_gpu_ = status.code() != StatusCode::kOutOfMemory;  // else it is asked again: others give memory back
  }
  if (why_not != nullptr) *why_not = head_->gpu != nullptr ? why_not_gpu_ : head_->gpu_refusal;
  return gpu_.get();
}

Status LiveHead::Preview(const HeadMass& mass, const LiveChoice& choice, int32_t num_threads,
                         const std::stop_token& stop, MaskPreview* preview) {
  if (Status status = CheckPrefillHead(*head_); !status.ok()) return status;
  if (LiveGpu* const gpu = Gpu()) {
    if (stop.stop_requested()) return kernels::Stopped();
    auto index = std::make_shared<kernels::SparseIndex>();
    double select_ms = 0;
    Status status = gpu->Select(choice.method, choice.values, index.get(), &select_ms);
    if (status.ok()) {
      return PreviewSelected(mass, choice.method, choice.values, std::move(index), select_ms, num_threads, stop,
                             preview);
    }
    if (!IsForTheCpu(status)) return status;
  }
  return PreviewMask(mass, choice.method, choice.values, num_threads, stop, preview);
}

Status LiveHead::RunOnGpu(const LiveChoice* timed, const kernels::SparseIndexView& index,
                          const kernels::RunOptions& options, LiveRun* run, bool* ran) {
  *ran = false;
  LiveGpu* const gpu = Gpu(&run->note);
  if (gpu == nullptr) return {};
  if (Status status = CheckIndex(*head_, index); !status.ok()) return status;
  if (options.stop.stop_requested()) return kernels::Stopped();
  LiveRun there = *run;
  std::vector<float> outputs;
  Status status = gpu_dense_.empty() ? gpu->AttendDense(checked_, &gpu_dense_) : Status{};
  if (status.ok()) status = gpu->Attend(index, checked_, &outputs);
  if (status.ok() && timed != nullptr) status = gpu->Time(timed->method, timed->values, index, options.stop, &there);
  if (IsForTheCpu(status) && CountPairs(index).kept <= kMostScores) {
    run->note = status.message();
    return {};
  }
  if (!status.ok()) return status;
  SetErrorOf(outputs, gpu_dense_, &there);
  there.device = head_->gpu_device;
  *run = std::move(there);
  *ran = true;
  return {};
}

Status LiveHead::Run(const LiveChoice& choice, const kernels::SparseIndexView& index, int32_t num_threads,
                     const std::stop_token& stop, LiveRun* run) {
  if (Status status = CheckPrefillHead(*head_); !status.ok()) return status;
  const std::lock_guard lock(mutex_);
  if (forgets_times_.exchange(false)) dense_times_.Forget();
  const kernels::RunOptions options{num_threads, stop};
  bool on_gpu = false;
  LiveRun result = Begun();
  Status status = RunOnGpu(&choice, index, options, &result, &on_gpu);
  if (status.ok() && !on_gpu) {
    std::vector<float> outputs(static_cast<size_t>(head_->num_rows * head_->ValueDim()));
    status =
        IsShort() ? AttendInTurn(index, options, &outputs, &result) : AttendApart(index, options, &outputs, &result);
    if (status.ok()) SetErrorOf(outputs, dense_, &result);
  }
  if (status.ok()) *run = std::move(result);
  return status;
}

Status LiveHead::RunUntimed(const kernels::SparseIndexView& index, int32_t num_threads, const std::stop_token& stop,
                            LiveRun* run) {
  if (Status status = CheckPrefillHead(*head_); !status.ok()) return status;
  const std::lock_guard lock(mutex_);
  const kernels::RunOptions options{num_threads, stop};
  bool on_gpu = false;
  LiveRun result = Begun();
  if (Status status = RunOnGpu(nullptr, index, options, &result, &on_gpu); !status.ok()) return status;
  if (!on_gpu && (IsShort() || !ChecksAllRows())) {
    std::vector<float> outputs;
    if (Status status = AttendChecked(index, options, &outputs, nullptr); !status.ok()) return status;
    if (dense_.empty()) {
      if (Status status = AttendDense(options, &dense_, nullptr); !status.ok()) return status;
    }
    SetErrorOf(outputs, dense_, &result);
  }
  *run = std::move(result);
  return {};
}

Status RunDecodeLive(const MeasuredHeads& measured, HeadId id, const kernels::DecodeMethod& method,
                     const kernels::ParameterValues& values, int32_t decode_rows, const OtherDense& other,
                     int32_t num_threads, const std::stop_token& stop, LiveRun* run) {
  const DecodeSteps steps(measured, id, decode_rows);
  if (Status status = steps.Check(id); !status.ok()) return status;
  const kernels::AttentionProblem whole = measured.Problem();
  const kernels::RunOptions options{num_threads, stop};
  const kernels::DecodeMethod& dense = kernels::DecodeBaseline();
  const kernels::ParameterValues dense_values(dense.spec());
  DecodeWalk walk(steps, method, values, whole, RecordedOf(measured), options);
  DecodeWalk dense_walk(steps, dense, dense_values, whole, RecordedOf(measured), options);
  if (Status status = walk.Start(); !status.ok()) return status;
  if (Status status = dense_walk.Start(); !status.ok()) return status;
  const int64_t width = measured.ValueDim(), heads = measured.num_qo_heads, head = id.head - measured.first_qo_head;
  std::vector<float> o(static_cast<size_t>(heads * width)), lse(static_cast<size_t>(heads));
  const kernels::AttentionOutput output{kernels::ContiguousTensor<void>(o.data(), heads, 1, width), lse.data()};
  std::vector<float> outputs, dense_outputs;
  // Attends to what one of the two walks selects and adds the head's row to `rows`.
  const auto attend = [&](DecodeWalk& of, int64_t step, std::vector<float>* rows, double* milliseconds) -> Status {
    kernels::DecodeSelection selection;
    double select_ms = 0;
    if (Status status = of.Select(step, &selection, &select_ms); !status.ok()) return status;
    const Stopwatch watch;
    if (Status status = kernels::DecodeCpu(steps.Problem(whole, step), selection, output, options); !status.ok())
      return status;
    *milliseconds += watch.Milliseconds();
    rows->insert(rows->end(), o.begin() + head * width, o.begin() + (head + 1) * width);
    return of.WantsOutput() ? of.Attended(step, selection, o.data(), lse.data()) : Status{};
  };
  // All of them, before anything is timed, as a measured comparison prepares them: made in the middle, they would find
  // the step's keys where headscope's own have just left them.
  std::vector<std::unique_ptr<OtherDecode>> others;
  for (int64_t step = 0; Takes(other, measured) && step < steps.count(); ++step) {
    std::unique_ptr<OtherDecode> made;
    if (Status status = other.make(steps.Problem(whole, step), &made); !status.ok()) return status;
    if (Status status = made->Run(); !status.ok()) return status;
    others.push_back(std::move(made));
  }
  double other_ms = 0;
  LiveRun result;
  for (int64_t step = 0; step < steps.count(); ++step) {
    if (Status status = attend(walk, step, &outputs, &result.attend_ms); !status.ok()) return status;
    if (Status status = attend(dense_walk, step, &dense_outputs, &result.dense_attend_ms); !status.ok()) return status;
    if (others.empty()) continue;
    const Stopwatch watch;
    if (Status status = others[static_cast<size_t>(step)]->Run(); !status.ok()) return status;
    other_ms += watch.Milliseconds();
  }
  if (!others.empty()) result.dense_attend_ms = std::min(result.dense_attend_ms, other_ms);
  const auto count = static_cast<double>(steps.count());
  result.attend_ms /= count;
  result.dense_attend_ms /= count;
  SetError(outputs, dense_outputs, steps.count(), measured.ValueDim(), &result);
  result.num_rows = steps.count();
  result.device = NamedCpu();
  *run = result;
  return {};
}

}  // namespace headscope::analysis
