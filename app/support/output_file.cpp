// SPDX-License-Identifier: Apache-2.0
#include "support/output_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "base/errors.h"
#include "base/quoted_text.h"
#include "data/trace_files.h"
#include "data/trace_replacement.h"
#include "support/partial_name.h"

namespace headscope::app {
namespace fs = std::filesystem;

namespace {

std::string FolderOf(const fs::path& target) {
  return target.has_parent_path() ? target.parent_path().string() : ".";
}

}  // namespace

Fault OutputFault(const std::string& path, const std::string& problem, const std::string& remedy) {
  return {.field = "output", .value = path, .problem = problem, .remedy = remedy};
}

Fault WriteRefusal(const std::string& path, int error) {
  const char* remedy = "choose another folder";
  switch (error) {
    case EACCES:
    case EPERM:
    case EROFS:
      remedy = "choose a folder that you may write to";
      break;
    case ENAMETOOLONG:
      remedy = "choose a shorter name";
      break;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      remedy = "free some disk space or choose another folder";
      break;
    default:
      break;
  }
  return OutputFault(path, std::strerror(error), remedy);
}

void ThrowUnnamed(const std::string& path, int error) {
  if (error != EEXIST) throw FailedError(WriteRefusal(path, error));
  throw OutputExistsError(
      OutputFault(path, "something else created it during this run, so it is kept", "choose another name"));
}

std::string NameBeside(const std::string& path) {
  const fs::path target(path);
  RemoveLeftovers(target.parent_path());
  try {
    return FreePartialName(target.parent_path(), target.extension().string()).string();
  } catch (const fs::filesystem_error& error) {
    throw UsageError(WriteRefusal(path, error.code().value()));
  }
}

void CheckOutputTarget(const std::string& path, bool force, const std::vector<std::string>& inputs) {
  if (path.empty()) throw UsageError(OutputFault(Quoted(path), "the name is empty", "name a file"));
  const fs::path target(path);
  const std::string folder = FolderOf(target);
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory) {
      throw UsageError(WriteRefusal(path, error.value()));
    }
    throw UsageError(OutputFault(path, "the folder " + folder + " does not exist", "create it first"));
  }
  const fs::file_status status = fs::symlink_status(target, error);
  if (status.type() == fs::file_type::none) throw UsageError(WriteRefusal(path, error.value()));
  if (fs::is_directory(status)) throw UsageError(OutputFault(path, "it is a folder", "name a file"));
  // The other files of a trace are read as well.
  std::vector<std::string> read = inputs;
  for (const std::string& input : inputs) {
    const std::optional<data::TraceFileName> name = data::ParseTraceFilePath(input);
    if (input.empty()) continue;
    for (std::string& file : data::FilesNamedFor(name ? name->path : input)) read.push_back(std::move(file));
  }
  const auto read_too = std::ranges::find_if(read, [&](const std::string& input) {
    std::error_code unreadable;
    return !input.empty() && fs::equivalent(target, input, unreadable);
  });
  if (read_too != read.end()) {
    throw UsageError(
        OutputFault(path, "it is the same file as " + *read_too + ", which this command reads", "name another"));
  }
  if (fs::is_symlink(status)) {
    throw UsageError(
        OutputFault(path, "it is a symbolic link, and links are not written through", "name the file itself"));
  }
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    throw UsageError(OutputFault(path, "it exists and is not a regular file", "choose another name"));
  }
  if (fs::exists(status) && !force) {
    throw OutputExistsError(OutputFault(path, "it exists", "choose another name"));
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) throw UsageError(WriteRefusal(path, errno));
}

OutputFile::OutputFile(std::string path, bool force) : path_(std::move(path)), force_(force) {
  CheckOutputTarget(path_, force);
  temporary_path_ = NameBeside(path_);
  unfinished_.emplace(temporary_path_);
}

OutputFile::~OutputFile() {
  if (!committed_) std::remove(temporary_path_.c_str());
}

void OutputFile::Write(const std::function<void(const std::string&)>& write) const {
  try {
    write(temporary_path_);
  } catch (Error& error) {
    if (error.fault().file == temporary_path_) error.SetFile(path_);
    throw;
  }
}

void OutputFile::Commit() {
  if (force_) {
    if (std::rename(temporary_path_.c_str(), path_.c_str()) != 0) throw FailedError(WriteRefusal(path_, errno));
  } else if (const int error = data::RenameToFreeName(temporary_path_, path_); error != 0) {
    ThrowUnnamed(path_, error);
  }
  committed_ = true;
  unfinished_->Keep();
}

void WriteText(const std::string& text, const std::string& path, bool force) {
  if (path.empty() || path == "-") {
    std::cout << text << std::flush;
    if (!std::cout)
      throw FailedError(
          {.problem = "stdout could not be written", .remedy = "check that the reader of the pipe is still there"});
    return;
  }
  OutputFile output(path, force);
  output.Write([&](const std::string& temporary_path) {
    std::ofstream file(temporary_path, std::ios::binary);
    file << text;
    file.close();
    if (!file) throw FailedError(WriteRefusal(path, errno));
  });
  output.Commit();
}

}  // namespace headscope::app
