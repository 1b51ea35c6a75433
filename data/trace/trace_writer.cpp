#include "data/trace_writer.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "trace/growing_dataset.h"
#include "trace/hdf5_values.h"
#include "trace/trace_format.h"

namespace headscope::data {
namespace {

namespace fs = std::filesystem;

// Open chunks kept in memory, all datasets together. Enough for 32 layers of 32 query and 8 KV heads; a model with more
// rewrites some of its open chunks more often, it does not use more memory.
constexpr size_t kOpenChunkBudget = size_t{512} << 20;
constexpr size_t kSmallCache = size_t{1} << 20;
// Free space that must remain beside the data: metadata of the file and room for others.
constexpr int64_t kDiskReserve = int64_t{8} << 20;

PropertyHandle FileAccess() {
  PropertyHandle access(Require(H5Pcreate(H5P_FILE_ACCESS), "creating properties"));
  // The one version of the format in which a killed writer never loses flushed data (docs/trace_format.md, "Crashes").
  Require(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_V110), "setting the format version");
  return access;
}

PropertyHandle FlatAttributes(hid_t property_class) {
  PropertyHandle properties(Require(H5Pcreate(property_class), "creating properties"));
  Require(H5Pset_attr_phase_change(properties.get(), 64, 0), "setting the attribute storage");
  return properties;
}

GroupHandle CreateGroup(hid_t file, const char* name) {
  const PropertyHandle properties = FlatAttributes(H5P_GROUP_CREATE);
  Require(H5Pset_obj_track_times(properties.get(), false), "switching time stamps off");
  return GroupHandle(Require(H5Gcreate2(file, name, H5P_DEFAULT, properties.get(), H5P_DEFAULT),
                             std::string("creating group ") + name));
}

void WriteWhole(hid_t group, const char* name, hid_t file_type, hid_t memory_type, hid_t space, const void* values,
                const char* unit) {
  PropertyHandle creation(Require(H5Pcreate(H5P_DATASET_CREATE), "creating properties"));
  Require(H5Pset_obj_track_times(creation.get(), false), "switching time stamps off");
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

// Where a forward pass stands in one layer.
struct LayerProgress {
  int64_t tokens = 0;
  int64_t rows = 0;
};

}  // namespace

struct TraceWriter::Impl {
  std::string path;
  TraceLayout layout;
  FileHandle file;
  AttributeHandle complete, tokens_flushed, rows_flushed;
  GrowingDataset ids, phase, step, text, text_offsets;
  GrowingDataset q_rows, q, k, v, lse;
  std::vector<LayerProgress> progress;
  std::vector<int32_t>
      positions;  // of all recorded query rows: 4 bytes a row, a small share of what a row takes on disk
  int64_t num_tokens = 0;
  int64_t text_bytes = 0;
  int64_t payload_bytes = 0;
  bool broken = false;

  void Open(bool overwrite);
  void CreateTokens();
  void CreateAttention();
  void CreateAttentionAttributes(hid_t group);
  void RequireSpace(int64_t tokens, int64_t rows, int64_t text_length) const;
  void Check(const LayerBlock& block) const;
  void WriteHeads(GrowingDataset& target, int32_t layer_slot, size_t num_heads, int64_t begin, int64_t count,
                  const void* values) const;
  int64_t WholeTokens() const;
  void FlushAll();

  // Runs `action` on the file. A failure inside HDF5 leaves its caches unfit for anything, closing included: from then
  // on the file is left as it stands on disk, which is what a kill would have left.
  template <typename Action>
  void Guarded(Action action) {
    if (broken) {
      throw TraceError(
          path + ": the trace cannot be written any further after the earlier failure; what was flushed is intact");
    }
    try {
      action();
    } catch (const TraceError& error) {
      Abandon();
      throw TraceError(path + ": " + error.what() +
                       "; what was flushed before is intact: free some disk space or choose another folder");
    }
  }

