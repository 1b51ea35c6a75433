// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/token_names.h"

#include <algorithm>

namespace headscope::model {

int ByteOfName(std::string_view name) {
  const auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; };
  if (name.size() != 6 || !name.starts_with("<0x") || name.back() != '>') return -1;
  const int high = digit(name[3]);
  const int low = digit(name[4]);
  return high < 0 || low < 0 ? -1 : 16 * high + low;
}

std::string BytesOfCharacters(std::string_view text) {
  if (const int byte = ByteOfName(text); byte >= 0) return {static_cast<char>(byte)};
  std::string bytes;
  for (size_t at = 0; at < text.size();) {
    if (text.substr(at).starts_with(kSpaceMark)) {
      bytes += ' ';
      at += kSpaceMark.size();
    } else {
      bytes += text[at++];
    }
  }
  return bytes;
}

int64_t MostId(size_t tokens) {
  constexpr int64_t kMaxId = (1 << 24) - 1;
  return std::min<int64_t>(kMaxId, 4 * (static_cast<int64_t>(tokens) + 1024));
}

}  // namespace headscope::model
