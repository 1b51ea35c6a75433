// SPDX-License-Identifier: Apache-2.0
#include "base/errors.h"
#include "checkpoint/expected_weights.h"
#include "model/model_session.h"
#include "model/model_tokenizer.h"

namespace headscope::model {

std::string CaptureRefusal(const std::string& model_dir) {
  try {
    const ModelConfig config = ReadModelConfig(model_dir);
    RequireHeads(config, model_dir);
    Checkpoint checkpoint(model_dir);
    CheckWeights(&checkpoint, config);
  } catch (const BadInputError& error) {
    return error.what();
  }
  return "";
}

std::string TextRefusal(const std::string& model_dir) {
  try {
    LoadModelTokenizer(model_dir, ReadModelConfig(model_dir));
  } catch (const BadInputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace headscope::model
