// SPDX-License-Identifier: Apache-2.0
// The tensors that a trace stores of a layer: names, shapes and types, for the writer, the reader and exports alike.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "data/trace_schema.h"

namespace headscope::data {

struct TensorSpec {
  enum class Heads : uint8_t { kQo, kKv, kOne, kSets, kIndex, kIndexKv };
  enum class Width : uint8_t { kScalar, kHeadDim, kValueDim, kIds, kIndexDim, kHidden };
  enum class Type : uint8_t { kEncoding, kFloat32, kInt32 };
  TraceTensor tensor;
  const char* name;       // of the dataset
  const char* head_axis;  // names of its axes
  const char* unit;
  Heads heads;
  bool of_rows;  // an item for each recorded query row; else for each token
  Width width;
  Type type;
};
// In the order of TraceTensor.
extern const std::array<TensorSpec, kNumTraceTensors> kTensorSpecs;
inline const TensorSpec& SpecOf(TraceTensor tensor) {
  return kTensorSpecs[static_cast<size_t>(tensor)];
}

int64_t NumHeads(const TensorSpec& spec, const LayerFacts& facts);
// Components of one vector; 1 for scalars.
int64_t NumComponents(const TensorSpec& spec, const LayerFacts& facts);
int64_t ComponentBytes(const TensorSpec& spec, ElementType encoding);

// The recorded layer whose k a layer reads: its own slot, or that of kv_layer where the trace holds the same heads of
// it.
size_t KeySource(const TraceLayout& layout, size_t slot);
// Whether the file has this tensor of that layer by itself.
bool Stores(const TraceLayout& layout, size_t slot, TraceTensor tensor);

// Slots of layers whose datasets are one: equal heads, equal shapes. A model of equal layers is one part. Parts are in
// the order of their first layers.
std::vector<std::vector<int32_t>> PartsOf(const TraceLayout& layout);
// Whether both layers may stand in one part.
bool SameShape(const TraceLayout& layout, size_t a, size_t b);

}  // namespace headscope::data
