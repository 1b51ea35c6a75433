// SPDX-License-Identifier: Apache-2.0
#include "manual/completions.h"

#include <string_view>

#include "base/errors.h"
#include "base/quoted_text.h"

namespace headscope::app {
namespace {

// In single quotes, as all three shells read them but for how fish writes a quote inside.
std::string InShellQuotes(std::string_view text, std::string_view quote = "'\\''") {
  std::string quoted = "'";
  for (const char letter : text) {
    if (letter == '\'') {
      quoted += quote;
    } else {
      quoted += letter;
    }
  }
  return quoted + "'";
}

std::string Escaped(std::string_view text, std::string_view letters) {
  std::string escaped;
  for (const char letter : text) {
    if (letters.find(letter) != std::string_view::npos) escaped += '\\';
    escaped += letter;
  }
  return escaped;
}

std::string Joined(const std::vector<std::string>& words) {
  std::string joined;
  for (const std::string& word : words) joined += (joined.empty() ? "" : " ") + word;
  return joined;
}

std::vector<std::string> Names(const CommandText& command, bool (*admits)(const OptionText&)) {
  std::vector<std::string> names;
  for (const OptionText& option : command.options) {
    if (admits(option)) names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

std::string BashCase(const CommandText& command) {
  const auto any = [](const OptionText&) { return true; };
  const auto plain = [](const OptionText& option) { return !option.value.empty() && !IsPath(option); };
  return "      options=" + InShellQuotes(Joined(Names(command, any))) +
         "\n      plain=" + InShellQuotes(Joined(Names(command, plain))) + "\n      ;;\n";
}

std::string Bash(const ProgramText& text) {
  std::string commands, cases;
  for (const CommandText& command : text.commands) {
    commands += (commands.empty() ? "" : " ") + command.name;
    cases += "    " + command.name + ")\n" + BashCase(command);
  }
  return "# bash completion of headscope, written by `headscope --completions bash`\n"
         "_headscope() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command= options plain\n"
         "  ((COMP_CWORD > 1)) && command=${COMP_WORDS[1]}\n"
         "  case $command in\n" +
         cases + "    *)\n" + BashCase(text.program) +
         "  esac\n"
         "  if [[ $previous == -* && \" $plain \" == *\" $previous \"* ]]; then\n"
         "    COMPREPLY=()  # a value that is no file\n"
         "  elif [[ $current == -* ]]; then\n"
         "    mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$current\")\n"
         "  else\n"
         "    compopt -o filenames 2>/dev/null\n"
         "    mapfile -t COMPREPLY < <(compgen -f -- \"$current\")\n"
         "    ((COMP_CWORD > 1)) || mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -W " +
         InShellQuotes(commands) +
         " -- \"$current\")\n"
         "  fi\n"
         "}\n"
         "complete -F _headscope headscope\n";
}

std::string ZshOption(const OptionText& option) {
  // '*' in front: it may be given again. '[help]:value:action' behind.
  std::string specification;
  for (const std::string& name : option.names) {
    std::string one = "*" + name + "[" + Escaped(option.help, "[]\\:") + "]";
    if (!option.value.empty()) one += ":" + Escaped(option.value, ":\\") + ":" + (IsPath(option) ? "_files" : " ");
    specification += " \\\n        " + InShellQuotes(one);
  }
  return specification;
}

std::string ZshArguments(const CommandText& command) {
  std::string text = "_arguments -s";
  for (const OptionText& option : command.options) text += ZshOption(option);
  return text + " \\\n        '*:file:_files'";
}

std::string Zsh(const ProgramText& text) {
  std::string commands, cases;
  for (const CommandText& command : text.commands) {
    commands += "    " + InShellQuotes(Escaped(command.name, ":") + ":" + Escaped(command.help, ":\\")) + "\n";
    cases += "    " + command.name + ")\n      " + ZshArguments(command) + "\n      ;;\n";
  }
  return "#compdef headscope\n"
         "# zsh completion of headscope, written by `headscope --completions zsh`\n"
         "_headscope() {\n"
         "  local -a commands=(\n" +
         commands +
         "  )\n"
         "  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then\n"
         "    _describe command commands\n"
         "    _files\n"
         "    return\n"
         "  fi\n"
         "  local command=$words[2]\n"
         "  if (( CURRENT > 2 )); then\n"
         "    shift words\n"
         "    (( CURRENT-- ))\n"
         "  fi\n"
         "  case $command in\n" +
         cases + "    *)\n      " + ZshArguments(text.program) +
         "\n      ;;\n"
         "  esac\n"
         "}\n"
         "_headscope \"$@\"\n";
}

std::string FishOptions(const CommandText& command, const std::string& condition) {
  std::string lines;
  for (const OptionText& option : command.options) {
    lines += "complete -c headscope -n " + InShellQuotes(condition);
    for (const std::string& name : option.names) {
      lines += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    }
    if (!option.value.empty()) lines += IsPath(option) ? " -r -F" : " -x";
    lines += " -d " + InShellQuotes(Escaped(option.help, "\\"), "\\'") + '\n';
  }
  return lines;
}

std::string Fish(const ProgramText& text) {
  std::string script = "# fish completion of headscope, written by `headscope --completions fish`\n" +
                       FishOptions(text.program, "__fish_use_subcommand");
  for (const CommandText& command : text.commands) {
    script += "complete -c headscope -n '__fish_use_subcommand' -a " + command.name + " -d " +
              InShellQuotes(Escaped(command.help, "\\"), "\\'") + '\n';
    script += FishOptions(command, "__fish_seen_subcommand_from " + command.name);
  }
  return script;
}

}  // namespace

std::string Completions(const ProgramText& text, const std::string& shell) {
  if (shell == "bash") return Bash(text);
  if (shell == "zsh") return Zsh(text);
  if (shell == "fish") return Fish(text);
  throw UsageError(
      {.field = "--completions", .value = Quoted(shell), .problem = "there are scripts for bash, zsh and fish alone"});
}

}  // namespace headscope::app
