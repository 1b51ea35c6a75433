// SPDX-License-Identifier: Apache-2.0
#include "trace/trace_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <utility>

#include "base/errors.h"
#include "data/trace_writer.h"
#include "trace/chunk_driver.h"
#include "trace/hdf5_values.h"
#include "trace/layer_table.h"
#include "trace/trace_format.h"
#include "trace/trace_tensors.h"

namespace headscope::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kSmallCache = size_t{1} << 20;

PropertyHandle FileAccess() {
  PropertyHandle access(Require(H5Pcreate(H5P_FILE_ACCESS), "creating properties"));
  UseChunkDriver(access.get());
  // The one version of the format in which a killed writer never loses flushed data (docs/trace_format.md, "Crashes").
  Require(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_V110), "setting the format version");
  return access;
}

PropertyHandle FlatAttributes(hid_t property_class) {
  PropertyHandle properties = WithoutTimes(property_class);
  Require(H5Pset_attr_phase_change(properties.get(), 64, 0), "setting the attribute storage");
  return properties;
}

GroupHandle CreateGroup(hid_t file, const char* name) {
  const PropertyHandle properties = FlatAttributes(H5P_GROUP_CREATE);
  return GroupHandle(Require(H5Gcreate2(file, name, H5P_DEFAULT, properties.get(), H5P_DEFAULT),
                             std::string("creating group ") + name));
}

void WriteWhole(hid_t group, const char* name, hid_t file_type, hid_t memory_type, hid_t space, const void* values,
                const char* unit) {
  const PropertyHandle creation = WithoutTimes(H5P_DATASET_CREATE);
  DatasetHandle dataset(Require(H5Dcreate2(group, name, file_type, space, H5P_DEFAULT, creation.get(), H5P_DEFAULT),
                                std::string("creating dataset ") + name));
  Require(H5Dwrite(dataset.get(), memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values),
          std::string("writing dataset ") + name);
  CreateText(dataset.get(), "units", unit);
}

void WriteNumbers(hid_t group, const char* name, const std::vector<int32_t>& values) {
  const hsize_t extent = values.size();
  SpaceHandle space(Require(H5Screate_simple(1, &extent, nullptr), "creating a data space"));
  WriteWhole(group, name, H5T_STD_I32LE, H5T_NATIVE_INT32, space.get(), values.data(), "1");
}

void WriteModel(hid_t file, const ModelInfo& model) {
  const GroupHandle group = CreateGroup(file, "model");
  CreateText(group.get(), "name", model.name);
  CreateText(group.get(), "model_type", model.model_type);
  CreateText(group.get(), "weights_sha256", model.weights_sha256);
  CreateText(group.get(), "tokenizer_sha256", model.tokenizer_sha256);
  CreateInteger(group.get(), "num_layers", H5T_STD_I32LE, model.num_layers);
  CreateInteger(group.get(), "num_qo_heads", H5T_STD_I32LE, model.num_qo_heads);
  CreateInteger(group.get(), "num_kv_heads", H5T_STD_I32LE, model.num_kv_heads);
  CreateInteger(group.get(), "head_dim", H5T_STD_I32LE, model.head_dim);
  if (!model.layer_kinds.empty()) {
    std::vector<int32_t> kinds;
    for (const LayerKind kind : model.layer_kinds) kinds.push_back(static_cast<int32_t>(kind));
    CreateIntegers(group.get(), "layer_kinds", kinds);
  }
  SpaceHandle space(Require(H5Screate(H5S_SCALAR), "creating a data space"));
  const TypeHandle type = TextType(model.config_json.size());
  WriteWhole(group.get(), "config_json", type.get(), type.get(), space.get(), model.config_json.c_str(), "1");
}

