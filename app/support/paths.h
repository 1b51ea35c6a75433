// Where the shipped files lie: beside the sources in a build from a checkout.
#pragma once

#include <string>

namespace headscope::app {

std::string ShareDir();           // what the next two start from
std::string ReferenceModelDir();  // data/reference_model
std::string ProsePath();          // data/prompts/prose.txt
std::string ShippedTracePath();   // made from the shipped model when headscope is built
// A folder named by an option, or ReferenceModelDir() when that is empty.
std::string ModelDirOrShipped(const std::string& model_dir);

}  // namespace headscope::app
