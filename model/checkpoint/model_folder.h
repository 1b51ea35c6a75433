// SPDX-License-Identifier: Apache-2.0
// What stands in place of a model's folder for transformers, and what to name instead.
#pragma once

#include <filesystem>

namespace headscope::model {

// Throws BadInputError where `folder` has no config.json and what is there instead shows what to name.
void RequireModelFolder(const std::filesystem::path& folder);

// Throws BadInputError for a folder whose weights are not all of the model: an adapter stands beside them.
void RefuseAdapter(const std::filesystem::path& folder);

// Throws BadInputError for a folder without safetensors weights.
[[noreturn]] void RefuseOtherWeights(const std::filesystem::path& folder);

}  // namespace headscope::model
