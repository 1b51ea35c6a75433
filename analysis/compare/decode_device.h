// Where decode methods run on one head: the CPU, or the GPU.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "analysis/compare.h"
#include "compare/decode_steps.h"
#include "kernels/method.h"
#include "kernels/status.h"

namespace headscope::analysis {

// What a method made of a head's steps, and how long that took.
struct DecodeRun {
  std::vector<kernels::DecodeSelection> selections;  // per step, in tokens of its problem
  std::vector<float> o;                              // [steps, head_dim]
  // Of every timed repeat, per step: the mean over the steps. A device whose kernel selects and attends in one launch
  // counts all of it as attending.
  std::vector<double> select_ms, attend_ms;
  std::string select_device;  // "cpu", or the GPU's name
  std::string note;           // what a reader of the numbers must know beside them; else empty
};

class DecodeDevice {
 public:
  virtual ~DecodeDevice() = default;
  // "cpu", or the GPU's name.
  virtual const std::string& name() const = 0;
  // The whole head as this device computes it, in host memory (the GPU's is in 16 bits).
  virtual kernels::AttentionProblem Problem() const = 0;
  // One run of every step that warms up and makes the output, then the timed ones.
  virtual kernels::Status Run(const kernels::DecodeMethod& method, const kernels::ParameterValues& values,
                              DecodeRun* run) = 0;
};

// By options.device, "cpu" or "cuda". `steps` outlives the device. Errors: another word; no GPU; too little memory
// there.
kernels::Status MakeDecodeDevice(HeadTensorsPtr head, const DecodeSteps& steps, const CompareOptions& options,
                                 std::unique_ptr<DecodeDevice>* made);
// The GPU's alone (gpu_decode.cpp; a build without CUDA refuses).
kernels::Status MakeGpuDecode(HeadTensorsPtr head, const DecodeSteps& steps, const CompareOptions& options,
                              std::unique_ptr<DecodeDevice>* made);

}  // namespace headscope::analysis
