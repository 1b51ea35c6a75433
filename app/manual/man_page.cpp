// SPDX-License-Identifier: Apache-2.0
#include "manual/man_page.h"

#include <string_view>

namespace headscope::app {
namespace {

// roff takes a backslash for an escape, a hyphen for one that may be typeset as a dash, and a dot or an apostrophe at
// the start of a line for a request.
std::string Roff(std::string_view text) {
  std::string escaped;
  bool line_starts = true;
  for (const char letter : text) {
    if (line_starts && (letter == '.' || letter == '\'')) escaped += "\\&";
    line_starts = letter == '\n';
    if (letter == '\\') {
      escaped += "\\e";
    } else if (letter == '-') {
      escaped += "\\-";
    } else {
      escaped += letter;
    }
  }
  return escaped;
}

// A long list may end its line behind any of its commas, and is adjusted there.
std::string Breakable(std::string_view roff) {
  std::string text;
  for (const char letter : roff) {
    text += letter;
    if (letter == ',') text += ' ';
  }
  return text;
}

std::string Bold(std::string_view text) {
  return "\\fB" + Roff(text) + "\\fR";
}
std::string Italic(std::string_view text) {
  return "\\fI" + Roff(text) + "\\fR";
}

std::string Synopsis(const std::string& program, const CommandText& command) {
  std::string line = Bold(program + " " + command.name);
  for (const OptionText& argument : command.arguments) {
    line += ' ' + (argument.required ? Italic(argument.value) : "[" + Italic(argument.value) + "]") +
            (argument.repeats ? " ..." : "");
  }
  for (const OptionText& option : command.options) {
    if (option.required) line += ' ' + Bold(option.names.front()) + ' ' + Italic(option.value);
  }
  return line + " [" + Italic("options") + "]";
}

std::string Entry(const OptionText& option, bool positional) {
  std::string tag;
  if (!positional) {
    for (const std::string& name : option.names) tag += (tag.empty() ? "" : ", ") + Bold(name);
  }
  if (!option.value.empty()) tag += (tag.empty() ? "" : " ") + Italic(option.value);
  std::string entry = ".TP\n" + tag + '\n' + Roff(option.help) + (option.help.ends_with('.') ? "" : ".");
  if (!option.default_value.empty()) entry += " Default: " + Breakable(Roff(option.default_value)) + '.';
  if (option.required && !positional) entry += " Required.";
  return entry + '\n';
}

std::string Entries(const CommandText& command) {
  std::string text;
  for (const OptionText& argument : command.arguments) text += Entry(argument, true);
  for (const OptionText& option : command.options) text += Entry(option, false);
  return text;
}

}  // namespace

std::string ManPage(const ProgramText& text, const std::string& version) {
  const std::string& name = text.program.name;
  const std::string_view help = text.program.help;  // "headscope: what ..."
  const size_t colon = help.find(": ");
  std::string page = ".TH HEADSCOPE 1 \"\" \"headscope " + version + "\" \"User Commands\"\n.SH NAME\n" + Roff(name) +
                     " \\- " + Roff(colon == std::string_view::npos ? help : help.substr(colon + 2)) + '\n';
  page += ".SH SYNOPSIS\n" + Bold(name);
  for (const OptionText& argument : text.program.arguments) page += " [" + Italic(argument.value) + "]";
  for (const CommandText& command : text.commands) page += "\n.br\n" + Synopsis(name, command);
  page += "\n.SH OPTIONS\n" + Entries(text.program) + ".SH COMMANDS\n";
  for (const CommandText& command : text.commands) {
    page += ".SS " + Synopsis(name, command) + '\n' + Roff(command.help) + ".\n" + Entries(command);
    if (!command.footer.empty()) page += ".PP\n" + Roff(command.footer) + '\n';
  }
  if (!text.program.footer.empty()) page += ".SH NOTES\n" + Roff(text.program.footer) + '\n';
  return page;
}

}  // namespace headscope::app
