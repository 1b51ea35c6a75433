// SPDX-License-Identifier: Apache-2.0
#include "trace_target.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/byte_text.h"
#include "base/errors.h"
#include "capture/stored_points.h"
#include "data/trace_files.h"
#include "data/trace_replacement.h"

namespace headscope::capture {
namespace fs = std::filesystem;
namespace {

// Left free beside the data, as the writer demands while it writes: the file's own structures and room for others.
constexpr int64_t kDiskReserve = int64_t{8} << 20;

std::string FolderOf(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

constexpr char kPartialMark[] = "partial";

}  // namespace

int64_t TraceBytes(const data::TraceLayout& layout, int64_t num_tokens, int64_t num_rows) {
  const int64_t size = SizeOf(layout.encoding);
  int64_t token_bytes = 4 + 1 + 4 + 8;  // id, phase, step and the offset of the text
  int64_t row_bytes = 4;                // its position
  for (size_t slot = 0; slot < layout.facts.size(); ++slot) {
    const data::LayerFacts& facts = layout.facts[slot];
    const auto num_qo_heads = static_cast<int64_t>(facts.qo_heads.size());
    const auto num_kv_heads = static_cast<int64_t>(facts.kv_heads.size());
    if (data::StoresKeys(layout, slot))
      token_bytes += num_kv_heads * (int64_t{facts.head_dim} + facts.v_head_dim) * size;
    row_bytes += num_qo_heads * (facts.head_dim * size + 4) + 8;  // the log-sum-exp, and how many keys it counts
    const data::SelectionFacts& selection = facts.selection;
    token_bytes += int64_t{selection.index_kv_heads} * selection.index_dim * size;
    row_bytes += int64_t{selection.sets} * selection.ids * 4 + selection.index_heads * (selection.index_dim * size + 4);
    for (const model::CapturePointInfo& info : model::kCapturePoints) {
      if (!(facts.*StoredFact(info.point))) continue;
      switch (info.point) {
        case model::CapturePoint::kPreRope:
        case model::CapturePoint::kProjection:
          token_bytes += num_kv_heads * facts.head_dim * size;
          row_bytes += num_qo_heads * facts.head_dim * size;
          break;
        case model::CapturePoint::kValueNorms:
        case model::CapturePoint::kValueNormsL1:
          token_bytes += num_qo_heads * 4;
          break;
        case model::CapturePoint::kHiddenNorms:
          token_bytes += 4;
          break;
        case model::CapturePoint::kCache:
          token_bytes += num_kv_heads * (int64_t{facts.head_dim} + facts.v_head_dim) * size;
          break;
        case model::CapturePoint::kResidual:
          token_bytes += facts.hidden_size * size;
          break;
        case model::CapturePoint::kHeadOutputs:
          row_bytes += num_qo_heads * facts.v_head_dim * size;
          break;
      }
    }
  }
  return num_tokens * token_bytes + num_rows * row_bytes;
}

TraceTarget::TraceTarget(std::string path, bool overwrite, int32_t num_files)
    : path_(std::move(path)), writing_path_(path_), num_files_(num_files) {
  std::vector<std::string> names = data::FilesNamedFor(path_);
  names.push_back(path_);
  for (const std::string& name : names) {
    std::error_code ignored;
    const fs::file_status status = fs::symlink_status(name, ignored);
    if (!fs::exists(status)) continue;
    if (!overwrite)
      throw UsageError(
          {.file = name, .problem = "exists already", .remedy = "choose another name or allow overwriting"});
    if (!fs::is_regular_file(status))
      throw UsageError({.file = name, .problem = "is not a regular file", .remedy = "choose another name"});
    if (!Replaces()) writing_path_ = data::FreeNameBeside(path_, kPartialMark, num_files_);
  }
  if (const auto foreign = data::FindForeignFile(path_, num_files_)) {
    throw UsageError({.file = foreign->file,
                      .problem = foreign->problem + ", so it is not replaced",
                      .remedy = "move it away, or choose another name"});
  }
  const std::string folder = FolderOf(path_);
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    throw UsageError({.file = path_,
                      .problem = "the folder " + folder + " cannot be written (" + std::strerror(errno) + ")",
                      .remedy = "choose another folder"});
  }
}

void TraceTarget::RequireSpace(int64_t bytes) const {
  const std::string folder = FolderOf(path_);
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0) {
    throw FailedError({.file = path_,
                       .problem = "the free space of " + folder + " cannot be read (" + std::strerror(errno) + ")",
                       .remedy = "choose another folder"});
  }
  const auto free_bytes = static_cast<int64_t>(disk.f_bavail) * static_cast<int64_t>(disk.f_frsize);
  if (free_bytes - kDiskReserve >= bytes) return;
  throw FailedError({.file = path_,
                     .problem = "the whole trace takes " + ByteText(bytes) + " and " + ByteText(kDiskReserve) +
                                " must stay free, but the disk has " + ByteText(free_bytes) + " free",
                     .remedy = "record fewer layers, heads, rows or tokens or choose another folder"});
}

std::vector<std::string> TraceTarget::FilesOf(const std::string& path) const {
  return data::TraceFilePaths(path, num_files_);
}

void TraceTarget::Complete() const {
  if (!Replaces()) return;
  const std::string whole =
      "; the whole new trace is " + WritingFiles().front() + (num_files_ > 1 ? " and the files that go with it" : "");
  if (const auto foreign = data::FindForeignFile(path_, num_files_)) {
    throw FailedError({.file = foreign->file,
                       .problem = foreign->problem + ", so it is not replaced",
                       .remedy = "move it away" + whole});
  }
  const data::Replacement done = data::ReplaceTrace(writing_path_, path_, num_files_, /*replace=*/true);
  if (done.error == 0) return;
  const std::string reason = std::string(" (") + std::strerror(done.error) + ")";
  if (done.stands) {
    throw FailedError({.file = done.file,
                       .problem = "is of the trace that " + path_ + " was before, and cannot be removed" + reason,
                       .remedy = "remove it"});
  }
  const std::string before = done.kept.empty() ? path_ + " is as it was" : "the trace before is " + done.kept;
  throw FailedError({.file = done.file, .problem = "cannot be replaced" + reason, .remedy = before + whole});
}

std::string TraceTarget::Leave(int64_t tokens_flushed) const {
  const std::string old = Replaces() ? " and " + path_ + " is as it was" : "";
  const std::vector<std::string> files = WritingFiles();
  if (tokens_flushed > 0) {
    return "the first " + std::to_string(tokens_flushed) + " tokens are in " + files.front() +
           (files.size() > 1 ? " and the files that go with it" : "") + old;
  }
  std::string kept;
  for (const std::string& file : files) {
    std::error_code error;
    fs::remove(file, error);
    if (error && kept.empty()) kept = file;
  }
  if (!kept.empty()) return "no token was recorded, and " + kept + " could not be removed" + old;
  return "no token was recorded" + old;
}

}  // namespace headscope::capture
