// SPDX-License-Identifier: Apache-2.0
#include "base/file_format.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>

#include "base/errors.h"
#include "base/quoted_text.h"

namespace headscope {
namespace {

// The first extension of a format is what sentences call it.
struct Extension {
  std::string_view text;
  FileFormat format;
};
constexpr Extension kExtensions[] = {
    {".json", FileFormat::kJson}, {".csv", FileFormat::kCsv}, {".tsv", FileFormat::kTsv},
    {".npy", FileFormat::kNpy},   {".h5", FileFormat::kHdf5}, {".hdf5", FileFormat::kHdf5},
    {".svg", FileFormat::kSvg},   {".pdf", FileFormat::kPdf}, {".png", FileFormat::kPng}};

}  // namespace

std::string_view ExtensionOf(FileFormat format) {
  return std::ranges::find(kExtensions, format, &Extension::format)->text;
}

std::optional<FileFormat> FindFileFormat(const std::string& path) {
  std::string extension = std::filesystem::path(path).extension().string();
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto* const known = std::ranges::find(kExtensions, extension, &Extension::text);
  if (known == std::end(kExtensions)) return {};
  return known->format;
}

FileFormat FormatOfOutput(const std::string& path, std::span<const FileFormat> allowed, const std::string& remedy) {
  const std::optional<FileFormat> format = FindFileFormat(path);
  if (format && std::ranges::find(allowed, *format) != allowed.end()) return *format;
  std::string list;
  for (size_t i = 0; i < allowed.size(); ++i) {
    list += i == 0 ? "" : i + 1 == allowed.size() ? " or " : ", ";
    list += ExtensionOf(allowed[i]);
  }
  throw UsageError({.field = "output",
                    .value = path.empty() ? Quoted(path) : path,
                    .problem = "the extension must be " + list,
                    .remedy = remedy});
}

}  // namespace headscope
