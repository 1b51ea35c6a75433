// SPDX-License-Identifier: Apache-2.0
#include "analysis/types/map_words.h"

#include <algorithm>
#include <cmath>

#include "analysis/types/mass_distribution.h"
#include "analysis/types/number_text.h"
#include "base/version.h"

namespace headscope::analysis {
namespace {

std::string NameOfHead(HeadId head) {
  return std::to_string(head.layer) + ":" + std::to_string(head.head);
}

// ", the largest of a pixel's scores, logarithmic scale"
std::string ScaleText(const MapOnShow& map) {
  std::string text = ", the ";
  text += map.reduction == TileReduction::kMax ? "largest" : "mean";
  text += " of a pixel's scores, ";
  text += map.logarithmic ? "logarithmic" : "linear";
  return text + " scale";
}

std::string TitleOf(const std::optional<MapMethod>& method) {
  return method ? method->title : std::string("no method");
}

std::string ColourText(const MapOnShow& map) {
  switch (map.view) {
    case ViewKind::kScores:
    case ViewKind::kOverlay:
    case ViewKind::kLost:
      return "Colour: attention probability p" + ScaleText(map) + ".";
    case ViewKind::kMask:
      return "Colour: share of a pixel's scores that the method keeps.";
    case ViewKind::kDifference:
      return "Colour: attention probability under the method minus dense probability, red where the method has more" +
             ScaleText(map) + ".";
    case ViewKind::kOther: {
      std::string other = map.other_head ? "head " + NameOfHead(*map.other_head) : std::string("the other head");
      if (!map.other_trace.empty()) other += " of " + map.other_trace;
      return "Colour: attention probability of " + other + " minus this head's, red where it has more" +
             ScaleText(map) + ".";
    }
    case ViewKind::kOverlap:
      break;
  }
  const auto [first, second, both] = DescribeOverlap(TitleOf(map.method), TitleOf(map.other_method), map.overlap);
  return "Colour: which method keeps a score, brighter for higher probability p" + ScaleText(map) +
         ". Orange: " + first + "; blue: " + second + "; green: " + both + ".";
}

std::string CurvesText(const MapOnShow& map) {
  std::string text = "Right of the map: share of each query's attention on the visible keys, grey";
  if (map.view == ViewKind::kOverlap) {
    text += ", and kept by method 1, blue";
  } else if (map.method && (map.view == ViewKind::kOverlay || map.view == ViewKind::kLost)) {
    text += ", and kept by the method, blue";
  }
  return text + ". Below: mean p per key.";
}

std::string MethodText(const MapOnShow& map, const MapMethod& method, const std::string& before) {
  const MaskSummary& kept = method.summary;
  std::string text = before + method.title;
  if (!kept.parameters.empty()) text += " (" + kept.parameters + ")";
  if (!method.steps.empty()) text += ", " + method.steps;
  if (!method.choice.empty()) text += ", " + method.choice;
  if (map.view == ViewKind::kLost) text += ". Grey: kept, colours: left out";
  if (map.view == ViewKind::kOverlay) text += ". Grey: left out";
  text += Format("; kept: %.2f %% of the %s%s. ", 100 * kept.kept_fraction, map.source.first_token > 0 ? "cut's " : "",
                 method.of_steps ? "keys" : "scores");
  return text + DescribeCra(kept, method.num_rows, method.of_steps) + ".";
}

std::string SourceText(const MapOnShow& map) {
  const MapSource& source = map.source;
  std::string text;
  for (const std::string* part : {&source.model_name, &source.prompt_source}) {
    if (!part->empty()) text += *part + ", ";
  }
  text += Grouped(source.num_tokens) + " tokens: queries " + std::to_string(map.first_query) + " to " +
          std::to_string(map.last_query) + ", keys " + std::to_string(map.first_key) + " to " +
          std::to_string(map.last_key);
  text += source.trace.empty() ? " (" : " (" + source.trace + ", ";
  return text + "headscope " + Version() + ")";
}

}  // namespace

std::string MapCaption::Legend() const {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "\n") + line;
  return text;
}

MapCaption DescribeMap(const MapOnShow& map) {
  MapCaption caption;
  caption.title = Format("Attention map of layer %d, head %d", map.head.layer, map.head.head);
  if (map.kv_head >= 0) caption.title += " (KV head " + std::to_string(map.kv_head) + ")";
  caption.source = SourceText(map);
  std::string colours = ColourText(map);
  if (map.causal) colours += " Hatched: keys after the query.";
  if (map.answers) colours += " Orange on the axes: the task's answer.";
  if (map.compared_rows > 0)
    colours += " Compared: the first " + Grouped(map.compared_rows) + " queries, which both have.";
  caption.lines.push_back(colours);
  const bool masked = map.view != ViewKind::kScores && map.view != ViewKind::kOther;
  if (map.profiles) caption.lines.push_back(CurvesText(map));
  if (masked && map.method)
    caption.lines.push_back(MethodText(map, *map.method, map.view == ViewKind::kOverlap ? "1 " : ""));
  if (map.view == ViewKind::kOverlap && map.other_method)
    caption.lines.push_back(MethodText(map, *map.other_method, "2 "));
  if (const std::string outside = DescribeOutsideMass(map.outside_mass); !outside.empty())
    caption.lines.back() += " " + outside + ".";
  return caption;
}

