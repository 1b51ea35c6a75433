// SPDX-License-Identifier: Apache-2.0
#include "bench/runner.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>

#include "base/errors.h"
#include "base/stop.h"
#include "bench/latent_tokens.h"
#include "bench/placed_problem.h"
#include "kernels/step_elements.h"
#include "model/ceilings.h"
#include "model/reference_attention.h"
#include "support/listed.h"
#include "support/reference_problem.h"

namespace headscope::app::bench {
namespace {

// bf16's rounding of O alone gives 2e-3.
constexpr double kMostDisagreement = 1e-2;

// One row of a section while it is measured.
struct Case {
  Row row;
  // One of each per place that the section's steps walk over; all but `attend` may be empty.
  std::vector<std::function<void()>> prepare, select, attend, read;
  std::vector<double> select_ms, attend_ms, total_ms, read_ms;

  void Close() {
    row.select_ms = Summarize(select_ms);
    row.attend_ms = Summarize(attend_ms);
    row.total_ms = select.empty() ? row.attend_ms : Summarize(total_ms);
    row.read_ms = Summarize(read_ms);
  }
};

using Places = std::vector<std::unique_ptr<const PlacedProblem>>;

class Runner {
 public:
  Runner(const RunnerOptions& options, BenchDevice& device) : options_(options), device_(device) {}

  Report Run(const std::vector<Group>& groups) {
    report_.device_kind = device_.is_host() ? DeviceKind::kCpu : DeviceKind::kCuda;
    report_.device_name = device_.name();
    report_.cache_policy = device_.cache_policy();
    report_.reference_name = device_.is_host() ? "LibTorch's CPU kernel" : "cuDNN, through LibTorch";
    report_.reference_short = device_.is_host() ? "LibTorch" : "cuDNN";
    report_.repeats = options_.repeats;
    try {
      MeasureCeilings(groups.front().dtype);
      for (const Group& group : groups) RunGroup(group);
    } catch (const CancelledError&) {
      report_.interrupted = true;
    }
    return std::move(report_);
  }

 private:
  void StopIfInterrupted() const { StopIfAsked(options_.stop); }

  double Time(const std::function<void()>& work) {
    StopIfInterrupted();
    return device_.Milliseconds(work);
  }

  void Measure(model::Ceiling& work, Ceiling* ceiling) {
    constexpr int kWarmUp = 2;
    // Enough for a median; the workloads' repeats may be many.
    const int total = kWarmUp + std::clamp(options_.repeats, 3, 15);
    std::vector<double> times;
    try {
      for (int i = 0; i < total; ++i) {
        const double ms = Time([&] { work.Run(); });
        if (i >= kWarmUp) times.push_back(ms);
        options_.progress("roofline: " + ceiling->name, i + 1, total);
      }
    } catch (const CancelledError&) {
      report_.interrupted = true;
    }
    ceiling->ms = Summarize(times);
    if (report_.interrupted) ThrowStopped();
  }

  // As many as were asked for, and fewer where a product would take longer than half a second: a CPU without AVX-512
  // multiplies bf16 a number at a time, a thousand times slower than others.
  int64_t ProductRows(kernels::DType dtype) {
    constexpr int64_t kTrial = 256;
    constexpr double kMostMs = 500;
    if (!device_.is_host() || options_.product_rows <= kTrial) return options_.product_rows;
    const auto trial = model::MakeMatrixProduct(kTrial, ElementTypeOf(dtype), device_.device(), options_.num_threads);
    Time([&] { trial->Run(); });  // the first begins threads
    const double ms = Time([&] { trial->Run(); });
    const auto fits = static_cast<int64_t>(static_cast<double>(kTrial) * std::cbrt(kMostMs / std::max(ms, 1e-6)));
    return std::clamp(fits / kTrial * kTrial, kTrial, options_.product_rows);
  }

