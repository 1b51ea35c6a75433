// SPDX-License-Identifier: Apache-2.0
// Text that came from a file, made safe to print: on a terminal, in a table, in a label of the window.
//
// What a file says may hold escape sequences, line breaks, marks that turn the direction of writing, or bytes that are
// no UTF-8 at all. Here they become visible: a control character or an invalid byte is written as \xNN, a line break as
// \n, a tab as \t, any other character without a shape of its own as \uNNNN. Ordinary Unicode stays as it is. The
// result is ASCII where anything was replaced and holds no such character again, so text may pass through more than
// once.
#pragma once

#include <string>
#include <string_view>

namespace headscope::analysis {

// One line: for values inside a sentence, a cell or a label.
std::string Printable(std::string_view text);

// The same, but line breaks (\n) and tabs stay: for text that is shown as lines of its own.
std::string PrintableLines(std::string_view text);

// A JSON document of UTF-8, as a library has written it: what it may leave raw inside strings and a terminal may obey
// (U+007F to U+009F and the invisible ones) becomes JSON's own \uNNNN. The document means the same.
std::string PrintableJson(std::string_view document);

}  // namespace headscope::analysis
