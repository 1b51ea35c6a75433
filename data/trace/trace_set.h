// SPDX-License-Identifier: Apache-2.0
// The files of a trace, opened: one, or several that each hold some of its layers (docs/trace_format.md, "Several
// files"). Where the others are follows from the name of the one that is opened, never from what stands in it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trace/stored_trace.h"

namespace headscope::data {

// The file to begin with: `path`, or where nothing has that name a file of the trace that is called so. BadInputError
// where two are.
std::string FirstToOpen(const std::string& path);

class TraceSet {
 public:
  // One of the files, or the name that they share where nothing else has it. BadInputError where one is missing or is
  // of another trace.
  explicit TraceSet(const std::string& path);

  const std::vector<std::string>& paths() const { return paths_; }
  const TraceLayout& layout() const { return layout_; }
  bool complete() const { return complete_; }
  int64_t num_tokens() const { return num_tokens_; }
  int64_t num_rows() const { return num_rows_; }
  const std::vector<TokenRecord>& tokens() const { return tokens_; }
  const std::vector<int32_t>& row_positions() const { return row_positions_; }

  struct Place {
    const StoredTrace* file = nullptr;
    int32_t slot = 0;  // of its recorded layers
  };
  // Throws std::out_of_range.
  Place PlaceOf(int32_t layer_slot) const;

 private:
  void OpenOthers(const StoredTrace& opened);
  void KeepReadable();  // of tokens and rows, those that all files have
  void Join();
  void JoinLayers();
  void RequireSharedInOneFile() const;
  // Takes the tokens and rows that the file has, which must begin as those that are here, or these begin as they do.
  void TakeSameTrace(StoredTrace* file, const StoredTrace& opened);

  std::vector<std::string> paths_;
  std::vector<std::unique_ptr<StoredTrace>> files_;
  TraceLayout layout_;
  bool complete_ = false;
  int64_t num_tokens_ = 0;
  int64_t num_rows_ = 0;
  std::vector<TokenRecord> tokens_;
  std::vector<int32_t> row_positions_;
  std::vector<Place> places_;  // of the recorded layers
};

}  // namespace headscope::data
