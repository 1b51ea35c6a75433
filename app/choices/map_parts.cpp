// SPDX-License-Identifier: Apache-2.0
#include "choices/map_parts.h"

#include <algorithm>
#include <filesystem>

#include "analysis/mask_pair.h"
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

std::unique_ptr<const MapMask> MakeMapMask(const analysis::HeadTensors& head, const MethodChoice& choice,
                                           const std::string& where, const std::stop_token& stop) {
  auto mask = std::make_unique<MapMask>();
  CheckStatus(analysis::PreviewMask(head, *choice.prefill, choice.values, 0, stop, &mask->preview), where);
  mask->view = mask->preview.index->View();
  mask->method.title = choice.spec->title;
  mask->method.summary = mask->preview.summary;
  mask->method.num_rows = static_cast<int64_t>(mask->preview.kept_mass.size());
  return mask;
}

void AddMasks(const MapMask& first, const MapMask* second, const std::stop_token& stop,
              analysis::RenderSources* sources) {
  sources->index = &first.view;
  sources->method = first.method;
  sources->kept_mass = &first.preview.kept_mass;
  if (second == nullptr) return;
  sources->other_index = &second->view;
  sources->other_method = second->method;
  const auto kept = [](const MapMask& mask) {
    return analysis::KeptMask{mask.preview.index, mask.preview.window, nullptr};
  };
  sources->overlap = analysis::CountMaskOverlap(kept(first), kept(*second), 0, stop);
}

}  // namespace headscope::app
