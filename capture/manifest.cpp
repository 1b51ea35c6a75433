// SPDX-License-Identifier: Apache-2.0
#include "manifest.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "base/errors.h"
#include "base/quoted_text.h"
#include "data/shallow_json.h"
#include "model/input_file.h"

namespace headscope::capture {
namespace {

namespace fs = std::filesystem;
using Json = Manifest::Json;

constexpr int64_t kMaxManifestBytes = 256 << 20;

// A file of that name may be anybody's.
bool IsManifest(const Json& json) {
  if (!json.is_object() || !json.contains("schema") || json["schema"] != kManifestSchema ||
      !json.contains("captures") || !json["captures"].is_array())
    return false;
  return std::ranges::all_of(json["captures"], [](const Json& capture) {
    const auto is = [&](const char* key, bool (Json::*kind)() const noexcept) {
      return capture.contains(key) && (capture[key].*kind)();
    };
    return capture.is_object() && is("line", &Json::is_number_integer) && is("bytes", &Json::is_number_integer) &&
           is("complete", &Json::is_boolean);
  });
}

}  // namespace

Manifest::Manifest(std::string path, Json identity) : path_(std::move(path)), json_(std::move(identity)) {
  json_["captures"] = Json::array();
}

bool Manifest::IsThere() const {
  std::error_code ignored;
  return fs::exists(path_, ignored);
}

void Manifest::GoOn() {
  GoOnWith(model::ReadSmallFile(path_, kMaxManifestBytes));
}

void Manifest::GoOnWith(std::string_view text) {
  std::optional<std::string> twice;
  const std::optional<Json> read = data::ParseShallowJson<Json>(text, &twice);
  if (twice) {
    throw BadInputError({.file = path_,
                         .field = Quoted(*twice),
                         .problem = "the name appears twice in one object",
                         .remedy = "move the file away, or choose another folder"});
  }
  if (!read || !IsManifest(*read)) {
    throw BadInputError({.file = path_,
                         .problem = "is not a manifest of captures",
                         .remedy = "move it away, or choose another folder"});
  }
  const Json& before = *read;
  for (const char* key : {"prompts", "model", "options"}) {
    if (before.value(key, Json()) == json_[key]) continue;
    throw UsageError(
        {.file = path_,
         .problem = std::string("was made with other ") + (std::strcmp(key, "model") == 0 ? "models" : key),
         .remedy = "give the command that was stopped, or choose another folder"});
  }
  json_["captures"] = before["captures"];
}

bool Manifest::Has(const PromptLine& prompt, const std::vector<std::string>& files) const {
  uintmax_t size = 0;
  for (const std::string& file : files) {
    std::error_code gone;
    size += fs::file_size(file, gone);
    if (gone) return false;
  }
  for (const Json& capture : json_["captures"]) {
    if (capture["line"] != prompt.line) continue;
    return capture["complete"] == true && capture["bytes"] == static_cast<int64_t>(size);
  }
  return false;
}

void Manifest::Add(const PromptLine& prompt, const CaptureResult& result) {
  Json& captures = json_["captures"];
  for (auto at = captures.begin(); at != captures.end();)
    at = (*at)["line"] != prompt.line ? at + 1 : captures.erase(at);
  captures.push_back({{"line", prompt.line},
                      {"name", prompt.name},
                      {"file", fs::path(result.path).filename().string()},
                      {"tokens", result.num_tokens},
                      {"rows", result.num_rows},
                      {"bytes", result.bytes},
                      {"seconds", result.seconds},
                      {"generated", result.generated_text},
                      {"complete", !result.interrupted}});
  Write();
}

std::string Manifest::Text() const {
  return json_.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

void Manifest::Write() const {
  const std::string partial = path_ + ".partial";
  std::ofstream file(partial, std::ios::binary | std::ios::trunc);
  file << Text();
  file.close();
  if (file && std::rename(partial.c_str(), path_.c_str()) == 0) return;
  const std::string why = std::strerror(errno);
  std::error_code ignored;
  fs::remove(partial, ignored);
  throw FailedError({.file = path_, .problem = why, .remedy = "make room; the traces that are done stay"});
}

}  // namespace headscope::capture
