// SPDX-License-Identifier: Apache-2.0
// A trace for each of many prompts, in a folder, by a model that is loaded once, with a manifest of what is done.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "base/errors.h"
#include "base/progress.h"
#include "capture/capture.h"

namespace headscope::capture {

struct BatchRequest {
  // What every capture has in common. output_path: the folder, made where it is not there; it has no prompt.
  CaptureRequest common;
  std::string prompts_file;  // prompt_lines.h
  // Goes on with a folder whose manifest is of the same prompts, model and request: what is whole there stays.
  bool resume = false;
};

struct BatchResult {
  std::string manifest_path;
  int64_t num_prompts = 0, num_done = 0;  // done: those of earlier runs too
  int64_t num_tokens = 0, bytes = 0;      // of this run's traces
  double seconds = 0;
  bool interrupted = false;
  model::Placement placement;  // as a CaptureResult's
  std::string why_no_texts;    // as a CaptureResult's, of prompts that are ids
};

inline constexpr const char* kManifestName = "manifest.json";

// The folder holds an earlier run's traces, and the request neither resumes that nor lets it be overwritten.
class EarlierBatchError : public UsageError {
 public:
  using UsageError::UsageError;
};

// Every prompt is read and held against the model before a weight is. FOLDER/manifest.json (schema
// headscope-captures-1) is written anew after each trace, FOLDER/NAME.h5, so that whatever ends a run, what is named
// there is whole. Throws as Capture does, and EarlierBatchError before anything is read; what was done before stays.
BatchResult CaptureBatch(const BatchRequest& request, const ProgressFunction& progress, const std::stop_token& stop);

// What would be recorded of one of the prompts.
struct BatchPlan {
  std::string path;  // of its trace
  CapturePlan capture;
};
// Of those that are not done already, where the request says to resume. Reads no weight and writes nothing, folders
// included; throws as CaptureBatch does before its first capture.
std::vector<BatchPlan> PlanBatch(const BatchRequest& request, const std::stop_token& stop);

}  // namespace headscope::capture