  void MeasureCeilings(kernels::DType dtype) {
    const int64_t size = ProductRows(dtype);
    const auto rows = static_cast<double>(size);
    report_.product = {.name = "matrix product", .size = size, .work = 2 * rows * rows * rows, .ms = {}};
    Measure(*model::MakeMatrixProduct(size, ElementTypeOf(dtype), device_.device(), options_.num_threads),
            &report_.product);
    // Host memory is read faster than it is copied, and faster still where less is read: each decode row there has a
    // ceiling of its own.
    if (device_.is_host()) return;
    report_.copy = {
        .name = "copy", .size = options_.copy_bytes, .work = 2 * static_cast<double>(options_.copy_bytes), .ms = {}};
    Measure(*model::MakeCopy(options_.copy_bytes, device_.device(), options_.num_threads), &report_.copy);
  }

  void RunGroup(const Group& group) {
    std::vector<const Workload*> prefill, decode, latent;
    for (const Workload& workload : group.workloads) {
      if (workload.latent_tokens > 0) {
        latent.push_back(&workload);
      } else {
        (workload.decode != nullptr ? decode : prefill).push_back(&workload);
      }
    }
    if (!prefill.empty()) RunSection(group, group.shape, prefill, /*is_decode=*/false);
    if (!decode.empty()) {
      kernels::SeededProblem step = group.shape;
      step.seq_q = 1;
      RunSection(group, step, decode, /*is_decode=*/true);
    }
    if (!latent.empty()) RunLatent(group, latent);
  }

  // Of attention over chosen tokens: a problem of its own, which no attention of LibTorch's takes.
  void RunLatent(const Group& group, const std::vector<const Workload*>& workloads) {
    const std::string stage = "chosen tokens at " + std::to_string(group.shape.seq_k) + " tokens";
    options_.progress(stage, 0, 1);
    Section section{.shape = LatentShape(group.shape),
                    .dtype = std::string(NameOf(ElementTypeOf(group.dtype))),
                    .v_head_dim = kernels::kLatentValueDim,
                    .rows = {},
                    .data = kernels::RecipeOf(group.shape)};
    std::vector<Case> cases(1);
    Row& reference = cases.front().row;
    reference.kind = RowKind::kReference;
    reference.method = "dense, LibTorch";
    reference.variant = "which has no values of another head_dim";
    reference.source = "libtorch";
    std::vector<LatentWork> works;
    for (const Workload* workload : workloads) {
      StopIfInterrupted();
      works.push_back(MakeLatentWork(device_, section.shape, workload->latent_tokens,
                                     {.num_threads = options_.num_threads, .stop = options_.stop}));
      Case& one = cases.emplace_back();
      NameRow(*workload, &one.row);
      one.row.kept_pairs = works.back().kept_pairs;
      one.row.dense_pairs = works.back().dense_pairs;
      one.row.errors = works.back().errors;
      one.attend.push_back(works.back().attend);
    }
    cases.front().row.kept_pairs = cases.front().row.dense_pairs = works.front().dense_pairs;
    TimeSection(stage, std::move(section), &cases);
  }

