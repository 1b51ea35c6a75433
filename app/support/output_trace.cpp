// SPDX-License-Identifier: Apache-2.0
#include "support/output_trace.h"

#include <algorithm>
#include <cstdio>

#include "base/errors.h"
#include "data/trace_files.h"
#include "data/trace_replacement.h"
#include "support/output_file.h"

namespace headscope::app {

OutputTrace::OutputTrace(std::string path, int32_t num_files, bool force, const std::vector<std::string>& inputs)
    : path_(std::move(path)), num_files_(num_files), force_(force) {
  std::vector<std::string> names = FilesOf(path_);
  if (num_files_ > 1) names.push_back(path_);
  const std::vector<std::string> named = data::FilesNamedFor(path_);
  names.insert(names.end(), named.begin(), named.end());
  for (const std::string& name : names) CheckOutputTarget(name, force, inputs);
  RefuseForeign();
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

void OutputTrace::RefuseForeign() const {
  if (!force_) return;
  if (const auto foreign = data::FindForeignFile(path_, num_files_)) {
    throw UsageError(OutputFault(foreign->file, "it " + foreign->problem + ", so it is not replaced",
                                 "move it away, or choose another name"));
  }
}

void OutputTrace::Commit() {
  RefuseForeign();
  const data::Replacement done = data::ReplaceTrace(temporary_path_, path_, num_files_, force_);
  if (done.stands) {
    committed_ = true;
    for (data::UnfinishedFile& file : unfinished_) file.Keep();
    if (done.error != 0) throw FailedError(WriteRefusal(done.file, done.error));
    return;
  }
  if (done.kept.empty()) ThrowUnnamed(done.file, done.error);
  Fault fault = WriteRefusal(done.file, done.error);
  fault.remedy += "; the trace before is " + done.kept + " now";
  throw FailedError(fault);
}

}  // namespace headscope::app
