// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/base64.h"

#include <openssl/evp.h>

#include <climits>

namespace headscope::model {

std::optional<std::string> FromBase64(std::string_view text) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.size() % 4 != 0 || text.size() > INT_MAX) return std::nullopt;
  // The decoder takes white space at the ends and counts what fills the last four characters up as zeros.
  const size_t filled = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  if (text.substr(0, text.size() - filled).find_first_not_of(kAlphabet) != std::string_view::npos) return std::nullopt;
  std::string bytes(text.size() / 4 * 3, '\0');
  const int length =
      EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                      reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
  if (length < 0) return std::nullopt;
  bytes.resize(static_cast<size_t>(length) - filled);
  return bytes;
}

}  // namespace headscope::model