  void Abandon() {
    broken = true;
    file.Release();
    complete.Release();
    tokens_flushed.Release();
    rows_flushed.Release();
    for (GrowingDataset* dataset : {&ids, &phase, &step, &text, &text_offsets, &q_rows, &q, &k, &v, &lse}) {
      dataset->Abandon();
    }
  }
};

void TraceWriter::Impl::Open(bool overwrite) {
  std::error_code ignored;
  const fs::file_status status = fs::symlink_status(path, ignored);
  if (fs::exists(status)) {
    if (!overwrite) {
      throw TraceError(path + ": exists already; choose another name or allow overwriting (--force)");
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
    throw TraceError(path + ": cannot be created (" + Hdf5Reason() + "); choose a folder that can be written");
  }
}

void TraceWriter::Impl::CreateTokens() {
  const GroupHandle group = CreateGroup(file.get(), "tokens");
  CreateText(group.get(), "prompt_source", layout.prompt_source);
  CreateText(group.get(), "task_answer", layout.task_answer);
  const auto column = [&](const char* name, hid_t type, int64_t most, hsize_t length) {
    const auto chunk =
        static_cast<hsize_t>(ChunkItems(static_cast<int64_t>(H5Tget_size(type)) * 16, most));  // 16 KiB are enough here
    return GrowingDataset(group.get(), name, type, {{length}, 0, chunk, {"token"}, "1"}, kSmallCache);
  };
  ids = column("ids", H5T_STD_I32LE, layout.max_tokens, 0);
  phase = column("phase", PhaseType().get(), layout.max_tokens, 0);
  step = column("step", H5T_STD_I32LE, layout.max_tokens, 0);
  text = column("text", H5T_STD_U8LE, layout.max_tokens * 4, 0);
  text_offsets = column("text_offsets", H5T_STD_I64LE, layout.max_tokens + 1, 1);
  const int64_t zero = 0;
  text_offsets.Write({0}, {1}, &zero);
}

void TraceWriter::Impl::CreateAttentionAttributes(hid_t group) {
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

void TraceWriter::Impl::CreateAttention() {
  const GroupHandle group = CreateGroup(file.get(), "attention");
  CreateAttentionAttributes(group.get());
  WriteNumbers(group.get(), "layers", layout.layers);
  WriteNumbers(group.get(), "qo_heads", layout.qo_heads);
  WriteNumbers(group.get(), "kv_heads", layout.kv_heads);

  const hsize_t layers = layout.layers.size(), qo_heads = layout.qo_heads.size(), kv_heads = layout.kv_heads.size();
  const auto head_dim = static_cast<hsize_t>(layout.model.head_dim);
  const int64_t item_bytes = layout.model.head_dim * SizeOf(layout.encoding);
  const int64_t rows = ExpectedRows(layout);
  const auto row_chunk = static_cast<hsize_t>(ChunkItems(item_bytes, rows));
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
  const auto lse_chunk = static_cast<hsize_t>(ChunkItems(32, rows));  // at most 8192 rows, 32 KiB
  lse =
      GrowingDataset(group.get(), "lse", H5T_IEEE_F32LE,
                     {{layers, qo_heads, 0}, 2, lse_chunk, {"layer", "qo_head", "row"}, "nat"}, kOpenChunkBudget / 16);
  q_rows = GrowingDataset(group.get(), "q_rows", H5T_STD_I32LE, {{0}, 0, lse_chunk, {"row"}, "token"}, kSmallCache);
}

// HDF5 notices a full disk only when it flushes, too late to stop cleanly. So the file's size is foreseen, every open
// chunk counted whole.
void TraceWriter::Impl::RequireSpace(int64_t tokens, int64_t rows, int64_t text_length) const {
  struct stat now {};
  struct statvfs disk {};
  if (stat(path.c_str(), &now) != 0 || statvfs(path.c_str(), &disk) != 0) {
    throw TraceError(path + ": vanished while it was written; write to a folder that nobody cleans");
  }
  const auto token_count = static_cast<hsize_t>(tokens), row_count = static_cast<hsize_t>(rows);
  int64_t wanted = 0;
  for (const GrowingDataset* dataset : {&ids, &phase, &step, &text_offsets, &k, &v}) {
    wanted += dataset->StoredBytes(token_count + 1);
  }
  for (const GrowingDataset* dataset : {&q_rows, &q, &lse}) {
    wanted += dataset->StoredBytes(row_count);
  }
  wanted += text.StoredBytes(static_cast<hsize_t>(text_length));
  const int64_t missing = std::max<int64_t>(0, wanted - now.st_size) + kDiskReserve;
  const auto free_bytes = static_cast<int64_t>(disk.f_bavail) * static_cast<int64_t>(disk.f_frsize);
  if (missing > free_bytes) {
    throw TraceError(path + ": the disk is nearly full (" + std::to_string(free_bytes >> 20) + " MiB free, " +
                     std::to_string((missing >> 20) + 1) +
                     " MiB needed); what was flushed before is intact: free some disk space or choose another folder");
  }
}

void TraceWriter::Impl::Check(const LayerBlock& block) const {
  const auto fail = [&](const std::string& problem) { throw TraceError(path + ": " + problem); };
  if (block.layer_slot < 0 || static_cast<size_t>(block.layer_slot) >= progress.size()) {
    fail("layer_slot " + std::to_string(block.layer_slot) + ": the trace has " + std::to_string(progress.size()) +
         " layers");
  }
  const LayerProgress& at = progress[static_cast<size_t>(block.layer_slot)];
  if (block.first_token != at.tokens || block.num_tokens < 0 || block.num_tokens > num_tokens - at.tokens) {
    fail("first_token " + std::to_string(block.first_token) + " with num_tokens " + std::to_string(block.num_tokens) +
         ": layer slot " + std::to_string(block.layer_slot) + " continues at token " + std::to_string(at.tokens) +
         " of " + std::to_string(num_tokens) + " appended");
  }
  const auto begin = positions.begin() + at.rows;
  const auto end = std::lower_bound(begin, positions.end(), block.first_token + block.num_tokens);
  if (block.first_row != at.rows || block.num_rows != end - begin) {
    fail("first_row " + std::to_string(block.first_row) + " with num_rows " + std::to_string(block.num_rows) +
         ": these tokens hold rows " + std::to_string(at.rows) + " to " + std::to_string(at.rows + (end - begin)));
  }
  if ((block.num_tokens > 0 && (block.k == nullptr || block.v == nullptr)) ||
      (block.num_rows > 0 && (block.q == nullptr || block.lse == nullptr))) {
    fail("a block has no data for the rows or tokens that it announces");
  }
}

void TraceWriter::Impl::WriteHeads(GrowingDataset& target, int32_t layer_slot, size_t num_heads, int64_t begin,
                                   int64_t count, const void* values) const {
  if (count == 0) {
    return;
  }
  const auto first = static_cast<hsize_t>(begin), length = static_cast<hsize_t>(count);
  target.Grow(first + length);
  std::vector<hsize_t> offset = {static_cast<hsize_t>(layer_slot), 0, first};
  std::vector<hsize_t> extent = {1, num_heads, length};
  if (&target != &lse) {
    offset.push_back(0);
    extent.push_back(static_cast<hsize_t>(layout.model.head_dim));
  }
  target.Write(offset, extent, values);
}

int64_t TraceWriter::Impl::WholeTokens() const {
  int64_t whole = num_tokens;
  for (const LayerProgress& layer : progress) {
    whole = std::min(whole, layer.tokens);
  }
  return whole;
}

// Data first, its count second: a kill between the two leaves a count that is too small, never one that is too large.
void TraceWriter::Impl::FlushAll() {
  const int64_t whole = WholeTokens();
  const int64_t rows = std::lower_bound(positions.begin(), positions.end(), whole) - positions.begin();
  Require(H5Fflush(file.get(), H5F_SCOPE_LOCAL), "flushing");
  Require(H5Awrite(rows_flushed.get(), H5T_NATIVE_INT64, &rows), "writing rows_flushed");
  Require(H5Awrite(tokens_flushed.get(), H5T_NATIVE_INT64, &whole), "writing tokens_flushed");
  Require(H5Fflush(file.get(), H5F_SCOPE_LOCAL), "flushing");
}

TraceWriter::TraceWriter(const std::string& path, const TraceLayout& layout, bool overwrite)
    : impl_(std::make_unique<Impl>()) {
  if (const std::string problem = LayoutProblem(layout); !problem.empty()) {
    throw TraceError(path + ": " + problem);
  }
  const Hdf5Lock lock;
  impl_->path = path;
  impl_->layout = layout;
  impl_->progress.resize(layout.layers.size());
  impl_->Open(overwrite);
  impl_->Guarded([&] {
    const hid_t file = impl_->file.get();
    CreateText(file, "format", kFormatName);
    CreateInteger(file, "version", H5T_STD_I32LE, kFormatVersion);
    CreateText(file, "NX_class", "NXroot");
    CreateText(file, "default", "attention");
    CreateBoolean(file, "complete", false);
    CreateInteger(file, "tokens_flushed", H5T_STD_I64LE, 0);
    CreateInteger(file, "rows_flushed", H5T_STD_I64LE, 0);
    WriteModel(file, layout.model);
    impl_->CreateTokens();
    impl_->CreateAttention();
    Require(H5Fflush(file, H5F_SCOPE_LOCAL), "flushing");
    // From here on no object or attribute is added; only extents, data and the values of three attributes change.
    Require(H5Fstart_swmr_write(file), "starting to stream");
    impl_->complete = AttributeHandle(Require(H5Aopen(file, "complete", H5P_DEFAULT), "opening attribute complete"));
    impl_->rows_flushed =
        AttributeHandle(Require(H5Aopen(file, "rows_flushed", H5P_DEFAULT), "opening attribute rows_flushed"));
    impl_->tokens_flushed =
        AttributeHandle(Require(H5Aopen(file, "tokens_flushed", H5P_DEFAULT), "opening attribute tokens_flushed"));
  });
}

TraceWriter::~TraceWriter() {
  const Hdf5Lock lock;
  impl_.reset();
}

void TraceWriter::AppendTokens(std::span<const TokenRecord> tokens) {
  const Hdf5Lock lock;
  Impl& self = *impl_;
  const auto count = static_cast<int64_t>(tokens.size());
  if (count > self.layout.max_tokens - self.num_tokens) {
    throw TraceError(self.path + ": " + std::to_string(self.num_tokens + count) + " tokens, but max_tokens is " +
                     std::to_string(self.layout.max_tokens) + ": raise it");
  }
  std::vector<int32_t> ids, steps;
  std::vector<int8_t> phases;
  std::vector<int64_t> offsets;
  std::string text;
  int64_t end = self.text_bytes;
  for (const TokenRecord& token : tokens) {
    ids.push_back(token.id);
    phases.push_back(static_cast<int8_t>(token.phase));
    steps.push_back(token.step);
    text += token.text;
    offsets.push_back(end += static_cast<int64_t>(token.text.size()));
  }
  self.RequireSpace(self.num_tokens + count, static_cast<int64_t>(self.positions.size()), end);
  self.Guarded([&] {
    self.ids.AppendItems(tokens.size(), ids.data());
    self.phase.AppendItems(tokens.size(), phases.data());
    self.step.AppendItems(tokens.size(), steps.data());
    self.text.AppendItems(text.size(), text.data());
    self.text_offsets.AppendItems(tokens.size(), offsets.data());
  });
  self.num_tokens += count;
  self.text_bytes = end;
}

void TraceWriter::AppendRowPositions(std::span<const int32_t> positions) {
  const Hdf5Lock lock;
  Impl& self = *impl_;
  int64_t last = self.positions.empty() ? -1 : self.positions.back();
  for (const int32_t position : positions) {
    if (position <= last || position >= self.num_tokens) {
      throw TraceError(self.path + ": row position " + std::to_string(position) + ": must lie above " +
                       std::to_string(last) + " and below the " + std::to_string(self.num_tokens) +
                       " tokens appended so far");
    }
    last = position;
  }
  self.Guarded([&] { self.q_rows.AppendItems(positions.size(), positions.data()); });
  self.positions.insert(self.positions.end(), positions.begin(), positions.end());
}

void TraceWriter::Append(const LayerBlock& block) {
  const Hdf5Lock lock;
  Impl& self = *impl_;
  self.Check(block);
  self.RequireSpace(self.num_tokens, static_cast<int64_t>(self.positions.size()), self.text_bytes);
  const size_t qo_heads = self.layout.qo_heads.size(), kv_heads = self.layout.kv_heads.size();
  self.Guarded([&] {
    self.WriteHeads(self.k, block.layer_slot, kv_heads, block.first_token, block.num_tokens, block.k);
    self.WriteHeads(self.v, block.layer_slot, kv_heads, block.first_token, block.num_tokens, block.v);
    self.WriteHeads(self.q, block.layer_slot, qo_heads, block.first_row, block.num_rows, block.q);
    self.WriteHeads(self.lse, block.layer_slot, qo_heads, block.first_row, block.num_rows, block.lse);
  });
  LayerProgress& at = self.progress[static_cast<size_t>(block.layer_slot)];
  at.tokens += block.num_tokens;
  at.rows += block.num_rows;
  const int64_t vector_bytes = self.layout.model.head_dim * SizeOf(self.layout.encoding);
  self.payload_bytes += 2 * static_cast<int64_t>(kv_heads) * block.num_tokens * vector_bytes +
                        static_cast<int64_t>(qo_heads) * block.num_rows * (vector_bytes + 4);
}

void TraceWriter::Flush() {
  const Hdf5Lock lock;
  impl_->Guarded([&] { impl_->FlushAll(); });
}

void TraceWriter::Finish() {
  const Hdf5Lock lock;
  Impl& self = *impl_;
  const int64_t whole = self.WholeTokens();
  if (whole != self.num_tokens) {
    throw TraceError(self.path + ": only " + std::to_string(whole) + " of " + std::to_string(self.num_tokens) +
                     " tokens are recorded in every layer; append the missing blocks before finishing");
  }
  self.Guarded([&] {
    self.FlushAll();
    const int8_t yes = 1;
    const TypeHandle type = BooleanType();
    Require(H5Awrite(self.complete.get(), type.get(), &yes), "writing complete");
    Require(H5Fflush(self.file.get(), H5F_SCOPE_LOCAL), "flushing");
  });
  // Closing writes nothing that matters any more: it only marks the file as no longer written.
  const std::string path = self.path;
  const int64_t payload = self.payload_bytes;
  impl_ = std::make_unique<Impl>();
  impl_->path = path;
  impl_->payload_bytes = payload;
  impl_->broken = true;
}

int64_t TraceWriter::BytesWritten() const {
  return impl_->payload_bytes;
}

}  // namespace headscope::data
