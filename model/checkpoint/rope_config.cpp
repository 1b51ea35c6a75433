// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <utility>

#include "checkpoint/read_rope_config.h"

namespace headscope::model {
namespace {

constexpr double kLargestFactor = 1e6;  // far above any real one; keeps the numbers made from it finite

// "su" is an old name of longrope.
constexpr std::array<std::pair<std::string_view, RopeType>, 8> kTypes = {{{"default", RopeType::kDefault},
                                                                          {"linear", RopeType::kLinear},
                                                                          {"dynamic", RopeType::kDynamic},
                                                                          {"yarn", RopeType::kYarn},
                                                                          {"longrope", RopeType::kLongRope},
                                                                          {"su", RopeType::kLongRope},
                                                                          {"llama3", RopeType::kLlama3},
                                                                          {"proportional", RopeType::kProportional}}};

RopeType ReadType(const JsonFields& fields, bool mrope_of_text) {
  const char* key = fields.Has("rope_type") ? "rope_type" : "type";
  const std::string name = fields.Text(key, "default");
  if (mrope_of_text && name == "mrope") return RopeType::kDefault;
  for (const auto& [known, type] : kTypes) {
    if (known == name) return type;
  }
  fields.RefuseUnsupported(key, Quoted(name) + " is not supported",
                           "default, linear, dynamic, yarn, longrope, llama3 and proportional are");
}

double Positive(const JsonFields& fields, std::string_view key, std::optional<double> absent) {
  const double value = fields.Number(key, absent);
  if (!(value > 0) || value > kLargestFactor) fields.RefuseField(key, "is not between 0 and 1000000", "correct it");
  return value;
}

double Factor(const JsonFields& fields, std::optional<double> absent) {
  const double factor = Positive(fields, "factor", absent);
  if (factor < 1) fields.RefuseField("factor", "is below 1", "it must be at least 1");
  return factor;
}

std::vector<double> FactorList(const JsonFields& fields, std::string_view key, int32_t rotary_dim) {
  const JsonValue list = fields.Array(key);
  const auto wanted = static_cast<uint64_t>(rotary_dim / 2);
  if (list.size() != wanted) {
    fields.RefuseField(key, "has " + std::to_string(list.size()) + " numbers",
                       "it must have " + std::to_string(wanted) + ", one for each pair of rotated components");
  }
  std::vector<double> factors;
  factors.reserve(wanted);
  list.ForEachElement([&](const JsonValue& element) {
    const double value = element.IsNumber() ? element.Number() : 0;
    if (!(value > 0) || value > kLargestFactor)
      fields.RefuseField(key, "holds " + element.Shortened(), "its numbers must be between 0 and 1000000");
    factors.push_back(value);
  });
  return factors;
}

double YarnScale(double factor, double weight) {
  return factor <= 1 ? 1.0 : 0.1 * weight * std::log(factor) + 1.0;
}

void ReadYarn(const JsonFields& fields, int64_t max_positions, RopeConfig* rope) {
  // DeepSeek's files leave the factor to the ratio of the two lengths.
  const double ratio = static_cast<double>(max_positions) / static_cast<double>(rope->original_max_positions);
  rope->factor = Factor(fields, ratio < 1 ? 1.0 : ratio);
  rope->beta_fast = Positive(fields, "beta_fast", 32.0);
  rope->beta_slow = Positive(fields, "beta_slow", 1.0);
  if (rope->beta_fast < rope->beta_slow)
    fields.RefuseField("beta_fast", "is below beta_slow", "correct one of the two");
  rope->truncate = fields.Boolean("truncate", true);
  const double mscale = fields.Number("mscale", 0.0);
  const double mscale_all_dim = rope->mscale_all_dim = fields.Number("mscale_all_dim", 0.0);
  const double own = mscale != 0 && mscale_all_dim != 0
                         ? YarnScale(rope->factor, mscale) / YarnScale(rope->factor, mscale_all_dim)
                         : YarnScale(rope->factor, 1);
  rope->attention_factor = fields.Has("attention_factor") ? Positive(fields, "attention_factor", {}) : own;
  if (!std::isfinite(rope->attention_factor) || !(rope->attention_factor > 0))
    fields.RefuseField("mscale", "and mscale_all_dim give no positive factor", "correct the two");
}

void ReadLongRope(const JsonFields& fields, int64_t max_positions, RopeConfig* rope) {
  rope->short_factors = FactorList(fields, "short_factor", rope->rotary_dim);
  rope->long_factors = FactorList(fields, "long_factor", rope->rotary_dim);
  const auto original = static_cast<double>(rope->original_max_positions);
  const double factor = Positive(fields, "factor", static_cast<double>(max_positions) / original);
  const double own = factor <= 1 || original <= 1 ? 1.0 : std::sqrt(1 + std::log(factor) / std::log(original));
  rope->attention_factor = fields.Has("attention_factor") ? Positive(fields, "attention_factor", {}) : own;
}

void ReadLlama3(const JsonFields& fields, RopeConfig* rope) {
  rope->factor = Factor(fields, {});
  rope->low_freq_factor = Positive(fields, "low_freq_factor", {});
  rope->high_freq_factor = Positive(fields, "high_freq_factor", {});
  if (rope->high_freq_factor < rope->low_freq_factor)
    fields.RefuseField("high_freq_factor", "is below low_freq_factor", "correct one of the two");
}

// A head counts as turned whole; the pairs behind the first ones stand still.
void ReadProportional(const JsonFields& fields, int32_t head_dim, RopeConfig* rope) {
  const double part = fields.Number("partial_rotary_factor", 1.0);
  rope->rotary_dim = head_dim;
  rope->turned_pairs = part > 0 && part <= 1 ? static_cast<int32_t>(part * head_dim / 2) : 0;
  if (rope->turned_pairs < 1)
    fields.RefuseField("partial_rotary_factor", "rotates no pair", "it must be at most 1 and rotate a pair");
  rope->factor = Factor(fields, 1.0);
}

// How much of a head is turned, in whole pairs.
int32_t RotaryDim(const JsonFields& holder, std::string_view key, double absent, int32_t head_dim) {
  const double part = holder.Number(key, absent);
  const auto dim = part > 0 && part <= 1 ? static_cast<int32_t>(head_dim * part) : 0;
  if (dim < 2 || dim % 2 != 0) {
    holder.RefuseField(key, "rotates " + std::to_string(dim) + " of " + std::to_string(head_dim) + " components",
                       "it must be at most 1 and rotate whole pairs");
  }
  return dim;
}

}  // namespace

RopeConfig ReadRopeConfig(const JsonFields& root, const RopeKeys& keys, int32_t head_dim, int64_t max_positions,
                          std::string_view kind) {
  RopeConfig rope;
  rope.theta = root.Number(keys.theta, keys.absent_theta);
  rope.max_positions = max_positions;
  rope.rotary_dim = keys.absent_dim > 0 && !root.Has(keys.part)
                        ? keys.absent_dim
                        : RotaryDim(root, keys.part, keys.absent_part, head_dim);
  const char* key = root.Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (root.Has("rope_parameters") && root.Has("rope_scaling")) {
    root.RefuseField("rope_scaling", "is given as well as rope_parameters, and only one of them can apply",
                     "remove one of the two");
  }
  if (root.Has(key)) {
    const JsonFields given = root.Object(key);
    const JsonFields fields = kind.empty() ? given : given.Object(kind);
    for (const char* nested : {"full_attention", "sliding_attention"}) {
      if (fields.Has(nested)) {
        fields.RefuseUnsupported(nested, "positions that differ between layers are not supported");
      }
    }
    rope.theta = fields.Number("rope_theta", rope.theta);
    rope.type = ReadType(fields, keys.mrope_of_text);
    if (fields.Has("partial_rotary_factor") && rope.type != RopeType::kProportional)
      rope.rotary_dim = RotaryDim(fields, "partial_rotary_factor", 1.0, head_dim);
    if (rope.type == RopeType::kYarn && keys.yarn_is_longrope) rope.type = RopeType::kLongRope;
    // The top level wins where both name the original length.
    const JsonFields& holder = root.Has("original_max_position_embeddings") ? root : fields;
    rope.original_max_positions = holder.Integer("original_max_position_embeddings", 1, kMaxPositions, max_positions);
    switch (rope.type) {
      case RopeType::kDefault:
        break;
      case RopeType::kLinear:
        rope.factor = Factor(fields, {});
        break;
      case RopeType::kDynamic:
        rope.factor = Factor(fields, {});
        if (rope.rotary_dim <= 2)
          fields.RefuseField("rope_type", "dynamic cannot rotate a single pair", "use a larger head_dim");
        break;
      case RopeType::kYarn:
        ReadYarn(fields, max_positions, &rope);
        break;
      case RopeType::kLongRope:
        ReadLongRope(fields, max_positions, &rope);
        break;
      case RopeType::kLlama3:
        ReadLlama3(fields, &rope);
        break;
      case RopeType::kProportional:
        ReadProportional(fields, head_dim, &rope);
        break;
    }
  }
  if (!IsTheta(rope.theta)) root.RefuseField(keys.theta, "is not between 1 and 1e30", "correct it");
  return rope;
}

}  // namespace headscope::model
