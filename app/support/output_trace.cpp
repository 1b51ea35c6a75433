// SPDX-License-Identifier: Apache-2.0
#include "support/output_trace.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "base/errors.h"
#include "data/trace_files.h"
#include "support/output_file.h"

namespace headscope::app {

OutputTrace::OutputTrace(std::string path, int32_t num_files, bool force, const std::vector<std::string>& inputs)
    : path_(std::move(path)), num_files_(num_files), force_(force) {
  std::vector<std::string> names = FilesOf(path_);
  if (num_files_ > 1) names.push_back(path_);
  const std::vector<std::string> named = data::FilesNamedFor(path_);
  names.insert(names.end(), named.begin(), named.end());
  for (const std::string& name : names) CheckOutputTarget(name, force, inputs);
  temporary_path_ = NameBeside(path_);
  for (const std::string& file : FilesOf(temporary_path_)) unfinished_.emplace_back(file);
}

OutputTrace::~OutputTrace() {
  if (committed_) return;
  for (const std::string& file : FilesOf(temporary_path_)) std::remove(file.c_str());
}

std::vector<std::string> OutputTrace::FilesOf(const std::string& path) const {
  return data::TraceFilePaths(path, num_files_);
}

void OutputTrace::Write(const std::function<void(const std::string&)>& write) const {
  try {
    write(temporary_path_);
  } catch (Error& error) {
    const std::vector<std::string> from = FilesOf(temporary_path_), to = FilesOf(path_);
    const auto file = std::ranges::find(from, error.fault().file);
    if (file != from.end()) error.SetFile(to[static_cast<size_t>(file - from.begin())]);
    throw;
  }
}

void OutputTrace::Commit() {
  const std::vector<std::string> from = FilesOf(temporary_path_), to = FilesOf(path_);
  for (size_t i = 0; i < from.size(); ++i) RenameOutput(from[i], to[i], force_);
  committed_ = true;
  for (data::UnfinishedFile& file : unfinished_) file.Keep();
  std::vector<std::string> others = data::FilesNamedFor(path_);
  if (num_files_ > 1) others.push_back(path_);
  for (const std::string& other : others) {
    if (std::ranges::find(to, other) != to.end()) continue;
    std::error_code error;
    if (!std::filesystem::exists(std::filesystem::symlink_status(other, error))) continue;
    // Without `force` nothing of the name was there before the run.
    if (!force_) {
      throw OutputExistsError(
          OutputFault(other, "something else created it during this run, so it is kept", "choose another name"));
    }
    if (!std::filesystem::remove(other, error)) throw FailedError(WriteRefusal(other, error.value()));
  }
}

}  // namespace headscope::app
