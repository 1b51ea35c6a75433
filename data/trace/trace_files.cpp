// SPDX-License-Identifier: Apache-2.0
#include "data/trace_files.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <numeric>

#include "base/errors.h"
#include "trace/trace_tensors.h"

namespace headscope::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kNumberDigits = 5;
constexpr char kOf[] = "-of-";
// "-00002-of-00004"
constexpr size_t kMarkLength = 1 + kNumberDigits + sizeof kOf - 1 + kNumberDigits;

// Of exactly kNumberDigits digits; -1: it is not one.
int32_t FiveDigits(const std::string& text, size_t begin) {
  int32_t value = 0;
  for (size_t i = begin; i < begin + kNumberDigits; ++i) {
    if (text[i] < '0' || text[i] > '9') return -1;
    value = value * 10 + (text[i] - '0');
  }
  return value;
}

// What a layer takes in the file.
int64_t LayerBytes(const TraceLayout& layout, size_t slot, int64_t rows) {
  const LayerFacts& facts = layout.facts[slot];
  int64_t bytes = 0;
  for (const TensorSpec& spec : kTensorSpecs) {
    if (!Stores(layout, slot, spec.tensor)) continue;
    bytes += NumHeads(spec, facts) * NumComponents(spec, facts) * ComponentBytes(spec, layout.encoding) *
             (spec.of_rows ? rows : layout.max_tokens);
  }
  return bytes;
}

// Layers that stay in one file.
struct LayerGroup {
  std::vector<int32_t> slots;
  int64_t bytes = 0;
};

// The slot of a recorded layer; `missing` where it is not recorded.
size_t SlotOfLayer(const TraceLayout& layout, int32_t layer, size_t missing) {
  const auto found = std::ranges::lower_bound(layout.layers, layer);
  return found != layout.layers.end() && *found == layer ? static_cast<size_t>(found - layout.layers.begin()) : missing;
}

std::vector<LayerGroup> GroupLayers(const TraceLayout& layout, int64_t rows) {
  std::vector<size_t> group_of(layout.layers.size());
  std::iota(group_of.begin(), group_of.end(), size_t{0});
  for (size_t slot = 0; slot < group_of.size(); ++slot) {
    for (const size_t source : {KeySource(layout, slot), SlotOfLayer(layout, layout.facts[slot].selection_layer, slot)})
      std::ranges::replace(group_of, size_t{group_of[slot]}, size_t{group_of[source]});
  }
  std::vector<LayerGroup> groups(group_of.size());
  for (size_t slot = 0; slot < group_of.size(); ++slot) {
    LayerGroup& group = groups[group_of[slot]];
    group.slots.push_back(static_cast<int32_t>(slot));
    group.bytes += LayerBytes(layout, slot, rows);
  }
  std::erase_if(groups, [](const LayerGroup& group) { return group.slots.empty(); });
  return groups;
}

}  // namespace

std::string TraceFilePath(const std::string& path, int32_t number, int32_t count) {
  if (count <= 1) return path;
  std::array<char, 40> mark{};
  std::snprintf(mark.data(), mark.size(), "-%05d-of-%05d", number, count);
  const fs::path whole(path);
  return (whole.parent_path() / (whole.stem().string() + mark.data() + whole.extension().string())).string();
}

std::vector<std::string> TraceFilePaths(const std::string& path, int32_t count) {
  std::vector<std::string> paths;
  for (int32_t number = 1; number <= count; ++number) paths.push_back(TraceFilePath(path, number, count));
  return paths;
}

std::optional<TraceFileName> ParseTraceFilePath(const std::string& path) {
  const fs::path whole(path);
  const std::string stem = whole.stem().string();
  if (stem.size() <= kMarkLength) return {};
  const size_t mark = stem.size() - kMarkLength, of = mark + 1 + kNumberDigits;
  if (stem[mark] != '-' || stem.compare(of, sizeof kOf - 1, kOf) != 0) return {};
  const int32_t number = FiveDigits(stem, mark + 1), count = FiveDigits(stem, of + sizeof kOf - 1);
  if (count < 2 || count > kMaxTraceFiles || number < 1 || number > count) return {};
  return TraceFileName{(whole.parent_path() / (stem.substr(0, mark) + whole.extension().string())).string(), number,
                       count};
}

std::vector<std::string> FilesNamedFor(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  const std::string shared = fs::path(path).filename().string();
  std::vector<std::string> files;
  std::error_code unreadable;
  for (fs::directory_iterator at(folder.empty() ? "." : folder, unreadable), end; !unreadable && at != end;
       at.increment(unreadable)) {
    const std::string found = at->path().filename().string();
    const std::optional<TraceFileName> name = ParseTraceFilePath(found);
    if (name && name->path == shared) files.push_back(TraceFilePath(path, name->number, name->count));
  }
  std::ranges::sort(files);
  return files;
}

std::vector<std::string> FilesToOpen(const std::string& path) {
  if (const auto name = ParseTraceFilePath(path)) return TraceFilePaths(name->path, name->count);
  std::error_code unreadable;
  if (fs::exists(fs::symlink_status(path, unreadable))) return {path};
  const std::vector<std::string> files = FilesNamedFor(path);
  return files.empty() ? std::vector{path} : TraceFilePaths(path, ParseTraceFilePath(files.front())->count);
}

std::vector<std::vector<int32_t>> DealLayers(const TraceLayout& layout, int32_t num_files, int64_t expected_rows) {
  std::vector<LayerGroup> groups = GroupLayers(layout, expected_rows > 0 ? expected_rows : layout.max_tokens);
  if (num_files < 1 || num_files > kMaxTraceFiles || num_files > std::ssize(groups)) {
    const auto most = std::min<int64_t>(kMaxTraceFiles, std::ssize(groups));
    throw UsageError(
        {.field = "files",
         .value = std::to_string(num_files),
         .problem = "a file holds one layer at least, with those that share its keys and values, so these " +
                    std::to_string(layout.layers.size()) + " layers make 1 to " + std::to_string(most),
         .remedy = "ask for as many, or fewer"});
  }
  // The largest first: the files differ by less than a group then.
  std::ranges::stable_sort(groups, std::ranges::greater(), &LayerGroup::bytes);
  std::vector<LayerGroup> files(static_cast<size_t>(num_files));
  for (const LayerGroup& group : groups) {
    LayerGroup& least = *std::ranges::min_element(files, {}, &LayerGroup::bytes);
    least.slots.insert(least.slots.end(), group.slots.begin(), group.slots.end());
    least.bytes += group.bytes;
  }
  std::vector<std::vector<int32_t>> dealt;
  for (LayerGroup& file : files) {
    std::ranges::sort(file.slots);
    dealt.push_back(std::move(file.slots));
  }
  return dealt;
}

std::vector<TraceLayout> LayoutsOfFiles(const TraceLayout& layout, const std::vector<std::vector<int32_t>>& slots) {
  std::vector<TraceLayout> layouts;
  for (const std::vector<int32_t>& of_file : slots) {
    TraceLayout& one = layouts.emplace_back(layout);
    one.layers.clear();
    one.facts.clear();
    for (const int32_t slot : of_file) {
      one.layers.push_back(layout.layers[static_cast<size_t>(slot)]);
      one.facts.push_back(layout.facts[static_cast<size_t>(slot)]);
    }
  }
  return layouts;
}

}  // namespace headscope::data
