// SPDX-License-Identifier: Apache-2.0
#include "data/trace_writer.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/errors.h"
#include "data/space_needed.h"
#include "trace/hdf5_values.h"
#include "trace/trace_file.h"
#include "trace/trace_format.h"
#include "trace/trace_tensors.h"

namespace headscope::data {
namespace {

// Free space that must remain beside the data: metadata of the file and room for others.
constexpr int64_t kDiskReserve = int64_t{8} << 20;

// Where a forward pass stands in one layer.
struct LayerProgress {
  int64_t tokens = 0;
  int64_t rows = 0;
};

}  // namespace

struct TraceWriter::Impl {
  std::string path;
  TraceLayout layout;
  SpaceNeeded alone;
  SpaceNeeded* space = &alone;
  TraceFile file;
  struct Place {
    size_t part;
    hsize_t slot;  // in the part
  };
  std::vector<Place> places;  // of the recorded layers
  std::vector<LayerProgress> progress;
  std::vector<int32_t>
      positions;  // of all recorded query rows: 4 bytes a row, a small share of what a row takes on disk
  int64_t num_tokens = 0;
  int64_t text_bytes = 0;
  bool broken = false;

  void RequireSpace(int64_t tokens, int64_t rows, int64_t text_length);
  void Check(const LayerBlock& block) const;
  void WriteTensor(const TensorSpec& spec, const LayerBlock& block);
  void WriteLseKeys(const LayerBlock& block);
  int64_t WholeTokens() const;
  void FlushAll();