void CreateAttentionAttributes(hid_t group, const TraceLayout& layout) {
  CreateText(group, "NX_class", "NXdata");
  CreateText(group, "signal", "lse");
  CreateTexts(group, "axes", {"layers", "qo_heads", "q_rows"});
  CreateText(group, "encoding", EncodingName(layout.encoding));
  CreateText(group, "capture_point", layout.capture_point);
  if (!layout.attention.empty()) CreateText(group, "attention", layout.attention);
  CreateText(group, "row_selection", layout.row_selection);
  CreateInteger(group, "max_tokens", H5T_STD_I64LE, layout.max_tokens);
  CreateInteger(group, "first_token", H5T_STD_I64LE, layout.first_token);
}

// The facts of every recorded layer, in columns.
void WriteLayers(hid_t file, const TraceLayout& layout, const std::vector<FilePart>& parts) {
  const GroupHandle group = CreateGroup(file, "layers");
  CreateIntegers(group.get(), "layer", layout.layers);
  std::vector<int32_t> integers(layout.layers.size());
  for (size_t part = 0; part < parts.size(); ++part) {
    for (const int32_t slot : parts[part].slots) integers[static_cast<size_t>(slot)] = static_cast<int32_t>(part);
  }
  CreateIntegers(group.get(), "part", integers);
  const std::vector<LayerFacts>& facts = layout.facts;
  for (const LayerIntegerColumn& column : kLayerIntegers) {
    std::transform(facts.begin(), facts.end(), integers.begin(), column.get);
    const auto usual = std::count(integers.begin(), integers.end(), column.usual);
    if (column.required || usual != std::ssize(integers)) CreateIntegers(group.get(), column.name, integers);
  }
  std::vector<float> floats(facts.size());
  for (const LayerFloatColumn& column : kLayerFloats) {
    std::transform(facts.begin(), facts.end(), floats.begin(), column.get);
    const auto usual = std::count(floats.begin(), floats.end(), column.usual);
    if (column.required || usual != std::ssize(floats)) CreateFloats(group.get(), column.name, floats);
  }
  std::vector<float> sinks;
  for (size_t slot = 0; slot < facts.size(); ++slot) {
    integers[slot] = facts[slot].sinks.empty() ? 0 : 1;
    sinks.insert(sinks.end(), facts[slot].sinks.begin(), facts[slot].sinks.end());
  }
  if (sinks.empty()) return;
  CreateIntegers(group.get(), "has_sinks", integers);
  const hsize_t extent = sinks.size();
  SpaceHandle space(Require(H5Screate_simple(1, &extent, nullptr), "creating a data space"));
  WriteWhole(group.get(), "sinks", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, space.get(), sinks.data(), "nat");
}

// At most 8192 scalars, 32 KiB.
hsize_t ScalarChunk(int64_t items) {
  return static_cast<hsize_t>(ChunkItems(32, items));
}

// The shape of a tensor of some layers, and how much memory its open chunks may take.
struct PlannedTensor {
  GrowingShape shape;
  size_t cache_bytes = 0;
};

// A scalar's share of the memory: an eighth for each tensor, beside the vectors' whole. Their chunks have an eighth of
// a vector's bytes, and no head has more of them than vectors: where the vectors' fit, theirs do.
size_t ScalarCache(const ChunkPlan& chunks, hsize_t layers, hsize_t all_layers) {
  return chunks.open_bytes / 8 * layers / all_layers;
}

PlannedTensor PlanTensor(const TensorSpec& spec, const std::vector<int32_t>& slots, const TraceLayout& layout,
                         const ChunkPlan& chunks) {
  const LayerFacts& facts = layout.facts[static_cast<size_t>(slots.front())];
  const hsize_t layers = slots.size(), all_layers = layout.layers.size();
  const auto heads = static_cast<hsize_t>(NumHeads(spec, facts));
  const int64_t components = NumComponents(spec, facts);
  const int64_t items = spec.of_rows ? chunks.expected_rows : layout.max_tokens;
  GrowingShape shape{{layers, heads, 0}, 2,
                     ScalarChunk(items), {"layer", spec.head_axis, spec.of_rows ? "row" : "token"},
                     spec.unit,          chunks.compressed};
  if (spec.width == TensorSpec::Width::kScalar) return {shape, ScalarCache(chunks, layers, all_layers)};
  shape.extents.push_back(static_cast<hsize_t>(components));
  shape.dimension_names.emplace_back(spec.width == TensorSpec::Width::kIds ? "id" : "dim");
  shape.chunk_items = static_cast<hsize_t>(ChunkItems(components * ComponentBytes(spec, layout.encoding), items));
  return {shape, chunks.open_bytes * heads * layers / static_cast<size_t>(OpenVectors(layout))};
}

}  // namespace

