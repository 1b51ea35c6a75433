// SPDX-License-Identifier: Apache-2.0
// Where the benchmark runs: memory, a clock with cold caches, and this device's selectors and executors.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "base/device.h"
#include "kernels/attention_problem.h"
#include "kernels/cuda_tokens.h"
#include "kernels/decode_method.h"
#include "kernels/method.h"
#include "kernels/sparse_index.h"
#include "kernels/status.h"

namespace headscope::app::bench {

// Q, K and V of one problem in a device's memory, and room for O and the LSE. The host keeps none of it.
struct PlacedProblem {
  kernels::AttentionProblem problem;
  kernels::AttentionOutput output;
  kernels::DType output_dtype = kernels::DType::kFloat32;
  // Tokens that the layer lets a row see; 0: all before it. A step's problem has no others, and of a prompt the index
  // is what is cut: the problem itself has no window.
  int32_t window = 0;
  // Of a step: writes the last `rows` queries before it, [batch, num_qo_heads, rows, head_dim] in the problem's dtype,
  // to host memory. Throws CancelledError, and what reading a trace throws.
  std::function<void(int32_t rows, void* out)> prompt_queries;
  std::vector<std::shared_ptr<void>> memory;
};

// One prefill method, ready to run. What it keeps never changes from run to run.
struct PrefillWork {
  std::string variant;           // "", or where it selects if that is not the device
  std::function<void()> select;  // makes the index anew; empty for a given index
  std::function<void()> attend;  // over the index that was made last
  kernels::SparseIndex index;    // on the host, valid
};

// One way to do a decode step; a method may have several.
struct DecodeWork {
  std::string variant;            // "" or what tells it from the others: "one copy of K"
  std::function<void()> prepare;  // before every select, outside its time; may be empty
  std::function<void()> select;   // empty where one launch selects and attends
  std::function<void()> attend;
  int64_t bytes_moved = 0;  // that the step, select and attend together, has to move at least
  bool upkeep = false;      // what a method costs beside its steps; not an attention of its own
};

// Of a step that moves so many elements per KV head, as its selection says (DecodeSelection::elements_moved), or
// kernels/step_elements.h where it has none. The new token's rows, which the elements include, are the append's.
int64_t StepBytes(const kernels::AttentionProblem& problem, int64_t elements_moved);
// The row of a method that chooses from the prompt, once, before the steps: it reads every key of the prompt.
DecodeWork ChoiceFromPrompt(const kernels::AttentionProblem& step, std::function<void()> choose);

class BenchDevice {
 public:
  virtual ~BenchDevice() = default;
  virtual std::string name() const = 0;
  virtual Device device() const = 0;
  // Of what lies between two timed runs.
  virtual std::string cache_policy() const = 0;

  virtual std::shared_ptr<void> Allocate(int64_t bytes) = 0;
  virtual void Upload(const void* host, int64_t bytes, void* device) = 0;
  virtual void Download(const void* device, int64_t bytes, void* host) = 0;
  // Whether host code may use the device's memory in place.
  virtual bool is_host() const = 0;
  // Of executors' outputs.
  virtual kernels::DType OutputType(kernels::DType dtype) const = 0;

  // Evicts what the caches hold, then times `work` (which enqueues on the default stream) from its start on the device
  // to its end there.
  virtual double Milliseconds(const std::function<void()>& work) = 0;

  // Runs `work` again and again, without a pause and with warm caches, for about so many seconds; the mean time of a
  // run in the second half of them, in which the clock has come down to what the power limit allows. Throws
  // CancelledError.
  virtual double SustainedMilliseconds(const std::function<void()>& work, double seconds,
                                       const std::stop_token& stop) = 0;

  // How much K and V decode steps walk over, place after place as a model does over its layers, so that no step finds
  // in the caches what another one read; 0: Milliseconds() sees to that and one place will do.
  virtual int64_t walk_bytes() const { return 0; }
  // Reads as many bytes as `bytes`, of the problem's K and V, and does nothing else: the ceiling of a decode step that
  // moves as many. Empty where the ceiling is the copy's rate.
  virtual std::function<void()> Read(const PlacedProblem&, int64_t) { return {}; }

  // A prefill problem over a given index, or over that which a method makes. The problem must outlive the work.
  virtual PrefillWork Attend(const PlacedProblem& placed, kernels::SparseIndex index) = 0;
  // The same over a given index with Q, K and V in FP8: `select` quantises them, anew each time. Throws UsageError
  // where the device has no such executor.
  virtual PrefillWork AttendFp8(const PlacedProblem& placed, kernels::SparseIndex index);
  // Attention over chosen tokens, whose pointers are the device's. Throws UsageError where the device has no such
  // executor.
  virtual std::function<void()> AttendTokens(const kernels::TokenAttention& attention);
  virtual PrefillWork SelectAndAttend(const PlacedProblem& placed, const kernels::PrefillMethod& method,
                                      const kernels::ParameterValues& values) = 0;
  // A decode step (problem.seq_q == 1). A method that this device cannot choose for chooses on the CPU, and its variant
  // says so.
  virtual std::vector<DecodeWork> Decode(const PlacedProblem& placed, const kernels::DecodeMethod& method,
                                         const kernels::ParameterValues& values) = 0;
};

struct DeviceOptions {
  int32_t num_threads = 0;  // of the CPU; 0: all cores
  std::stop_token stop = {};
};

std::unique_ptr<BenchDevice> MakeCpuDevice(const DeviceOptions& options);
// On the calling thread's GPU (kernels/cuda_devices.h). Throws DeviceError when there is no usable GPU or this
// build has no CUDA.
std::unique_ptr<BenchDevice> MakeCudaDevice(const DeviceOptions& options);

}  // namespace headscope::app::bench
