// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace headscope::model {

// Every model_type of config.json that can be run, in the order of the families' list: "llama, mistral, ...".
std::string KnownModelTypes();

}  // namespace headscope::model
