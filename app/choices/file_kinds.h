// SPDX-License-Identifier: Apache-2.0
// The kinds of methods that are made of a file: a line each in the list.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "kernels/decode_method.h"
#include "kernels/method.h"
#include "kernels/status.h"

namespace headscope::app {

// The model that a file with a number for each KV head is of.
struct ModelOfFile {
  int32_t num_layers = 0;
  int32_t num_kv_heads = 0;  // of the largest layer: all lines are as wide, and a smaller layer's end is not read
};

struct MethodsOfFile {
  std::unique_ptr<kernels::PrefillMethod> prefill;
  std::unique_ptr<kernels::DecodeMethod> decode;  // where the kind decodes
  std::optional<ModelOfFile> model;               // none: it fits any that has its rows and heads
};

struct FileKind {
  std::string name;      // as typed before :path=FILE, and behind "decode/"
  std::string help;      // one line
  bool decodes = false;  // the file makes a decode method as well
  // Reads the file at `path` and makes methods called `own_name` of it. Errors of what was read; throws BadInputError.
  kernels::Status (*make)(const std::string& own_name, const std::string& path, MethodsOfFile* made);
};

std::span<const FileKind> FileKinds();

}  // namespace headscope::app
