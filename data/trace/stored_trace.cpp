#include "trace/stored_trace.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "trace/trace_format.h"

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

StoredKind KindOf(Encoding encoding) {
  return encoding == Encoding::kFloat32    ? StoredKind::kFloat32
         : encoding == Encoding::kBFloat16 ? StoredKind::kBFloat16
                                           : StoredKind::kFloat16;
}

std::vector<int32_t> ReadNumbers(UntrustedFile& file, const StoredGroup& group, const std::string& name,
                                 int64_t max_count) {
  CheckedDataset dataset = file.Dataset(group, name, StoredKind::kInt32, 1, 0);
  if (dataset.extents[0] > max_count) {
    file.Refuse(dataset.name, "has " + std::to_string(dataset.extents[0]) + " entries, at most " +
                                  std::to_string(max_count) + " are allowed; " + kDamaged);
  }
  file.RequireStored(dataset, dataset.num_items, StoredLayout::kContiguous);
  std::vector<int32_t> values(static_cast<size_t>(dataset.num_items));
  file.Read(dataset, 0, 0, dataset.num_items, 0, values.data());
  return values;
}

ModelInfo ReadModel(UntrustedFile& file) {
  const StoredGroup& group = file.Group("model");
  ModelInfo model;
  model.name = file.Text(group, "name");
  model.model_type = file.Text(group, "model_type");
  model.weights_sha256 = file.Text(group, "weights_sha256");
  model.tokenizer_sha256 = file.Text(group, "tokenizer_sha256");
  model.num_layers = file.Integer32(group, "num_layers");
  model.num_qo_heads = file.Integer32(group, "num_qo_heads");
  model.num_kv_heads = file.Integer32(group, "num_kv_heads");
  model.head_dim = file.Integer32(group, "head_dim");
  model.config_json = file.TextDataset(group, "config_json", kMaxConfigBytes);
  return model;
}

}  // namespace

void StoredTrace::ReadRoot() {
  const StoredGroup& root = file_.Group("");
  if (const std::string format = file_.Text(root, "format"); format != kFormatName) {
    file_.Refuse("attribute format", "is \"" + format.substr(0, 64) + "\" instead of \"" + kFormatName +
                                         "\"; open a file that headscope capture wrote");
  }
  if (const int32_t version = file_.Integer32(root, "version"); version != kFormatVersion) {
    file_.Refuse("attribute version", "is " + std::to_string(version) + "; this headscope reads version " +
                                          std::to_string(kFormatVersion) +
                                          ": use the headscope that wrote the file, or capture again");
  }
  // In this order, because a living writer changes them in the opposite one: what is read first is never newer than
  // what is read later.
  complete_ = file_.Boolean(root, "complete");
  num_tokens_ = file_.Integer64(root, "tokens_flushed");
  num_rows_ = file_.Integer64(root, "rows_flushed");
  if (num_tokens_ < 0 || num_tokens_ > kMaxTokens) {
    file_.Refuse("attribute tokens_flushed", "is " + std::to_string(num_tokens_) + "; " + kDamaged);
  }
  if (num_rows_ < 0 || num_rows_ > kMaxTokens) {
    file_.Refuse("attribute rows_flushed", "is " + std::to_string(num_rows_) + "; " + kDamaged);
  }
}

void StoredTrace::ReadLayout(const StoredGroup& attention, const StoredGroup& tokens_group) {
  layout_.model = ReadModel(file_);
  layout_.layers = ReadNumbers(file_, attention, "layers", kMaxLayers);
  layout_.qo_heads = ReadNumbers(file_, attention, "qo_heads", kMaxHeads);
  layout_.kv_heads = ReadNumbers(file_, attention, "kv_heads", kMaxHeads);
  layout_.encoding = ParseEncoding(file_, file_.Text(attention, "encoding"));
  layout_.capture_point = file_.Text(attention, "capture_point");
  layout_.rope_convention = file_.Text(attention, "rope_convention");
  layout_.softmax_scale = file_.Float(attention, "softmax_scale");
  layout_.soft_cap = file_.Float(attention, "soft_cap");
  layout_.window_per_layer = file_.Integers(attention, "window_per_layer", kMaxLayers);
  layout_.row_selection = file_.Text(attention, "row_selection");
  layout_.max_tokens = file_.Integer64(attention, "max_tokens");
  layout_.first_token = file_.Integer64(attention, "first_token");
  layout_.prompt_source = file_.Text(tokens_group, "prompt_source");
  layout_.task_answer = file_.Text(tokens_group, "task_answer");
  if (const std::string problem = LayoutProblem(layout_); !problem.empty()) {
    throw BadTraceError(file_.path() + ": " + problem + "; " + kDamaged);
  }
  if (num_tokens_ > layout_.max_tokens) {
    file_.Refuse("attribute tokens_flushed", "is " + std::to_string(num_tokens_) + ", above max_tokens " +
                                                 std::to_string(layout_.max_tokens) + "; " + kDamaged);
  }
}

