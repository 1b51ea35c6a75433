// SPDX-License-Identifier: Apache-2.0
// An error that some other work of headscope's helps against: the file that was given is none of the kind, and this is
// how one comes about. A lower room says which work; the command line names its subcommand behind the remedy
// (app/support/option_checks.h), and the window has its menus.
#pragma once

#include <cstdint>
#include <utility>

#include "base/errors.h"

namespace headscope {

enum class Help : uint8_t {
  kCapture,    // writes a trace
  kDrawMap,    // draws a head's map
  kListTrace,  // says what a trace holds
  kMeasure,    // writes a table of runs
  kSaveIndex,  // writes an index file
  kTune,       // writes a tuned configuration
};

class WithHelp {
 public:
  Help help() const noexcept { return help_; }

 protected:
  explicit WithHelp(Help help) : help_(help) {}
  ~WithHelp() = default;

 private:
  Help help_;
};

// `Kind`: the error that it is, such as BadInputError.
template <typename Kind>
class ErrorWithHelp : public Kind, public WithHelp {
 public:
  ErrorWithHelp(Fault fault, Help help) : Kind(std::move(fault)), WithHelp(help) {}
};

}  // namespace headscope
