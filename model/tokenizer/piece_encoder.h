// SPDX-License-Identifier: Apache-2.0
// What makes the ids of one piece of text: byte pairs, WordPiece, WordLevel or Unigram.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace headscope::model {

struct TokenizerSpec;

class PieceEncoder {
 public:
  virtual ~PieceEncoder() = default;
  // Appends the ids of `piece` (any bytes). Thread-safe.
  virtual void Encode(std::string_view piece, std::vector<int32_t>* ids) const = 0;
  // How much of the front of `piece` has the ids that it would have by itself, whatever follows: at least one byte of a
  // piece that is not empty.
  virtual size_t Independent(std::string_view piece) const { return piece.size(); }
  // No piece of so many bytes has fewer tokens.
  virtual int64_t FewestTokens(size_t piece_bytes) const = 0;
};

// Of the spec's kind. Keeps views into it.
std::unique_ptr<PieceEncoder> MakePieceEncoder(const TokenizerSpec& spec);

}  // namespace headscope::model