  void RunSection(const Group& group, const kernels::SeededProblem& shape,
                  const std::vector<const Workload*>& workloads, bool is_decode) {
    const std::string stage = (is_decode ? "decode at " : "prefill at ") + std::to_string(shape.seq_k) + " tokens";
    options_.progress(stage, 0, 1);
    const Places places = MakePlaces(group, shape, is_decode);
    const PlacedProblem& placed = *places.front();
    std::vector<std::unique_ptr<model::ReferenceAttention>> references;
    const std::string lacks = ReferenceLacks(placed);
    for (const auto& place : places) {
      if (lacks.empty()) references.push_back(MakeReference(*place));
    }
    Section section{.decode = is_decode,
                    .shape = shape,
                    .dtype = std::string(NameOf(ElementTypeOf(group.dtype))),
                    .places = static_cast<int>(places.size()),
                    .rows = {},
                    .data = group.trace != nullptr ? group.trace->name() : kernels::RecipeOf(shape)};
    if (placed.problem.ValueDim() != shape.head_dim) section.v_head_dim = placed.problem.ValueDim();
    std::vector<Case> cases{ReferenceCase(placed, references, is_decode)};
    if (!lacks.empty()) cases.front().row.variant = "which has no " + lacks;
    for (const Workload* workload : workloads) {
      StopIfInterrupted();
      const size_t first = cases.size();
      if (is_decode) {
        AddDecode(places, *workload, &cases);
      } else {
        AddPrefill(group, placed, *workload, &cases);
      }
      if (IsDense(*workload)) {
        CompareDense(placed, references.empty() ? nullptr : references.front().get(), cases[first].attend.front(),
                     &section);
        cases[first].row.own_dense = true;
      }
    }
    if (is_decode) AddReads(places, &cases);
    TimeSection(stage, std::move(section), &cases);
  }

  void TimeSection(const std::string& stage, Section section, std::vector<Case>* cases) {
    // Rows without a single repeat say nothing: a section counts from its first full round on.
    try {
      Repeat(stage, cases);
      if (options_.sustained_seconds > 0) Sustain(stage, cases);
    } catch (const CancelledError&) {
      report_.interrupted = true;
    }
    for (Case& one : *cases) {
      one.Close();
      if (one.row.total_ms.repeats > 0 || one.attend.empty()) section.rows.push_back(std::move(one.row));
    }
    if (std::ranges::any_of(section.rows, [](const Row& row) { return row.total_ms.repeats > 0; }))
      report_.sections.push_back(std::move(section));
    if (report_.interrupted) ThrowStopped();
  }

  void Repeat(const std::string& stage, std::vector<Case>* cases) {
    const auto total = static_cast<int64_t>(cases->size()) * (options_.repeats + 1);
    int64_t done = 0;
    std::mt19937 random(1);
    std::vector<size_t> order(cases->size());
    std::iota(order.begin(), order.end(), size_t{0});
    for (int32_t round = 0; round <= options_.repeats; ++round) {
      std::shuffle(order.begin(), order.end(), random);
      for (const size_t i : order) {
        TimeOnce(/*counted=*/round > 0, &(*cases)[i]);
        options_.progress(stage, ++done, total);
      }
    }
  }

  void Sustain(const std::string& stage, std::vector<Case>* cases) {
    int64_t done = 0;
    for (Case& one : *cases) {
      const size_t places = one.attend.size();
      if (places == 0) continue;
      for (const auto& prepare : one.prepare) prepare();
      const double ms = device_.SustainedMilliseconds(
          [&] {
            for (size_t place = 0; place < places; ++place) {
              if (!one.select.empty()) one.select[place]();
              one.attend[place]();
            }
          },
          options_.sustained_seconds, options_.stop);
      one.row.sustained_ms = ms / static_cast<double>(places);
      options_.progress(stage + ", without a pause", ++done, static_cast<int64_t>(cases->size()));
    }
  }

  // A prompt has one place. A decode step is short: one sample is a walk over as much K and V as the device asks for.
  Places MakePlaces(const Group& group, const kernels::SeededProblem& shape, bool is_decode) {
    constexpr int64_t kMostPlaces = 64;
    const int64_t bytes = 2 * kernels::ElementCount(shape, kernels::SeededTensor::kKey) * kernels::SizeOf(group.dtype);
    const int64_t wanted = is_decode ? (device_.walk_bytes() + bytes - 1) / bytes : 1;
    Places places;
    for (int64_t i = 0; i < std::clamp<int64_t>(wanted, 1, kMostPlaces); ++i) {
      places.push_back(Place(device_, shape, group.dtype, {.num_threads = options_.num_threads, .stop = options_.stop},
                             group.trace.get()));
    }
    return places;
  }

