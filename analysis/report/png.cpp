// SPDX-License-Identifier: Apache-2.0
#include <png.h>

#include <cerrno>
#include <cstring>

#include "analysis/report.h"
#include "base/errors.h"

namespace headscope::analysis {

void WritePng(const ImageRgb& image, const std::string& path) {
  if (image.width <= 0 || image.height <= 0 ||
      image.rgb.size() != static_cast<size_t>(image.width) * static_cast<size_t>(image.height) * 3) {
    throw FailedError({.file = path,
                       .problem = "an image of " + std::to_string(image.width) + " x " + std::to_string(image.height) +
                                  " pixels and " + std::to_string(image.rgb.size()) + " bytes cannot be written"});
  }
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(image.width);
  header.height = static_cast<png_uint_32>(image.height);
  header.format = PNG_FORMAT_RGB;
  errno = 0;
  if (png_image_write_to_file(&header, path.c_str(), 0, image.rgb.data(), 0, nullptr) == 0) {
    throw FailedError({.file = path,
                       .problem = std::string("the picture could not be written: ") +
                                  (errno != 0 ? std::strerror(errno) : header.message)});
  }
}

}  // namespace headscope::analysis
