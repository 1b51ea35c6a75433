// SPDX-License-Identifier: Apache-2.0
// What is done of many captures, as a file in their folder. One that is there may be anybody's.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "capture/capture.h"
#include "capture/prompt_lines.h"

namespace headscope::capture {

inline constexpr const char* kManifestSchema = "headscope-captures-1";

class Manifest {
 public:
  using Json = nlohmann::ordered_json;
  // identity: prompts, model and options, which a run that goes on must have in common with the one before.
  Manifest(std::string path, Json identity);

  bool IsThere() const;
  // What an earlier run has done. Throws BadInputError where the file is no manifest, UsageError where it is of another
  // identity.
  void GoOn();
  void GoOnWith(std::string_view text);  // as read
  // The trace, which is in these files, is there as the run that made it left it.
  bool Has(const PromptLine& prompt, const std::vector<std::string>& files) const;
  void Add(const PromptLine& prompt, const CaptureResult& result);
  // Throws FailedError.
  void Write() const;
  std::string Text() const;

 private:
  const std::string path_;
  Json json_;
};

}  // namespace headscope::capture
