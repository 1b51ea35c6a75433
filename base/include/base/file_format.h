// SPDX-License-Identifier: Apache-2.0
// What a file is by the extension of its name: the one place that reads one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace headscope {

enum class FileFormat : uint8_t { kJson, kCsv, kTsv, kNpy, kHdf5, kSvg, kPdf, kPng };

// ".json"; of a format with several, the one that sentences call it by.
std::string_view ExtensionOf(FileFormat format);
// By the extension, in upper or lower case; nothing for another one.
std::optional<FileFormat> FindFileFormat(const std::string& path);
// What an output of that name is to be. Throws UsageError, of the field "output", for what is none of `allowed`: the
// sentence lists them, and `remedy` says what else helps.
FileFormat FormatOfOutput(const std::string& path, std::span<const FileFormat> allowed, const std::string& remedy = "");

}  // namespace headscope
