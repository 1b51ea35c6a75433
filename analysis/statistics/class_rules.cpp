// SPDX-License-Identifier: Apache-2.0
#include "analysis/class_rules.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "data/untrusted_text.h"

namespace headscope::analysis {
namespace {

constexpr char kSchema[] = "headscope-classes-1";

constexpr std::array kThresholds = {
    ClassThreshold{"outside_mass", &ClassRules::outside_mass,
                   "unknown: more mass than this lies outside a part of a trace"},
    ClassThreshold{"retrieval_peak", &ClassRules::retrieval_peak,
                   "retrieval-like: the sharpest rows put at least this mass on a few far tokens"},
    ClassThreshold{"retrieval_lines", &ClassRules::retrieval_lines,
                   "retrieval-like: the best lines hold less than this share of the retrieval mass"},
    ClassThreshold{"far_mass", &ClassRules::far_mass, "vertical-slash: at least this mass is far"},
    ClassThreshold{"line_share", &ClassRules::line_share,
                   "vertical-slash: the best lines hold at least this share of the far mass"},
    ClassThreshold{"near_mass", &ClassRules::near_mass, "sink, local and sink+local: at least this mass is near"},
    ClassThreshold{"near_share", &ClassRules::near_share,
                   "sink, or local: the sinks, or the rest of the window, hold at least this share of the near mass"},
    ClassThreshold{"dense_sparsity", &ClassRules::dense_sparsity, "diffuse: the sparsity at 0.95 is below this"},
    ClassThreshold{"block_lift", &ClassRules::block_lift,
                   "block: the best blocks hold at least this share of what an even spread leaves to others"},
    ClassThreshold{"sure_margin", &ClassRules::sure_margin,
                   "confidence is 1 where no number lies nearer than this to its threshold"},
};

}  // namespace

std::span<const ClassThreshold> ClassThresholds() {
  return kThresholds;
}

const ClassThreshold* FindClassThreshold(const std::string& name) {
  const auto* const known = std::find_if(kThresholds.begin(), kThresholds.end(),
                                         [&name](const ClassThreshold& threshold) { return name == threshold.name; });
  return known == kThresholds.end() ? nullptr : known;
}

std::string ClassRulesJson(const ClassRules& rules) {
  nlohmann::ordered_json json = {{"schema", kSchema}};
  for (const ClassThreshold& threshold : kThresholds) {
    json["thresholds"][threshold.name] = rules.*threshold.member;
    json["meaning"][threshold.name] = threshold.help;
  }
  return json.dump(2) + "\n";
}

ClassRules ReadClassRules(const std::string& path) {
  const std::string remedy = "start from the rules that headscope writes and change their numbers";
  const nlohmann::json json = data::ReadUntrustedJson(path, remedy);
  if (!json.is_object() || json.value("schema", nlohmann::json()) != kSchema || !json.contains("thresholds") ||
      !json["thresholds"].is_object()) {
    throw BadInputError({.file = path, .problem = std::string("this is not a ") + kSchema + " file", .remedy = remedy});
  }
  ClassRules rules;
  for (const auto& item : json["thresholds"].items()) {
    const std::string& name = item.key();
    const nlohmann::json& value = item.value();
    const ClassThreshold* const known = FindClassThreshold(name);
    if (known == nullptr)
      throw BadInputError({.file = path, .field = name, .problem = "no class has such a threshold", .remedy = remedy});
    if (!value.is_number() || value < 0 || value > 1)
      throw BadInputError({.file = path, .field = name, .problem = "a threshold is a number from 0 to 1"});
    rules.*known->member = value.get<double>();
  }
  return rules;
}

}  // namespace headscope::analysis
