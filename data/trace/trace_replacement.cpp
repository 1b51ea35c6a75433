// SPDX-License-Identifier: Apache-2.0
#include "data/trace_replacement.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <filesystem>
#include <map>

#include "base/errors.h"
#include "base/utf8.h"
#include "data/trace_files.h"
#include "trace/trace_set.h"

namespace headscope::data {
namespace {

namespace fs = std::filesystem;

bool IsThere(const std::string& path) {
  std::error_code unreadable;
  return fs::exists(fs::symlink_status(path, unreadable));
}

// The name of one of the files under `to`, among those under `aside`.
std::string NameAside(const std::string& file, const std::string& to, const std::string& aside) {
  const std::optional<TraceFileName> name = ParseTraceFilePath(file);
  return file == to || !name ? aside : TraceFilePath(aside, name->number, name->count);
}

// The renaming of one trace. Everything before the last step can be taken back.
class Renaming {
 public:
  Renaming(const std::string& from, const std::string& to, int32_t num_files)
      : to_(to), new_from_(TraceFilePaths(from, num_files)), new_to_(TraceFilePaths(to, num_files)) {}

  Replacement Replace() {
    const std::vector<std::string> there = FilesUnderName(to_);
    if (there.size() == 1 && new_to_.size() == 1 && there.front() == to_) {  // one step, which the system makes whole
      if (std::rename(new_from_.front().c_str(), to_.c_str()) == 0) return {};
      return {.file = to_, .error = errno, .stands = false};
    }
    if (!there.empty()) aside_ = FreeNameBeside(to_, kReplacedMark, kMaxTraceFiles);
    for (const std::string& file : there) {
      if (const int error = PutAside(file); error != 0) return TakeBack(file, error);
    }
    if (const auto failed = TakeNames()) return TakeBack(failed->file, failed->error);
    for (const Old& one : old_) {
      if (one.moved || std::ranges::find(new_to_, one.name) != new_to_.end()) continue;
      if (::unlink(one.name.c_str()) != 0) return TakeBack(one.name, errno);
    }
    Replacement done;
    for (const Old& one : old_) {
      if (::unlink(one.aside.c_str()) != 0) done = {.file = one.aside, .error = errno};
    }
    return done;
  }

  Replacement NameFree() {
    // Also what no new file has the name of would be taken for a part of the trace.
    if (const std::vector<std::string> there = FilesUnderName(to_); !there.empty())
      return {.file = there.front(), .error = EEXIST, .stands = false};
    if (const auto failed = TakeNames()) return TakeBack(failed->file, failed->error);
    for (const std::string& file : FilesUnderName(to_)) {
      if (std::ranges::find(new_to_, file) == new_to_.end()) return TakeBack(file, EEXIST);
    }
    return {};
  }

 private:
  struct Old {
    std::string name, aside;
    bool moved;  // it has the one name only
  };
  struct Failure {
    std::string file;
    int error;
  };

  // A second name for the same file: under the first one it stays until the new one takes that, in one step.
  int PutAside(const std::string& file) {
    const std::string aside = NameAside(file, to_, aside_);
    bool moved = false;
    if (::link(file.c_str(), aside.c_str()) != 0) {
      if (errno == EEXIST) return errno;
      moved = true;  // a file system without second names, or somebody else's file
      if (const int error = RenameToFreeName(file, aside); error != 0) return error;
    }
    old_.push_back({file, aside, moved});
    return 0;
  }

  std::optional<Failure> TakeNames() {
    for (; taken_ < new_to_.size(); ++taken_) {
      const std::string &from = new_from_[taken_], &to = new_to_[taken_];
      const bool over = std::ranges::any_of(old_, [&](const Old& one) { return one.name == to && !one.moved; });
      const int error = !over ? RenameToFreeName(from, to) : std::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
      if (error != 0) return Failure{to, error};
    }
    return {};
  }

