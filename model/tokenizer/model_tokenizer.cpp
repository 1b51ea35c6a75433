// SPDX-License-Identifier: Apache-2.0
#include "model/model_tokenizer.h"

#include <filesystem>
#include <system_error>

#include "base/quoted_text.h"
#include "model/input_file.h"

namespace headscope::model {

std::string TokenizerPath(const std::string& model_dir) {
  const std::filesystem::path folder(model_dir);
  for (const char* name : {"tokenizer.json", "tokenizer.model", "qwen.tiktoken", "tiktoken.model"}) {
    std::error_code unknown;
    if (std::filesystem::exists(folder / name, unknown)) return (folder / name).string();
  }
  return (folder / "tokenizer.json").string();
}

Tokenizer LoadModelTokenizer(const std::string& model_dir, const ModelConfig& config) {
  const std::string path = TokenizerPath(model_dir);
  if (std::error_code unknown; !std::filesystem::exists(path, unknown)) {
    Refuse(model_dir, "", "has no tokenizer.json, nor a tokenizer of another form",
           "add the tokenizer.json that was published with the weights");
  }
  Tokenizer tokenizer = Tokenizer::Load(path, &config);
  if (tokenizer.vocabulary_size() > config.vocabulary_size) {
    const int32_t id = tokenizer.vocabulary_size() - 1;  // the largest id is always a token's
    Refuse(path, "token " + Quoted(tokenizer.TokenBytes(id)),
           "has the id " + std::to_string(id) + " and the model's ids end at " +
               std::to_string(config.vocabulary_size - 1) + " (vocab_size in config.json)",
           "use the tokenizer that was published with these weights");
  }
  return tokenizer;
}

}  // namespace headscope::model
