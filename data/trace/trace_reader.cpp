#include "data/trace_reader.h"

#include <algorithm>
#include <stdexcept>

#include "trace/hdf5_values.h"
#include "trace/trace_format.h"
#include "trace/untrusted_file.h"

namespace headscope::data {
namespace {

constexpr char kDamaged[] = "the file is damaged or was not written by headscope: capture it again";

Encoding ParseEncoding(const UntrustedFile& file, const std::string& name) {
  for (const Encoding encoding : {Encoding::kFloat32, Encoding::kBFloat16, Encoding::kFloat16}) {
    if (name == EncodingName(encoding)) {
      return encoding;
    }
  }
  file.Refuse("attribute encoding",
              "is \"" + name.substr(0, 64) + "\"; trace format 1 knows float32, bfloat16 and float16");
}

std::vector<int32_t> ReadNumbers(const UntrustedFile& file, const GroupHandle& group, const std::string& name,
                                 int64_t max_count) {
  const CheckedDataset dataset = file.Dataset(group, "attention", name, H5T_STD_I32LE, 1, 0);
  if (dataset.extents[0] > max_count) {
    file.Refuse(dataset.name, "has " + std::to_string(dataset.extents[0]) + " entries, at most " +
                                  std::to_string(max_count) + " are allowed; " + kDamaged);
  }
  std::vector<int32_t> values(static_cast<size_t>(dataset.extents[0]));
  file.ReadAll(dataset, H5T_NATIVE_INT32, dataset.extents[0], values.data());
  return values;
}

ModelInfo ReadModel(const UntrustedFile& file) {
  const GroupHandle group = file.Group("model");
  ModelInfo model;
  model.name = file.Text(group, "name");
  model.model_type = file.Text(group, "model_type");
  model.weights_sha256 = file.Text(group, "weights_sha256");
  model.tokenizer_sha256 = file.Text(group, "tokenizer_sha256");
  model.num_layers = file.Integer32(group, "num_layers");
  model.num_qo_heads = file.Integer32(group, "num_qo_heads");
  model.num_kv_heads = file.Integer32(group, "num_kv_heads");
  model.head_dim = file.Integer32(group, "head_dim");
  model.config_json = file.TextDataset(group, "model", "config_json", kMaxConfigBytes);
  return model;
}

// Position of `value` in sorted `numbers`, or -1.
int32_t SlotOf(const std::vector<int32_t>& numbers, int32_t value) {
  const auto found = std::lower_bound(numbers.begin(), numbers.end(), value);
  return found != numbers.end() && *found == value ? static_cast<int32_t>(found - numbers.begin()) : -1;
}

}  // namespace

struct TraceReader::Impl {
  explicit Impl(const std::string& path) : file(path) {}

  UntrustedFile file;
  TraceLayout layout;
  bool complete = false;
  int64_t num_tokens = 0;
  int64_t num_rows = 0;
  std::vector<TokenRecord> tokens;
  std::vector<int32_t> row_positions;
  CheckedDataset q, k, v, lse;

