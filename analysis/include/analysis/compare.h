// SPDX-License-Identifier: Apache-2.0
// Runs methods on a head: what the mask keeps (fast, follows a slider), and the measured run beside dense.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/head_tensors.h"
#include "analysis/measured_heads.h"
#include "analysis/types/comparison.h"
#include "analysis/types/kept_steps.h"
#include "base/device.h"
#include "kernels/decode_method.h"
#include "kernels/method.h"
#include "kernels/sparse_index.h"

namespace headscope::analysis {

struct ProbabilityRows;
using VisitProbabilities = std::function<void(const ProbabilityRows& rows, int32_t worker)>;

// The mass of every recorded row by blocks of columns, computed once when a head is opened (cost: one pass over its
// scores); after that the kept mass of an index costs only its single columns and the ragged edges of its runs. Exact:
// a block that the index cuts is evaluated column by column, by what is kept or by what is dropped, whichever is less.
// At most 64 MiB per head. A head on the GPU needs no blocks: block_columns() is 0, and every kept pair is evaluated
// there.
class HeadMass {
 public:
  // nullptr when cancelled. visit (compare/probability_pass.h), unless empty, sees every probability in the same pass;
  // on a GPU's head that pass is the CPU's, and there is none without it.
  static std::shared_ptr<const HeadMass> Compute(HeadTensorsPtr head, int32_t num_threads, const std::stop_token& stop,
                                                 const VisitProbabilities& visit = {});

  const HeadTensors& head() const { return *head_; }
  int32_t block_columns() const { return block_columns_; }
  // As the function below.
  kernels::Status KeptMass(const kernels::SparseIndexView& index, int32_t num_threads, const std::stop_token& stop,
                           std::vector<float>* mass) const;

 private:
  HeadMass() = default;
  HeadTensorsPtr head_;
  int32_t block_columns_ = 0;
  int64_t num_blocks_ = 0;
  std::vector<float> block_mass_;  // [num_rows, num_blocks]
};

// Kept mass of every recorded row under an index: mass[row] = sum over kept columns of exp(score - lse). Streaming,
// exact; evaluates every kept pair. Errors: an index whose rows or columns are not the head's; cancelled.
kernels::Status KeptMass(const HeadTensors& head, const kernels::SparseIndexView& index, int32_t num_threads,
                         const std::stop_token& stop, std::vector<float>* mass);

struct MaskPreview {
  MaskSummary summary;
  std::shared_ptr<const kernels::SparseIndex> index;
  int32_t window = 0;            // the head's own, which the index lies inside; 0: none
  std::vector<float> kept_mass;  // per recorded row
};
// Selects and sums; never runs attention. Prefill methods. On a head with a window of the model's own, the mask is what
// the method keeps inside it. Errors name the head and the reason (such as rows that are
// not contiguous).
kernels::Status PreviewMask(const HeadTensors& head, const kernels::PrefillMethod& method,
                            const kernels::ParameterValues& values, int32_t num_threads, const std::stop_token& stop,
                            MaskPreview* preview);
// The same, for a head whose mass is kept while it is open: what a slider calls.
kernels::Status PreviewMask(const HeadMass& mass, const kernels::PrefillMethod& method,
                            const kernels::ParameterValues& values, int32_t num_threads, const std::stop_token& stop,
                            MaskPreview* preview);

struct DecodePreview {
  MaskSummary summary;  // over the steps; select_ms is one step's
  KeptStepsPtr steps;
  std::vector<float> kept_mass;                                // per step
  kernels::ChosenPer chosen_per = kernels::ChosenPer::kPlace;  // as in MethodResult
};
// What a decode method keeps of `head`, which `measured` holds, on the last `decode_rows` recorded rows (all, when
// there are fewer), one generation step each, as a LayerComparison of those heads runs it: its group of query heads is
// enough, since no choice goes beyond one. Attention itself is not run. Errors: heads without a row that has its own
// key; the method's own; cancelled.
kernels::Status PreviewDecode(const MeasuredHeads& measured, HeadId head, const kernels::DecodeMethod& method,
                              const kernels::ParameterValues& values, int32_t decode_rows, int32_t num_threads,
                              const std::stop_token& stop, DecodePreview* preview);

// Whether the method runs on the last `decode_rows` recorded rows of these heads: kUnsupported, with the reason, where
// it wants what is not there (queries before RoPE, a lower layer's choice, the rows before the first step). Costs the
// selection of that step: more steps leave a shorter prompt, and fewer of its rows.
kernels::Status CheckDecodeRuns(const MeasuredHeads& measured, const kernels::DecodeMethod& method,
                                const kernels::ParameterValues& values, int32_t decode_rows, int32_t num_threads,
                                const std::stop_token& stop);

// How far a measured run is.
struct RepeatProgress {
  std::string_view method;  // "dense" while the baseline is measured
  kernels::Phase phase = kernels::Phase::kPrefill;
  int32_t repeat = 0;   // the one that begins, 1 to repeats; 0: the one that warms up
  int32_t repeats = 0;  // as many as there are to be; a short stretch goes on, and it grows with `repeat`
};

// Dense decode of another implementation on one step, ready to run any number of times on the CPU.
class OtherDecode {
 public:
  virtual ~OtherDecode() = default;
  virtual kernels::Status Run() = 0;
};
struct OtherDense {
  std::string name;  // empty: there is none
  // `step` outlives what is made.
  std::function<kernels::Status(const kernels::AttentionProblem& step, std::unique_ptr<OtherDecode>* made)> make;
};

struct CompareOptions {
  int32_t repeats = 5;
  // On the CPU, repeats go on until all together have taken this long, milliseconds: of repeats that are over in a few,
  // what else the machine does in that moment would decide the median.
  double least_ms = 0;
  int32_t num_threads = 0;
  // On a GPU, a prefill method whose selector the GPU does not have for this head selects on the CPU: the result's
  // select_device and note say so.
  Device device = kCpu;
  int32_t decode_rows = 16;  // decode methods run on this many last recorded rows, one step each
  bool keep_rows = false;    // MethodResult::kept_mass
  // Timed in turn with headscope's own dense decode on the CPU; the faster of both is the baseline.
  OtherDense other_dense = {};
  std::stop_token stop = {};
  // Called before a repeat begins, outside the times, on the thread that runs the method. May be empty.
  std::function<void(const RepeatProgress&)> progress = {};

