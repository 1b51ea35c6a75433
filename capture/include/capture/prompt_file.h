// SPDX-License-Identifier: Apache-2.0
// A prompt from a text file.
#pragma once

#include <string>

namespace headscope::capture {

// The text of a UTF-8 file, without the byte order mark that some editors put before it. Throws BadInputError for
// another encoding, which it names where the bytes show it, for one with a byte 0, as texts of two bytes a character
// have and no prompt, and for a file that is too large.
std::string ReadPromptFile(const std::string& path);
// The same of a file's bytes as read.
std::string TextOfPromptFile(std::string bytes, const std::string& file);

// Throws BadInputError where the bytes of a file are not UTF-8, and names the encoding where they show it.
void RefuseOtherEncodings(const std::string& bytes, const std::string& file);

}  // namespace headscope::capture
