// SPDX-License-Identifier: Apache-2.0
// Writes a trace into one file or several (trace_files.h), which are all there, and all empty, before anything is
// written. The writers of different files may be used by different threads at once; the calls for all of them are for
// one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/space_needed.h"
#include "data/trace_files.h"
#include "data/trace_writer.h"

namespace headscope::data {

class TraceFilesWriter {
 public:
  // As TraceWriter, of `num_files` files named for `path`; where one cannot be made, none stays. They share the memory
  // for open chunks. `made` is called with the name of each file once it is this process's to remove, which is
  // before anything is in it.
  TraceFilesWriter(const std::string& path, const TraceLayout& layout, int32_t num_files, bool overwrite,
                   int64_t expected_rows = 0, TraceStorage storage = TraceStorage::kPlain,
                   const std::function<void(const std::string&)>& made = {});

  const std::vector<std::string>& paths() const { return paths_; }
  int32_t num_files() const { return static_cast<int32_t>(writers_.size()); }
  TraceWriter& file(int32_t number) { return *writers_[static_cast<size_t>(number)]; }
  // Where a layer is recorded: of which file, and as which of its slots.
  struct Place {
    int32_t file = 0;
    int32_t slot = 0;
  };
  Place PlaceOf(int32_t layer_slot) const { return places_.at(static_cast<size_t>(layer_slot)); }

  // For all files.
  void AppendTokens(std::span<const TokenRecord> tokens);
  void AppendRowPositions(std::span<const int32_t> positions);
  void SetAnswerScore(float score);
  void Finish();
  // `block.layer_slot` counts the layers of all files.
  void Append(LayerBlock block);

 private:
  std::vector<std::string> paths_;
  SpaceNeeded space_;  // of all files, which one disk holds; outlives the writers
  std::vector<std::unique_ptr<TraceWriter>> writers_;
  std::vector<Place> places_;
};

// BytesOfOpenChunks of all these writers. Throws as DealLayers.
int64_t OpenChunkBytesOfFiles(const TraceLayout& layout, int64_t expected_rows, int32_t num_files);

}  // namespace headscope::data