  void TimeOnce(bool counted, Case* one) {
    using Functions = std::vector<std::function<void()>>;
    const size_t places = one->attend.size();
    const auto time = [&](const Functions& first, const Functions& second, std::vector<double>* figures) {
      if (first.empty()) return;
      if (&first == &one->select) {
        for (const auto& prepare : one->prepare) prepare();
      }
      const double ms = Time([&] {
        for (size_t place = 0; place < places; ++place) {
          first[place]();
          if (!second.empty()) second[place]();
        }
      });
      if (counted) figures->push_back(ms / static_cast<double>(places));
    };
    time(one->read, {}, &one->read_ms);
    time(one->select, {}, &one->select_ms);
    time(one->attend, {}, &one->attend_ms);
    time(one->select, one->attend, &one->total_ms);
  }

  // What the layer has that LibTorch's fused attention does not; empty: nothing.
  static std::string ReferenceLacks(const PlacedProblem& placed) {
    const kernels::AttentionProblem& problem = placed.problem;
    std::vector<std::string> lacks;
    if (problem.ValueDim() != problem.head_dim) lacks.push_back("values of another head_dim");
    if (placed.window > 0 && problem.seq_q > 1) lacks.push_back("window");
    if (problem.soft_cap != 0) lacks.push_back("soft cap");
    if (problem.sinks != nullptr) lacks.push_back("sinks");
    return Listed(lacks);
  }

  std::unique_ptr<model::ReferenceAttention> MakeReference(const PlacedProblem& placed) const {
    model::ReferenceAttentionProblem problem = ReferenceProblem(placed.problem);
    problem.on_device = true;
    problem.dtype = ElementTypeOf(placed.problem.dtype);
    return model::MakeReferenceAttention(problem, device_.device(), options_.num_threads);
  }

  static Case ReferenceCase(const PlacedProblem& placed,
                            const std::vector<std::unique_ptr<model::ReferenceAttention>>& references, bool is_decode) {
    const kernels::AttentionProblem& problem = placed.problem;
    Case one;
    one.row.kind = RowKind::kReference;
    one.row.method = "dense, LibTorch";
    one.row.source = "libtorch";
    for (const auto& reference : references) one.attend.push_back([&reference] { reference->Run(); });
    if (is_decode) {
      one.row.bytes_moved = StepBytes(problem, kernels::ElementsOfTokens(problem, problem.seq_k));
    } else {
      one.row.kept_pairs = one.row.dense_pairs = DensePairs(placed);
    }
    return one;
  }

  // Pairs that the rows of a prompt see.
  static int64_t DensePairs(const PlacedProblem& placed) {
    const kernels::AttentionProblem& problem = placed.problem;
    const int64_t rows = problem.seq_k, window = placed.window > 0 ? placed.window : rows;
    return int64_t{problem.batch} * problem.num_qo_heads * (window * (window + 1) / 2 + (rows - window) * window);
  }

  static bool IsDense(const Workload& workload) {
    if (workload.decode != nullptr) return workload.decode->spec().baseline;
    return workload.saved == nullptr && workload.prefill == nullptr && !workload.fp8 &&
           workload.fixed.pattern == kernels::FixedSet::Pattern::kDense;
  }

  static void NameRow(const Workload& workload, Row* row) {
    row->method = workload.name;
    row->parameters = workload.parameters;
    row->source = workload.source();
  }

