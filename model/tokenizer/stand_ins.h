// SPDX-License-Identifier: Apache-2.0
// A text as a host's PCRE2 has to see it, so that its classes of characters are those of the tokenizers library, which
// may know more of Unicode.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace headscope::model {

// `text`, which is UTF-8, with an older character of the same classes and length in the place of each one that PCRE2
// may not know: what is found in it stands at the same bytes of `text`. Nothing where there is none.
std::optional<std::string> WithStandIns(std::string_view text);

}  // namespace headscope::model
