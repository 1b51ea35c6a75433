// SPDX-License-Identifier: Apache-2.0
#include "trace/stored_trace.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "base/errors.h"
#include "base/quoted_text.h"
#include "trace/layer_table.h"
#include "trace/trace_format.h"
#include "trace/trace_tensors.h"

namespace headscope::data {
namespace {

ElementType ParseEncoding(const UntrustedFile& file, const std::string& name) {
  for (const ElementTypeInfo& known : kElementTypes) {
    if (name == EncodingName(known.type)) return known.type;
  }
  file.Refuse("attribute encoding", "is " + Quoted(name) + ", known encodings are float32, bfloat16 and float16");
}

StoredKind KindOf(ElementType encoding) {
  return encoding == ElementType::kFloat32    ? StoredKind::kFloat32
         : encoding == ElementType::kBFloat16 ? StoredKind::kBFloat16
                                              : StoredKind::kFloat16;
}

std::vector<int32_t> ReadNumbers(UntrustedFile& file, const StoredGroup& group, const std::string& name,
                                 int64_t max_count) {
  CheckedDataset dataset = file.Dataset(group, name, StoredKind::kInt32, 1, 0);
  if (dataset.extents[0] > max_count) {
    file.Refuse(dataset.name, "has " + std::to_string(dataset.extents[0]) + " entries, at most " +
                                  std::to_string(max_count) + " are allowed");
  }
  file.RequireStored(dataset, dataset.num_items, StoredLayout::kContiguous);
  std::vector<int32_t> values(static_cast<size_t>(dataset.num_items));
  file.Read(dataset, 0, 0, dataset.num_items, 0, values.data());
  return values;
}

// A column of /layers, one entry for each recorded layer; empty where it is absent and may be.
template <typename Number, typename ReadList>
std::vector<Number> ReadColumn(const UntrustedFile& file, const StoredGroup& layers, const char* name, bool required,
                               size_t count, ReadList read) {
  if (!required && !UntrustedFile::HasAttribute(layers, name)) return {};
  std::vector<Number> values = read(name);
  if (values.size() != count) {
    file.Refuse(std::string("attribute ") + name + " of /layers",
                "has " + std::to_string(values.size()) + " entries for " + std::to_string(count) + " recorded layers");
  }
  return values;
}

std::vector<int32_t> IntegerColumn(const UntrustedFile& file, const StoredGroup& layers, const char* name,
                                   bool required, size_t count) {
  return ReadColumn<int32_t>(file, layers, name, required, count,
                             [&](const char* one) { return file.Integers(layers, one, kMaxLayers); });
}

std::string PartPath(size_t part) {
  return part == 0 ? "attention" : "attention/part_" + std::to_string(part);
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
  if (UntrustedFile::HasAttribute(group, "layer_kinds")) {
    for (const int32_t kind : file.Integers(group, "layer_kinds", kMaxLayers)) {
      if (kind < 0 || kind > static_cast<int32_t>(LayerKind::kNone)) {
        file.Refuse("attribute layer_kinds", "holds " + std::to_string(kind) + ", known values are 0 to " +
                                                 std::to_string(static_cast<int>(LayerKind::kNone)));
      }
      model.layer_kinds.push_back(static_cast<LayerKind>(kind));
    }
  }
  model.config_json = file.TextDataset(group, "config_json", kMaxConfigBytes);
  return model;
}

void RequireFormat(const UntrustedFile& file, const StoredGroup& root) {
  const std::string format = file.Text(root, "format");
  if (format == kFormatName) return;
  file.RefuseKind("attribute format", "is " + Quoted(format) + " instead of " + Quoted(kFormatName));
}

// What the writer would not have stored.
[[noreturn]] void RefuseStored(const UntrustedFile& file, Fault fault) {
  fault.file = file.path();
  fault.remedy = kTraceFile.damaged;
  throw BadInputError(std::move(fault));
}

TraceFilePlace ReadPlace(const UntrustedFile& file, const StoredGroup& root) {
  const auto has = [&](const char* name) { return UntrustedFile::HasAttribute(root, name); };
  if (!has("file_set") && !has("file_number") && !has("file_count")) return {};
  TraceFilePlace place{file.Text(root, "file_set"), file.Integer32(root, "file_number"),
                       file.Integer32(root, "file_count")};
  if (std::optional<Fault> fault = PlaceFault(place)) RefuseStored(file, *std::move(fault));
  return place;
}

}  // namespace

TraceFilePlace StoredPlace(const std::string& path) {
  const UntrustedFile file(path);
  const StoredGroup& root = file.Group("");
  RequireFormat(file, root);
  return ReadPlace(file, root);
}

void StoredTrace::ReadRoot() {
  const StoredGroup& root = file_.Group("");
  RequireFormat(file_, root);
  version_ = file_.Integer32(root, "version");
  if (version_ < kFirstFormatVersion || version_ > kBidirectionalVersion) {
    file_.Refuse("attribute version",
                 "is " + std::to_string(version_) + ", and this headscope reads versions " +
                     std::to_string(kFirstFormatVersion) + " to " + std::to_string(kBidirectionalVersion),
                 "use the headscope that wrote the file, or capture again");
  }
  // In this order, because a living writer changes them in the opposite one: what is read first is never newer than
  // what is read later.
  complete_ = file_.Boolean(root, "complete");
  num_tokens_ = file_.Integer64(root, "tokens_flushed");
  num_rows_ = file_.Integer64(root, "rows_flushed");
  if (num_tokens_ < 0 || num_tokens_ > kMaxTokens) {
    file_.Refuse("attribute tokens_flushed", "is " + std::to_string(num_tokens_));
  }
  if (num_rows_ < 0 || num_rows_ > kMaxTokens) {
    file_.Refuse("attribute rows_flushed", "is " + std::to_string(num_rows_));
  }
  place_ = ReadPlace(file_, root);
}

std::vector<TokenRecord> StoredTrace::TakeTokens() {
  return std::exchange(tokens_, {});
}

std::vector<int32_t> StoredTrace::TakeRowPositions() {
  return std::exchange(row_positions_, {});
}

void StoredTrace::ReadLayout(const StoredGroup& attention, const StoredGroup& tokens_group) {
  layout_.model = ReadModel(file_);
  layout_.encoding = ParseEncoding(file_, file_.Text(attention, "encoding"));
  layout_.capture_point = file_.Text(attention, "capture_point");
  if (UntrustedFile::HasAttribute(attention, "attention")) layout_.attention = file_.Text(attention, "attention");
  layout_.row_selection = file_.Text(attention, "row_selection");
  layout_.max_tokens = file_.Integer64(attention, "max_tokens");
  layout_.first_token = file_.Integer64(attention, "first_token");
  layout_.prompt_source = file_.Text(tokens_group, "prompt_source");
  layout_.task_answer = file_.Text(tokens_group, "task_answer");
  if (UntrustedFile::HasAttribute(tokens_group, "answer_tokens")) {
    layout_.answer_tokens = file_.Integer32(tokens_group, "answer_tokens");
    layout_.answer_score = file_.Float(tokens_group, "answer_score");
  }
  if (version_ == kFirstFormatVersion) {
    ReadUniformLayers(attention);
  } else {
    ReadLayers();
    if (const int32_t version = VersionOf(layout_); version_ != version) {
      file_.Refuse("attribute version", "is " + std::to_string(version_) +
                                            ", but a trace of these layers has version " + std::to_string(version));
    }
    layout_.has_roles = UntrustedFile::HasDataset(tokens_group, "role");
    if (UntrustedFile::HasDataset(tokens_group, "positions")) {
      const CheckedDataset positions = file_.Dataset(tokens_group, "positions", StoredKind::kInt32, 2, 0);
      if (positions.extents[1] < 1 || positions.extents[1] > kMaxPositionAxes) {
        file_.Refuse(positions.name, "has " + std::to_string(positions.extents[1]) + " numbers per token, where 1 to " +
                                         std::to_string(kMaxPositionAxes) + " are allowed");
      }
      layout_.position_axes = static_cast<int32_t>(positions.extents[1]);
    }
  }
  if (std::optional<Fault> fault = LayoutFault(layout_)) RefuseStored(file_, *std::move(fault));
  if (num_tokens_ > layout_.max_tokens) {
    file_.Refuse("attribute tokens_flushed",
                 "is " + std::to_string(num_tokens_) + ", above max_tokens " + std::to_string(layout_.max_tokens));
  }
}

// Every layer has a list of its heads in memory, and many layers share one in the file.
void StoredTrace::RequireFewHeads(int64_t num_heads) const {
  if (num_heads <= kMaxAllHeads) return;
  file_.Refuse("/attention/qo_heads", "and kv_heads make " + std::to_string(num_heads) +
                                          " heads in all layers, at most " + std::to_string(kMaxAllHeads) +
                                          " are allowed");
}

void StoredTrace::ReadUniformLayers(const StoredGroup& attention) {
  layout_.layers = ReadNumbers(file_, attention, "layers", kMaxLayers);
  LayerFacts facts;
  facts.num_qo_heads = layout_.model.num_qo_heads;
  facts.num_kv_heads = layout_.model.num_kv_heads;
  facts.head_dim = facts.v_head_dim = layout_.model.head_dim;
  facts.qo_heads = ReadNumbers(file_, attention, "qo_heads", kMaxHeads);
  facts.kv_heads = ReadNumbers(file_, attention, "kv_heads", kMaxHeads);
  facts.softmax_scale = file_.Float(attention, "softmax_scale");
  facts.soft_cap = file_.Float(attention, "soft_cap");
  const std::string convention = file_.Text(attention, "rope_convention");
  if (convention == "half") {
    facts.rope.convention = RopeConvention::kHalf;
  } else if (convention == "interleaved") {
    facts.rope.convention = RopeConvention::kInterleaved;
  } else if (convention == "none") {
    facts.rope.convention = RopeConvention::kNone;
  } else {
    file_.Refuse("attribute rope_convention", "is " + Quoted(convention) + ", must be half, interleaved or none");
  }
  const std::vector<int32_t> windows = file_.Integers(attention, "window_per_layer", kMaxLayers);
  RequireFewHeads(std::ssize(windows) * (std::ssize(facts.qo_heads) + std::ssize(facts.kv_heads)));
  if (windows.size() != layout_.layers.size()) {
    file_.Refuse("attribute window_per_layer", "has " + std::to_string(windows.size()) + " entries for " +
                                                   std::to_string(layout_.layers.size()) + " recorded layers");
  }
  layout_.facts.assign(windows.size(), facts);
  Part& part = parts_.emplace_back();
  for (size_t slot = 0; slot < windows.size(); ++slot) {
    layout_.facts[slot].window = windows[slot];
    part.slots.push_back(static_cast<int32_t>(slot));
  }
}

void StoredTrace::ReadLayers() {
  const StoredGroup& layers = file_.Group("layers");
  layout_.layers = file_.Integers(layers, "layer", kMaxLayers);
  const size_t count = layout_.layers.size();
  layout_.facts.resize(count);
  for (const LayerIntegerColumn& column : kLayerIntegers) {
    const std::vector<int32_t> values = IntegerColumn(file_, layers, column.name, column.required, count);
    for (size_t slot = 0; slot < count; ++slot) {
      const int32_t value = values.empty() ? column.usual : values[slot];
      if (value < column.least || value > column.most) {
        file_.Refuse(std::string("attribute ") + column.name + " of /layers",
                     "holds " + std::to_string(value) + ", must be " + std::to_string(column.least) + " to " +
                         std::to_string(column.most));
      }
      column.set(layout_.facts[slot], value);
    }
  }
  for (const LayerFloatColumn& column : kLayerFloats) {
    const auto values = ReadColumn<float>(file_, layers, column.name, column.required, count,
                                          [&](const char* name) { return file_.Floats(layers, name, kMaxLayers); });
    for (size_t slot = 0; slot < count; ++slot) {
      column.set(layout_.facts[slot], values.empty() ? column.usual : values[slot]);  // LayerProblem looks at them
    }
  }
  ReadSinks(layers);
  ReadParts(IntegerColumn(file_, layers, "part", true, count));
}

void StoredTrace::ReadSinks(const StoredGroup& layers) {
  const std::vector<int32_t> has_sinks = IntegerColumn(file_, layers, "has_sinks", false, layout_.layers.size());
  int64_t wanted = 0;
  for (size_t slot = 0; slot < has_sinks.size(); ++slot) {
    if (has_sinks[slot] != 0) wanted += layout_.facts[slot].num_qo_heads;  // at most 2^12 times 2^12
  }
  if (wanted == 0) return;
  CheckedDataset dataset = file_.Dataset(layers, "sinks", StoredKind::kFloat32, 1, 0);
  if (dataset.num_items != wanted) {
    file_.Refuse(dataset.name, "has " + std::to_string(dataset.num_items) + " entries for " + std::to_string(wanted) +
                                   " query heads with a sink");
  }
  file_.RequireStored(dataset, wanted, StoredLayout::kContiguous);
  int64_t begin = 0;
  for (size_t slot = 0; slot < has_sinks.size(); ++slot) {
    if (has_sinks[slot] == 0) continue;
    LayerFacts& facts = layout_.facts[slot];
    facts.sinks.resize(static_cast<size_t>(facts.num_qo_heads));
    file_.Read(dataset, 0, begin, begin + facts.num_qo_heads, 0, facts.sinks.data());
    begin += facts.num_qo_heads;
  }
}

// Which layer stands in which part, and their heads. The parts' numbers are 0 to the greatest, and none is empty.
void StoredTrace::ReadParts(const std::vector<int32_t>& part_of_layer) {
  for (size_t slot = 0; slot < part_of_layer.size(); ++slot) {
    const int32_t part = part_of_layer[slot];
    if (part < 0 || part > std::ssize(parts_)) {
      file_.Refuse("attribute part of /layers",
                   "holds " + std::to_string(part) + " where " + std::to_string(parts_.size()) + " or less is next");
    }
    if (part == std::ssize(parts_)) parts_.emplace_back();
    parts_[static_cast<size_t>(part)].slots.push_back(static_cast<int32_t>(slot));
  }
  int64_t num_heads = 0;
  for (size_t part = 0; part < parts_.size(); ++part) {
    const StoredGroup& group = file_.Group(PartPath(part));
    const std::vector<int32_t> layers = ReadNumbers(file_, group, "layers", kMaxLayers);
    std::vector<int32_t> expected;
    for (const int32_t slot : parts_[part].slots) expected.push_back(layout_.layers[static_cast<size_t>(slot)]);
    if (layers != expected) {
      file_.Refuse("/" + PartPath(part) + "/layers", "holds different layers than /layers declares");
    }
    const std::vector<int32_t> qo_heads = ReadNumbers(file_, group, "qo_heads", kMaxHeads);
    const std::vector<int32_t> kv_heads = ReadNumbers(file_, group, "kv_heads", kMaxHeads);
    num_heads += std::ssize(layers) * (std::ssize(qo_heads) + std::ssize(kv_heads));
    RequireFewHeads(num_heads);
    for (const int32_t slot : parts_[part].slots) {
      layout_.facts[static_cast<size_t>(slot)].qo_heads = qo_heads;
      layout_.facts[static_cast<size_t>(slot)].kv_heads = kv_heads;
    }
  }
}

// A dataset that grows with the trace, of `width` numbers an item or of one axis (0); `used` items of it are read. They
// must be in the file, because they will be held in memory; a complete trace has no others.
CheckedDataset StoredTrace::Growing(const StoredGroup& group, const std::string& name, StoredKind type, int64_t used,
                                    int64_t width) {
  CheckedDataset dataset = file_.Dataset(group, name, type, width > 0 ? 2 : 1, 0);
  const int64_t have = dataset.num_items;
  if (have < used || (complete_ && have != used)) {
    file_.Refuse(dataset.name,
                 "has " + std::to_string(have) + " entries where the other fields declare " + std::to_string(used));
  }
  if (used > file_.size() / dataset.item_bytes) {
    file_.Refuse(dataset.name, "declares " + std::to_string(used) + " entries in a file of " +
                                   std::to_string(file_.size()) + " bytes");
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
  CheckedDataset role_data, position_data;
  if (layout_.has_roles) role_data = Growing(group, "role", StoredKind::kInt8, num_tokens_);
  if (layout_.position_axes > 0) {
    position_data = Growing(group, "positions", StoredKind::kInt32, num_tokens_, layout_.position_axes);
  }
  const auto offsets = ReadAll<int64_t>(offset_data, num_tokens_ + 1);
  if (offsets.front() != 0 || !std::is_sorted(offsets.begin(), offsets.end())) {
    file_.Refuse(offset_data.name, "must rise from 0");
  }
  const CheckedDataset text_data = Growing(group, "text", StoredKind::kUint8, offsets.back());
  const auto ids = ReadAll<int32_t>(id_data, num_tokens_);
  const auto steps = ReadAll<int32_t>(step_data, num_tokens_);
  const auto phases = ReadAll<int8_t>(phase_data, num_tokens_);
  const auto text = ReadAll<char>(text_data, offsets.back());

  tokens_.resize(count);
  const auto negative = [&](const char* dataset, int32_t value, size_t token) {
    file_.Refuse(dataset,
                 "holds " + std::to_string(value) + " for token " + std::to_string(token) + ", must be at least 0");
  };
  for (size_t i = 0; i < count; ++i) {
    if (ids[i] < 0) negative("/tokens/ids", ids[i], i);
    if (steps[i] < 0) negative("/tokens/step", steps[i], i);
    if (phases[i] != 0 && phases[i] != 1) {
      file_.Refuse("/tokens/phase", "holds " + std::to_string(phases[i]) + " instead of 0 or 1");
    }
    const auto begin = static_cast<size_t>(offsets[i]);
    tokens_[i] = {ids[i], static_cast<TokenPhase>(phases[i]), steps[i],
                  std::string(text.data() + begin, static_cast<size_t>(offsets[i + 1]) - begin)};
  }
  if (layout_.has_roles) ReadRoles(role_data);
  if (layout_.position_axes > 0) ReadPositions(position_data);
}

void StoredTrace::ReadRoles(const CheckedDataset& dataset) {
  const auto roles = ReadAll<int8_t>(dataset, num_tokens_);
  for (size_t i = 0; i < roles.size(); ++i) {
    if (roles[i] < 0 || roles[i] > static_cast<int8_t>(TokenRole::kVideo)) {
      file_.Refuse(dataset.name, "holds " + std::to_string(roles[i]) + ", known values are 0 to " +
                                     std::to_string(static_cast<int>(TokenRole::kVideo)));
    }
    tokens_[i].role = static_cast<TokenRole>(roles[i]);
  }
}

void StoredTrace::ReadPositions(const CheckedDataset& dataset) {
  const auto axes = static_cast<size_t>(layout_.position_axes);
  std::vector<int32_t> positions(static_cast<size_t>(num_tokens_) * axes);
  file_.Read(dataset, 0, 0, num_tokens_, CheckedEnd(dataset, num_tokens_), positions.data());
  for (size_t i = 0; i < positions.size(); ++i) {
    if (positions[i] < 0) {
      file_.Refuse(dataset.name, "holds " + std::to_string(positions[i]) + ", must be at least 0");
    }
    tokens_[i / axes].positions[i % axes] = positions[i];
  }
}

void StoredTrace::ReadRowPositions(const StoredGroup& group) {
  const CheckedDataset dataset = Growing(group, "q_rows", StoredKind::kInt32, num_rows_);
  row_positions_ = ReadAll<int32_t>(dataset, num_rows_);
  int32_t last = -1;
  for (const int32_t position : row_positions_) {
    if (position <= last) {
      file_.Refuse(dataset.name, "holds " + std::to_string(position) + " after " + std::to_string(last));
    }
    last = position;
  }
  // The writer counts rows before tokens, so a kill between the two leaves rows of tokens that do not count yet.
  const auto end = std::lower_bound(row_positions_.begin(), row_positions_.end(), num_tokens_);
  if (complete_ && end != row_positions_.end()) {
    file_.Refuse(dataset.name, "holds position " + std::to_string(*end) + " in a trace of " +
                                   std::to_string(num_tokens_) + " tokens");
  }
  row_positions_.erase(end, row_positions_.end());
}

// Shape [layers, heads, >= used, width or nothing], and the file is large enough to really hold the used part.
void StoredTrace::RequireHeads(CheckedDataset& dataset, const std::vector<int64_t>& extents, int64_t used) {
  const auto expected = [&](size_t axis, int64_t value) {
    if (dataset.extents[axis] != value) {
      file_.Refuse(dataset.name, "has extent " + std::to_string(dataset.extents[axis]) + " instead of " +
                                     std::to_string(value) + " in dimension " + std::to_string(axis));
    }
  };
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    if (axis != 2) expected(axis, extents[axis]);
  }
  if (complete_ || dataset.extents[2] < used) {
    expected(2, used);
  }
  const int64_t item_total =
      dataset.extents[0] * dataset.extents[1] * dataset.item_bytes;  // at most 2^12 * 2^12 * 2^18
  const int64_t most = file_.size() * (dataset.stored->IsCompressed() ? int64_t{kMostPerPackedByte} : 1);
  if (used > most / item_total) {
    file_.Refuse(dataset.name, "declares " + std::to_string(used) + " rows or tokens in a file of " +
                                   std::to_string(file_.size()) + " bytes");
  }
  file_.RequireStored(dataset, used, StoredLayout::kChunked);
}

void StoredTrace::OpenPart(Part* part, const StoredGroup& group) {
  const auto first = static_cast<size_t>(part->slots.front());
  for (const int32_t slot : part->slots) {
    if (!SameShape(layout_, first, static_cast<size_t>(slot))) {
      file_.Refuse("/" + group.path, "holds layers " + std::to_string(layout_.layers[first]) + " and " +
                                         std::to_string(layout_.layers[static_cast<size_t>(slot)]) +
                                         ", which differ in shape");
    }
  }
  for (const TensorSpec& spec : kTensorSpecs) {
    if (!Stores(layout_, first, spec.tensor)) continue;
    const StoredKind type = spec.type == TensorSpec::Type::kEncoding  ? KindOf(layout_.encoding)
                            : spec.type == TensorSpec::Type::kFloat32 ? StoredKind::kFloat32
                                                                      : StoredKind::kInt32;
    const LayerFacts& facts = layout_.facts[first];
    std::vector<int64_t> extents = {std::ssize(part->slots), NumHeads(spec, facts), 0};
    if (spec.width != TensorSpec::Width::kScalar) extents.push_back(NumComponents(spec, facts));
    CheckedDataset& dataset = part->tensors[static_cast<size_t>(spec.tensor)];
    dataset = file_.Dataset(group, spec.name, type, static_cast<int>(extents.size()), 2);
    RequireHeads(dataset, extents, spec.of_rows ? num_rows_ : num_tokens_);
  }
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
  places_.resize(layout_.layers.size());
  for (size_t part = 0; part < parts_.size(); ++part) {
    OpenPart(&parts_[part], file_.Group(PartPath(part)));
    for (size_t i = 0; i < parts_[part].slots.size(); ++i) {
      places_[static_cast<size_t>(parts_[part].slots[i])] = {part, static_cast<int64_t>(i)};
    }
  }
  ReadTokens(tokens_group);
  ReadRowPositions(attention);
  num_rows_ = static_cast<int64_t>(row_positions_.size());
}

void StoredTrace::Read(TraceTensor tensor, int32_t layer_slot, int32_t head_slot, int64_t begin, int64_t end,
                       void* out) const {
  const TensorSpec& spec = SpecOf(tensor);
  const auto outside = [&](const std::string& what, int64_t low, int64_t high, int64_t limit) {
    throw std::out_of_range(path() + ": " + spec.name + ": " + what + " " + std::to_string(low) + ":" +
                            std::to_string(high) + " of " + std::to_string(limit));
  };
  if (layer_slot < 0 || layer_slot >= std::ssize(places_)) {
    outside("layer slot", layer_slot, layer_slot + 1, std::ssize(places_));
  }
  const Place& place = places_[static_cast<size_t>(layer_slot)];
  const CheckedDataset& dataset = parts_[place.part].tensors[static_cast<size_t>(tensor)];
  if (dataset.stored == nullptr) throw std::out_of_range(path() + ": " + spec.name + " is not recorded of that layer");
  if (head_slot < 0 || head_slot >= dataset.extents[1]) {
    outside("head slot", head_slot, head_slot + 1, dataset.extents[1]);
  }
  const int64_t readable = spec.of_rows ? num_rows_ : num_tokens_;
  if (begin < 0 || begin > end || end > readable) {
    outside("range", begin, end, readable);
  }
  file_.Read(dataset, place.slot * dataset.extents[1] + head_slot, begin, end, CheckedEnd(dataset, readable), out);
}

}  // namespace headscope::data