  void ReadRoot();
  void ReadLayout(const GroupHandle& attention, const GroupHandle& tokens_group);
  void ReadTokens(const GroupHandle& group);
  void OpenHeads(const GroupHandle& group);
  void ReadRowPositions(const GroupHandle& group);
  CheckedDataset Growing(const GroupHandle& group, const std::string& group_name, const std::string& name, hid_t type,
                         int64_t used) const;
  void RequireHeads(const CheckedDataset& dataset, size_t num_heads, int64_t used, int64_t item_bytes) const;
  void Read(const CheckedDataset& dataset, hid_t type, int32_t layer_slot, int32_t head_slot, int64_t begin,
            int64_t end, int64_t readable, void* out) const;
  void ReadVectors(const CheckedDataset& dataset, int32_t layer_slot, int32_t head_slot, int64_t begin, int64_t end,
                   int64_t readable, void* out) const;
};

void TraceReader::Impl::ReadRoot() {
  const GroupHandle root = file.Group("");
  if (const std::string format = file.Text(root, "format"); format != kFormatName) {
    file.Refuse("attribute format", "is \"" + format.substr(0, 64) + "\" instead of \"" + kFormatName +
                                        "\"; open a file that headscope capture wrote");
  }
  if (const int32_t version = file.Integer32(root, "version"); version != kFormatVersion) {
    file.Refuse("attribute version", "is " + std::to_string(version) + "; this headscope reads version " +
                                         std::to_string(kFormatVersion) +
                                         ": use the headscope that wrote the file, or capture again");
  }
  // In this order, because a living writer changes them in the opposite one: what is read first is never newer than
  // what is read later.
  complete = file.Boolean(root, "complete");
  num_tokens = file.Integer64(root, "tokens_flushed");
  num_rows = file.Integer64(root, "rows_flushed");
  if (num_tokens < 0 || num_tokens > kMaxTokens) {
    file.Refuse("attribute tokens_flushed", "is " + std::to_string(num_tokens) + "; " + kDamaged);
  }
  if (num_rows < 0 || num_rows > kMaxTokens) {
    file.Refuse("attribute rows_flushed", "is " + std::to_string(num_rows) + "; " + kDamaged);
  }
}

void TraceReader::Impl::ReadLayout(const GroupHandle& attention, const GroupHandle& tokens_group) {
  layout.model = ReadModel(file);
  layout.layers = ReadNumbers(file, attention, "layers", kMaxLayers);
  layout.qo_heads = ReadNumbers(file, attention, "qo_heads", kMaxHeads);
  layout.kv_heads = ReadNumbers(file, attention, "kv_heads", kMaxHeads);
  layout.encoding = ParseEncoding(file, file.Text(attention, "encoding"));
  layout.capture_point = file.Text(attention, "capture_point");
  layout.rope_convention = file.Text(attention, "rope_convention");
  layout.softmax_scale = file.Float(attention, "softmax_scale");
  layout.soft_cap = file.Float(attention, "soft_cap");
  layout.window_per_layer = file.Integers(attention, "window_per_layer", kMaxLayers);
  layout.row_selection = file.Text(attention, "row_selection");
  layout.max_tokens = file.Integer64(attention, "max_tokens");
  layout.first_token = file.Integer64(attention, "first_token");
  layout.prompt_source = file.Text(tokens_group, "prompt_source");
  layout.task_answer = file.Text(tokens_group, "task_answer");
  if (const std::string problem = LayoutProblem(layout); !problem.empty()) {
    throw BadTraceError(file.path() + ": " + problem + "; " + kDamaged);
  }
  if (num_tokens > layout.max_tokens) {
    file.Refuse("attribute tokens_flushed", "is " + std::to_string(num_tokens) + ", above max_tokens " +
                                                std::to_string(layout.max_tokens) + "; " + kDamaged);
  }
}

// A one-dimensional dataset that grows with the trace; `used` items of it are read. They must fit the file, because
// they will be held in memory; a complete trace has no others.
CheckedDataset TraceReader::Impl::Growing(const GroupHandle& group, const std::string& group_name,
                                          const std::string& name, hid_t type, int64_t used) const {
  CheckedDataset dataset = file.Dataset(group, group_name, name, type, 1, 0);
  const int64_t have = dataset.extents[0];
  if (have < used || (complete && have != used)) {
    file.Refuse(dataset.name, "has " + std::to_string(have) + " entries where the other fields tell of " +
                                  std::to_string(used) + "; " + kDamaged);
  }
  if (used > file.size() / static_cast<int64_t>(H5Tget_size(type))) {
    file.Refuse(dataset.name, "tells of " + std::to_string(used) + " entries in a file of " +
                                  std::to_string(file.size()) + " bytes; " + kDamaged);
  }
  return dataset;
}

void TraceReader::Impl::ReadTokens(const GroupHandle& group) {
  const auto count = static_cast<size_t>(num_tokens);
  std::vector<int32_t> ids(count), steps(count);
  std::vector<int8_t> phases(count);
  std::vector<int64_t> offsets(count + 1);
  const TypeHandle phase_type = PhaseType();
  file.ReadAll(Growing(group, "tokens", "ids", H5T_STD_I32LE, num_tokens), H5T_NATIVE_INT32, num_tokens, ids.data());
  file.ReadAll(Growing(group, "tokens", "step", H5T_STD_I32LE, num_tokens), H5T_NATIVE_INT32, num_tokens, steps.data());
  file.ReadAll(Growing(group, "tokens", "phase", phase_type.get(), num_tokens), phase_type.get(), num_tokens,
               phases.data());
  const CheckedDataset offset_data = Growing(group, "tokens", "text_offsets", H5T_STD_I64LE, num_tokens + 1);
  file.ReadAll(offset_data, H5T_NATIVE_INT64, num_tokens + 1, offsets.data());
  if (offsets.front() != 0 || !std::is_sorted(offsets.begin(), offsets.end())) {
    file.Refuse(offset_data.name, std::string("must rise from 0; ") + kDamaged);
  }
  const CheckedDataset text_data = Growing(group, "tokens", "text", H5T_STD_U8LE, offsets.back());
  std::string text(static_cast<size_t>(offsets.back()), '\0');
  file.ReadAll(text_data, H5T_NATIVE_UINT8, offsets.back(), text.data());

  tokens.resize(count);
  const auto negative = [&](const char* dataset, int32_t value, size_t token) {
    file.Refuse(dataset, "holds " + std::to_string(value) + " for token " + std::to_string(token) +
                             ", must be at least 0; " + kDamaged);
  };
  for (size_t i = 0; i < count; ++i) {
    if (ids[i] < 0) negative("/tokens/ids", ids[i], i);
    if (steps[i] < 0) negative("/tokens/step", steps[i], i);
    if (phases[i] != 0 && phases[i] != 1) {
      file.Refuse("/tokens/phase", "holds " + std::to_string(phases[i]) + " instead of 0 or 1; " + kDamaged);
    }
    const auto begin = static_cast<size_t>(offsets[i]);
    tokens[i] = {ids[i], static_cast<TokenPhase>(phases[i]), steps[i],
                 text.substr(begin, static_cast<size_t>(offsets[i + 1]) - begin)};
  }
}

void TraceReader::Impl::ReadRowPositions(const GroupHandle& group) {
  const CheckedDataset dataset = Growing(group, "attention", "q_rows", H5T_STD_I32LE, num_rows);
  row_positions.resize(static_cast<size_t>(num_rows));
  file.ReadAll(dataset, H5T_NATIVE_INT32, num_rows, row_positions.data());
  int32_t last = -1;
  for (const int32_t position : row_positions) {
    if (position <= last) {
      file.Refuse(dataset.name,
                  "holds " + std::to_string(position) + " after " + std::to_string(last) + "; " + kDamaged);
    }
    last = position;
  }
  // The writer counts rows before tokens, so a kill between the two leaves rows of tokens that do not count yet.
  const auto end = std::lower_bound(row_positions.begin(), row_positions.end(), num_tokens);
  if (complete && end != row_positions.end()) {
    file.Refuse(dataset.name, "holds position " + std::to_string(*end) + " in a trace of " +
                                  std::to_string(num_tokens) + " tokens; " + kDamaged);
  }
  row_positions.erase(end, row_positions.end());
}

// Shape [layers, heads, >= used, ...], and the file is large enough to really hold the used part.
void TraceReader::Impl::RequireHeads(const CheckedDataset& dataset, size_t num_heads, int64_t used,
                                     int64_t item_bytes) const {
  const auto expected = [&](size_t axis, int64_t value) {
    if (dataset.extents[axis] != value) {
      file.Refuse(dataset.name, "has extent " + std::to_string(dataset.extents[axis]) + " instead of " +
                                    std::to_string(value) + " in dimension " + std::to_string(axis) + "; " + kDamaged);
    }
  };
  expected(0, static_cast<int64_t>(layout.layers.size()));
  expected(1, static_cast<int64_t>(num_heads));
  if (dataset.extents.size() == 4) {
    expected(3, layout.model.head_dim);
  }
  if (complete || dataset.extents[2] < used) {
    expected(2, used);
  }
  const int64_t item_total = dataset.extents[0] * dataset.extents[1] * item_bytes;  // at most 2^12 * 2^12 * 2^14
  if (used > file.size() / item_total) {
    file.Refuse(dataset.name, "tells of " + std::to_string(used) + " rows or tokens in a file of " +
                                  std::to_string(file.size()) + " bytes; " + kDamaged);
  }
}

void TraceReader::Impl::OpenHeads(const GroupHandle& group) {
  const TypeHandle type = FloatType(layout.encoding);
  const int64_t vector_bytes = layout.model.head_dim * SizeOf(layout.encoding);
  q = file.Dataset(group, "attention", "q", type.get(), 4, 2);
  k = file.Dataset(group, "attention", "k", type.get(), 4, 2);
  v = file.Dataset(group, "attention", "v", type.get(), 4, 2);
  lse = file.Dataset(group, "attention", "lse", H5T_IEEE_F32LE, 3, 2);
  RequireHeads(q, layout.qo_heads.size(), num_rows, vector_bytes);
  RequireHeads(k, layout.kv_heads.size(), num_tokens, vector_bytes);
  RequireHeads(v, layout.kv_heads.size(), num_tokens, vector_bytes);
  RequireHeads(lse, layout.qo_heads.size(), num_rows, 4);
}

void TraceReader::Impl::Read(const CheckedDataset& dataset, hid_t type, int32_t layer_slot, int32_t head_slot,
                             int64_t begin, int64_t end, int64_t readable, void* out) const {
  const auto outside = [&](const std::string& what, int64_t low, int64_t high, int64_t limit) {
    throw std::out_of_range(dataset.name + ": " + what + " " + std::to_string(low) + ":" + std::to_string(high) +
                            " of " + std::to_string(limit));
  };
  if (layer_slot < 0 || layer_slot >= dataset.extents[0]) {
    outside("layer slot", layer_slot, layer_slot + 1, dataset.extents[0]);
  }
  if (head_slot < 0 || head_slot >= dataset.extents[1]) {
    outside("head slot", head_slot, head_slot + 1, dataset.extents[1]);
  }
  if (begin < 0 || begin > end || end > readable) {
    outside("range", begin, end, readable);
  }
  // The last chunk of a trace that is not complete may be in the middle of being rewritten (or was when the writer was
  // killed). Rewriting leaves the values of flushed rows as they are, but the checksum behind them may belong to the
  // other version: it is not checked there.
  const int64_t checked_end =
      complete || dataset.chunk_items == 0 ? end : readable / dataset.chunk_items * dataset.chunk_items;
  const Hdf5Lock lock;
  const SpaceHandle file_space(Require(H5Dget_space(dataset.handle.get()), "reading " + dataset.name));
  const bool vectors = dataset.extents.size() == 4;
  const int64_t width = vectors ? dataset.extents[3] : 1;
  const auto item_bytes = static_cast<size_t>(width) * H5Tget_size(type);
  for (const bool verify : {true, false}) {
    const int64_t first = verify ? begin : std::max(begin, checked_end);
    const int64_t last = verify ? std::min(end, checked_end) : end;
    if (first >= last) {
      continue;
    }
    const hsize_t offset[4] = {static_cast<hsize_t>(layer_slot), static_cast<hsize_t>(head_slot),
                               static_cast<hsize_t>(first), 0};
    const hsize_t count[4] = {1, 1, static_cast<hsize_t>(last - first), static_cast<hsize_t>(width)};
    Require(H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, offset, nullptr, count, nullptr),
            "reading " + dataset.name);
    const SpaceHandle memory_space(
        Require(H5Screate_simple(vectors ? 4 : 3, count, nullptr), "reading " + dataset.name));
    const PropertyHandle transfer(Require(H5Pcreate(H5P_DATASET_XFER), "creating properties"));
    if (!verify) {
      Require(H5Pset_edc_check(transfer.get(), H5Z_DISABLE_EDC), "setting the checksum");
    }
    char* target = static_cast<char*>(out) + static_cast<size_t>(first - begin) * item_bytes;
    if (H5Dread(dataset.handle.get(), type, memory_space.get(), file_space.get(), transfer.get(), target) < 0) {
      file.RefuseUnread(dataset.name);
    }
  }
}