  void AddPrefill(const Group& group, const PlacedProblem& placed, const Workload& workload, std::vector<Case>* cases) {
    const kernels::SeededProblem& shape = group.shape;
    PrefillWork work;
    if (workload.prefill != nullptr) {
      work = device_.SelectAndAttend(placed, *workload.prefill, workload.values);
    } else if (workload.saved != nullptr) {
      work = device_.Attend(placed, *workload.saved);
    } else {
      kernels::SparseIndex index =
          kernels::MakeFixedIndex(workload.fixed, shape.batch, shape.num_qo_heads, shape.seq_k, shape.seed);
      work = workload.fp8 ? device_.AttendFp8(placed, std::move(index)) : device_.Attend(placed, std::move(index));
    }
    if (options_.save_index && !workload.fp8) options_.save_index(group, workload, work.index);
    const kernels::PairCount pairs = kernels::CountPairs(work.index.View());
    Case one;
    NameRow(workload, &one.row);
    one.row.variant = work.variant;
    one.row.kept_pairs = pairs.kept;
    one.row.dense_pairs = placed.window > 0 ? DensePairs(placed) : pairs.dense;
    if (workload.fp8) {
      one.row.in_16_bits = workload.name.substr(workload.name.find('/') + 1);
      work.attend();
      const ExactRows exact(device_, placed, options_.num_threads, options_.stop, &work.index);
      one.row.errors = exact.ErrorsOf(ReadFirstHead(device_, placed));
    }
    if (work.select) one.select.push_back(std::move(work.select));
    one.attend.push_back(std::move(work.attend));
    cases->push_back(std::move(one));
  }

  void AddDecode(const Places& places, const Workload& workload, std::vector<Case>* cases) {
    const size_t first = cases->size();
    for (const auto& place : places) {
      size_t variant = first;
      for (DecodeWork& work : device_.Decode(*place, *workload.decode, workload.values)) {
        if (variant == cases->size()) {
          Case& one = cases->emplace_back();
          NameRow(workload, &one.row);
          one.row.kind = work.upkeep ? RowKind::kUpkeep : RowKind::kMethod;
          one.row.variant = work.variant;
          one.row.bytes_moved = work.bytes_moved;
        }
        Case& one = (*cases)[variant++];
        if (work.prepare) one.prepare.push_back(std::move(work.prepare));
        if (work.select) one.select.push_back(std::move(work.select));
        one.attend.push_back(std::move(work.attend));
      }
    }
  }

  void AddReads(const Places& places, std::vector<Case>* cases) {
    for (Case& one : *cases) {
      if (one.row.kind == RowKind::kUpkeep || one.attend.empty()) continue;
      for (const auto& place : places) {
        std::function<void()> read = device_.Read(*place, one.row.bytes_moved);
        if (read) one.read.push_back(std::move(read));
      }
    }
  }

  // reference: null where LibTorch has no such attention; float64 then judges alone.
  void CompareDense(const PlacedProblem& placed, model::ReferenceAttention* reference,
                    const std::function<void()>& attend, Section* section) {
    const kernels::AttentionProblem& problem = placed.problem;
    attend();
    const std::vector<float> ours = ReadFirstHead(device_, placed);
    const ExactRows exact(device_, placed, options_.num_threads, options_.stop);
    section->dense_errors = exact.ErrorsOf(ours);
    double distance = section->dense_errors.all;
    if (reference != nullptr) {
      std::vector<float> expected(ours.size());
      reference->Run();
      reference->ReadOutput(problem.seq_q, expected.data());
      distance = section->dense_disagreement = RelativeDistance(ours, expected);
      section->reference_errors = exact.ErrorsOf(expected);
    }
    if (!(distance <= kMostDisagreement)) {
      throw FailedError(
          {.problem = "our dense output is at a relative distance of " + std::to_string(distance) + " from " +
                      (reference != nullptr ? report_.reference_name + "'s" : std::string("float64's")) + " at " +
                      std::to_string(problem.seq_k) + " tokens, and times of different results are not compared",
           .remedy = "please report this"});
    }
  }

  const RunnerOptions& options_;
  BenchDevice& device_;
  Report report_;
};

}  // namespace

Report RunBenchmark(const std::vector<Group>& groups, const RunnerOptions& options, BenchDevice& device) {
  return Runner(options, device).Run(groups);
}

}  // namespace headscope::app::bench
