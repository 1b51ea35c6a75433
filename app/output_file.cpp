#include "output_file.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "errors.h"

namespace headscope::app {
namespace fs = std::filesystem;

void CheckOutputTarget(const std::string& path, bool force, const std::vector<std::string>& inputs) {
  const fs::path target(path);
  std::error_code error;
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  if (!fs::is_directory(folder, error)) {
    throw UsageError("output " + path + ": the folder " + folder.string() + " does not exist; make it first");
  }
  if (fs::is_directory(target, error)) throw UsageError("output " + path + " is a folder; name a file");
  for (const std::string& input : inputs) {
    if (!input.empty() && fs::equivalent(target, input, error)) {
      throw UsageError("output " + path + " is the same file as " + input + ", which this command reads; name another");
    }
  }
  if (fs::exists(target, error) && !force) {
    throw UsageError("output " + path + " exists; choose another name or give --force");
  }
}

OutputFile::OutputFile(std::string path, bool force) : path_(std::move(path)) {
  CheckOutputTarget(path_, force);
  const fs::path target(path_);
  std::string name(1, '.');
  name.append(target.stem().string()).append(".partial-").append(std::to_string(::getpid()));
  name.append(target.extension().string());
  temporary_path_ = (target.parent_path() / name).string();
}

OutputFile::~OutputFile() {
  if (!committed_) std::remove(temporary_path_.c_str());
}

void OutputFile::Write(const std::function<void(const std::string&)>& write) const {
  try {
    write(temporary_path_);
  } catch (const std::exception& error) {
    std::string message = error.what();
    const size_t at = message.find(temporary_path_);
    if (at == std::string::npos) throw;
    throw CommandError(message.replace(at, temporary_path_.size(), path_));
  }
}

void OutputFile::Commit() {
  if (std::rename(temporary_path_.c_str(), path_.c_str()) != 0) {
    throw CommandError("output " + path_ + ": " + std::strerror(errno) + "; check the folder's permissions");
  }
  committed_ = true;
}

void WriteText(const std::string& text, const std::string& path, bool force) {
  if (path.empty() || path == "-") {
    std::cout << text << std::flush;
    if (!std::cout) throw CommandError("stdout could not be written; is the reader of the pipe still there?");
    return;
  }
  OutputFile output(path, force);
  output.Write([&](const std::string& temporary_path) {
    std::ofstream file(temporary_path, std::ios::binary);
    file << text;
    file.close();
    if (!file) throw CommandError("output " + path + ": " + std::strerror(errno) + "; is the disk full?");
  });
  output.Commit();
}

std::string Extension(const std::string& path) {
  std::string extension = fs::path(path).extension().string();
  if (!extension.empty()) extension.erase(0, 1);
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension;
}

}  // namespace headscope::app
