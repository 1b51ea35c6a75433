// The filler text of the tasks.
#pragma once

#include <string>

namespace headscope::capture {

// The text at `path`, or the shipped data/prompts/prose.txt when it is empty. Throws BadInputError.
std::string ReadProse(const std::string& path);

}  // namespace headscope::capture
