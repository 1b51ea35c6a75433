#include "support/paths.h"

#include <cstdlib>

namespace headscope::app {

// HEADSCOPE_DATA_DIR moves the shipped files, for an installation that was moved after the build.
std::string ShareDir() {
  const char* moved = std::getenv("HEADSCOPE_DATA_DIR");
  return moved != nullptr && *moved != '\0' ? moved : HEADSCOPE_SHARE_DIR;
}

std::string ReferenceModelDir() {
  return ShareDir() + "/reference_model";
}
std::string ProsePath() {
  return ShareDir() + "/prompts/prose.txt";
}
std::string ShippedTracePath() {
  return HEADSCOPE_SHIPPED_TRACE;
}
std::string ModelDirOrShipped(const std::string& model_dir) {
  return model_dir.empty() ? ReferenceModelDir() : model_dir;
}

}  // namespace headscope::app
