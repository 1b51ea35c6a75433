// SPDX-License-Identifier: Apache-2.0
#include "capture/batch.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "base/errors.h"
#include "base/output_claim.h"
#include "base/row_selection.h"
#include "base/stop.h"
#include "capture/prompt_file.h"
#include "capture/prompt_lines.h"
#include "data/trace_files.h"
#include "manifest.h"
#include "model/capture_points.h"
#include "model/input_file.h"
#include "one_capture.h"

namespace headscope::capture {
namespace {

namespace fs = std::filesystem;
using Json = Manifest::Json;

constexpr int64_t kMaxPromptsBytes = 256 << 20;

// JSON parsers pass over UTF-8's byte order mark.
std::string ReadPrompts(const std::string& file) {
  std::string text = model::ReadSmallFile(file, kMaxPromptsBytes);
  RefuseOtherEncodings(text, file);
  return text;
}

// What a run that goes on must have in common with the one before.
Json IdentityOf(const BatchRequest& request, const std::string& prompts) {
  model::Sha256 hash;
  hash.Add(prompts.data(), prompts.size());
  model::Sha256 config;
  config.Add(model::InputFile((fs::path(request.common.model_dir) / "config.json").string()));
  const CaptureRequest& common = request.common;
  Json points = Json::array();
  for (const model::CapturePointInfo& info : model::kCapturePoints) {
    if (std::ranges::find(common.record, info.point) != common.record.end()) points.push_back(info.name);
  }
  Json identity{
      {"schema", kManifestSchema},
      {"prompts", {{"file", fs::path(request.prompts_file).filename().string()}, {"sha256", hash.HexDigest()}}},
      {"model",
       {{"folder", fs::path(common.model_dir).lexically_normal().filename().string()},
        {"config_sha256", config.HexDigest()}}},
      {"options",
       {{"layers", common.layers},
        {"heads", common.heads},
        {"rows", common.rows},
        {"decode", common.decode_tokens},
        {"dtype", ComputeTypeName(common.dtype)},
        {"attention", common.attention_text},
        {"record", points}}}};
  if (!common.kv_heads.empty()) identity["options"]["kv_heads"] = common.kv_heads;
  if (common.num_files > 1) identity["options"]["files"] = common.num_files;
  return identity;
}

void MakeFolder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!fs::is_directory(folder)) {
    throw UsageError({.field = "output",
                      .value = folder,
                      .problem = error ? "the folder cannot be made (" + error.message() + ")" : "it is not a folder",
                      .remedy = "name a folder for the traces"});
  }
}

// The captures of a run, each of them checked before the first begins.
struct Captures {
  std::vector<PromptLine> prompts;
  std::vector<CaptureRequest> requests;  // one a prompt; without output_path: an earlier run did it
  std::vector<CapturePlan> plans;        // if they are kept, one a prompt; empty for those
  int64_t num_done = 0;
};

// Else it is of the options, which hold for every prompt, or of a file. `rows`: understood, but a prompt may lack some.
bool IsOfPrompt(const Fault& fault, const RowSelection& rows) {
  if (!fault.file.empty()) return fault.file == kPromptItself;
  return fault.field.empty() || fault.field == "tokens" || fault.field == rows.field();
}

Captures Prepare(const BatchRequest& request, const std::string& text, const Manifest& manifest, bool keep_plans,
                 ModelInUse* in_use, const std::stop_token& stop) {
  Captures captures;
  captures.prompts = ParsePromptLines(text, request.prompts_file);
  const RowSelection rows(request.common.rows);
  for (const PromptLine& prompt : captures.prompts) {
    CaptureRequest& capture = captures.requests.emplace_back(request.common);
    if (keep_plans) captures.plans.emplace_back();
    capture.output_path = (fs::path(request.common.output_path) / (prompt.name + ".h5")).string();
    capture.text = prompt.text;
    capture.tokens = prompt.tokens;
    if (request.resume && manifest.Has(prompt, data::TraceFilePaths(capture.output_path, capture.num_files))) {
      capture.output_path.clear();
      ++captures.num_done;
      continue;
    }
    // A trace that was cut short stands under the very name.
    if (request.resume) capture.overwrite = true;
    try {
      StopIfAsked(stop);
      CapturePlan plan = PlanWith(capture, in_use);
      if (keep_plans) captures.plans.back() = std::move(plan);
    } catch (Error& error) {
      if (!IsOfPrompt(error.fault(), rows)) throw;
      error.SetFile(request.prompts_file + ": line " + std::to_string(prompt.line));
      // Told as of an option where there is no file. A prompt that is too long is, too, where tokens are generated
      // behind it: fewer of these may help.
      const bool is_of_line_alone =
          error.fault().field == "tokens" || (error.fault().field.empty() && request.common.decode_tokens == 0);
      if (is_of_line_alone) throw BadInputError(error.fault());
      throw;
    }
  }
  return captures;
}

