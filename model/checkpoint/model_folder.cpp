// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/model_folder.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "model/input_file.h"

namespace headscope::model {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kConfigName = "config.json";
constexpr std::string_view kAdapterName = "adapter_config.json";

// Makers also publish models in a form of their own, such as Meta's folder original/: params.json and
// consolidated.00.pth, a pickle, which is a program and not opened here.
void RefuseMakersFormat(const fs::path& folder) {
  std::error_code unknown;
  if (!fs::exists(folder / "params.json", unknown)) return;
  const bool published_above = fs::exists(folder / ".." / kConfigName, unknown);
  Refuse(folder.string(), "params.json",
         "is the form in which the model's makers run it (params.json and consolidated weights), but headscope reads "
         "config.json with model.safetensors",
         published_above ? "name the folder above it, which has a config.json"
                         : "name the model's folder for transformers, or write one with the conversion script of its "
                           "family in transformers (convert_.._weights_to_hf.py)");
}

// Caches of downloaded models keep each version in a folder below: models--OWNER--NAME/snapshots/COMMIT.
void RefuseCacheFolder(const fs::path& folder) {
  std::vector<std::string> snapshots;
  std::error_code unreadable, unknown;
  for (const auto& entry : fs::directory_iterator(folder / "snapshots", unreadable)) {
    if (fs::exists(entry.path() / kConfigName, unknown)) snapshots.push_back(entry.path().string());
  }
  if (snapshots.empty()) return;
  Refuse(folder.string(), "", "is a cache of downloaded versions of a model",
         (snapshots.size() == 1 ? "name the one in it, " : "name one of those in it, such as ") +
             *std::ranges::min_element(snapshots));
}

// The name of a file with that ending; empty where there is none.
std::string FileEndingIn(const fs::path& folder, std::string_view ending) {
  std::string found;
  std::error_code unreadable;
  for (const auto& entry : fs::directory_iterator(folder, unreadable)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(ending) && (found.empty() || name < found)) found = name;
  }
  return found;
}

void RefuseGguf(const fs::path& folder) {
  const std::string file = FileEndingIn(folder, ".gguf");
  if (file.empty()) return;
  Refuse(folder.string(), file, "is GGUF, but headscope reads safetensors",
         "name the folder that it was made from, or load it with transformers and record it with " +
             std::string(kRecordFromPython));
}

constexpr std::string_view kMerge =
    "merge it into its model with peft (merge_and_unload, then save_pretrained), and name the folder of that";

}  // namespace

void RefuseAdapter(const fs::path& folder) {
  std::error_code unknown;
  if (!fs::exists(folder / kAdapterName, unknown)) return;
  // transformers adds it to a model of the same folder where peft is installed.
  Refuse(folder.string(), kAdapterName,
         "says that an adapter such as LoRA belongs to the model, which headscope does not run",
         std::string(kMerge) + "; where the weights have it already, take that file out of the folder");
}

void RequireModelFolder(const fs::path& folder) {
  std::error_code unknown;
  if (fs::exists(folder / kConfigName, unknown)) return;
  const fs::file_status status = fs::status(folder, unknown);
  if (fs::exists(status) && !fs::is_directory(status)) {
    Refuse(folder.string(), "", "is a file, not a model's folder",
           fs::exists(folder.parent_path() / kConfigName, unknown) ? "name the folder that it is in"
                                                                   : "name a folder with a config.json");
  }
  if (fs::exists(folder / kAdapterName, unknown))
    Refuse(folder.string(), kAdapterName, "is of an adapter such as LoRA, not of a model", kMerge);
  RefuseMakersFormat(folder);
  RefuseCacheFolder(folder);
  RefuseGguf(folder);
}

void RefuseOtherWeights(const fs::path& folder) {
  RefuseGguf(folder);
  // What torch.save() wrote is a pickle, which is a program and not opened here.
  for (const std::string_view pickle : {".bin", ".pth", ".pt"}) {
    if (const std::string file = FileEndingIn(folder, pickle); !file.empty()) {
      Refuse(folder.string(), file, "is a pickle of PyTorch's, but headscope reads safetensors",
             "save the model anew with transformers (save_pretrained writes safetensors), or use " +
                 std::string(kRecordFromPython));
    }
  }
  Refuse(folder.string(), "", "holds neither model.safetensors nor model.safetensors.index.json",
         "name a folder with safetensors weights");
}

}  // namespace headscope::model