int64_t OpenVectors(const TraceLayout& layout) {
  int64_t vectors = 0;
  for (size_t slot = 0; slot < layout.layers.size(); ++slot) {
    for (const TensorSpec& spec : kTensorSpecs) {
      if (spec.width == TensorSpec::Width::kScalar || !Stores(layout, slot, spec.tensor)) continue;
      vectors += NumHeads(spec, layout.facts[slot]);
    }
  }
  return vectors;
}

int64_t BytesOfOpenChunks(const TraceLayout& layout, int64_t expected_rows, size_t open_chunk_bytes) {
  const ChunkPlan chunks{.expected_rows = expected_rows > 0 ? expected_rows : layout.max_tokens,
                         .open_bytes = open_chunk_bytes};
  hsize_t bytes = 0;
  const auto add = [&bytes](hsize_t heads, hsize_t chunk_bytes, size_t cache_bytes) {
    bytes += GrowingDataset::OpenChunks(heads, chunk_bytes, cache_bytes) * chunk_bytes;
  };
  for (const std::vector<int32_t>& slots : PartsOf(layout)) {
    const auto first = static_cast<size_t>(slots.front());
    for (const TensorSpec& spec : kTensorSpecs) {
      if (!Stores(layout, first, spec.tensor)) continue;
      const PlannedTensor tensor = PlanTensor(spec, slots, layout, chunks);
      const int64_t item_bytes = NumComponents(spec, layout.facts[first]) * ComponentBytes(spec, layout.encoding);
      add(tensor.shape.extents[0] * tensor.shape.extents[1],
          tensor.shape.chunk_items * static_cast<hsize_t>(item_bytes), tensor.cache_bytes);
    }
    add(slots.size(), ScalarChunk(chunks.expected_rows) * sizeof(int64_t),
        ScalarCache(chunks, slots.size(), layout.layers.size()));
  }
  return static_cast<int64_t>(bytes);
}

void TraceFile::Create(const std::string& path, bool overwrite) {
  std::error_code ignored;
  const fs::file_status status = fs::symlink_status(path, ignored);
  if (fs::exists(status)) {
    if (!overwrite) {
      throw FailedError(
          {.file = path, .problem = "exists already", .remedy = "choose another name or allow overwriting"});
    }
    if (!fs::is_regular_file(status)) {
      throw FailedError({.file = path, .problem = "is not a regular file", .remedy = "choose another name"});
    }
    // A new file instead of a truncated one, so that whoever has the old trace open keeps reading it.
    std::error_code error;
    if (!fs::remove(path, error)) {
      throw FailedError(
          {.file = path, .problem = "cannot be replaced (" + error.message() + ")", .remedy = "choose another name"});
    }
  }
  const PropertyHandle access = FileAccess();
  const PropertyHandle creation = FlatAttributes(H5P_FILE_CREATE);
  file = FileHandle(H5Fcreate(path.c_str(), H5F_ACC_EXCL, creation.get(), access.get()));
  if (!file.valid()) {
    const std::string reason = Hdf5Reason();
    // Made, and then not written; unless somebody else was quicker to make it.
    if (!fs::exists(status) && reason.find(std::strerror(EEXIST)) == std::string::npos) fs::remove(path, ignored);
    throw FailedError(
        {.file = path, .problem = "cannot be created (" + reason + ")", .remedy = "choose a writable folder"});
  }
}

