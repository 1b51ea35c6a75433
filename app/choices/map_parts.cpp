// SPDX-License-Identifier: Apache-2.0
#include "choices/map_parts.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "analysis/mask_pair.h"
#include "analysis/measured_heads.h"
#include "analysis/types/printable.h"
#include "base/check_status.h"

namespace headscope::app {

analysis::MapSource MapSourceOf(const data::TraceReader& trace) {
  const data::TraceLayout& layout = trace.layout();
  return {.model_name = analysis::Printable(layout.model.name),
          .prompt_source = analysis::Printable(layout.prompt_source),
          .trace = analysis::Printable(std::filesystem::path(trace.path()).filename().string()),
          .num_tokens = trace.num_tokens(),
          .first_token = layout.first_token};
}

analysis::TokenSpan ModelAnswerOf(const data::TraceReader& trace) {
  const std::vector<data::TokenRecord>& tokens = trace.tokens();
  const auto generated = [](const data::TokenRecord& token) { return token.phase == data::TokenPhase::kDecode; };
  // The first of the generated tokens, as many as stand where the answer belongs.
  const int32_t most = trace.layout().answer_tokens;
  const auto begin = most > 0 ? std::find_if(tokens.begin(), tokens.end(), generated) : tokens.end();
  const auto end = std::find_if_not(begin, begin + std::min<std::ptrdiff_t>(most, tokens.end() - begin), generated);
  return {begin - tokens.begin(), end - tokens.begin()};
}

std::vector<analysis::TokenSpan> AnswersOf(const data::TraceReader& trace) {
  std::vector<std::string> texts;
  texts.reserve(trace.tokens().size());
  for (const data::TokenRecord& token : trace.tokens()) texts.push_back(analysis::Printable(token.text));
  return analysis::AnswerSpans(analysis::Printable(trace.layout().task_answer), texts, ModelAnswerOf(trace));
}

int64_t NumDecodeRows(const data::TraceReader& trace) {
  const std::vector<data::TokenRecord>& tokens = trace.tokens();
  const auto is_prompt = [&](int32_t position) {
    const auto token = static_cast<size_t>(position);
    return token >= tokens.size() || tokens[token].phase != data::TokenPhase::kDecode;
  };
  const std::vector<int32_t>& rows = trace.row_positions();
  return std::find_if(rows.rbegin(), rows.rend(), is_prompt) - rows.rbegin();
}

int32_t DecodeRowsTried(const data::TraceReader& trace) {
  constexpr int64_t kMost = 256;
  const int64_t generated = NumDecodeRows(trace);
  return generated == 0 ? analysis::CompareOptions{}.decode_rows : static_cast<int32_t>(std::min(generated, kMost));
}

namespace {

// What a decode method keeps of its steps, for the map and its words.
void AddSteps(const data::TraceReader& trace, const analysis::HeadTensorsPtr& head, const MethodChoice& choice,
              const MapSteps& steps, const std::string& where, const std::stop_token& stop, MapMask* mask) {
  const analysis::HeadId id = head->id;
  // As a run measures it: in its layer, where the query heads of a KV head may share a choice; at least its own group.
  const analysis::MeasuredHeadsPtr measured = analysis::WithLowerLayers(
      trace, steps.alone ? analysis::AloneHead(head) : analysis::LoadLayer(trace, id, /*most_bytes=*/0),
      choice.decode->LowerLayers(choice.values, id.layer));
  const int32_t rows = steps.num_rows > 0 ? steps.num_rows : DecodeRowsTried(trace);
  analysis::DecodePreview preview;
  CheckStatus(analysis::PreviewDecode(*measured, id, *choice.decode, choice.values, rows, 0, stop, &preview), where);
  const int32_t group_size = trace.layer(trace.LayerSlot(id.layer)).GroupSize();
  std::vector<int32_t> group;
  for (const analysis::HeadId& other : analysis::RecordedHeads(trace)) {
    if (other.layer == id.layer && other.head / group_size == id.head / group_size) group.push_back(other.head);
  }
  mask->steps = preview.steps;
  mask->method.of_steps = true;
  mask->method.steps = analysis::DescribeSteps(*preview.steps, NumDecodeRows(trace));
  mask->method.choice = analysis::DescribeChoice(preview.chosen_per, group);
  mask->method.summary = std::move(preview.summary);
  mask->kept_mass = std::move(preview.kept_mass);
}

}  // namespace

std::unique_ptr<const MapMask> MakeMapMask(const data::TraceReader& trace, const analysis::HeadTensorsPtr& head,
                                           const MethodChoice& choice, const MapSteps& steps, const std::string& where,
                                           const std::stop_token& stop) {
  auto mask = std::make_unique<MapMask>();
  if (choice.prefill == nullptr) {
    AddSteps(trace, head, choice, steps, where, stop, mask.get());
  } else {
    analysis::MaskPreview preview;
    CheckStatus(analysis::PreviewMask(*head, *choice.prefill, choice.values, 0, stop, &preview), where);
    mask->index = preview.index;
    mask->view = preview.index->View();
    mask->window = preview.window;
    mask->method.summary = std::move(preview.summary);
    mask->kept_mass = std::move(preview.kept_mass);
  }
  mask->method.title = choice.spec->title;
  mask->method.num_rows = std::ssize(mask->kept_mass);
  return mask;
}

void AddMasks(const MapMask& first, const MapMask* second, const std::stop_token& stop,
              analysis::RenderSources* sources) {
  sources->index = first.index ? &first.view : nullptr;
  sources->steps = first.steps.get();
  sources->method = first.method;
  sources->kept_mass = &first.kept_mass;
  if (second == nullptr) return;
  sources->other_index = second->index ? &second->view : nullptr;
  sources->other_steps = second->steps.get();
  sources->other_method = second->method;
  const auto kept = [](const MapMask& mask) { return analysis::KeptMask{mask.index, mask.window, mask.steps}; };
  sources->overlap = analysis::CountMaskOverlap(kept(first), kept(*second), 0, stop);
}

}  // namespace headscope::app
