// SPDX-License-Identifier: Apache-2.0
// Runs a model on a prompt and records every selected head's Q, K, V and LSE into a trace.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/device.h"
#include "base/element_type.h"
#include "base/errors.h"
#include "base/progress.h"
#include "data/trace_schema.h"
#include "model/attention_backend.h"
#include "model/capture_points.h"
#include "model/layer_placement.h"

namespace headscope::capture {

// The prompt is a text or a task, and the model's tokenizer cannot be read. Token ids need none.
class NoTokenizerError : public BadInputError {
 public:
  using BadInputError::BadInputError;
};

struct CaptureRequest {
  std::string model_dir;
  // Exactly one of the four.
  std::optional<std::string> text;
  std::optional<std::string> prompt_file;
  std::vector<int32_t> tokens;      // the prompt as ids, taken as they are
  std::optional<std::string> task;  // a name of eval::TaskNames()
  int64_t task_length = 4096;       // tokens, for a task
  uint64_t task_seed = 1;
  std::string prose_path;  // filler text of a task, such as data/prompts/prose.txt; unused without one

  std::string output_path;
  bool overwrite = false;
  // So many files hold the trace, each some of its layers, with a thread each that writes it; more than one are named
  // for output_path (data/trace_files.h).
  int32_t num_files = 1;
  std::vector<int32_t> layers;  // empty: all
  std::vector<int32_t> heads;   // query heads; empty: all
  // In place of heads: the query heads of these KV heads, whole groups of them, in every layer.
  std::vector<int32_t> kv_heads = {};
  // Of the prompt: all | last:N | every:N (0, N, 2N, ...) | random:N or random:N:SEED; decode rows are always recorded.
  std::string rows = "all";
  int64_t decode_tokens = 0;  // greedy tokens generated and recorded after the prompt
  // fp32, bf16 or nothing, as SessionOptions says: of the model, and of the trace, which holds exactly the numbers that
  // the model's attention used.
  std::optional<ElementType> dtype = {};
  Device device = kCpu;
  // In place of `device`: layers lie on the GPUs and the CPU as their free memory has room (model/layer_placement.h).
  bool place_by_memory = false;
  int32_t chunk_tokens = 0;  // prefill chunk; 0: Transformer::PassTokens; an encoder takes the prompt at once
  int32_t num_threads = 0;   // 0: all cores
  // What computes the model's attention; null: dense attention. It outlives the capture.
  model::AttentionBackend* attention = nullptr;
  std::string attention_text = {};               // what that is, for the trace; empty: dense
  std::vector<model::CapturePoint> record = {};  // beside q, k, v and lse
  // Told where the trace is once it can be read, and after a pass if a flush has made more of its tokens readable; not
  // of the last flush, after which Capture returns. From the thread of `progress`. May be empty.
  std::function<void(const std::string& path, int64_t tokens)> readable = {};
};

struct CaptureResult {
  // Where the trace is; of several files the first. Interrupted: output_path, or when that held a trace before, which
  // is then as it was, a name beside it (NAME.partial.EXT); empty when no token was recorded, for then there is no
  // file.
  std::string path;
  int64_t num_tokens = 0;
  int64_t num_rows = 0;
  int64_t bytes = 0;           // of its files
  double seconds = 0;          // model and writing, without loading
  std::string generated_text;  // of the decode steps
  // Of a task whose answer the decode steps had room for: 1 where the model gave it, else 0 (eval::ScoreOfAnswer).
  std::optional<float> answer_score = {};
  bool interrupted = false;         // cancelled: the trace is valid and shorter
  model::Placement placement = {};  // where the layers lay, of a capture that placed them by memory
  // Of tokens given as ids to a model whose tokenizer cannot be read: the sentence that says why the trace has no
  // texts.
  std::string why_no_texts = {};
};

// What a capture will record, as config.json, tokenizer.json and the prompt decide it.
struct CapturePlan {
  data::TraceLayout layout;  // the weights' fingerprint and sinks are not known yet
  int64_t num_prompt_tokens = 0;
  int64_t num_rows = 0;   // query rows, those of decode steps too
  int64_t bytes = 0;      // of tensors and tokens in all files; HDF5's own structures come on top
  int32_t num_files = 1;  // that hold the trace
  // Behind which passes end; without one, tokens are generated, which takes the whole model with its head.
  std::optional<int32_t> last_layer = {};
  model::Placement placement = {};  // where the layers would lie, of a request that places them by memory
  std::string why_no_texts = {};    // as a CaptureResult's
};

// Whether some layer of the model runs on a GPU: on the device that was asked for, or where they were placed.
bool UsesGpu(const Device& asked, const model::Placement& placement);

// About what the process holds of a capture beside the model: the program with its libraries, what waits to be written,
// as much as may wait where the disk is slow, and the writer's open chunks.
int64_t RecorderBytes(const CapturePlan& plan, bool from_gpu);

// What a token adds to the trace in one layer, on average.
int64_t LayerBytesOfToken(int64_t trace_bytes, const data::TraceLayout& layout);

// The files that a capture reads: the prompt or the filler text, the folder's .json and .safetensors files, and its
// tokenizer. None of them may be the output, whatever `overwrite` says. They need not be there.
std::vector<std::string> InputFiles(const CaptureRequest& request);

// Refuses (UsageError) a name for a trace that is not an HDF5 file's: another extension would be believed, by whoever
// reads it. Capture, PlanCapture and whoever says so earlier ask it.
void CheckTraceName(const std::string& path);

// Replaces an existing trace only by a complete one; a failure's message says where the tokens recorded up to it are.
// Throws BadInputError, DeviceError, FailedError, UsageError (usage: a field is named by the command
// line's option for it, such as --rows). `progress` is called from this thread, at most ten times a second.
CaptureResult Capture(const CaptureRequest& request, const ProgressFunction& progress, const std::stop_token& stop);

// Reads no weight, writes nothing, and refuses what Capture refuses before it reads a weight, with the same errors.
CapturePlan PlanCapture(const CaptureRequest& request);
// The same whatever stands where the trace would be written, and however much room there is.
CapturePlan EstimateCapture(const CaptureRequest& request);

}  // namespace headscope::capture
