// SPDX-License-Identifier: Apache-2.0
#include "choices/numpy_file.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <string_view>

#include "analysis/types/printable.h"
#include "base/errors.h"

namespace headscope::app {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMostDimensions = 8, kAlignment = 64;

uint64_t LittleEndian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

// What is behind 'NAME': in the header, which is a dictionary as Python writes it; empty: it is not there.
std::string_view Entry(std::string_view header, std::string_view name) {
  const size_t at = header.find("'" + std::string(name) + "':");
  if (at == std::string_view::npos) return {};
  header.remove_prefix(at + name.size() + 3);
  while (header.starts_with(' ')) header.remove_prefix(1);
  return header;
}

// The sizes in "(99, 10, 4)": false where it is no such list.
bool ParseShape(std::string_view text, std::vector<int64_t>* shape) {
  if (!text.starts_with('(')) return false;
  text.remove_prefix(1);
  while (true) {
    while (text.starts_with(' ')) text.remove_prefix(1);
    if (text.starts_with(')')) return true;
    int64_t size = 0;
    size_t digits = 0;
    for (; digits < text.size() && std::isdigit(static_cast<unsigned char>(text[digits])) != 0; ++digits) {
      size = 10 * size + (text[digits] - '0');
      if (size > INT32_MAX) return false;
    }
    if (digits == 0 || shape->size() == kMostDimensions) return false;
    shape->push_back(size);
    text.remove_prefix(digits);
    if (text.starts_with(',')) {
      text.remove_prefix(1);
    } else if (!text.starts_with(')')) {
      return false;
    }
  }
}

}  // namespace

std::string NumpyFile(const NumpyArray& array) {
  std::string sizes;
  for (const int64_t size : array.shape) sizes += std::to_string(size) + ", ";
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + sizes + "), }";
  // Magic, version and length are 10 bytes, and the data begins at a multiple of 64 behind a line end.
  constexpr size_t kBefore = 10;
  header.append(kAlignment - (kBefore + header.size() + 1) % kAlignment, ' ').push_back('\n');
  std::string file(kMagic);
  file.append("\x01\x00", 2);
  file.push_back(static_cast<char>(header.size() & 0xff));
  file.push_back(static_cast<char>(header.size() >> 8));
  file += header;
  for (const float value : array.values) {
    const auto bits = std::bit_cast<uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) file.push_back(static_cast<char>(bits >> shift & 0xff));
  }
  return file;
}

NumpyArray ParseNumpyFile(const std::string& text, const std::string& path, const std::string& remedy) {
  const auto refuse = [&](const std::string& problem) {
    throw BadInputError(Fault{.file = path, .problem = analysis::Printable(problem), .remedy = remedy});
  };
  std::string_view bytes = text;
  if (!bytes.starts_with(kMagic) || bytes.size() < 12) refuse("it is not a NumPy file (.npy)");
  const auto version = static_cast<uint8_t>(bytes[6]);
  if (version < 1 || version > 3) refuse("its format version is " + std::to_string(version) + ", and 1 to 3 are known");
  const size_t of_length = version == 1 ? 2 : 4;
  const uint64_t length = LittleEndian(bytes.substr(8, of_length));
  bytes.remove_prefix(8 + of_length);
  if (length > bytes.size()) refuse("it ends before its header does");
  const std::string_view header = bytes.substr(0, length);
  bytes.remove_prefix(length);

  const std::string_view type = Entry(header, "descr");
  const bool is_double = type.starts_with("'<f8'");
  if (!is_double && !type.starts_with("'<f4'")) refuse("its values are not little-endian fp32 or fp64");
  if (!Entry(header, "fortran_order").starts_with("False")) refuse("it is not in C order");
  NumpyArray array;
  if (!ParseShape(Entry(header, "shape"), &array.shape)) refuse("its shape is not a list of at most 8 sizes");

  const size_t of_value = is_double ? 8 : 4;
  size_t count = 1;
  for (const int64_t size : array.shape) {
    // More values than bytes are refused before the product can overflow; a size of 0 makes it 0 for good.
    if (count > bytes.size()) refuse("it does not hold as many values as its shape says");
    count *= static_cast<size_t>(size);
  }
  if (bytes.size() % of_value != 0 || bytes.size() / of_value != count)
    refuse("it does not hold as many values as its shape says");
  array.values.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t bits = LittleEndian(bytes.substr(i * of_value, of_value));
    array.values.push_back(is_double ? static_cast<float>(std::bit_cast<double>(bits))
                                     : std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  return array;
}

}  // namespace headscope::app
