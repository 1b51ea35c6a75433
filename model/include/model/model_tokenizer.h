// SPDX-License-Identifier: Apache-2.0
// The tokenizer of a model folder, held against the model that lies beside it.
#pragma once

#include <string>

#include "model/model_config.h"
#include "model/tokenizer.h"

namespace headscope::model {

// MODEL_DIR/tokenizer.json, or without it tokenizer.model, or without both qwen.tiktoken or tiktoken.model.
std::string TokenizerPath(const std::string& model_dir);

// Reads that file. Throws BadInputError, also when a token's id is not below the model's vocab_size: the
// model has no embedding for it, and a text that holds the token would fail after the weights were read. The opposite,
// embeddings without a token, is common (padding) and fine.
Tokenizer LoadModelTokenizer(const std::string& model_dir, const ModelConfig& config);

}  // namespace headscope::model
