// SPDX-License-Identifier: Apache-2.0
// The characters that the normalizers of the tokenizers library take otherwise than utf8proc does: each of their tables
// is of another Unicode, those of forms and marks of older ones, that of letter case of a newer one.
#pragma once

#include <cstdint>
#include <span>

namespace headscope::model {

// What a character is not in that library.
enum LibraryFlag : uint8_t {
  kHasNoForm = 1,    // no normal form changes it, joins it with others or moves a mark across it
  kIsNoMark = 2,     // StripAccents keeps it
  kHasWidth = 4,     // BERT's accents are without
  kIsNoControl = 8,  // BERT's clean text keeps it
};

struct LibraryCharacters {
  uint32_t first;
  uint32_t last;
  uint8_t flags;
  uint32_t lower;  // the small letter of the first, and so on; 0: as utf8proc has it
};

// Rising.
std::span<const LibraryCharacters> AllLibraryCharacters();

}  // namespace headscope::model
