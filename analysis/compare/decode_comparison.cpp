// SPDX-License-Identifier: Apache-2.0
#include "compare/decode_comparison.h"

#include <cmath>
#include <utility>

#include "analysis/types/mass_distribution.h"
#include "analysis/types/number_text.h"
#include "compare/head_of_problem.h"
#include "compare/other_dense.h"
#include "compare/output_error.h"
#include "kernels/cpu_executor.h"
#include "kernels/cpu_memory.h"

namespace headscope::analysis {
namespace {

using kernels::Status;

// A speed-up that exceeds what the bytes allow by more than its own scatter says something about the baseline.
constexpr double kBytesTolerance = 1.1;

// A method's own rate of reading cannot exceed that of reading alone, so what is more is the baseline's.
std::string FasterThanItsBytes(const MethodResult& result) {
  std::string why = "dense decode is not limited by memory here";
  if (!std::isnan(result.dense_of_reading)) {
    why = Format("dense decode itself ran at %.0f %% of the rate at which its bytes can be read",
                 100 * result.dense_of_reading);
  }
  return " reads " + BytesBesideDense(result.bytes_allow) + " and is faster than that allows: " + why;
}

}  // namespace

std::string BytesBesideDense(double bytes_allow) {
  constexpr double kShown = 0.05;  // what rounds to 1.0 is as many
  if (bytes_allow >= 1 + kShown) return Format("%.1f times fewer bytes than dense decode", bytes_allow);
  if (1 / bytes_allow >= 1 + kShown) return Format("%.1f times as many bytes as dense decode", 1 / bytes_allow);
  return "as many bytes as dense decode";
}

DecodeComparison::DecodeComparison(MeasuredHeadsPtr measured, const CompareOptions& options)
    : StepsOfHeads(*measured, options.decode_rows), PhaseComparison(std::move(measured), options, kCpu) {}

Status DecodeComparison::MakeDevice(std::unique_ptr<DecodeDevice>* made) {
  return MakeDecodeDevice(measured_, steps_, options_, made);
}

bool DecodeComparison::WantsOther() const {
  return !options_.device.is_gpu() && Takes(options_.other_dense, *measured_);
}

Status DecodeComparison::PrepareOther() {
  if (!WantsOther() || !other_.empty()) return {};
  // The problems must not move while the other implementation reads them.
  other_problems_.clear();
  for (int64_t step = 0; step < steps_.count(); ++step)
    other_problems_.push_back(steps_.Problem(device_->Problem(), step));
  std::vector<std::unique_ptr<OtherDecode>> made(other_problems_.size());
  for (size_t step = 0; step < made.size(); ++step) {
    Status status = options_.other_dense.make(other_problems_[step], &made[step]);
    if (status.ok()) status = made[step]->Run();  // warms up
    if (!status.ok()) return status;
  }
  other_ = std::move(made);
  return {};
}

double DecodeComparison::BytesAllow(const DecodeRun& run) const {
  double dense = 0, own = 0;
  for (size_t step = 0; step < run.selections.size(); ++step) {
    dense += static_cast<double>(dense_.selections[step].elements_moved);
    own += static_cast<double>(run.selections[step].elements_moved);
  }
  return dense / own;
}

bool DecodeComparison::CanRead() const {
  const kernels::AttentionProblem problem = measured_->Problem();
  return !options_.device.is_gpu() && problem.k.row_stride == problem.head_dim &&
         problem.v.row_stride == problem.head_dim;
}

Status DecodeComparison::ReadKeysAndValues(double* milliseconds) {
  const kernels::RunOptions run{.num_threads = options_.num_threads, .stop = options_.stop};
  const Stopwatch watch;
  for (int64_t step = 0; step < steps_.count(); ++step) {
    const kernels::AttentionProblem problem = steps_.Problem(device_->Problem(), step);
    const int64_t bytes = int64_t{problem.seq_k} * problem.head_dim * SizeOf(problem.dtype);
    std::vector<const void*> places;  // one loop, as a step of dense decode is
    for (const auto* tensor : {&problem.k, &problem.v}) {
      for (int32_t head = 0; head < problem.num_kv_heads; ++head)
        places.push_back(static_cast<const char*>(tensor->data) + head * tensor->head_stride * SizeOf(problem.dtype));
    }
    if (Status status = kernels::ReadCpu(places, bytes, run, &parity_); !status.ok()) return status;
  }
  *milliseconds = watch.Milliseconds() / static_cast<double>(steps_.count());
  return {};
}

Status DecodeComparison::Judge(const DecodeRun& run, HeadId id, MethodResult* result) {
  int64_t kept = 0, attended = 0;
  const int32_t head = id.head - measured_->first_qo_head;
  const int64_t head_dim = measured_->ValueDim(), step_size = measured_->num_qo_heads * head_dim;
  std::vector<float> masses, own, dense;
  std::vector<float> reference(static_cast<size_t>(steps_.count() * head_dim));
  for (int64_t step = 0; step < steps_.count(); ++step) {
    const kernels::DecodeSelection selection =
        kernels::SelectionOfHead(run.selections[static_cast<size_t>(step)], head);
    const kernels::AttentionProblem problem = HeadOfProblem(steps_.Problem(device_->Problem(), step), head);
    const std::vector<int32_t> tokens = kernels::KeptTokens(selection, problem.seq_k);
    masses.push_back(static_cast<float>(steps_.KeptMass(judged_.Get(id), step, tokens)));
    kept += static_cast<int64_t>(tokens.size());
    attended += problem.seq_k;
    kernels::AttentionOutput output;
    output.o = {reference.data() + step * head_dim, head_dim, head_dim, head_dim};
    if (Status status = kernels::DecodeReference(problem, selection, output); !status.ok()) return status;
    const int64_t first = step * step_size + head * head_dim;
    own.insert(own.end(), run.o.begin() + first, run.o.begin() + first + head_dim);
    dense.insert(dense.end(), dense_.o.begin() + first, dense_.o.begin() + first + head_dim);
  }
  const std::vector<int32_t>& positions = judged_.Get(id).row_positions;
  const auto position_of = [&](int64_t step) { return positions[static_cast<size_t>(steps_.Row(step))]; };
  SetKeptRows(masses, options_.keep_rows, position_of, result);
  result->outside_mass = judged_.MeanOutside(id, [this](const HeadTensors& judged) {
    double outside = 0;
    for (int64_t step = 0; step < steps_.count(); ++step) outside += steps_.OutsideMass(judged, step);
    return outside / static_cast<double>(steps_.count());
  });
  result->kept_fraction = static_cast<double>(kept) / static_cast<double>(attended);
  result->kernel_error = MeasureError(own.data(), reference.data(), steps_.count(), measured_->ValueDim()).relative;
  const OutputError error = MeasureError(own.data(), dense.data(), steps_.count(), measured_->ValueDim());
  result->relative_error = error.relative;
  result->max_error = error.maximum;
  result->cosine = error.cosine;
  result->bytes_allow = BytesAllow(run);
  result->select_device = run.select_device;
  result->note = run.note;
  return {};
}

// headscope's dense, the other implementation's where there is one, and reading alone.
Status DecodeComparison::AddBaselines(std::vector<RoundEntry>* entries) {
  if (Status status = PrepareOther(); !status.ok()) return status;
  entries->push_back(DenseEntry());
  if (!other_.empty()) {
    entries->push_back({options_.other_dense.name,
                        [this](double*, double* attend) {
                          const Stopwatch watch;
                          for (const std::unique_ptr<OtherDecode>& step : other_) {
                            if (Status status = step->Run(); !status.ok()) return status;
                          }
                          *attend = watch.Milliseconds() / static_cast<double>(other_.size());
                          return Status{};
                        },
                        {},
                        {}});
  }
  if (CanRead()) {
    entries->push_back(
        {"reading keys and values", [this](double*, double* attend) { return ReadKeysAndValues(attend); }, {}, {}});
  }
  return {};
}

DecodeComparison::Baseline DecodeComparison::ChooseBaseline(const std::vector<RoundEntry>& entries) {
  const Timing own = entries.front().Attend();
  if (!other_.empty()) {
    const Timing other = entries[1].Attend();
    if (other.median_ms < own.median_ms) return {.own = own, .fastest = other, .name = options_.other_dense.name};
  }
  return {.own = own, .fastest = own};
}

void DecodeComparison::Finish(const CheckedMethod& asked, const std::vector<RoundEntry>& entries,
                              MethodResult* result) {
  const size_t reading = other_.empty() ? 1 : 2;
  if (CanRead()) result->dense_of_reading = entries[reading].Attend().median_ms / result->dense_attend.median_ms;
  if (result->speedup > kBytesTolerance * result->bytes_allow)
    AddNote(asked.spec().name + FasterThanItsBytes(*result), result);
  AddNote(NoteOfUsed(*asked.method.decode, asked.values, steps_.Problem(device_->Problem(), 0)), result);
  AddNote(NoteOfMissingHeads(*asked.method.decode, asked.values, *measured_), result);
  AddNote(NoteOfValueNorms(*asked.method.decode, asked.values, *measured_), result);
}

}  // namespace headscope::analysis
