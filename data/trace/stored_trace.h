// A trace of format 1 in a file that somebody else may have made: what TraceReader offers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/trace_schema.h"
#include "trace/untrusted_file.h"

namespace headscope::data {

class StoredTrace {
 public:
  explicit StoredTrace(const std::string& path);
  // With a table of contents from elsewhere: for tests.
  StoredTrace(const std::string& path, Contents contents);

  const std::string& path() const { return file_.path(); }
  const TraceLayout& layout() const { return layout_; }
  bool complete() const { return complete_; }
  int64_t num_tokens() const { return num_tokens_; }
  int64_t num_rows() const { return num_rows_; }
  const std::vector<TokenRecord>& tokens() const { return tokens_; }
  const std::vector<int32_t>& row_positions() const { return row_positions_; }
  const CheckedDataset& q() const { return q_; }
  const CheckedDataset& k() const { return k_; }
  const CheckedDataset& v() const { return v_; }
  const CheckedDataset& lse() const { return lse_; }

  // Items [begin, end) of one head, `readable` of which count. Throws std::out_of_range for others.
  void Read(const CheckedDataset& dataset, int32_t layer_slot, int32_t head_slot, int64_t begin, int64_t end,
            int64_t readable, void* out) const;

 private:
  void ReadEverythingButVectors();
  void ReadRoot();
  void ReadLayout(const StoredGroup& attention, const StoredGroup& tokens_group);
  void ReadTokens(const StoredGroup& group);
  void OpenHeads(const StoredGroup& group);
  void ReadRowPositions(const StoredGroup& group);
  CheckedDataset Growing(const StoredGroup& group, const std::string& name, StoredKind type, int64_t used);
  void RequireHeads(CheckedDataset& dataset, size_t num_heads, int64_t used);
  int64_t CheckedEnd(const CheckedDataset& dataset, int64_t readable) const;
  template <typename Number>
  std::vector<Number> ReadAll(const CheckedDataset& dataset, int64_t used) const;

  UntrustedFile file_;
  TraceLayout layout_;
  bool complete_ = false;
  int64_t num_tokens_ = 0;
  int64_t num_rows_ = 0;
  std::vector<TokenRecord> tokens_;
  std::vector<int32_t> row_positions_;
  CheckedDataset q_, k_, v_, lse_;
};

}  // namespace headscope::data
