# SPDX-License-Identifier: Apache-2.0
"""A table of ranges of code points as a C++ source: what each file of model/tokenizer that is made by asking the tokenizers library is written as."""

CODES = [*range(0xD800), *range(0xE000, 0x110000)]  # all but surrogates


def source(maker, header, element, function, cells):
    """The file that tests/oracle/`maker` writes: `function` gives a span of `element` of model/tokenizer/`header`; each cell is one of them, in braces."""
    lines, line = [], ""
    for cell in cells:
        if len(line) + len(cell) + 1 > 112:
            lines.append("    " + line.strip())
            line = ""
        line += " " + cell
    body = "\n".join([*lines, "    " + line.strip()])
    return f"""// SPDX-License-Identifier: Apache-2.0
// Written by tests/oracle/{maker}; a test compares it with the library.
#include "tokenizer/{header}"

#include <array>

namespace headscope::model {{

std::span<const {element}> {function}() {{
  // clang-format off
  static constexpr auto kRanges = std::to_array<{element}>({{
{body}
  }});
  // clang-format on
  return kRanges;
}}

}}  // namespace headscope::model
"""
