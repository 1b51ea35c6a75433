// SPDX-License-Identifier: Apache-2.0
#include "checked_request.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "base/file_format.h"
#include "data/trace_files.h"
#include "model/checkpoint.h"
#include "model/input_file.h"
#include "model/model_tokenizer.h"
#include "recorded_layers.h"

namespace headscope::capture {
namespace {

std::string TokenizerHash(const std::string& model_dir) {
  model::Sha256 hash;
  hash.Add(model::InputFile(model::TokenizerPath(model_dir)));
  return hash.HexDigest();
}

// A prompt of token ids needs no tokenizer: without one that can be read, the trace has no texts, and in_use says
// why.
void ReadTokenizer(const CaptureRequest& request, const model::ModelConfig& config, ModelInUse* in_use) {
  if (in_use->tokenizer) return;
  try {
    in_use->tokenizer = model::LoadModelTokenizer(request.model_dir, config);
  } catch (const BadInputError& error) {
    if (request.tokens.empty()) {
      NoTokenizerError refusal(error.fault());
      refusal.AddRemedy("or give the prompt as token ids, which needs no tokenizer");
      throw refusal;
    }
    in_use->why_no_texts = error.what();
  }
}

RowSelection CheckedRows(const CaptureRequest& request) {
  if (request.decode_tokens < 0)
    throw UsageError(
        {.field = "decode", .value = std::to_string(request.decode_tokens), .problem = "it must not be negative"});
  if (request.chunk_tokens < 0)
    throw UsageError(
        {.field = "chunk", .value = std::to_string(request.chunk_tokens), .problem = "it must not be negative"});
  std::vector<std::string> outputs = data::FilesNamedFor(request.output_path);
  outputs.push_back(request.output_path);
  for (const std::string& input : InputFiles(request)) {
    for (const std::string& output : outputs) {
      std::error_code not_there;
      if (!std::filesystem::equivalent(output, input, not_there)) continue;
      throw UsageError({.field = "output",
                        .value = output,
                        .problem = "it is the same file as " + input + ", which the capture reads",
                        .remedy = "name another"});
    }
  }
  return RowSelection(request.rows);
}

}  // namespace

void CheckTraceName(const std::string& path) {
  if (FindFileFormat(path) == FileFormat::kHdf5) return;
  throw UsageError({.field = "output",
                    .value = path,
                    .problem = "a trace is an HDF5 file, so the extension must be .h5 or .hdf5",
                    .remedy = "add one (an export of the trace may be .csv or .json)"});
}

std::vector<std::string> InputFiles(const CaptureRequest& request) {
  std::vector<std::string> files;
  if (request.prompt_file) files.push_back(*request.prompt_file);
  if (request.task) files.push_back(request.prose_path);
  std::error_code unreadable;  // told when the folder is read
  for (const auto& entry : std::filesystem::directory_iterator(request.model_dir, unreadable)) {
    const std::string extension = entry.path().extension().string();
    if (extension == ".json" || extension == ".safetensors") files.push_back(entry.path().string());
  }
  files.push_back(model::TokenizerPath(request.model_dir));  // .json as well, or a list of another name
  return files;
}

model::SessionOptions SessionOf(const CaptureRequest& request) {
  return {.dtype = request.dtype,
          .device = request.device,
          .chunk_tokens = request.chunk_tokens,
          .num_threads = request.num_threads};
}

CheckedRequest::CheckedRequest(const CaptureRequest& request, ModelInUse* in_use, For what)
    : rows_(CheckedRows(request)) {
  if (what == For::kWriting) {
    CheckTraceName(request.output_path);
    claim_.emplace(request.output_path, "capture");
    target_.emplace(request.output_path, request.overwrite, request.num_files);
  }
  if (!in_use->config) in_use->config = model::ReadModelConfig(request.model_dir);
  const model::ModelConfig& config = *in_use->config;
  const RecordedHeads heads = ChooseRecordedHeads(request, config);
  // Before the tokenizer, which a folder without weights that are read mostly lacks as well.
  const ElementType captured = model::CapturedType(request.model_dir, SessionOf(request));
  ReadTokenizer(request, config, in_use);
  prompt_ = ReadPrompt(request, in_use->tokenizer ? &*in_use->tokenizer : nullptr, config);
  RequirePositionsFor(request, prompt_, config);
  layout_ = LayoutOfTrace(request, config, captured, heads, prompt_);
  if (in_use->tokenizer) layout_.model.tokenizer_sha256 = TokenizerHash(request.model_dir);
  // What is recorded is all that the prompt is read for, unless it is gone on with.
  if (request.decode_tokens == 0) last_layer_ = *std::ranges::max_element(layout_.layers);
  rows_.Draw(num_prompt_tokens());
  num_rows_ = rows_.Count(num_prompt_tokens()) + request.decode_tokens;
  const auto files = data::LayoutsOfFiles(layout_, data::DealLayers(layout_, request.num_files, num_rows_));
  for (const data::TraceLayout& file : files) bytes_ += TraceBytes(file, layout_.max_tokens, num_rows_);
  if (target_) target_->RequireSpace(bytes_);
}

}  // namespace headscope::capture
