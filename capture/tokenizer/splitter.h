// Cuts text into the pieces that BPE works on, by a regular expression with Unicode classes.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace headscope::capture {

class Splitter {
 public:
  explicit Splitter(const std::string& pattern);  // PCRE2; throws std::invalid_argument if it does not compile
  // Matches and the stretches between them, in order, as views into `text`. Bytes that are not UTF-8 match nothing, so
  // they come out as pieces of their own and no byte is lost. Thread-safe.
  std::vector<std::string_view> Split(std::string_view text) const;

 private:
  struct Free {
    void operator()(void* code) const;
  };
  std::unique_ptr<void, Free> code_;  // pcre2_code
};

}  // namespace headscope::capture
