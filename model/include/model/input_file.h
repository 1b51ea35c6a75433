// SPDX-License-Identifier: Apache-2.0
// A file of a checkpoint, opened once and read by position. Everything in it is untrusted.
//
// Reads use pread and never a memory map: a file that is cut short while it is read gives a BadInputError and no
// SIGBUS. Only regular files are opened, so that a device or a pipe in a model folder cannot block or flood the reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <string>
#include <string_view>

namespace headscope::model {

// Throws BadInputError "FILE: FIELD: PROBLEM; REMEDY" (the field may be empty).
[[noreturn]] void Refuse(std::string_view file, std::string_view field, std::string_view problem,
                         std::string_view remedy);

// What records models that headscope does not run itself: the end of a remedy.
inline constexpr std::string_view kRecordFromPython =
    "headscope.record of the Python package, which takes any model that transformers runs";

class InputFile {
 public:
  static constexpr std::string_view kNameAnother = "name an existing, readable file";

  // Throws BadInputError when the file is missing, unreadable or not a regular file. `remedy`: what to do about one
  // that is missing, where nobody named it.
  explicit InputFile(std::string path, std::string_view remedy = kNameAnother);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }  // bytes, when it was opened
  // Reads exactly `count` bytes from `offset`; throws BadInputError when the file ends earlier or the disk fails,
  // CancelledError when `stop` is requested.
  void ReadAt(int64_t offset, void* into, int64_t count, const std::stop_token& stop = {}) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

// The whole of a small file. Throws BadInputError when it is larger than `limit` bytes.
std::string ReadSmallFile(const std::string& path, int64_t limit, std::string_view remedy = InputFile::kNameAnother);

// Lower-case hex SHA-256 of the files' contents, one after the other.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void Add(const void* data, size_t count);
  // Throws CancelledError when `stop` is requested.
  void Add(const InputFile& file, const std::stop_token& stop = {});
  std::string HexDigest();  // once, at the end

 private:
  void* context_;
};

}  // namespace headscope::model