std::string ManifestPath(const BatchRequest& request) {
  return (fs::path(request.common.output_path) / kManifestName).string();
}

EarlierBatchError EarlierRun(const BatchRequest& request) {
  return EarlierBatchError(
      {.field = "output",
       .value = request.common.output_path,
       .problem = std::string("the folder holds the traces of an earlier run (") + kManifestName + ")",
       .remedy = "choose another folder"});
}

// Before anything is read. Of a run that still goes on, this is what is said.
void RefuseEarlierRun(const BatchRequest& request) {
  std::error_code unreadable;
  if (request.resume || request.common.overwrite || !fs::exists(ManifestPath(request), unreadable)) return;
  const OutputClaim nobody_writes(ManifestPath(request), "capture");
  throw EarlierRun(request);
}

// Takes an earlier run's manifest up. One that has come up since the folder was first looked at is refused.
void LookAt(Manifest* manifest, const BatchRequest& request) {
  if (!manifest->IsThere()) return;
  if (request.resume) {
    manifest->GoOn();
  } else if (!request.common.overwrite) {
    throw EarlierRun(request);
  }
}

}  // namespace

BatchResult CaptureBatch(const BatchRequest& request, const ProgressFunction& progress, const std::stop_token& stop) {
  RefuseEarlierRun(request);
  const std::string text = ReadPrompts(request.prompts_file);
  const fs::path folder = request.common.output_path;
  ParsePromptLines(text, request.prompts_file);  // what it refuses leaves no folder
  MakeFolder(folder.string());
  BatchResult result;
  result.manifest_path = ManifestPath(request);
  const OutputClaim claim(result.manifest_path, "capture");
  Manifest manifest(result.manifest_path, IdentityOf(request, text));
  LookAt(&manifest, request);
  ModelInUse in_use;
  const Captures captures = Prepare(request, text, manifest, /*keep_plans=*/false, &in_use, stop);
  result.num_prompts = std::ssize(captures.prompts);
  result.num_done = captures.num_done;
  manifest.Write();
  for (size_t i = 0; i < captures.prompts.size(); ++i) {
    if (captures.requests[i].output_path.empty()) continue;
    const std::string which =
        "prompt " + std::to_string(i + 1) + " of " + std::to_string(captures.prompts.size()) + ": ";
    const CaptureResult one = CaptureWith(
        captures.requests[i], &in_use,
        [&](const Progress& at) {
          if (!progress) return;
          Progress of_all = at;
          of_all.stage = which + at.stage;
          progress(of_all);
        },
        stop);
    if (!one.path.empty()) manifest.Add(captures.prompts[i], one);
    result.num_tokens += one.num_tokens;
    result.bytes += one.bytes;
    result.seconds += one.seconds;
    result.interrupted = one.interrupted;
    result.placement = one.placement;
    result.why_no_texts = one.why_no_texts;
    if (one.interrupted) break;
    ++result.num_done;
  }
  return result;
}

std::vector<BatchPlan> PlanBatch(const BatchRequest& request, const std::stop_token& stop) {
  RefuseEarlierRun(request);
  const std::string text = ReadPrompts(request.prompts_file);
  const fs::path folder = request.common.output_path;
  Manifest manifest(ManifestPath(request), IdentityOf(request, text));
  LookAt(&manifest, request);
  // Room and rights are those of the nearest folder that is there; nothing is in the way of a folder yet to be made.
  BatchRequest checked = request;
  std::error_code ignored;
  for (fs::path nearest = folder; !fs::exists(nearest, ignored);) {
    nearest = nearest.has_parent_path() && nearest.parent_path() != nearest ? nearest.parent_path() : fs::path(".");
    checked.common.output_path = nearest.string();
    checked.common.overwrite = true;
  }
  ModelInUse in_use;
  Captures captures = Prepare(checked, text, manifest, /*keep_plans=*/true, &in_use, stop);
  model::Placement placed;
  if (in_use.most_tokens > 0) placed = PlaceLayers(request.common, in_use.most_tokens, in_use.last_layer);
  std::vector<BatchPlan> plans;
  for (size_t i = 0; i < captures.prompts.size(); ++i) {
    if (captures.requests[i].output_path.empty()) continue;
    captures.plans[i].placement = placed;
    plans.push_back({(folder / (captures.prompts[i].name + ".h5")).string(), std::move(captures.plans[i])});
  }
  return plans;
}

}  // namespace headscope::capture
