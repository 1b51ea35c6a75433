// SPDX-License-Identifier: Apache-2.0
#include "data/trace_files_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "base/errors.h"
#include "trace/trace_file.h"
#include "trace/trace_format.h"

namespace headscope::data {
namespace {

// No two traces get the same one, or files of both might be taken for one trace.
std::string NewSetName() {
  constexpr char kDigits[] = "0123456789abcdef";
  std::random_device random;
  std::string name;
  while (name.size() < kSetDigits) {
    uint32_t bits = random();
    for (size_t i = 0; i < 8; ++i, bits >>= 4) name += kDigits[bits & 15];
  }
  return name;
}

// A name is taken before anything is written under it: from then on the file is this process's to remove, also where
// the process ends while HDF5 makes it, and what others have put there is not. `make`: the writer, over a file that is
// there or not.
template <typename Make>
std::unique_ptr<TraceWriter> MakeFile(const std::string& path, bool overwrite,
                                      const std::function<void(const std::string&)>& made, const Make& make) {
  if (overwrite) {
    if (made) made(path);
    return make(true);
  }
  const int taken = ::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
  if (taken < 0) return make(false);  // which fails, and says why
  ::close(taken);
  try {
    if (made) made(path);
    return make(true);
  } catch (...) {
    ::unlink(path.c_str());
    throw;
  }
}

// A file's share of the memory for open chunks: that of its heads, since each has one. Of layers that the number of
// files does not divide some have one more.
size_t OpenBytesOfFile(const TraceLayout& of_file, const TraceLayout& layout) {
  return kOpenChunkBytes * static_cast<size_t>(OpenVectors(of_file)) / static_cast<size_t>(OpenVectors(layout));
}

}  // namespace

TraceFilesWriter::TraceFilesWriter(const std::string& path, const TraceLayout& layout, int32_t num_files,
                                   bool overwrite, int64_t expected_rows, TraceStorage storage,
                                   const std::function<void(const std::string&)>& made)
    : places_(layout.layers.size()) {
  RequireLayout(layout, path);
  const std::vector<std::vector<int32_t>> slots = DealLayers(layout, num_files, expected_rows);
  std::vector<TraceLayout> layouts = LayoutsOfFiles(layout, slots);
  const std::string set = num_files > 1 ? NewSetName() : std::string();
  try {
    for (int32_t file = 0; file < num_files; ++file) {
      TraceLayout& of_file = layouts[static_cast<size_t>(file)];
      of_file.place = num_files > 1 ? TraceFilePlace{set, file + 1, num_files} : layout.place;
      const std::string file_path = TraceFilePath(path, file + 1, num_files);
      writers_.push_back(MakeFile(file_path, overwrite, made, [&](bool over) {
        return std::make_unique<TraceWriter>(file_path, of_file, over, expected_rows, storage,
                                             OpenBytesOfFile(of_file, layout), &space_);
      }));
      paths_.push_back(file_path);
      const std::vector<int32_t>& of_slots = slots[static_cast<size_t>(file)];
      for (size_t slot = 0; slot < of_slots.size(); ++slot)
        places_[static_cast<size_t>(of_slots[slot])] = {file, static_cast<int32_t>(slot)};
    }
  } catch (...) {
    writers_.clear();
    for (const std::string& file : paths_) ::unlink(file.c_str());
    throw;
  }
}

void TraceFilesWriter::AppendTokens(std::span<const TokenRecord> tokens) {
  for (const auto& writer : writers_) writer->AppendTokens(tokens);
}

void TraceFilesWriter::AppendRowPositions(std::span<const int32_t> positions) {
  for (const auto& writer : writers_) writer->AppendRowPositions(positions);
}

void TraceFilesWriter::SetAnswerScore(float score) {
  for (const auto& writer : writers_) writer->SetAnswerScore(score);
}

void TraceFilesWriter::Finish() {
  for (const auto& writer : writers_) writer->Finish();
}

void TraceFilesWriter::Append(LayerBlock block) {
  const Place place = PlaceOf(block.layer_slot);
  block.layer_slot = place.slot;
  file(place.file).Append(block);
}

int64_t OpenChunkBytesOfFiles(const TraceLayout& layout, int64_t expected_rows, int32_t num_files) {
  int64_t bytes = 0;
  for (const TraceLayout& one : LayoutsOfFiles(layout, DealLayers(layout, num_files, expected_rows)))
    bytes += BytesOfOpenChunks(one, expected_rows, OpenBytesOfFile(one, layout));
  return bytes;
}

}  // namespace headscope::data
