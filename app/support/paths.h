// SPDX-License-Identifier: Apache-2.0
// Where the shipped files lie: in share/headscope of an installed program, beside the sources in a build from a
// checkout (base/program_files.h).
#pragma once

#include <string>

namespace headscope::app {

std::string ShareDir();           // HEADSCOPE_DATA_DIR of the environment where it is set
std::string ReferenceModelDir();  // reference_model in it
std::string ProsePath();          // prompts/prose.txt in it
std::string ShippedTracePath();   // made from the shipped model when headscope is built
// A folder named by an option, or ReferenceModelDir() when that is empty.
std::string ModelDirOrShipped(const std::string& model_dir);

}  // namespace headscope::app
