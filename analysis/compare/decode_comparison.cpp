// SPDX-License-Identifier: Apache-2.0
#include "compare/decode_comparison.h"

#include <cmath>
#include <cstdio>
#include <utility>

#include "analysis/types/mass_distribution.h"
#include "compare/chosen_per.h"
#include "compare/head_of_problem.h"
#include "compare/mask_quality.h"
#include "compare/output_error.h"
#include "compare/rounds.h"
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
  char text[96];
  if (!std::isnan(result.dense_of_reading)) {
    std::snprintf(text, sizeof text, "dense decode itself ran at %.0f %% of the rate at which its bytes can be read",
                  100 * result.dense_of_reading);
    why = text;
  }
  std::snprintf(text, sizeof text, " reads %.1f times fewer bytes than dense decode", result.bytes_allow);
  return text + (" and is faster than that allows: " + why);
}

}  // namespace

DecodeComparison::DecodeComparison(MeasuredHeadsPtr measured, const CompareOptions& options)
    : measured_(std::move(measured)),
      options_(options),
      steps_(*measured_, {measured_->layer, measured_->first_qo_head}, options.decode_rows),
      judged_(measured_, HeadPlace::kCpu) {}

Status DecodeComparison::PrepareDense(HeadId asked) {
  if (Status status = steps_.Check(asked); !status.ok()) return status;
  if (!dense_.o.empty()) return {};
  if (device_ == nullptr) {
    if (Status status = MakeDecodeDevice(measured_, steps_, options_, &device_); !status.ok()) return status;
  }
  const kernels::DecodeMethod& dense = kernels::DecodeBaseline();
  static const kernels::ParameterValues kNoValues(dense.spec());
  options_.Report({dense.spec().name, "decode", 0, options_.repeats});
  Status status = device_->Prepare(dense, kNoValues, &dense_, &dense_work_);
  if (!status.ok()) dense_ = {};
  return status;
}

Status DecodeComparison::PrepareOther() {
  const bool wanted = options_.device == "cpu" && !options_.other_dense.name.empty() && measured_->soft_cap == 0 &&
                      measured_->sinks.empty() && measured_->ValueDim() == measured_->head_dim;
  if (!wanted || !other_.empty()) return {};
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
  const kernels::AttentionProblem problem = device_->Problem();
  return device_->name() == "cpu" && problem.k.row_stride == problem.head_dim &&
         problem.v.row_stride == problem.head_dim;
}

Status DecodeComparison::ReadKeysAndValues(double* milliseconds) {
  const kernels::RunOptions run{.num_threads = options_.num_threads, .cancelled = options_.cancelled};
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
  double outside = 0;
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
    outside += steps_.OutsideMass(judged_.Get(id), step);
    kept += static_cast<int64_t>(tokens.size());
    attended += problem.seq_k;
    kernels::AttentionOutput output;
    output.o = {reference.data() + step * head_dim, head_dim, head_dim, head_dim};
    if (Status status = kernels::DecodeReference(problem, selection, output); !status.ok()) return status;
    const int64_t first = step * step_size + head * head_dim;
    own.insert(own.end(), run.o.begin() + first, run.o.begin() + first + head_dim);
    dense.insert(dense.end(), dense_.o.begin() + first, dense_.o.begin() + first + head_dim);
  }
  SetKeptMass(DistributeMass(masses), result);
  result->num_rows = steps_.count();
  result->outside_mass = outside / static_cast<double>(steps_.count());
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

Status DecodeComparison::Run(const std::vector<CheckedMethod>& methods, const std::vector<HeadId>& heads,
                             std::vector<MethodResult>* results) {
  if (heads.empty()) return {};
  if (Status status = PrepareDense(heads.front()); !status.ok()) return status;
  if (Status status = PrepareOther(); !status.ok()) return status;
  std::vector<RoundEntry> entries;
  entries.push_back({kernels::DecodeBaseline().spec().name,
                     [this](double* select, double* attend) { return dense_work_->Once(select, attend); },
                     {},
                     {}});
  if (!other_.empty()) {
    entries.push_back({options_.other_dense.name,
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
  const size_t num_baselines = entries.size();
  const size_t reading = entries.size();
  if (CanRead()) {
    entries.push_back(
        {"reading keys and values", [this](double*, double* attend) { return ReadKeysAndValues(attend); }, {}, {}});
  }
  const bool reads = entries.size() > reading;
  std::vector<DecodeRun> runs(methods.size());  // the works write into them, so they stay where they are
  std::vector<std::unique_ptr<DecodeWork>> works;
  std::vector<size_t> entry_of(methods.size());
  for (size_t m = 0; m < methods.size(); ++m) {
    const CheckedMethod& asked = methods[m];
    if (asked.method.decode == nullptr) continue;
    if (!asked.IsBaseline()) {
      options_.Report({asked.spec().name, "decode", 0, options_.repeats});
      std::unique_ptr<DecodeWork> work;
      if (Status status = device_->Prepare(*asked.method.decode, asked.values, &runs[m], &work); !status.ok())
        return status;
      entry_of[m] = entries.size();
      entries.push_back({asked.spec().name,
                         [work = work.get()](double* select, double* attend) { return work->Once(select, attend); },
                         {},
                         {}});
      works.push_back(std::move(work));
    }
    for (size_t h = 0; h < heads.size(); ++h) {
      Status status = Judge(asked.IsBaseline() ? dense_ : runs[m], heads[h], &(*results)[h * methods.size() + m]);
      if (!status.ok()) return status;
    }
  }
  if (Status status = RunRounds(options_, "decode", &entries); !status.ok()) return status;

  const Timing own_dense = entries.front().Attend();
  Timing dense = own_dense;
  std::string baseline = "headscope";
  if (num_baselines > 1 && entries[1].Attend().median_ms < own_dense.median_ms) {
    dense = entries[1].Attend();
    baseline = options_.other_dense.name;
  }
  for (size_t m = 0; m < methods.size(); ++m) {
    const CheckedMethod& asked = methods[m];
    if (asked.method.decode == nullptr) continue;
    for (size_t h = 0; h < heads.size(); ++h) {
      MethodResult& result = (*results)[h * methods.size() + m];
      result.phase = "decode";
      result.is_baseline = asked.IsBaseline();
      result.device = device_->name();
      result.chosen_per = ChosenPer(*asked.method.decode, *measured_);
      result.baseline = baseline;
      result.dense_attend = dense;
      result.attend = asked.IsBaseline() ? own_dense : entries[entry_of[m]].Attend();
      if (!asked.IsBaseline()) result.select = entries[entry_of[m]].Select();
      result.speedup = Speedup(result);
      if (reads) result.dense_of_reading = entries[reading].Attend().median_ms / dense.median_ms;
      if (result.speedup > kBytesTolerance * result.bytes_allow)
        AddNote(asked.spec().name + FasterThanItsBytes(result), &result);
    }
  }
  return {};
}

}  // namespace headscope::analysis
