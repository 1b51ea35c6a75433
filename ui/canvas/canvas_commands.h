// SPDX-License-Identifier: Apache-2.0
// What the canvas can be told to do that neither a gesture nor a menu does: the command palette has it.
#pragma once

#include <span>

namespace headscope::ui {

class HeadCanvas;

struct CanvasCommand {
  const char* id;    // stable name, for tests and settings
  const char* text;  // as a palette shows it
  const char* help;  // one line
  void (*run)(HeadCanvas& canvas);
};

// Commands that make no sense at the moment (no head, no trace) do nothing.
std::span<const CanvasCommand> CanvasCommands();

}  // namespace headscope::ui
