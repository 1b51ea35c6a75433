// SPDX-License-Identifier: Apache-2.0
#include "opened_trace.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iterator>

#include "analysis/compare.h"
#include "analysis/types/printable.h"
#include "choices/map_parts.h"
#include "data/row_positions.h"

namespace headscope::app {
namespace {

// FNV-1a, 64 bits, of all that tells recordings apart but the scores themselves: model, prompt, what was kept of it. A
// name, not a proof. Of the first `num_tokens` tokens and the rows among them: as the trace was named when it held no
// more.
std::string NameContents(const data::TraceReader& reader, int64_t num_tokens) {
  uint64_t hash = 0xcbf29ce484222325u;
  const auto add_bytes = [&hash](const void* bytes, size_t size) {
    const auto* byte = static_cast<const unsigned char*>(bytes);
    for (size_t i = 0; i < size; ++i) hash = (hash ^ byte[i]) * 0x100000001b3u;
  };
  const auto add_list = [&](const std::vector<int32_t>& list) {
    const size_t size = list.size();
    add_bytes(&size, sizeof(size));
    add_bytes(list.data(), size * sizeof(int32_t));
  };
  const data::TraceLayout& layout = reader.layout();
  for (const std::string* text : {&layout.model.weights_sha256, &layout.model.tokenizer_sha256, &layout.model.name})
    add_bytes(text->c_str(), text->size() + 1);
  const int64_t shape[] = {layout.model.head_dim, static_cast<int64_t>(layout.encoding), layout.first_token};
  add_bytes(shape, sizeof(shape));
  add_list(layout.layers);
  std::vector<int32_t> windows;
  for (const data::LayerFacts& facts : layout.facts) windows.push_back(facts.window);
  // Where heads differ from layer to layer, each layer's count; else, as ever, those of the first.
  for (size_t slot = 0; slot < layout.facts.size(); ++slot) {
    if (slot == 0 || layout.facts[slot].qo_heads != layout.facts[0].qo_heads) add_list(layout.facts[slot].qo_heads);
  }
  add_list(windows);
  std::vector<int32_t> rows = reader.row_positions();
  std::erase_if(rows, [num_tokens](int32_t position) { return position >= num_tokens; });
  add_list(rows);
  std::vector<int32_t> ids;
  ids.reserve(static_cast<size_t>(num_tokens));
  for (const data::TokenRecord& token : reader.tokens()) {
    if (std::ssize(ids) == num_tokens) break;
    ids.push_back(token.id);
  }
  add_list(ids);
  char name[20];
  std::snprintf(name, sizeof(name), "%016" PRIx64, hash);
  return name;
}

void AddModelAnswer(const data::TraceReader& reader, ui::TraceSummary* summary) {
  const analysis::TokenSpan answer = ModelAnswerOf(reader);
  summary->model_answer_begin = answer.begin;
  summary->model_answer_end = answer.end;
  for (int64_t token = answer.begin; token < answer.end; ++token)
    summary->model_answer += summary->token_text[static_cast<size_t>(token)];
}

ui::TraceSummary Summarise(const data::TraceReader& reader) {
  const data::TraceLayout& layout = reader.layout();
  ui::TraceSummary summary;
  summary.path = reader.path();
  if (reader.files().size() > 1) summary.files = reader.files();
  for (const std::string& file : reader.files()) {
    std::error_code gone;
    const auto bytes = std::filesystem::file_size(file, gone);
    if (!gone) summary.bytes += static_cast<int64_t>(bytes);
  }
  const analysis::MapSource source = MapSourceOf(reader);
  summary.model_name = source.model_name;
  summary.num_tokens = reader.num_tokens();
  summary.num_rows = reader.num_rows();
  summary.first_token = layout.first_token;
  summary.num_layers = layout.model.num_layers;
  summary.num_qo_heads = layout.model.num_qo_heads;
  summary.num_kv_heads = layout.model.num_kv_heads;
  summary.head_dim = layout.model.head_dim;
  summary.complete = reader.complete();
  summary.expected_tokens = layout.max_tokens;
  summary.prompt_source = source.prompt_source;
  summary.contents = NameContents(reader, reader.num_tokens());
  summary.heads = analysis::RecordedHeads(reader);
  summary.kv_head_of_head.reserve(summary.heads.size());
  for (const analysis::HeadId& head : summary.heads) {
    const data::LayerFacts& layer = reader.layer(reader.LayerSlot(head.layer));
    summary.kv_head_of_head.push_back(head.head / layer.GroupSize());
    summary.head_dim_of_head.push_back(layer.head_dim);
  }
  summary.token_text.reserve(reader.tokens().size());
  for (const data::TokenRecord& token : reader.tokens()) summary.token_text.push_back(analysis::Printable(token.text));
  summary.row_positions = reader.row_positions();
  summary.num_decode_rows = NumDecodeRows(reader);
  summary.decode_rows = DecodeRowsTried(reader);
  summary.expected_answer = analysis::Printable(layout.task_answer);
  AddModelAnswer(reader, &summary);
  if (layout.answer_tokens > 0 && !std::isnan(layout.answer_score))
    summary.answer_score = static_cast<double>(layout.answer_score);
  const std::vector<data::LayerFacts>& facts = reader.layout().facts;
  summary.has_sinks =
      std::any_of(facts.begin(), facts.end(), [](const data::LayerFacts& layer) { return !layer.sinks.empty(); });
  summary.rows_contiguous = data::RowsContiguous(summary.row_positions);
  return summary;
}

}  // namespace

std::string OpenedTrace::ContentsOfFirst(int64_t tokens) const {
  return tokens > 0 && tokens <= reader.num_tokens() ? NameContents(reader, tokens) : std::string();
}

OpenedTrace::OpenedTrace(const std::string& path, const std::shared_ptr<ui::MemoryBudget>& memory)
    : reader(path), summary(Summarise(reader)), heads(reader, memory), memory_(memory) {
  for (int32_t slot = 0; slot < std::ssize(reader.layout().layers); ++slot) analysis::RequireCausal(reader, slot);
}

OpenedTrace::~OpenedTrace() {
  memory_->Release(group_.lock().get());
}

analysis::MeasuredHeadsPtr OpenedTrace::GroupOf(analysis::HeadId head) {
  const std::lock_guard lock(mutex_);
  const auto bytes = [this](const analysis::MeasuredHeads& group) {
    return analysis::MeasuredBytes(reader, group.layer, group.num_qo_heads, group.num_kv_heads);
  };
  analysis::MeasuredHeadsPtr group = group_.lock();
  if (!group || !group->Holds(head)) {
    if (group) memory_->Release(group.get());
    group = analysis::LoadLayer(reader, head, /*most_bytes=*/0);  // at least its own group
    group_ = group;
  }
  memory_->Keep(group, bytes(*group));
  return group;
}

std::shared_ptr<const std::vector<double>> OpenedTrace::MassInTrace(const analysis::HeadTensors& head,
                                                                    const std::stop_token& stop) {
  if (summary.first_token == 0) return nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto known = mass_in_trace_.find(head.id);
    if (known != mass_in_trace_.end()) return known->second;
  }
  auto mass = std::make_shared<const std::vector<double>>(analysis::MassInTrace(head, 0, stop));
  const std::lock_guard lock(mutex_);
  return mass_in_trace_[head.id] = std::move(mass);
}

}  // namespace headscope::app
