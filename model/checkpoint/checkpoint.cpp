// SPDX-License-Identifier: Apache-2.0
#include "model/checkpoint.h"

#include <filesystem>
#include <utility>

#include "base/quoted_text.h"
#include "checkpoint/expected_weights.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/strict_json.h"

namespace headscope::model {
namespace {

constexpr int64_t kMaxIndexBytes = 64 << 20;
constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kSingleName = "model.safetensors";
constexpr std::string_view kFetchFolderAgain = "fetch the folder again";

// Shard names come from an untrusted file and are joined to the folder, so only plain names pass.
bool IsPlainShardName(std::string_view name) {
  return name.size() > 12 && name.ends_with(".safetensors") && name.front() != '.' &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos &&
         name.find("..") == std::string_view::npos;
}

std::map<std::string, std::string> ReadIndex(const std::string& path) {
  const JsonTree index(ReadSmallFile(path, kMaxIndexBytes, kFetchFolderAgain), path);
  const JsonFields root(index.Root(), path, "");
  if (!root.Has("weight_map")) root.RefuseField("weight_map", "the field is missing", kFetchFolderAgain);
  const JsonValue map = *root.Find("weight_map");
  if (!map.IsObject() || map.size() == 0)
    root.RefuseField("weight_map", "must be an object with at least one tensor", kFetchFolderAgain);
  std::map<std::string, std::string> shard_of;
  map.ForEachMember([&](std::string_view tensor, const JsonValue& shard) {
    if (!shard.IsString() || !IsPlainShardName(shard.Text())) {
      root.RefuseField("weight_map." + std::string(tensor.substr(0, 200)),
                       shard.Shortened() + " is not the plain name of a .safetensors file", kFetchFolderAgain);
    }
    shard_of.emplace(tensor, shard.Text());
  });
  return shard_of;
}

// What files that were converted from TensorFlow call the two parts of a norm; empty for other tensors.
std::string OldName(std::string_view name) {
  for (const auto& [part, old] : {std::pair("weight", "gamma"), std::pair("bias", "beta")}) {
    const std::string whole = std::string("LayerNorm.") + part;
    if (name.ends_with(whole)) return std::string(name.substr(0, name.size() - std::string_view(part).size())) + old;
  }
  return {};
}

}  // namespace

Checkpoint::Checkpoint(const std::string& model_dir) : model_dir_(model_dir) {
  namespace fs = std::filesystem;
  const fs::path folder(model_dir);
  const fs::path index_path = folder / kIndexName;
  const fs::path single_path = folder / kSingleName;
  std::map<std::string, std::string> shard_of;
  std::set<std::string> shard_names;
  std::error_code ignored;
  RefuseAdapter(folder);
  if (fs::exists(index_path, ignored)) {
    shard_of = ReadIndex(index_path.string());
    for (const auto& [tensor, shard] : shard_of) shard_names.insert(shard);
  } else if (fs::exists(single_path, ignored)) {
    shard_names.insert(std::string(kSingleName));
  } else {
    RefuseOtherWeights(folder);
  }
  for (const std::string& shard : shard_names) {
    const size_t file = files_.size();
    files_.emplace_back((folder / shard).string(), kFetchFolderAgain);
    const std::vector<TensorEntry>& entries = files_.back().entries();
    for (size_t entry = 0; entry < entries.size(); ++entry) {
      const std::string& name = entries[entry].name;
      if (!shard_of.empty()) {
        const auto listed = shard_of.find(name);
        if (listed == shard_of.end() || listed->second != shard) {
          Refuse(files_.back().file().path(), "tensor " + Quoted(name),
                 "is not listed for this file in " + std::string(kIndexName), kFetchFolderAgain);
        }
      }
      places_.emplace(name, Place{file, entry});
    }
  }
  for (const auto& [tensor, shard] : shard_of) {
    if (!places_.contains(tensor)) {
      Refuse(index_path.string(), "weight_map." + tensor.substr(0, 200), "the tensor is not in " + shard,
             kFetchFolderAgain);
    }
  }
  for (const auto& [name, place] : places_) unread_.insert(name);
}

const TensorEntry* Checkpoint::Find(std::string_view name) {
  const auto at = places_.find(name);
  if (at == places_.end()) {
    const std::string old = OldName(name);
    return old.empty() ? nullptr : Find(old);
  }
  if (const auto unread = unread_.find(name); unread != unread_.end()) unread_.erase(unread);
  return &files_[at->second.file].entries()[at->second.entry];
}

void Checkpoint::Read(const TensorEntry& entry, void* into, const std::stop_token& stop) const {
  files_[places_.find(entry.name)->second.file].Read(entry, into, stop);
}

std::string Checkpoint::FileOf(const TensorEntry& entry) const {
  return files_[places_.find(entry.name)->second.file].file().path();
}

void Checkpoint::Skip(std::string_view prefix) {
  for (auto at = places_.lower_bound(prefix); at != places_.end() && at->first.starts_with(prefix); ++at)
    SkipOne(at->first);
}

void Checkpoint::SkipOne(std::string_view name) {
  const auto at = places_.find(name);
  if (at == places_.end()) return;
  skipped_.insert(at->first);
  unread_.erase(at->first);
}

void Checkpoint::RefuseUnread() const {
  if (unread_.empty()) return;
  const std::string& name = *unread_.begin();
  Refuse(files_[places_.find(name)->second.file].file().path(), "tensor " + Quoted(name),
         "is not part of this architecture (" + std::to_string(unread_.size()) + " such tensors)",
         "headscope runs a model only with all of its weights: check model_type in config.json, or use " +
             std::string(kRecordFromPython));
}

int64_t Checkpoint::NumParameters() const {
  int64_t total = 0;
  for (const SafetensorsFile& file : files_) {
    for (const TensorEntry& entry : file.entries()) {
      int64_t count = 1;
      for (const int64_t extent : entry.shape) count *= extent;  // checked against the file's size when it was opened
      total += count;
    }
  }
  return total;
}

template <typename Count>
int64_t Checkpoint::SumUnder(std::string_view prefix, const Count& count) const {
  int64_t total = 0;
  for (auto at = places_.lower_bound(prefix); at != places_.end() && at->first.starts_with(prefix); ++at)
    if (!skipped_.contains(at->first)) total += count(files_[at->second.file].entries()[at->second.entry]);
  return total;
}

int64_t Checkpoint::NumbersUnder(std::string_view prefix) const {
  return SumUnder(prefix, [](const TensorEntry& entry) {
    int64_t count = entry.dtype == "U8" ? 2 : 1;
    for (const int64_t extent : entry.shape) count *= extent;
    return count;
  });
}

int64_t Checkpoint::BytesUnder(std::string_view prefix) const {
  return SumUnder(prefix, [](const TensorEntry& entry) { return entry.end - entry.begin; });
}

int64_t Checkpoint::Bytes() const {
  int64_t total = 0;
  for (const SafetensorsFile& file : files_) total += file.file().size();
  return total;
}

std::string Checkpoint::MainDType() const {
  std::map<std::string, int64_t> bytes;
  for (const SafetensorsFile& file : files_) {
    for (const TensorEntry& entry : file.entries()) bytes[entry.dtype] += entry.end - entry.begin;
  }
  std::string main;
  int64_t most = 0;
  for (const auto& [dtype, count] : bytes) {
    if (count > most) {
      main = dtype;
      most = count;
    }
  }
  return main;
}

std::string Checkpoint::WeightsSha256(const std::stop_token& stop) const {
  Sha256 hash;
  for (const SafetensorsFile& file : files_) hash.Add(file.file(), stop);
  return hash.HexDigest();
}

CheckpointSummary Summarize(Checkpoint* checkpoint, const ModelConfig& config) {
  SkipUnused(checkpoint, config);
  CheckpointSummary summary;
  summary.model_type = config.model_type;
  summary.dtype = checkpoint->MainDType();
  summary.num_parameters = checkpoint->NumParameters();
  summary.used_numbers = checkpoint->NumbersUnder("");
  summary.head_beside_embeddings = HeadBesideEmbeddings(*checkpoint, config);
  for (int32_t layer = 0; layer < config.num_layers; ++layer)
    summary.layer_numbers.push_back(checkpoint->NumbersUnder(LayerPrefix(*checkpoint, *config.family, layer)));
  summary.bytes = checkpoint->Bytes();
  summary.num_files = checkpoint->NumFiles();
  summary.num_layers = config.num_layers;
  summary.num_qo_heads = config.num_qo_heads;
  summary.num_kv_heads = config.num_kv_heads;
  summary.head_dim = config.head_dim;
  for (const AttentionLayer& layer : config.layers) {
    if (layer.other_mixer) continue;
    summary.values_per_token += int64_t{layer.num_qo_heads} * layer.head_dim;
    if (layer.selected > 0) summary.values_per_token += (int64_t{config.index.heads} + 1) * config.index.dim;
    if (layer.kv_layer < 0)
      summary.values_per_token += int64_t{layer.num_kv_heads} * (layer.head_dim + layer.v_head_dim);
  }
  summary.hidden_size = config.hidden_size;
  summary.vocabulary_size = config.vocabulary_size;
  summary.max_positions = config.max_positions;
  return summary;
}

CheckpointSummary ReadCheckpointSummary(const std::string& model_dir, bool with_hash, const std::stop_token& stop) {
  const ModelConfig config = ReadModelConfig(model_dir);
  Checkpoint checkpoint(model_dir);
  CheckpointSummary summary = Summarize(&checkpoint, config);
  if (with_hash) summary.weights_sha256 = checkpoint.WeightsSha256(stop);
  return summary;
}

}  // namespace headscope::model
