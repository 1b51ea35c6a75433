#include "output_folder.h"

#include <filesystem>
#include <utility>

#include "errors.h"

namespace headscope::app {
namespace fs = std::filesystem;

OutputFolder::OutputFolder(const std::string& option, std::string path) : path_(std::move(path)) {
  std::error_code error;
  made_ = fs::create_directories(path_, error);
  if (error) throw UsageError(option + " " + path_ + ": " + error.message() + "; name a folder that can be made");
}

OutputFolder::~OutputFolder() {
  std::error_code error;
  if (made_ && fs::is_empty(path_, error)) fs::remove(path_, error);
}

}  // namespace headscope::app