std::vector<std::string> WrapWords(const std::string& text, double width, double size) {
  constexpr double kLetter = 0.55;  // of its size, wide: in a text in DejaVu Sans
  const auto fits = [&](const std::string& line) {
    const auto begins = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; };
    return kLetter * size * static_cast<double>(std::count_if(line.begin(), line.end(), begins)) <= width;
  };
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (!lines.empty() && fits(lines.back() + " " + word)) {
      lines.back() += " " + word;
    } else {
      lines.push_back(word);
    }
    begin = end + 1;
  }
  return lines;
}

std::array<std::string, 2> DescribeColorBar(const MapOnShow& map) {
  const std::string scale = map.logarithmic ? "log" : "linear";
  const std::string of = map.reduction == TileReduction::kMax ? "largest" : "mean";
  switch (map.view) {
    case ViewKind::kMask:
      return {"share kept", ""};
    case ViewKind::kDifference:
    case ViewKind::kOther:
      return {"Δp, " + scale, of};
    default:
      return {"p, " + scale, of};
  }
}

std::array<std::string, kNumKeptBy> DescribeOverlap(const std::string& first, const std::string& second,
                                                    const std::optional<MaskOverlap>& overlap) {
  std::array<std::string, kNumKeptBy> texts = {"1 " + first + " only", "2 " + second + " only", "both"};
  if (!overlap) return texts;
  const auto share = [&](int64_t kept) {
    const double percent =
        overlap->pairs == 0 ? 0 : 100 * static_cast<double>(kept) / static_cast<double>(overlap->pairs);
    return Format(": %.2f %% (", percent) + Grouped(kept) + (kept == 1 ? " score)" : " scores)");
  };
  texts[0] += share(overlap->first_alone);
  texts[1] += share(overlap->second_alone);
  texts[2] += share(overlap->both);
  return texts;
}

std::string DescribeSteps(const KeptSteps& kept, int64_t recorded) {
  const auto count = static_cast<int64_t>(kept.steps.size());
  const int first = kept.steps.front().position, last = kept.steps.back().position;
  if (recorded == 0) {
    return Format("no decode steps in this trace: on its last %lld queries, %d to %d", static_cast<long long>(count),
                  first, last);
  }
  if (count < recorded) {
    return Format("on the newest %lld of %lld decode steps, queries %d to %d", static_cast<long long>(count),
                  static_cast<long long>(recorded), first, last);
  }
  return Format("on the trace's %lld decode steps, queries %d to %d", static_cast<long long>(count), first, last);
}

std::string DescribeChoice(kernels::ChosenPer chosen_per, const std::vector<int32_t>& heads_of_group) {
  if (chosen_per == kernels::ChosenPer::kPlace) return {};
  if (chosen_per != kernels::ChosenPer::kKvHead) return "chosen per " + std::string(NameOf(chosen_per));
  const auto [first, last] = std::minmax_element(heads_of_group.begin(), heads_of_group.end());
  return Format("chosen per KV head, one selection for query heads %d to %d", *first, *last);
}

std::string DescribeCra(const MaskSummary& summary, int64_t num_rows, bool of_steps) {
  std::string text =
      "CRA of " + Grouped(num_rows) + (of_steps ? " steps" : " queries") + Format(": min %.3f", summary.cra_min);
  if (num_rows >= kLeastQuantileRows) text += Format(", 5th percentile %.3f", summary.cra_p5);
  return text + Format(", mean %.3f", summary.cra_mean);
}

std::string DescribeOutsideMass(double outside_mass) {
  if (outside_mass <= 0) return {};
  return Format("%.1f %% of the attention lies on tokens before the cut", 100 * outside_mass);
}

std::string DescribeKeyProfile(const std::optional<ProfilePeak>& peak, bool narrow) {
  std::string text = narrow ? "mean p per key" : "mean p per key, over the visible queries";
  if (!peak) return text;
  text += "; max " + FormatProbability(static_cast<double>(peak->value));
  if (peak->end - peak->begin == 1) return text + " (key " + std::to_string(peak->begin) + ")";
  return text + " (keys " + std::to_string(peak->begin) + " to " + std::to_string(peak->end - 1) + ")";
}

std::string FormatProbability(double probability) {
  if (std::isnan(probability)) return "…";
  if (probability == 0 || probability == 1) return probability == 0 ? "0" : "1";
  if (probability >= 0.001) return Format("%.4f", probability);
  return Format("%.2e", probability);
}

}  // namespace headscope::analysis
