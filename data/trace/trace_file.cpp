#include "trace/trace_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "trace/hdf5_values.h"
#include "trace/trace_format.h"

namespace headscope::data {
namespace {

namespace fs = std::filesystem;

// Open chunks kept in memory, all datasets together. Enough for 32 layers of 32 query and 8 KV heads; a model with more
// rewrites some of its open chunks more often, it does not use more memory.
constexpr size_t kOpenChunkBudget = size_t{512} << 20;
constexpr size_t kSmallCache = size_t{1} << 20;

PropertyHandle FileAccess() {
  PropertyHandle access(Require(H5Pcreate(H5P_FILE_ACCESS), "creating properties"));
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
  CreateText(group, "rope_convention", layout.rope_convention);
  CreateFloat(group, "softmax_scale", layout.softmax_scale);
  CreateFloat(group, "soft_cap", layout.soft_cap);
  CreateIntegers(group, "window_per_layer", layout.window_per_layer);
  CreateText(group, "row_selection", layout.row_selection);
  CreateInteger(group, "max_tokens", H5T_STD_I64LE, layout.max_tokens);
  CreateInteger(group, "first_token", H5T_STD_I64LE, layout.first_token);
}

}  // namespace

void TraceFile::Create(const std::string& path, bool overwrite) {
  std::error_code ignored;
  const fs::file_status status = fs::symlink_status(path, ignored);
  if (fs::exists(status)) {
    if (!overwrite) {
      throw TraceError(path + ": exists already; choose another name or allow overwriting");
    }
    if (!fs::is_regular_file(status)) {
      throw TraceError(path + ": is not a regular file; choose another name");
    }
    // A new file instead of a truncated one, so that whoever has the old trace open keeps reading it.
    std::error_code error;
    if (!fs::remove(path, error)) {
      throw TraceError(path + ": cannot be replaced (" + error.message() + "); choose another name");
    }
  }
  const PropertyHandle access = FileAccess();
  const PropertyHandle creation = FlatAttributes(H5P_FILE_CREATE);
  file = FileHandle(H5Fcreate(path.c_str(), H5F_ACC_EXCL, creation.get(), access.get()));
  if (!file.valid()) {
    const std::string reason = Hdf5Reason();
    // Made, and then not written; unless somebody else was quicker to make it.
    if (!fs::exists(status) && reason.find(std::strerror(EEXIST)) == std::string::npos) fs::remove(path, ignored);
    throw TraceError(path + ": cannot be created (" + reason + "); choose a folder that can be written");
  }
}

void TraceFile::CreateObjects(const TraceLayout& layout, int64_t expected_rows) {
  CreateText(file.get(), "format", kFormatName);
  CreateInteger(file.get(), "version", H5T_STD_I32LE, kFormatVersion);
  CreateText(file.get(), "NX_class", "NXroot");
  CreateText(file.get(), "default", "attention");
  CreateBoolean(file.get(), "complete", false);
  CreateInteger(file.get(), "tokens_flushed", H5T_STD_I64LE, 0);
  CreateInteger(file.get(), "rows_flushed", H5T_STD_I64LE, 0);
  WriteModel(file.get(), layout.model);
  CreateTokens(layout);
  CreateAttention(layout, expected_rows);
  Require(H5Fflush(file.get(), H5F_SCOPE_LOCAL), "flushing");
  Require(H5Fstart_swmr_write(file.get()), "starting to stream");
  const auto open = [&](const char* name) {
    return AttributeHandle(Require(H5Aopen(file.get(), name, H5P_DEFAULT), std::string("opening attribute ") + name));
  };
  complete = open("complete");
  rows_flushed = open("rows_flushed");
  tokens_flushed = open("tokens_flushed");
}

void TraceFile::CreateTokens(const TraceLayout& layout) {
  const GroupHandle group = CreateGroup(file.get(), "tokens");
  CreateText(group.get(), "prompt_source", layout.prompt_source);
  CreateText(group.get(), "task_answer", layout.task_answer);
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
}

void TraceFile::CreateAttention(const TraceLayout& layout, int64_t expected_rows) {
  const GroupHandle group = CreateGroup(file.get(), "attention");
  CreateAttentionAttributes(group.get(), layout);
  WriteNumbers(group.get(), "layers", layout.layers);
  WriteNumbers(group.get(), "qo_heads", layout.qo_heads);
  WriteNumbers(group.get(), "kv_heads", layout.kv_heads);

  const hsize_t layers = layout.layers.size(), qo_heads = layout.qo_heads.size(), kv_heads = layout.kv_heads.size();
  const auto head_dim = static_cast<hsize_t>(layout.model.head_dim);
  const int64_t item_bytes = layout.model.head_dim * SizeOf(layout.encoding);
  const auto row_chunk = static_cast<hsize_t>(ChunkItems(item_bytes, expected_rows));
  const auto token_chunk = static_cast<hsize_t>(ChunkItems(item_bytes, layout.max_tokens));
  const TypeHandle type = FloatType(layout.encoding);
  const auto share = [&](hsize_t heads) { return kOpenChunkBudget * heads / (qo_heads + 2 * kv_heads); };
  const auto heads = [&](const char* name, const char* head_axis, const char* axis, hsize_t count, hsize_t chunk) {
    return GrowingDataset(group.get(), name, type.get(),
                          {{layers, count, 0, head_dim}, 2, chunk, {"layer", head_axis, axis, "dim"}, "1"},
                          share(count));
  };
  q = heads("q", "qo_head", "row", qo_heads, row_chunk);
  k = heads("k", "kv_head", "token", kv_heads, token_chunk);
  v = heads("v", "kv_head", "token", kv_heads, token_chunk);
  const auto lse_chunk = static_cast<hsize_t>(ChunkItems(32, expected_rows));  // at most 8192 rows, 32 KiB
  lse =
      GrowingDataset(group.get(), "lse", H5T_IEEE_F32LE,
                     {{layers, qo_heads, 0}, 2, lse_chunk, {"layer", "qo_head", "row"}, "nat"}, kOpenChunkBudget / 16);
  lse_keys = GrowingDataset(group.get(), "lse_keys", H5T_STD_I64LE,
                            {{layers, 0}, 1, lse_chunk, {"layer", "row"}, "token"}, kOpenChunkBudget / 16);
  q_rows = GrowingDataset(group.get(), "q_rows", H5T_STD_I32LE, {{0}, 0, lse_chunk, {"row"}, "token"}, kSmallCache);
}

int64_t TraceFile::StoredBytes(int64_t num_tokens, int64_t num_rows, int64_t text_bytes) const {
  const auto tokens = static_cast<hsize_t>(num_tokens), rows = static_cast<hsize_t>(num_rows);
  int64_t bytes = text.StoredBytes(static_cast<hsize_t>(text_bytes)) + text_offsets.StoredBytes(tokens + 1);
  for (const GrowingDataset* dataset : {&ids, &phase, &step, &k, &v}) bytes += dataset->StoredBytes(tokens);
  for (const GrowingDataset* dataset : {&q_rows, &q, &lse, &lse_keys}) bytes += dataset->StoredBytes(rows);
  return bytes;
}

std::array<GrowingDataset*, 11> TraceFile::Datasets() {
  return {&ids, &phase, &step, &text, &text_offsets, &q_rows, &q, &k, &v, &lse, &lse_keys};
}

void TraceFile::Abandon() {
  file.Release();
  complete.Release();
  tokens_flushed.Release();
  rows_flushed.Release();
  for (GrowingDataset* dataset : Datasets()) dataset->Abandon();
}

}  // namespace headscope::data