void TraceFile::CreateObjects(const TraceLayout& layout, const ChunkPlan& chunks) {
  CreateText(file.get(), "format", kFormatName);
  CreateInteger(file.get(), "version", H5T_STD_I32LE, VersionOf(layout));
  CreateText(file.get(), "NX_class", "NXroot");
  CreateText(file.get(), "default", "attention");
  CreateBoolean(file.get(), "complete", false);
  CreateInteger(file.get(), "tokens_flushed", H5T_STD_I64LE, 0);
  CreateInteger(file.get(), "rows_flushed", H5T_STD_I64LE, 0);
  if (layout.place.count > 0) {
    CreateText(file.get(), "file_set", layout.place.set);
    CreateInteger(file.get(), "file_number", H5T_STD_I32LE, layout.place.number);
    CreateInteger(file.get(), "file_count", H5T_STD_I32LE, layout.place.count);
  }
  WriteModel(file.get(), layout.model);
  for (std::vector<int32_t>& slots : PartsOf(layout)) parts.emplace_back().slots = std::move(slots);
  WriteLayers(file.get(), layout, parts);
  CreateTokens(layout);
  CreateAttention(layout, chunks);
  Require(H5Fflush(file.get(), H5F_SCOPE_LOCAL), "flushing");
  // Chunks of changing size would leave their old places empty for the readers of a stream.
  if (!chunks.compressed) Require(H5Fstart_swmr_write(file.get()), "starting to stream");
  const auto open = [](hid_t object, const char* name) {
    return AttributeHandle(Require(H5Aopen(object, name, H5P_DEFAULT), std::string("opening attribute ") + name));
  };
  complete = open(file.get(), "complete");
  rows_flushed = open(file.get(), "rows_flushed");
  tokens_flushed = open(file.get(), "tokens_flushed");
  if (layout.answer_tokens == 0) return;
  tokens = GroupHandle(Require(H5Gopen2(file.get(), "tokens", H5P_DEFAULT), "opening group tokens"));
  answer_score = open(tokens.get(), "answer_score");
}

void TraceFile::CreateTokens(const TraceLayout& layout) {
  const GroupHandle group = CreateGroup(file.get(), "tokens");
  CreateText(group.get(), "prompt_source", layout.prompt_source);
  CreateText(group.get(), "task_answer", layout.task_answer);
  if (layout.answer_tokens > 0) {
    CreateInteger(group.get(), "answer_tokens", H5T_STD_I32LE, layout.answer_tokens);
    CreateFloat(group.get(), "answer_score", layout.answer_score);
  }
  const auto column = [&](const char* name, hid_t type, int64_t most, hsize_t length, const char* axis = "token") {
    const auto chunk =
        static_cast<hsize_t>(ChunkItems(static_cast<int64_t>(H5Tget_size(type)) * 16, most));  // 16 KiB are enough here
    return GrowingDataset(group.get(), name, type, {{length}, 0, chunk, {axis}, "1"}, kSmallCache);
  };
  ids = column("ids", H5T_STD_I32LE, layout.max_tokens, 0);
  phase = column("phase", PhaseType().get(), layout.max_tokens, 0);
  step = column("step", H5T_STD_I32LE, layout.max_tokens, 0);
  text = column("text", H5T_STD_U8LE, layout.max_tokens * 4, 0, "byte");
  text_offsets = column("text_offsets", H5T_STD_I64LE, layout.max_tokens + 1, 1);
  const int64_t zero = 0;
  text_offsets.Write({0}, {1}, &zero);
  has_role = layout.has_roles;
  if (has_role) role = column("role", H5T_STD_I8LE, layout.max_tokens, 0);
  has_positions = layout.position_axes > 0;
  if (!has_positions) return;
  const auto axes = static_cast<hsize_t>(layout.position_axes);
  const auto chunk = static_cast<hsize_t>(ChunkItems(4 * 16, layout.max_tokens));
  positions = GrowingDataset(group.get(), "positions", H5T_STD_I32LE, {{0, axes}, 0, chunk, {"token", "axis"}, "token"},
                             kSmallCache);
}

