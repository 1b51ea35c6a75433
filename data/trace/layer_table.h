// SPDX-License-Identifier: Apache-2.0
// The columns of the group /layers: one number for each recorded layer. What all layers have at its usual value is not
// written, so a model of equal layers pays for few of them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/errors.h"
#include "data/trace_schema.h"

namespace headscope::data {

struct LayerIntegerColumn {
  const char* name;  // of the attribute, and in messages
  bool required;     // always written; where another is absent, all layers have its usual value
  int32_t usual, least, most;
  int32_t (*get)(const LayerFacts&);
  void (*set)(LayerFacts&, int32_t);  // takes least to most
};
struct LayerFloatColumn {
  const char* name;
  bool required;
  float usual;
  bool zero_allowed;  // all are finite and not negative
  float (*get)(const LayerFacts&);
  void (*set)(LayerFacts&, float);
};
extern const std::array<LayerIntegerColumn, 30> kLayerIntegers;
extern const std::array<LayerFloatColumn, 4> kLayerFloats;

// What is inconsistent in the facts of the recorded layer `slot` (LayoutFault).
std::optional<Fault> LayerFault(const TraceLayout& layout, size_t slot);

}  // namespace headscope::data