void TraceReader::Impl::ReadVectors(const CheckedDataset& dataset, int32_t layer_slot, int32_t head_slot, int64_t begin,
                                    int64_t end, int64_t readable, void* out) const {
  const Hdf5Lock lock;
  Read(dataset, FloatType(layout.encoding).get(), layer_slot, head_slot, begin, end, readable, out);
}

TraceReader::TraceReader(const std::string& path) {
  const Hdf5Lock lock;
  impl_ = std::make_unique<Impl>(path);
  impl_->ReadRoot();
  const GroupHandle attention = impl_->file.Group("attention");
  const GroupHandle tokens_group = impl_->file.Group("tokens");
  impl_->ReadLayout(attention, tokens_group);
  impl_->OpenHeads(attention);
  impl_->ReadTokens(tokens_group);
  impl_->ReadRowPositions(attention);
  impl_->num_rows = static_cast<int64_t>(impl_->row_positions.size());
}

TraceReader::~TraceReader() {
  const Hdf5Lock lock;
  impl_.reset();
}

const std::string& TraceReader::path() const {
  return impl_->file.path();
}
const TraceLayout& TraceReader::layout() const {
  return impl_->layout;
}
bool TraceReader::complete() const {
  return impl_->complete;
}
int64_t TraceReader::num_tokens() const {
  return impl_->num_tokens;
}
int64_t TraceReader::num_rows() const {
  return impl_->num_rows;
}
const std::vector<TokenRecord>& TraceReader::tokens() const {
  return impl_->tokens;
}
const std::vector<int32_t>& TraceReader::row_positions() const {
  return impl_->row_positions;
}

