// SPDX-License-Identifier: Apache-2.0
// A trace of format 2, or 1, in a file that somebody else may have made: what TraceReader offers.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "data/trace_schema.h"
#include "trace/untrusted_file.h"

namespace headscope::data {

// What a trace's file says of its place among several, without a look at the rest of it; BadInputError where it is no
// trace that can be read.
TraceFilePlace StoredPlace(const std::string& path);

class StoredTrace {
 public:
  explicit StoredTrace(const std::string& path);
  // With a table of contents from elsewhere: for tests.
  StoredTrace(const std::string& path, Contents contents);

  const std::string& path() const { return file_.path(); }
  const TraceLayout& layout() const { return layout_; }
  bool complete() const { return complete_; }
  // What the file says of itself; its name may say otherwise.
  const TraceFilePlace& place() const { return place_; }
  int64_t num_tokens() const { return num_tokens_; }
  int64_t num_rows() const { return num_rows_; }
  const std::vector<TokenRecord>& tokens() const { return tokens_; }
  const std::vector<int32_t>& row_positions() const { return row_positions_; }

  // They are another's from then on, and gone here.
  std::vector<TokenRecord> TakeTokens();
  std::vector<int32_t> TakeRowPositions();

  // Items [begin, end) of one head of a tensor that the file has of that layer. Throws std::out_of_range for others.
  void Read(TraceTensor tensor, int32_t layer_slot, int32_t head_slot, int64_t begin, int64_t end, void* out) const;

 private:
  // The datasets of layers of one shape.
  struct Part {
    std::vector<int32_t> slots;  // of the recorded layers in it
    std::array<CheckedDataset, kNumTraceTensors> tensors;
  };

  void ReadEverythingButVectors();
  void ReadRoot();
  void ReadLayout(const StoredGroup& attention, const StoredGroup& tokens_group);
  void ReadUniformLayers(const StoredGroup& attention);  // of format 1
  void ReadLayers();
  void RequireFewHeads(int64_t num_heads) const;
  void ReadSinks(const StoredGroup& layers);
  void ReadParts(const std::vector<int32_t>& part_of_layer);
  void ReadTokens(const StoredGroup& group);
  void OpenPart(Part* part, const StoredGroup& group);
  void ReadRoles(const CheckedDataset& dataset);
  void ReadPositions(const CheckedDataset& dataset);
  void ReadRowPositions(const StoredGroup& group);
  CheckedDataset Growing(const StoredGroup& group, const std::string& name, StoredKind type, int64_t used,
                         int64_t width = 0);
  void RequireHeads(CheckedDataset& dataset, const std::vector<int64_t>& extents, int64_t used);
  int64_t CheckedEnd(const CheckedDataset& dataset, int64_t readable) const;
  template <typename Number>
  std::vector<Number> ReadAll(const CheckedDataset& dataset, int64_t used) const;

  UntrustedFile file_;
  TraceLayout layout_;
  TraceFilePlace place_;
  bool complete_ = false;
  int64_t num_tokens_ = 0;
  int64_t num_rows_ = 0;
  std::vector<TokenRecord> tokens_;
  std::vector<int32_t> row_positions_;
  int32_t version_ = 0;
  std::vector<Part> parts_;
  struct Place {
    size_t part = 0;
    int64_t slot = 0;  // in the part
  };
  std::vector<Place> places_;  // of the recorded layers
};

}  // namespace headscope::data
