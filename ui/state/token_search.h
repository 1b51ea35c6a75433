// SPDX-License-Identifier: Apache-2.0
// Finds text in a trace's tokens, across token borders. Pure.
#pragma once

#include <QString>
#include <cstdint>
#include <string>
#include <vector>

namespace headscope::ui {

// Positions of the tokens in which a match of `text` begins, ascending; case is ignored. Nothing for an empty text.
// Cost: one pass over all tokens' text.
std::vector<int64_t> FindTokens(const std::vector<std::string>& token_text, const QString& text);

}  // namespace headscope::ui