void TraceReader::ReadQ(int32_t layer_slot, int32_t head_slot, int64_t begin, int64_t end, void* out) const {
  impl_->ReadVectors(impl_->q, layer_slot, head_slot, begin, end, impl_->num_rows, out);
}

void TraceReader::ReadK(int32_t layer_slot, int32_t kv_slot, int64_t begin, int64_t end, void* out) const {
  impl_->ReadVectors(impl_->k, layer_slot, kv_slot, begin, end, impl_->num_tokens, out);
}

void TraceReader::ReadV(int32_t layer_slot, int32_t kv_slot, int64_t begin, int64_t end, void* out) const {
  impl_->ReadVectors(impl_->v, layer_slot, kv_slot, begin, end, impl_->num_tokens, out);
}

void TraceReader::ReadLse(int32_t layer_slot, int32_t head_slot, int64_t begin, int64_t end, float* out) const {
  const Hdf5Lock lock;
  impl_->Read(impl_->lse, H5T_NATIVE_FLOAT, layer_slot, head_slot, begin, end, impl_->num_rows, out);
}

int32_t TraceReader::LayerSlot(int32_t layer) const {
  return SlotOf(impl_->layout.layers, layer);
}
int32_t TraceReader::QoHeadSlot(int32_t head) const {
  return SlotOf(impl_->layout.qo_heads, head);
}
int32_t TraceReader::KvHeadSlot(int32_t kv_head) const {
  return SlotOf(impl_->layout.kv_heads, kv_head);
}

}  // namespace headscope::data
