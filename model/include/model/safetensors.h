// SPDX-License-Identifier: Apache-2.0
// safetensors, read strictly: 8 bytes of header length N (little-endian), N bytes of JSON, then the tensors' data.
//
// The header is read by a SAX handler straight into the table of tensors, so its cost is bounded by its own size
// whatever it claims. Every rule of the format is checked before a tensor is touched: ranges are in order, without hole
// or overlap, each as long as its shape and type say, and the last one ends where the file ends. No shape product is
// formed without an overflow check. Source: the format's own description in huggingface/safetensors (README), plus the
// cases that reader and writer disagree about.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/element_type.h"
#include "model/input_file.h"

namespace headscope::model {

struct TensorEntry {
  std::string name;
  std::string dtype;           // as written: "BF16", "F32", ...
  std::vector<int64_t> shape;  // may be empty (one element) or hold zeros
  int64_t begin = 0;           // bytes from the start of the data
  int64_t end = 0;
};

// "F32", "BF16", "F16"; nothing for the format's other types.
std::optional<ElementType> StoredType(std::string_view dtype);
// What a model whose weights are of that type computes and is recorded in unless somebody asks for another type: bf16
// as bf16, everything else, fp16 too, as fp32.
ElementType TypeByItself(std::string_view dtype);

inline constexpr int64_t kMaxSafetensorsHeader = 100'000'000;  // bytes; the reference reader's limit

// Checks the JSON header against `data_size`, the bytes that follow it in the file; entries in order of their data.
// `file` only names the source. Throws BadInputError.
std::vector<TensorEntry> ParseSafetensorsHeader(std::string_view json, int64_t data_size, const std::string& file);

// One open shard.
class SafetensorsFile {
 public:
  // Throws BadInputError; `remedy`: what to do about a file that is missing.
  explicit SafetensorsFile(const std::string& path, std::string_view remedy = InputFile::kNameAnother);
  const std::vector<TensorEntry>& entries() const { return entries_; }
  const InputFile& file() const { return file_; }
  // Copies the tensor's bytes (end - begin of them) to `into`. Throws CancelledError when `stop` is requested.
  void Read(const TensorEntry& entry, void* into, const std::stop_token& stop = {}) const;

 private:
  InputFile file_;
  int64_t data_start_ = 0;
  std::vector<TensorEntry> entries_;
};

}  // namespace headscope::model