  Replacement TakeBack(const std::string& file, int error) {
    Replacement undone{.file = file, .error = error, .stands = false};
    while (taken_ > 0) {
      --taken_;
      if (RenameToFreeName(new_to_[taken_], new_from_[taken_]) != 0) undone.kept = aside_;
    }
    for (const Old& one : old_) {
      const bool gone = one.moved || !IsThere(one.name);
      const int failed = gone ? RenameToFreeName(one.aside, one.name) : ::unlink(one.aside.c_str());
      if (failed != 0 && gone) undone.kept = aside_;
    }
    return undone;
  }

  std::string to_, aside_;
  std::vector<std::string> new_from_, new_to_;
  std::vector<Old> old_;
  size_t taken_ = 0;  // of new_to_
};

}  // namespace

int RenameToFreeName(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  // Some file systems cannot rename so; a second name is given as safely, and the first one is then taken away.
  if (errno != EINVAL && errno != ENOSYS) return errno;
  if (::link(from.c_str(), to.c_str()) != 0) return errno;
  if (::unlink(from.c_str()) == 0) return 0;
  const int error = errno;
  ::unlink(to.c_str());
  return error;
}

std::vector<std::string> FilesUnderName(const std::string& path) {
  std::vector<std::string> files = FilesNamedFor(path);
  if (IsThere(path)) files.push_back(path);
  return files;
}

std::optional<ForeignFile> FindForeignFile(const std::string& path, int32_t num_files) {
  std::map<int32_t, std::pair<std::string, std::string>> sets;  // of so many files: the set's name, and one of them
  for (const std::string& file : FilesUnderName(path)) {
    if (file == path && num_files == 1) continue;
    TraceFilePlace place;
    try {
      place = StoredPlace(file);
    } catch (const BadInputError&) {
      return ForeignFile{file, "is not a trace that can be read"};
    }
    if (file == path) continue;
    const TraceFileName name = *ParseTraceFilePath(file);
    if (place.count == 0) return ForeignFile{file, "does not say that it is one of the files of a trace"};
    if (place.number != name.number || place.count != name.count) {
      return ForeignFile{file, "says that it is file " + std::to_string(place.number) + " of " +
                                   std::to_string(place.count) + " of its trace"};
    }
    const auto& [set, first] = sets.try_emplace(place.count, place.set, file).first->second;
    if (set != place.set)
      return ForeignFile{file, "is not of the same trace as " + fs::path(first).filename().string()};
  }
  return {};
}

std::string FreeNameBeside(const std::string& path, const std::string& mark, int32_t num_files) {
  const fs::path target(path);
  const std::string extension = target.extension().string();
  for (int number = 1;; ++number) {
    std::string end = "." + mark;
    if (number > 1) end.append("-").append(std::to_string(number));
    end.append(extension);
    std::string name = target.stem().string();
    const size_t number_length = TraceFilePath("a", num_files, num_files).size() - 1;
    if (const size_t behind = end.size() + number_length; name.size() + behind > NAME_MAX) {
      size_t length = NAME_MAX - std::min(behind, size_t{NAME_MAX});
      while (length > 0 && IsInsideCharacter(name[length])) --length;
      name.resize(length);
    }
    const fs::path candidate = target.parent_path() / (name + end);
    std::error_code error;
    const fs::file_type type = fs::symlink_status(candidate, error).type();
    if (type == fs::file_type::not_found && FilesNamedFor(candidate.string()).empty()) return candidate.string();
    if (type == fs::file_type::none)
      throw FailedError({.file = candidate.string(), .problem = error.message(), .remedy = "choose another name"});
  }
}

std::string FindReplaced(const std::string& path) {
  const std::optional<TraceFileName> name = ParseTraceFilePath(path);
  const fs::path whole(name ? name->path : path);
  const std::string beside =
      (whole.parent_path() / (whole.stem().string() + "." + kReplacedMark + whole.extension().string())).string();
  return FilesUnderName(beside).empty() ? "" : beside;
}

Replacement ReplaceTrace(const std::string& from, const std::string& to, int32_t num_files, bool replace) {
  Renaming renaming(from, to, num_files);
  return replace ? renaming.Replace() : renaming.NameFree();
}

}  // namespace headscope::data