// A one-dimensional dataset that grows with the trace; `used` items of it are read. They must be in the file, because
// they will be held in memory; a complete trace has no others.
CheckedDataset StoredTrace::Growing(const StoredGroup& group, const std::string& name, StoredKind type, int64_t used) {
  CheckedDataset dataset = file_.Dataset(group, name, type, 1, 0);
  const int64_t have = dataset.num_items;
  if (have < used || (complete_ && have != used)) {
    file_.Refuse(dataset.name, "has " + std::to_string(have) + " entries where the other fields tell of " +
                                   std::to_string(used) + "; " + kDamaged);
  }
  if (used > file_.size() / dataset.item_bytes) {
    file_.Refuse(dataset.name, "tells of " + std::to_string(used) + " entries in a file of " +
                                   std::to_string(file_.size()) + " bytes; " + kDamaged);
  }
  file_.RequireStored(dataset, used, StoredLayout::kChunked);
  return dataset;
}

// The last chunk of a trace that is not complete may be in the middle of being rewritten (or was when the writer was
// killed). Rewriting leaves the values that count as they are, but the checksum behind them may belong to the other
// version: it is not looked at there.
int64_t StoredTrace::CheckedEnd(const CheckedDataset& dataset, int64_t readable) const {
  return complete_ ? dataset.num_items : readable / dataset.part_items * dataset.part_items;
}

template <typename Number>
std::vector<Number> StoredTrace::ReadAll(const CheckedDataset& dataset, int64_t used) const {
  std::vector<Number> values(static_cast<size_t>(used));
  file_.Read(dataset, 0, 0, used, CheckedEnd(dataset, used), values.data());
  return values;
}

void StoredTrace::ReadTokens(const StoredGroup& group) {
  const auto count = static_cast<size_t>(num_tokens_);
  // All of them before memory is taken for any.
  const CheckedDataset id_data = Growing(group, "ids", StoredKind::kInt32, num_tokens_);
  const CheckedDataset step_data = Growing(group, "step", StoredKind::kInt32, num_tokens_);
  const CheckedDataset phase_data = Growing(group, "phase", StoredKind::kPhase, num_tokens_);
  const CheckedDataset offset_data = Growing(group, "text_offsets", StoredKind::kInt64, num_tokens_ + 1);
  const auto offsets = ReadAll<int64_t>(offset_data, num_tokens_ + 1);
  if (offsets.front() != 0 || !std::is_sorted(offsets.begin(), offsets.end())) {
    file_.Refuse(offset_data.name, std::string("must rise from 0; ") + kDamaged);
  }
  const CheckedDataset text_data = Growing(group, "text", StoredKind::kUint8, offsets.back());
  const auto ids = ReadAll<int32_t>(id_data, num_tokens_);
  const auto steps = ReadAll<int32_t>(step_data, num_tokens_);
  const auto phases = ReadAll<int8_t>(phase_data, num_tokens_);
  const auto text = ReadAll<char>(text_data, offsets.back());

  tokens_.resize(count);
  const auto negative = [&](const char* dataset, int32_t value, size_t token) {
    file_.Refuse(dataset, "holds " + std::to_string(value) + " for token " + std::to_string(token) +
                              ", must be at least 0; " + kDamaged);
  };
  for (size_t i = 0; i < count; ++i) {
    if (ids[i] < 0) negative("/tokens/ids", ids[i], i);
    if (steps[i] < 0) negative("/tokens/step", steps[i], i);
    if (phases[i] != 0 && phases[i] != 1) {
      file_.Refuse("/tokens/phase", "holds " + std::to_string(phases[i]) + " instead of 0 or 1; " + kDamaged);
    }
    const auto begin = static_cast<size_t>(offsets[i]);
    tokens_[i] = {ids[i], static_cast<TokenPhase>(phases[i]), steps[i],
                  std::string(text.data() + begin, static_cast<size_t>(offsets[i + 1]) - begin)};
  }
}

