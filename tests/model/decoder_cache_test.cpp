// SPDX-License-Identifier: Apache-2.0
// What a decoder's cache takes, against the sizes that placements and estimates count with.
#include <ATen/core/Tensor.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include "checkpoint_files.h"
#include "model/layer_placement.h"
#include "network/decoder.h"

namespace headscope::model {
namespace {

int64_t NumbersHeld(const Decoder& model) {
  int64_t numbers = 0;
  for (const LayerCache& layer : model.cache) {
    for (const auto& [place, kept] : layer.of_place)
      for (const at::Tensor& tensor : {kept.k, kept.v}) numbers += tensor.defined() ? tensor.numel() : 0;
  }
  return numbers;
}

int64_t NumbersOfAToken(const ModelConfig& config, int32_t last_layer) {
  int64_t numbers = 0;
  for (const AttentionLayer& layer : LayersRun(config, last_layer)) numbers += CachedNumbers(config, layer);
  return numbers;
}

TEST(DecoderCache, LayersThatAreNotRunHaveNone) {
  const c10::InferenceMode no_gradients;
  Decoder model(ReferenceModel(), {.dtype = ElementType::kFloat32}, {}, {});
  const int32_t last = model.config.num_layers - 1;
  EXPECT_EQ(NumbersHeld(model), 0);
  model.Grow(2000);
  EXPECT_EQ(NumbersHeld(model), 2000 * NumbersOfAToken(model.config, last));
  model.RunFirst(3);
  EXPECT_EQ(NumbersHeld(model), 0) << "what was reserved is given back";
  model.Grow(2000);
  EXPECT_EQ(NumbersHeld(model), 2000 * NumbersOfAToken(model.config, 2));
  model.RunFirst(model.cache.size());
  model.Grow(2000);
  EXPECT_EQ(NumbersHeld(model), 2000 * NumbersOfAToken(model.config, last));
}

}  // namespace
}  // namespace headscope::model
