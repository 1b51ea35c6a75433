// SPDX-License-Identifier: Apache-2.0
// A model folder: config.json and its weights, one file or shards behind an index.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "model/model_config.h"
#include "model/model_session.h"
#include "model/safetensors.h"

namespace headscope::model {

// The weights of a folder. Opens every shard and checks every header; data is read only by Read.
class Checkpoint {
 public:
  explicit Checkpoint(const std::string& model_dir);  // throws BadInputError

  // The tensor of that name, which counts as used from now on; nullptr when there is none.
  const TensorEntry* Find(std::string_view name);
  bool Has(std::string_view name) const { return places_.contains(name); }
  // Reads a tensor that Find returned. Throws CancelledError when `stop` is requested.
  void Read(const TensorEntry& entry, void* into, const std::stop_token& stop = {}) const;
  // Tensors whose names begin so are known and not needed.
  void Skip(std::string_view prefix);
  void SkipOne(std::string_view name);
  // Throws BadInputError naming a tensor that nobody asked for: a model that we would run without one of its weights is
  // another model.
  void RefuseUnread() const;

  const std::string& model_dir() const { return model_dir_; }
  int64_t NumParameters() const;
  // Of the tensors whose names begin so and that are not skipped; two for each byte of packed ones.
  int64_t NumbersUnder(std::string_view prefix) const;
  int64_t BytesUnder(std::string_view prefix) const;  // of the same tensors, as stored
  int64_t Bytes() const;                              // of the files
  int32_t NumFiles() const { return static_cast<int32_t>(files_.size()); }
  // The dtype that most parameters are stored in, such as "BF16"; empty where there are none.
  std::string MainDType() const;
  // Of the shards in the order of their names. Throws CancelledError when `stop` is requested.
  std::string WeightsSha256(const std::stop_token& stop = {}) const;
  std::string FileOf(const TensorEntry& entry) const;

 private:
  struct Place {
    size_t file = 0;
    size_t entry = 0;
  };
  // `count` of each tensor whose name begins so and that is not skipped, summed up.
  template <typename Count>
  int64_t SumUnder(std::string_view prefix, const Count& count) const;

  std::string model_dir_;
  std::vector<SafetensorsFile> files_;  // in the order of their names
  std::map<std::string, Place, std::less<>> places_;
  std::set<std::string, std::less<>> unread_, skipped_;
};

// Sizes for `headscope info` and the capture form, from an open checkpoint, which skips from then on what nothing uses.
CheckpointSummary Summarize(Checkpoint* checkpoint, const ModelConfig& config);

}  // namespace headscope::model