  // Runs `action` on the file. A failure inside HDF5 leaves its caches unfit for anything, closing included: from then
  // on the file is left as it stands on disk, which is what a kill would have left. `left` says what that is.
  template <typename Action>
  void Guarded(Action action, const char* left = "what was flushed before is intact") {
    if (broken) {
      throw FailedError(
          {.file = path,
           .problem =
               "the trace cannot be written any further after the earlier failure, but what was flushed is intact"});
    }
    try {
      action();
    } catch (Error& error) {
      broken = true;
      file.Abandon();
      error.SetFile(path);
      if (*left != '\0') error.AddRemedy(left);
      throw;
    } catch (...) {  // no memory, half-way through
      broken = true;
      file.Abandon();
      throw;
    }
  }
};

// HDF5 notices a full disk when a chunk is handed over or its cache is flushed, and is unfit for going on then. So the
// file's size is foreseen, every open chunk counted whole.
void TraceWriter::Impl::RequireSpace(int64_t tokens, int64_t rows, int64_t text_length) {
  struct stat now {};
  struct statvfs disk {};
  if (stat(path.c_str(), &now) != 0 || statvfs(path.c_str(), &disk) != 0) {
    throw FailedError({.file = path,
                       .problem = "vanished while it was being written",
                       .remedy = "write to a folder that is not cleaned up automatically"});
  }
  const int64_t missing = space->Ask(path, file.StoredBytes(tokens, rows, text_length)) + kDiskReserve;
  const auto free_bytes = static_cast<int64_t>(disk.f_bavail) * static_cast<int64_t>(disk.f_frsize);
  if (missing > free_bytes) {
    throw FailedError({.file = path,
                       .problem = "the disk is nearly full (" + std::to_string(free_bytes >> 20) + " MiB free, " +
                                  std::to_string((missing >> 20) + 1) +
                                  " MiB needed), and what was flushed before is intact",
                       .remedy = "free some disk space or choose another folder"});
  }
}

void TraceWriter::Impl::Check(const LayerBlock& block) const {
  const auto fail = [&](const std::string& problem) { throw FailedError({.file = path, .problem = problem}); };
  if (block.layer_slot < 0 || static_cast<size_t>(block.layer_slot) >= progress.size()) {
    fail("layer_slot " + std::to_string(block.layer_slot) + ": the trace has " + std::to_string(progress.size()) +
         " layers");
  }
  const LayerProgress& at = progress[static_cast<size_t>(block.layer_slot)];
  if (block.first_token != at.tokens || block.num_tokens < 0 || block.num_tokens > num_tokens - at.tokens) {
    fail("first_token " + std::to_string(block.first_token) + " with num_tokens " + std::to_string(block.num_tokens) +
         ": layer slot " + std::to_string(block.layer_slot) + " continues at token " + std::to_string(at.tokens) +
         " of " + std::to_string(num_tokens) + " appended");
  }
  const auto begin = positions.begin() + at.rows;
  const auto end = std::lower_bound(begin, positions.end(), block.first_token + block.num_tokens);
  if (block.first_row != at.rows || block.num_rows != end - begin) {
    fail("first_row " + std::to_string(block.first_row) + " with num_rows " + std::to_string(block.num_rows) +
         ": these tokens hold rows " + std::to_string(at.rows) + " to " + std::to_string(at.rows + (end - begin)));
  }
  const auto slot = static_cast<size_t>(block.layer_slot);
  for (const TensorSpec& spec : kTensorSpecs) {
    const int64_t items = spec.of_rows ? block.num_rows : block.num_tokens;
    if (items > 0 && Stores(layout, slot, spec.tensor) && block.Values(spec.tensor) == nullptr) {
      fail(std::string("a block has no ") + spec.name + " for the rows or tokens that it announces");
    }
  }
}

void TraceWriter::Impl::WriteTensor(const TensorSpec& spec, const LayerBlock& block) {
  const Place& place = places[static_cast<size_t>(block.layer_slot)];
  FilePart& part = file.parts[place.part];
  const auto number = static_cast<size_t>(spec.tensor);
  const auto first = static_cast<hsize_t>(spec.of_rows ? block.first_row : block.first_token);
  const auto length = static_cast<hsize_t>(spec.of_rows ? block.num_rows : block.num_tokens);
  if (!part.stored[number] || length == 0) {
    return;
  }
  GrowingDataset& target = part.tensors[number];
  const auto heads = static_cast<hsize_t>(NumHeads(spec, layout.facts[static_cast<size_t>(block.layer_slot)]));
  target.Grow(first + length);
  target.Continue(place.slot * heads, heads, first, length, block.Values(spec.tensor));
}

void TraceWriter::Impl::WriteLseKeys(const LayerBlock& block) {
  if (block.num_rows == 0) {
    return;
  }
  const auto first = static_cast<hsize_t>(block.first_row), length = static_cast<hsize_t>(block.num_rows);
  std::vector<int64_t> keys;
  for (hsize_t row = first; row < first + length; ++row) {
    keys.push_back(LseKeys(layout, static_cast<size_t>(block.layer_slot), positions[row]));
  }
  const Place& place = places[static_cast<size_t>(block.layer_slot)];
  GrowingDataset& lse_keys = file.parts[place.part].lse_keys;
  lse_keys.Grow(first + length);
  lse_keys.Continue(place.slot, 1, first, length, keys.data());
}

int64_t TraceWriter::Impl::WholeTokens() const {
  int64_t whole = num_tokens;
  for (const LayerProgress& layer : progress) {
    whole = std::min(whole, layer.tokens);
  }
  return whole;
}

// Data first, its count second: a kill between the two leaves a count that is too small, never one that is too large.
void TraceWriter::Impl::FlushAll() {
  const int64_t whole = WholeTokens();
  const int64_t rows = std::lower_bound(positions.begin(), positions.end(), whole) - positions.begin();
  for (FilePart& part : file.parts) {
    part.lse_keys.WriteBegunChunks();
    for (GrowingDataset& tensor : part.tensors) tensor.WriteBegunChunks();
  }
  const Hdf5Lock lock;
  Require(H5Fflush(file.file.get(), H5F_SCOPE_LOCAL), "flushing");
  Require(H5Awrite(file.rows_flushed.get(), H5T_NATIVE_INT64, &rows), "writing rows_flushed");
  Require(H5Awrite(file.tokens_flushed.get(), H5T_NATIVE_INT64, &whole), "writing tokens_flushed");
  Require(H5Fflush(file.file.get(), H5F_SCOPE_LOCAL), "flushing");
}

TraceWriter::TraceWriter(const std::string& path, const TraceLayout& layout, bool overwrite, int64_t expected_rows,
                         TraceStorage storage, size_t open_chunk_bytes, SpaceNeeded* space)
    : impl_(std::make_unique<Impl>()) {
  RequireLayout(layout, path);
  const Hdf5Lock lock;
  impl_->path = path;
  impl_->layout = layout;
  if (space != nullptr) impl_->space = space;
  impl_->progress.resize(layout.layers.size());
  impl_->file.Create(path, overwrite);
  try {
    impl_->Guarded(
        [&] {
          impl_->file.CreateObjects(layout, {.expected_rows = expected_rows > 0 ? expected_rows : layout.max_tokens,
                                             .compressed = storage == TraceStorage::kCompressed,
                                             .open_bytes = open_chunk_bytes});
          // A chunk that is there when its dataset grows is written out, and compressed ones lie elsewhere the next
          // time.
          for (FilePart& part : impl_->file.parts) {
            for (const TensorSpec& spec : kTensorSpecs) {
              if (storage == TraceStorage::kPlain || !part.stored[static_cast<size_t>(spec.tensor)]) continue;
              part.tensors[static_cast<size_t>(spec.tensor)].Grow(
                  static_cast<hsize_t>(spec.of_rows ? expected_rows : layout.max_tokens));
            }
          }
        },
        "");
    impl_->places.resize(layout.layers.size());
    for (size_t part = 0; part < impl_->file.parts.size(); ++part) {
      const std::vector<int32_t>& slots = impl_->file.parts[part].slots;
      for (size_t i = 0; i < slots.size(); ++i) impl_->places[static_cast<size_t>(slots[i])] = {part, i};
    }
  } catch (...) {
    ::unlink(path.c_str());  // nothing is in it yet, and half a skeleton is no trace
    throw;
  }
}

TraceWriter::~TraceWriter() {
  const Hdf5Lock lock;
  impl_->space->Forget(impl_->path);
  impl_.reset();
}

void TraceWriter::AppendTokens(std::span<const TokenRecord> tokens) {
  const Hdf5Lock lock;
  Impl& self = *impl_;
  const auto count = static_cast<int64_t>(tokens.size());
  if (count > self.layout.max_tokens - self.num_tokens) {
    throw FailedError({.file = self.path,
                       .problem = std::to_string(self.num_tokens + count) + " tokens, but max_tokens is " +
                                  std::to_string(self.layout.max_tokens) + ": raise it"});
  }
  std::vector<int32_t> ids, steps;
  std::vector<int8_t> phases, roles;
  std::vector<int32_t> token_positions;
  std::vector<int64_t> offsets;
  std::string text;
  int64_t end = self.text_bytes;
  for (const TokenRecord& token : tokens) {
    ids.push_back(token.id);
    phases.push_back(static_cast<int8_t>(token.phase));
    steps.push_back(token.step);
    roles.push_back(static_cast<int8_t>(token.role));
    token_positions.insert(token_positions.end(), token.positions.begin(),
                           token.positions.begin() + self.layout.position_axes);
    text += token.text;
    offsets.push_back(end += static_cast<int64_t>(token.text.size()));
  }
  self.RequireSpace(self.num_tokens + count, static_cast<int64_t>(self.positions.size()), end);
  self.Guarded([&] {
    self.file.ids.AppendItems(tokens.size(), ids.data());
    self.file.phase.AppendItems(tokens.size(), phases.data());
    self.file.step.AppendItems(tokens.size(), steps.data());
    self.file.text.AppendItems(text.size(), text.data());
    self.file.text_offsets.AppendItems(tokens.size(), offsets.data());
    if (self.file.has_role) self.file.role.AppendItems(tokens.size(), roles.data());
    if (self.file.has_positions && !tokens.empty()) {
      const hsize_t begin = self.file.positions.length();
      self.file.positions.Grow(begin + tokens.size());
      self.file.positions.Write({begin, 0}, {tokens.size(), static_cast<hsize_t>(self.layout.position_axes)},
                                token_positions.data());
    }
  });
  self.num_tokens += count;
  self.text_bytes = end;
}

void TraceWriter::AppendRowPositions(std::span<const int32_t> positions) {
  const Hdf5Lock lock;
  Impl& self = *impl_;
  int64_t last = self.positions.empty() ? -1 : self.positions.back();
  for (const int32_t position : positions) {
    if (position <= last || position >= self.num_tokens) {
      throw FailedError({.file = self.path,
                         .problem = "row position " + std::to_string(position) + ": must lie above " +
                                    std::to_string(last) + " and below the " + std::to_string(self.num_tokens) +
                                    " tokens appended so far"});
    }
    last = position;
  }
  self.Guarded([&] { self.file.q_rows.AppendItems(positions.size(), positions.data()); });
  self.positions.insert(self.positions.end(), positions.begin(), positions.end());
}

void TraceWriter::Append(const LayerBlock& block) {
  Impl& self = *impl_;
  self.Check(block);
  self.RequireSpace(self.num_tokens, static_cast<int64_t>(self.positions.size()), self.text_bytes);
  self.Guarded([&] {
    for (const TensorSpec& spec : kTensorSpecs) self.WriteTensor(spec, block);
    self.WriteLseKeys(block);
  });
  LayerProgress& at = self.progress[static_cast<size_t>(block.layer_slot)];
  at.tokens += block.num_tokens;
  at.rows += block.num_rows;
}

void TraceWriter::Flush() {
  impl_->Guarded([&] { impl_->FlushAll(); });
}

void TraceWriter::SetAnswerScore(float score) {
  const Hdf5Lock lock;
  Impl& self = *impl_;
  if (!self.file.answer_score.valid())
    throw FailedError({.file = self.path, .field = "answer_score", .problem = "the layout announces no answer"});
  self.Guarded(
      [&] { Require(H5Awrite(self.file.answer_score.get(), H5T_NATIVE_FLOAT, &score), "writing answer_score"); });
}

void TraceWriter::Finish() {
  Impl& self = *impl_;
  const int64_t whole = self.WholeTokens();
  if (whole != self.num_tokens) {
    throw FailedError({.file = self.path,
                       .problem = "only " + std::to_string(whole) + " of " + std::to_string(self.num_tokens) +
                                  " tokens are recorded in every layer",
                       .remedy = "append the missing blocks before finishing"});
  }
  self.Guarded([&] {
    self.FlushAll();
    const Hdf5Lock lock;
    const int8_t yes = 1;
    const TypeHandle type = BooleanType();
    Require(H5Awrite(self.file.complete.get(), type.get(), &yes), "writing complete");
    Require(H5Fflush(self.file.file.get(), H5F_SCOPE_LOCAL), "flushing");
  });
  // Closing writes nothing that matters any more: it only marks the file as no longer written.
  const Hdf5Lock lock;
  const std::string path = self.path;
  self.space->Forget(path);
  impl_ = std::make_unique<Impl>();
  impl_->path = path;
  impl_->broken = true;
}

}  // namespace headscope::data