void StoredTrace::ReadRowPositions(const StoredGroup& group) {
  const CheckedDataset dataset = Growing(group, "q_rows", StoredKind::kInt32, num_rows_);
  row_positions_ = ReadAll<int32_t>(dataset, num_rows_);
  int32_t last = -1;
  for (const int32_t position : row_positions_) {
    if (position <= last) {
      file_.Refuse(dataset.name,
                   "holds " + std::to_string(position) + " after " + std::to_string(last) + "; " + kDamaged);
    }
    last = position;
  }
  // The writer counts rows before tokens, so a kill between the two leaves rows of tokens that do not count yet.
  const auto end = std::lower_bound(row_positions_.begin(), row_positions_.end(), num_tokens_);
  if (complete_ && end != row_positions_.end()) {
    file_.Refuse(dataset.name, "holds position " + std::to_string(*end) + " in a trace of " +
                                   std::to_string(num_tokens_) + " tokens; " + kDamaged);
  }
  row_positions_.erase(end, row_positions_.end());
}

// Shape [layers, heads, >= used, ...], and the file is large enough to really hold the used part.
void StoredTrace::RequireHeads(CheckedDataset& dataset, size_t num_heads, int64_t used) {
  const auto expected = [&](size_t axis, int64_t value) {
    if (dataset.extents[axis] != value) {
      file_.Refuse(dataset.name, "has extent " + std::to_string(dataset.extents[axis]) + " instead of " +
                                     std::to_string(value) + " in dimension " + std::to_string(axis) + "; " + kDamaged);
    }
  };
  expected(0, static_cast<int64_t>(layout_.layers.size()));
  expected(1, static_cast<int64_t>(num_heads));
  if (dataset.extents.size() == 4) {
    expected(3, layout_.model.head_dim);
  }
  if (complete_ || dataset.extents[2] < used) {
    expected(2, used);
  }
  const int64_t item_total =
      dataset.extents[0] * dataset.extents[1] * dataset.item_bytes;  // at most 2^12 * 2^12 * 2^14
  if (used > file_.size() / item_total) {
    file_.Refuse(dataset.name, "tells of " + std::to_string(used) + " rows or tokens in a file of " +
                                   std::to_string(file_.size()) + " bytes; " + kDamaged);
  }
  file_.RequireStored(dataset, used, StoredLayout::kChunked);
}

void StoredTrace::OpenHeads(const StoredGroup& group) {
  const StoredKind type = KindOf(layout_.encoding);
  q_ = file_.Dataset(group, "q", type, 4, 2);
  k_ = file_.Dataset(group, "k", type, 4, 2);
  v_ = file_.Dataset(group, "v", type, 4, 2);
  lse_ = file_.Dataset(group, "lse", StoredKind::kFloat32, 3, 2);
  RequireHeads(q_, layout_.qo_heads.size(), num_rows_);
  RequireHeads(k_, layout_.kv_heads.size(), num_tokens_);
  RequireHeads(v_, layout_.kv_heads.size(), num_tokens_);
  RequireHeads(lse_, layout_.qo_heads.size(), num_rows_);
}

StoredTrace::StoredTrace(const std::string& path) : file_(path) {
  ReadEverythingButVectors();
}

StoredTrace::StoredTrace(const std::string& path, Contents contents) : file_(path, kTraceFile, std::move(contents)) {
  ReadEverythingButVectors();
}

void StoredTrace::ReadEverythingButVectors() {
  ReadRoot();
  const StoredGroup& attention = file_.Group("attention");
  const StoredGroup& tokens_group = file_.Group("tokens");
  ReadLayout(attention, tokens_group);
  OpenHeads(attention);
  ReadTokens(tokens_group);
  ReadRowPositions(attention);
  num_rows_ = static_cast<int64_t>(row_positions_.size());
}

void StoredTrace::Read(const CheckedDataset& dataset, int32_t layer_slot, int32_t head_slot, int64_t begin, int64_t end,
                       int64_t readable, void* out) const {
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
  file_.Read(dataset, layer_slot * dataset.extents[1] + head_slot, begin, end, CheckedEnd(dataset, readable), out);
}

}  // namespace headscope::data
