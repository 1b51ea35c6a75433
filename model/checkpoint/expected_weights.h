// SPDX-License-Identifier: Apache-2.0
// What weights a model of some config.json has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "model/checkpoint.h"
#include "model/model_config.h"

namespace headscope::model {

struct Family;

// What stands before the names of this checkpoint's weights (Family::prefixes), and before those of a layer.
std::string WeightPrefix(const Checkpoint& checkpoint, const Family& family);
std::string LayerPrefix(const Checkpoint& checkpoint, const Family& family, int32_t layer);

// The name of the output head, without ".weight".
std::string HeadName(const Checkpoint& checkpoint, const Family& family);

// Whether a layer's packed experts are [experts, in, out] (ExpertNames::packed_from_in), as the shape of one of them
// tells; `prefix`: the layer's.
bool PacksInputsFirst(Checkpoint* checkpoint, const ModelConfig& config, const std::string& prefix);

// Whether a layer's experts stand in one tensor; `prefix`: the layer's.
bool HasPackedExperts(const Checkpoint& checkpoint, const Family& family, const std::string& prefix);

// Whether the output head is a weight that is read: nothing but logits needs it.
bool LoadsHead(const ModelConfig& config, bool with_logits);

// Numbers of an output head that a folder has beside tied embeddings: in memory where logits are made, since it may
// differ from these. 0: it has none.
int64_t HeadBesideEmbeddings(const Checkpoint& checkpoint, const ModelConfig& config);

// Whether a layer has a logit for each head that joins its softmax.
bool HasSinks(const Family& family, const AttentionLayer& layer);

// Skips what a folder may hold beside the weights that headscope runs: layers that predict further tokens, towers for
// images, a head beside tied embeddings, keys of layers that read another one's, and what follows from config.json.
void SkipUnused(Checkpoint* checkpoint, const ModelConfig& config);

// Looks up every weight that `config` implies, which all count as used from then on. Throws BadInputError naming one
// that is missing, has another shape or a dtype that is not read, and one that is no part of the architecture. Reads no
// data.
void CheckWeights(Checkpoint* checkpoint, const ModelConfig& config);

}  // namespace headscope::model
