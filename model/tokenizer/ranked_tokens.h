// SPDX-License-Identifier: Apache-2.0
// tokenizer.model of Llama 3 and GLM 4, qwen.tiktoken of Qwen 1 and tiktoken.model of Kimi K2: a line for each token,
// its bytes in base 64 and its rank, as the tiktoken library reads them.
//
// A rank is the token's id, and two tokens side by side that make a known one become it, the lowest rank first. How a
// text is cut into words, which names stand behind the tokens and which of them go before a prompt is not in the file:
// every family says that in its own program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer_spec.h"

namespace headscope::model {

// Whose file it is.
struct RankedUse {
  std::string model_type;         // of config.json
  bool after_llama_3 = false;     // Llama 3.1 and later, some of whose names differ
  std::vector<AddedToken> names;  // those that the model's folder gives; none: those of the family's first release
};

// Whether a file begins as such files do, which those of SentencePiece never do.
bool IsRankedTokens(std::string_view bytes);

// The names of a tokenizer_config.json (added_tokens_decoder), with their ids. `file` only names the source. Throws
// BadInputError.
std::vector<AddedToken> ParseNamesBeside(std::string_view text, const std::string& file);

// `file` only names the source. Throws BadInputError, also for a family of which nothing more is known.
TokenizerSpec ParseRankedTokens(std::string_view bytes, const std::string& file, const RankedUse& use);

}  // namespace headscope::model