  void Report(const RepeatProgress& repeat) const {
    if (progress) progress(repeat);
  }
};

// A method as it was asked for, by its unique name.
struct AskedMethod {
  std::string name;
  kernels::ParameterValues values;
  friend bool operator==(const AskedMethod&, const AskedMethod&) = default;
};

// `heads`, and beside them what the trace has of the lower layers whose choices these methods take there
// (WithLowerLayers): what everything is given that runs decode methods on recorded heads. Throws as LoadHead.
MeasuredHeadsPtr WithLayersBelow(const data::TraceReader& trace, const MeasuredHeadsPtr& heads,
                                 const std::vector<AskedMethod>& methods);

// Methods beside dense attention on heads that are attended together.
//
// Every repeat is a round: it runs dense and every method once, in an order that changes from round to round, so that
// what else happens on the machine meets all of them. Prefill methods and decode methods have rounds of their own. A
// prefill baseline that takes long is measured by the first call and pinned: later calls take its times.
class LayerComparison {
 public:
  LayerComparison(MeasuredHeadsPtr measured, const CompareOptions& options);
  ~LayerComparison();
  // From the next Run on this stops it, in place of CompareOptions::stop.
  void StopBy(std::stop_token stop);
  // Measures `methods` once and judges each of `heads` (MeasuredHeads::Holds them): results[head * methods + method].
  // Errors: unknown name or parameter (with the known ones), heads or a method that the device does not take
  // (kUnsupported), no GPU or too little memory there, cancelled. *results is then unchanged.
  kernels::Status Run(const std::vector<AskedMethod>& methods, const std::vector<HeadId>& heads,
                      std::vector<MethodResult>* results);
  // How often the first Run of these methods calls options.progress, unless options.least_ms lengthens it; 0 for
  // methods that Run refuses.
  int64_t NumRuns(const std::vector<AskedMethod>& methods) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// One head by itself, method by method.
class HeadComparison {
 public:
  HeadComparison(HeadTensorsPtr head, const CompareOptions& options);
  kernels::Status Run(const std::string& method, const kernels::ParameterValues& values, MethodResult* result);

 private:
  const HeadId head_;
  LayerComparison comparison_;
};

}  // namespace headscope::analysis
