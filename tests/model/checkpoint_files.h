// SPDX-License-Identifier: Apache-2.0
// Makes model folders for tests.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace headscope {

// A folder of the test's own, removed at its end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "headscope-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string File(const std::string& name) const { return (path_ / name).string(); }
  std::string Write(const std::string& name, std::string_view bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return File(name);
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// The bytes of a safetensors file.
inline std::string Safetensors(std::string_view header, std::string_view data) {
  std::string bytes;
  for (unsigned shift = 0; shift < 64; shift += 8) bytes += static_cast<char>(header.size() >> shift & 0xFFU);
  return bytes.append(header).append(data);
}

// The shipped checkpoint; HEADSCOPE_REFERENCE_MODEL names another folder.
inline std::string ReferenceModel() {
  const char* given = std::getenv("HEADSCOPE_REFERENCE_MODEL");
  return given != nullptr ? given : HEADSCOPE_SOURCE_DIR "/data/reference_model";
}

inline std::string ReadWholeFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + " is missing: the oracle that writes it has not run");
  return {std::istreambuf_iterator<char>(file), {}};
}

template <typename T>
std::vector<T> ReadArray(const std::string& path) {
  const std::string bytes = ReadWholeFile(path);
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace headscope