void TraceFile::CreateAttention(const TraceLayout& layout, const ChunkPlan& chunks) {
  const GroupHandle group = CreateGroup(file.get(), "attention");
  CreateAttentionAttributes(group.get(), layout);
  CreatePart(group.get(), layout, chunks, &parts.front());
  for (size_t part = 1; part < parts.size(); ++part) {
    const GroupHandle inner = CreateGroup(group.get(), ("part_" + std::to_string(part)).c_str());
    CreatePart(inner.get(), layout, chunks, &parts[part]);
  }
  q_rows = GrowingDataset(group.get(), "q_rows", H5T_STD_I32LE,
                          {{0}, 0, ScalarChunk(chunks.expected_rows), {"row"}, "token"}, kSmallCache);
}

void TraceFile::CreatePart(hid_t group, const TraceLayout& layout, const ChunkPlan& chunks, FilePart* part) {
  const auto first = static_cast<size_t>(part->slots.front());
  const LayerFacts& facts = layout.facts[first];
  std::vector<int32_t> numbers;
  for (const int32_t slot : part->slots) numbers.push_back(layout.layers[static_cast<size_t>(slot)]);
  WriteNumbers(group, "layers", numbers);
  WriteNumbers(group, "qo_heads", facts.qo_heads);
  WriteNumbers(group, "kv_heads", facts.kv_heads);

  const TypeHandle encoded = FloatType(layout.encoding);
  for (const TensorSpec& spec : kTensorSpecs) {
    const auto number = static_cast<size_t>(spec.tensor);
    part->stored[number] = Stores(layout, first, spec.tensor);
    if (!part->stored[number]) continue;
    const hid_t type = spec.type == TensorSpec::Type::kEncoding  ? encoded.get()
                       : spec.type == TensorSpec::Type::kFloat32 ? H5T_IEEE_F32LE
                                                                 : H5T_STD_I32LE;
    const PlannedTensor tensor = PlanTensor(spec, part->slots, layout, chunks);
    part->tensors[number] = GrowingDataset(group, spec.name, type, tensor.shape, tensor.cache_bytes);
  }
  const hsize_t layers = part->slots.size();
  part->lse_keys = GrowingDataset(group, "lse_keys", H5T_STD_I64LE,
                                  {{layers, 0}, 1, ScalarChunk(chunks.expected_rows), {"layer", "row"}, "token"},
                                  ScalarCache(chunks, layers, layout.layers.size()));
}

template <typename Self, typename Use>
void TraceFile::ForEach(Self& self, Use use) {
  for (auto* dataset : {&self.ids, &self.phase, &self.step}) use(*dataset, Growth::kTokens);
  if (self.has_role) use(self.role, Growth::kTokens);
  if (self.has_positions) use(self.positions, Growth::kTokens);
  use(self.text, Growth::kText);
  use(self.text_offsets, Growth::kOffsets);
  use(self.q_rows, Growth::kRows);
  for (auto& part : self.parts) {
    use(part.lse_keys, Growth::kRows);
    for (const TensorSpec& spec : kTensorSpecs) {
      const auto number = static_cast<size_t>(spec.tensor);
      if (part.stored[number]) use(part.tensors[number], spec.of_rows ? Growth::kRows : Growth::kTokens);
    }
  }
}

int64_t TraceFile::StoredBytes(int64_t num_tokens, int64_t num_rows, int64_t text_bytes) const {
  int64_t bytes = 0;
  ForEach(*this, [&](const GrowingDataset& dataset, Growth growth) {
    const int64_t length = growth == Growth::kRows      ? num_rows
                           : growth == Growth::kText    ? text_bytes
                           : growth == Growth::kOffsets ? num_tokens + 1
                                                        : num_tokens;
    bytes += dataset.StoredBytes(static_cast<hsize_t>(length));
  });
  return bytes;
}

void TraceFile::Abandon() {
  file.Release();
  complete.Release();
  tokens_flushed.Release();
  tokens.Release();
  answer_score.Release();
  rows_flushed.Release();
  ForEach(*this, [](GrowingDataset& dataset, Growth) { dataset.Abandon(); });
}

}  // namespace headscope::data
