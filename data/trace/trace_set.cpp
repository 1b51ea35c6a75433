// SPDX-License-Identifier: Apache-2.0
#include "trace/trace_set.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>

#include "base/errors.h"
#include "data/trace_files.h"
#include "data/trace_replacement.h"
#include "trace/trace_format.h"
#include "trace/trace_tensors.h"

namespace headscope::data {
namespace {

namespace fs = std::filesystem;

std::string NameOfFile(const std::string& path) {
  return fs::path(path).filename().string();
}

// Where the trace is that another was about to replace, as the rest of a sentence.
std::string WhereReplaced(const std::string& path) {
  const std::string replaced = FindReplaced(path);
  return replaced.empty() ? "" : "; the trace that had this name before is " + NameOfFile(replaced);
}

// A file whose contents do not go with its name or with the files beside it.
[[noreturn]] void RefusePlace(const std::string& path, const std::string& problem) {
  throw BadInputError({.file = path,
                       .problem = problem,
                       .remedy = "bring back the file that was written under this name, or give each file a name "
                                 "without numbers to open its layers alone" +
                                 WhereReplaced(path)});
}

}  // namespace

std::string FirstToOpen(const std::string& path) {
  std::error_code error;
  if (fs::symlink_status(path, error).type() != fs::file_type::not_found) return path;
  const std::vector<std::string> files = FilesNamedFor(path);
  if (files.empty()) return path;
  for (const std::string& other : files) {
    if (ParseTraceFilePath(other)->count == ParseTraceFilePath(files.front())->count) continue;
    throw BadInputError({.file = path,
                         .problem = "may be the trace of " + NameOfFile(files.front()) + " or that of " +
                                    NameOfFile(other) + ", which are beside it",
                         .remedy = "name a file of the one that is meant"});
  }
  return files.front();
}

TraceSet::TraceSet(const std::string& path) {
  const std::string opened = FirstToOpen(path);
  auto first = std::make_unique<StoredTrace>(opened);
  const TraceFilePlace place = first->place();
  num_tokens_ = first->num_tokens();
  tokens_ = first->TakeTokens();
  row_positions_ = first->TakeRowPositions();
  const std::optional<TraceFileName> name = ParseTraceFilePath(opened);
  if (place.count == 0 || !name) {  // by a name of its own it is an ordinary trace of its layers
    paths_ = {opened};
    files_.push_back(std::move(first));
    Join();
    return;
  }
  if (name->number != place.number || name->count != place.count) {
    RefusePlace(opened, "is file " + std::to_string(place.number) + " of " + std::to_string(place.count) +
                            " of its trace, which its name does not say");
  }
  paths_ = TraceFilePaths(name->path, place.count);
  files_.resize(paths_.size());
  const StoredTrace& kept = *(files_[static_cast<size_t>(place.number - 1)] = std::move(first));
  OpenOthers(kept);
  Join();
}

void TraceSet::OpenOthers(const StoredTrace& opened) {
  const std::string name = NameOfFile(opened.path());
  // All names before any is read: opening takes a process each.
  for (const std::string& path : paths_) {
    std::error_code error;
    if (path == opened.path() || fs::exists(path, error)) continue;
    throw BadInputError(
        {.file = path,
         .problem = "is missing: " + name + " is one of the " + std::to_string(paths_.size()) + " files of a trace",
         .remedy = "put all of them into one folder, or give " + name +
                   " a name without numbers to open its layers alone" + WhereReplaced(path)});
  }
  TraceFilePlace expected = opened.place();
  for (size_t i = 0; i < files_.size(); ++i) {
    if (files_[i] != nullptr) continue;
    files_[i] = std::make_unique<StoredTrace>(paths_[i]);
    const TraceFilePlace& found = files_[i]->place();
    if (found.set != expected.set) RefusePlace(paths_[i], "is not of the same trace as " + name);
    expected.number = static_cast<int32_t>(i) + 1;
    if (found != expected) {
      RefusePlace(paths_[i], "is file " + std::to_string(found.number) + " of " + std::to_string(found.count) +
                                 " of its trace, which its name does not say");
    }
    TakeSameTrace(files_[i].get(), opened);
  }
}

// What all files of a trace have in common.
void TraceSet::TakeSameTrace(StoredTrace* file, const StoredTrace& opened) {
  if (opened.complete() && file->complete() && opened.num_tokens() != file->num_tokens()) {
    RefusePlace(file->path(), "is complete with " + std::to_string(file->num_tokens()) + " tokens, and " +
                                  NameOfFile(opened.path()) + " with " + std::to_string(opened.num_tokens()));
  }
  const TraceLayout &one = opened.layout(), &other = file->layout();
  const ModelInfo &model = one.model, &other_model = other.model;
  const auto require = [&](bool same, const char* what) {
    if (!same) RefusePlace(file->path(), std::string("has other ") + what + " than " + NameOfFile(opened.path()));
  };
  require(model.name == other_model.name && model.model_type == other_model.model_type &&
              model.config_json == other_model.config_json && model.weights_sha256 == other_model.weights_sha256 &&
              model.tokenizer_sha256 == other_model.tokenizer_sha256 && model.num_layers == other_model.num_layers &&
              model.num_qo_heads == other_model.num_qo_heads && model.num_kv_heads == other_model.num_kv_heads &&
              model.head_dim == other_model.head_dim && model.layer_kinds == other_model.layer_kinds,
          "facts of the model");
  require(one.encoding == other.encoding && one.capture_point == other.capture_point &&
              one.attention == other.attention && one.row_selection == other.row_selection &&
              one.max_tokens == other.max_tokens && one.first_token == other.first_token,
          "facts of the recording");
  require(one.prompt_source == other.prompt_source && one.task_answer == other.task_answer &&
              one.answer_tokens == other.answer_tokens && one.has_roles == other.has_roles &&
              one.position_axes == other.position_axes,
          "facts of the tokens");
  // As many as all files so far have, of which one list is in memory beside this file's.
  num_tokens_ = std::min(num_tokens_, file->num_tokens());
  KeepReadable();
  const std::vector<TokenRecord> tokens = file->TakeTokens();
  const std::vector<int32_t> rows = file->TakeRowPositions();
  require(std::ranges::equal(std::span(tokens).first(tokens_.size()), tokens_), "tokens");
  require(std::ranges::equal(std::span(rows.begin(), std::ranges::lower_bound(rows, num_tokens_)), row_positions_),
          "rows");
}

void TraceSet::KeepReadable() {
  tokens_.resize(static_cast<size_t>(num_tokens_));
  row_positions_.erase(std::ranges::lower_bound(row_positions_, num_tokens_), row_positions_.end());
}

void TraceSet::Join() {
  const StoredTrace& first = *files_.front();
  complete_ = std::ranges::all_of(files_, [](const auto& file) { return file->complete(); });
  layout_ = first.layout();
  for (size_t i = 1; i < files_.size(); ++i) {
    const StoredTrace& file = *files_[i];
    // It is written into one file after the other.
    const float score = file.layout().answer_score;
    if (std::isnan(score)) layout_.answer_score = score;
    if (!std::isnan(score) && !std::isnan(layout_.answer_score) && score != layout_.answer_score)
      RefusePlace(file.path(), "has another score of the answer than " + NameOfFile(paths_.front()));
  }
  KeepReadable();
  num_rows_ = static_cast<int64_t>(row_positions_.size());
  JoinLayers();
}

void TraceSet::JoinLayers() {
  std::vector<std::pair<int32_t, Place>> layers;
  int64_t num_heads = 0;
  for (const auto& file : files_) {
    const TraceLayout& of_file = file->layout();
    for (size_t slot = 0; slot < of_file.layers.size(); ++slot) {
      layers.emplace_back(of_file.layers[slot], Place{file.get(), static_cast<int32_t>(slot)});
      num_heads += std::ssize(of_file.facts[slot].qo_heads) + std::ssize(of_file.facts[slot].kv_heads);
    }
  }
  std::ranges::stable_sort(layers, {}, &std::pair<int32_t, Place>::first);
  for (size_t i = 1; i < layers.size(); ++i) {
    if (layers[i].first != layers[i - 1].first) continue;
    RefusePlace(layers[i].second.file->path(), "holds layer " + std::to_string(layers[i].first) + ", which " +
                                                   NameOfFile(layers[i - 1].second.file->path()) + " holds as well");
  }
  if (num_heads > kMaxAllHeads) {
    RefusePlace(paths_.front(), "and the files beside it have " + std::to_string(num_heads) +
                                    " heads in all layers, at most " + std::to_string(kMaxAllHeads) + " are allowed");
  }
  layout_.layers.clear();
  layout_.facts.clear();
  for (const auto& [layer, place] : layers) {
    layout_.layers.push_back(layer);
    layout_.facts.push_back(place.file->layout().facts[static_cast<size_t>(place.slot)]);
    places_.push_back(place);
  }
  if (files_.size() == 1) return;
  if (const std::optional<Fault> fault = LayoutFault(layout_))
    RefusePlace(paths_.front(), "and the files beside it do not make one trace (" + SentenceOf(*fault) + ")");
  RequireSharedInOneFile();
}

// A layer's keys and values, or its selection, are looked for in its own file.
void TraceSet::RequireSharedInOneFile() const {
  for (size_t slot = 0; slot < places_.size(); ++slot) {
    const auto selecting = std::ranges::find(layout_.layers, layout_.facts[slot].selection_layer);
    const size_t sources[] = {KeySource(layout_, slot), selecting == layout_.layers.end()
                                                            ? slot
                                                            : static_cast<size_t>(selecting - layout_.layers.begin())};
    for (const size_t source : sources) {
      if (places_[source].file == places_[slot].file) continue;
      RefusePlace(places_[slot].file->path(), "holds layer " + std::to_string(layout_.layers[slot]) +
                                                  ", which shares what layer " +
                                                  std::to_string(layout_.layers[source]) + " in " +
                                                  NameOfFile(places_[source].file->path()) + " stores");
    }
  }
}

TraceSet::Place TraceSet::PlaceOf(int32_t layer_slot) const {
  if (layer_slot < 0 || layer_slot >= std::ssize(places_)) {
    throw std::out_of_range(paths_.front() + ": layer slot " + std::to_string(layer_slot) + " of " +
                            std::to_string(places_.size()));
  }
  return places_[static_cast<size_t>(layer_slot)];
}

}  // namespace headscope::data
