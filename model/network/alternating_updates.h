// SPDX-License-Identifier: Apache-2.0
// Alternating updates ("AltUp", arXiv 2301.13310), as Gemma 3n has them: a token has several hidden states, [inputs,
// rows, hidden], of which a layer runs on one; from it, the layer predicts all of them and corrects what it predicted.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "model/model_config.h"
#include "network/weights.h"

namespace headscope::model {

// The embedded tokens [rows, hidden] and their projections, which are made as long as they are.
at::Tensor SpreadStates(const at::Tensor& x, const std::vector<Projection>& projections);

// The other way round: the mean [rows, hidden] of the first state and of the others' projections.
at::Tensor GatherStates(const at::Tensor& states, const std::vector<Projection>& projections);

// Each state with a mixture of all added, whose shares follow from the active one.
at::Tensor PredictStates(const at::Tensor& states, const AltUpWeights& w, const ModelConfig& config);

// The predicted states with what the layer made of the active one, `activated`: each takes a share of the difference.
at::Tensor CorrectStates(const at::Tensor& predicted, const at::Tensor& activated, const AltUpWeights& w,
                         const ModelConfig& config);

}  // namespace headscope::model
